//! Runs the hub's controllers on a store in a fixed order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::error::PreviewError;
use super::scope::PreviewScope;
use crate::execute::{Branches, Servers, execute, path};
use crate::fleet::all;
use crate::watch::read;
use api::Manifest;
use api::addon::v1alpha1::AddOnTemplate;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use controllers::sealing::{SealedSecrets, Sealing};
use engine::sync::ObjectId;
use object::duration::later;
use object::tree::Checkout;
use object::{Gvk, Key, KeyFiles, Metadata as _, Object, ObjectRef, Seed};
use reconcile::{
    Act, Action, Command, Controller, Dispatcher, DispatcherLimits, Outcome, Register, Representation, Scope,
    Site, Source, Subresource, WatchedKind,
};
use seal::Owner;
use store::{Store, Watch, WatchEventType};

/// The controllers plan all effects of one instant together, at the next instant. Otherwise an add-on's plan,
/// which visits all its clusters, would run once for each cluster that changes.
const INSTANT: SignedDuration = SignedDuration::from_millis(1);
const LIMITS: DispatcherLimits = DispatcherLimits { coalesce: INSTANT, computations: 1 };
/// The number of consecutive instants after which the controllers count as never coming to rest.
const INSTANTS: u32 = 10_000;
/// The controller that writes the objects of the commit.
const APPLIES: &str = "config-repo";
/// Controllers that need agents or a remote, which a preview lacks: agents renew leases and request certificates,
/// reports are pushed, and notifications are sent.
const EXCLUDED: [&str; 5] = ["cluster-lease", "bootstrap", "csr", "report", "notification"];

/// The controller that labels clusters with their add-ons. It would remove the labels of add-ons that it does not
/// see.
const LABELS: &str = "addon-feature";

/// An object before and after.
pub(super) type Sides = (Option<Arc<Object>>, Option<Arc<Object>>);

/// The hub's controllers.
pub(super) struct Runner {
    dispatcher: Dispatcher,
    feeds: BTreeMap<(Site, Gvk, Representation), KindWatch>,
    waiting: VecDeque<Command>,
    /// The revision of the store when all events had been read.
    seen: Option<u64>,
    /// The commit's objects that were written or deleted.
    pub(super) applied: BTreeMap<ObjectId, Sides>,
    /// The add-ons and sets that the controllers see.
    pub(super) scope: PreviewScope,
    /// The kinds that the controllers read.
    pub(super) kinds: BTreeSet<Gvk>,
    /// The seeds of random values, by ConfigRepo.
    pub(super) seeds: BTreeMap<Key, Seed>,
    /// The keys that decrypt files, by ConfigRepo.
    pub(super) keys: BTreeMap<Key, Result<KeyFiles, String>>,
}

struct KindWatch {
    kind: Arc<WatchedKind>,
    watch: Option<Watch>,
}

struct Registrar<'a> {
    dispatcher: &'a mut Dispatcher,
    is_run: fn(&str) -> bool,
}

impl Register for Registrar<'_> {
    fn add<C: Controller>(&mut self) {
        if (self.is_run)(C::NAME) {
            self.dispatcher.add::<C>();
        }
    }
}

impl Runner {
    /// Returns a runner for a hub with these objects.
    pub(super) fn new(scope: &PreviewScope, hub: &Store) -> Self {
        let is_run: fn(&str) -> bool = match scope {
            PreviewScope::All => |controller| !EXCLUDED.contains(&controller),
            PreviewScope::Only(_) => |controller| !EXCLUDED.contains(&controller) && controller != LABELS,
        };
        Self::with_controllers(is_run, scope.clone(), hub)
    }

    /// Returns a runner with only the controller that applies commits.
    pub(super) fn for_commits(hub: &Store) -> Self {
        Self::with_controllers(|controller| controller == APPLIES, PreviewScope::All, hub)
    }

    fn with_controllers(is_run: fn(&str) -> bool, scope: PreviewScope, hub: &Store) -> Self {
        let mut dispatcher = Dispatcher::new(LIMITS, false);
        dispatcher.set_settings(Sealing::Preview(Arc::new(sealed_secrets(hub))));
        controllers::hub(&mut Registrar { dispatcher: &mut dispatcher, is_run });
        Self {
            dispatcher,
            feeds: BTreeMap::new(),
            waiting: VecDeque::new(),
            seen: None,
            applied: BTreeMap::new(),
            scope,
            kinds: BTreeSet::new(),
            seeds: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Delivers a checkout of a ConfigRepo to the controllers.
    pub(super) fn fetch(&mut self, repo: &ConfigRepo, checkout: &Arc<Checkout>, now: Timestamp) {
        let seed = self.seeds.get(&Key::of(repo)).copied().unwrap_or(Seed::PLACEHOLDER);
        let seed = Some(Ok(seed));
        let keys = self.keys.get(&Key::of(repo)).cloned();
        let source = Source { seed, keys, ..Source::of(repo, Some(Arc::clone(checkout)), None) };
        self.dispatcher.source_changed(&Key::of(repo), source, now);
    }

    /// Returns the time at which a controller has something to do next.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.dispatcher.next_at()
    }

    /// Runs until nothing is left to do, advancing time by an instant whenever a change has effects; returns the
    /// final time.
    pub(super) fn settle(&mut self, hub: &mut Store, mut now: Timestamp) -> Result<Timestamp, PreviewError> {
        for _ in 0..INSTANTS {
            self.run_instant(hub, now);
            let next = self.dispatcher.next_at().filter(|next| *next <= later(now, INSTANT));
            let Some(next) = next.filter(|next| *next > now) else { return Ok(now) };
            now = next;
        }
        Err(PreviewError::NeverSettles(INSTANTS))
    }

    /// Runs until nothing is left to do at this instant.
    fn run_instant(&mut self, hub: &mut Store, now: Timestamp) {
        loop {
            self.read(hub, now);
            for command in self.dispatcher.due(now) {
                self.take(command);
            }
            if self.waiting.is_empty() && !hub.collect(now) && self.seen == Some(hub.revision()) {
                return;
            }
            while let Some(command) = self.waiting.pop_front() {
                self.run(command, hub, now);
            }
        }
    }

    fn read(&mut self, hub: &Store, now: Timestamp) {
        if self.seen == Some(hub.revision()) {
            return;
        }
        let Self { dispatcher, feeds, scope, .. } = self;
        for KindWatch { kind, watch } in feeds.values_mut() {
            let takes = |event, object: &Object| {
                // The caches already have our own writes.
                let is_write = matches!(event, Some(WatchEventType::Added | WatchEventType::Modified));
                let version = object::version(object.resource_version());
                let mut is_known = || dispatcher.is_known(kind, &object.key(), version, now);
                scope.shows(object, kind.representation) && !(is_write && is_known())
            };
            for event in read(hub, kind, &Scope::Everything, watch, takes) {
                dispatcher.watched(kind, event, now);
            }
        }
        self.seen = Some(hub.revision());
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Watch(kind) => {
                let (_, gvk, _) = kind.id();
                self.kinds.insert(gvk);
                self.feeds.insert(kind.id(), KindWatch { kind, watch: None });
                self.seen = None;
            }
            Command::Unwatch(kind) => {
                self.feeds.remove(&kind.id());
            }
            Command::Decide(_) | Command::Compute(_) | Command::Act(_) | Command::LookUp(..) => {
                self.waiting.push_back(command);
            }
            Command::Reconciled(_) | Command::Refused(_) => {}
        }
    }

    fn run(&mut self, command: Command, hub: &mut Store, now: Timestamp) {
        match command {
            Command::Decide(decision) => self.dispatcher.decided(decision.run(), now),
            Command::Compute(computation) => self.dispatcher.computed(computation.run(), now),
            Command::Act(act) => {
                let outcome = self.act(&act, hub, now);
                self.dispatcher.acted(act.done(outcome), now);
            }
            Command::LookUp(site, lookup) => {
                let answer = at_hub(hub, |sites| sites.look_up(site, &lookup, now));
                self.dispatcher.looked_up(site, &lookup, answer, now);
            }
            Command::Watch(_) | Command::Unwatch(_) | Command::Reconciled(_) | Command::Refused(_) => {
                self.take(command)
            }
        }
    }

    fn act(&mut self, act: &Act, hub: &mut Store, now: Timestamp) -> Outcome {
        let written = if act.controller == APPLIES { written_object(act.action()) } else { None };
        let before = written.as_ref().and_then(|object| live(hub, object));
        let outcome = at_hub(hub, |sites| execute(sites, act.controller, act.action(), now));
        if let Some(object) = written.filter(|_| outcome.is_ok()) {
            let after = live(hub, &object);
            let sides = self.applied.entry(ObjectId::of(&object)).or_insert((before, None));
            sides.1 = after;
        }
        outcome
    }
}

/// Returns the encrypted Secrets in the sets and templates of a hub.
fn sealed_secrets(hub: &Store) -> SealedSecrets {
    let sealed = |manifests: Vec<Manifest>| manifests.into_iter().filter(seal::is_sealed).collect();
    let sets = all::<ManifestWorkReplicaSet>(hub).map(|set| {
        let owner = Owner::Set(Key::of(&set));
        (owner, sealed(set.spec.manifest_work_template.workload.manifests))
    });
    let templates = all::<AddOnTemplate>(hub).map(|template| {
        let owner = Owner::Template(template.name().to_owned());
        (owner, sealed(template.spec.agent_spec.workload.manifests))
    });
    sets.chain(templates).collect()
}

/// Returns the commit's object that an action writes or deletes.
fn written_object(action: &Action) -> Option<ObjectRef> {
    match action {
        Action::Apply { object, dry_run: false, .. } => Some(object.reference()),
        Action::Delete { target, .. } => Some(target.clone()),
        // A move to another ConfigRepo. Other patches change the status, the finalizer or the inventories.
        Action::Patch { target, subresource: Subresource::None, .. } => {
            let own = [Gvk::of::<ConfigRepo>(), Gvk::of::<ConfigRepoInventory>()];
            (!own.contains(&target.gvk)).then(|| target.clone())
        }
        Action::Apply { .. } | Action::Patch { .. } => None,
        Action::Create { .. }
        | Action::Replace { .. }
        | Action::Push(_)
        | Action::SetCommitStatus(_)
        | Action::Notify(_) => None,
    }
}

fn live(hub: &Store, object: &ObjectRef) -> Option<Arc<Object>> {
    hub.get(&path(hub, object).ok()?).ok()
}

fn at_hub<T>(hub: &mut Store, run: impl FnOnce(&mut Servers<'_>) -> T) -> T {
    let (branches, commit_statuses) = (&mut Branches::new(), &mut Vec::new());
    let notifications = &mut Vec::new();
    run(&mut Servers { hub: Some(hub), spoke: None, version: "", branches, commit_statuses, notifications })
}
