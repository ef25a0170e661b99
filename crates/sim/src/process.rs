//! An operator or agent inside the simulator: production's dispatcher over stores and virtual time.
//!
//! The dispatcher issues commands. A process picks the next one by seed, so concurrent reconciliations decide,
//! act, compute and get answers in any order that the dispatcher allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::check::{Author, CheckedDecision};
use super::sites::Sites;
use api::cluster::v1beta1::Placement;
use api::names::SCHEDULING_DISABLED_ANNOTATION;
use api::work::v1::ManifestWork;
use controllers::agent_identity::AgentSettings;
use controllers::sealing::Sealing;
use object::{Gvk, Key, Metadata as _, Random};
use preview::{read, unavailable};
use reconcile::{
    Act, Acted, Caches, Command, Decided, Dispatcher, DispatcherLimits, Failure, Lookup, LookupAnswer,
    Outcome, Planning, Query, Representation, Scope, Site, Source, View, WatchedKind, WatcherEvent,
};
use seal::HubKey;
use store::Watch;

/// Commands per 1,000 after which another process continues.
const SWITCH_PER_MILLE: u32 = 100;
/// Responses per 1,000 that arrive only after something else has happened.
const LATE_PER_MILLE: u32 = 250;

/// A process that runs controllers.
pub(super) struct Process {
    scope: Scope,
    dispatcher: Dispatcher,
    feeds: BTreeMap<(Site, Gvk, Representation), KindWatch>,
    waiting: Vec<Waiting>,
    /// The events that this process recorded.
    pub(super) events: Vec<reconcile::Event>,
    /// The revisions of the hub and the spoke when all their events had been read.
    seen: Option<(Option<u64>, Option<u64>)>,
    /// The number of writes until the process crashes; `None` if it does not.
    left: Option<usize>,
    /// The lead of this process's clock over the world's clock.
    clock: SignedDuration,
    /// True if the hub was restored since this process last read it.
    is_hub_restored: bool,
}

/// A command or an answer that is waiting to be handled.
enum Waiting {
    Command(Command),
    /// The answer to a write that was executed.
    Answer(Acted),
    /// The answer to a lookup, computed when the lookup was sent.
    LookedUp(Site, Lookup, Result<LookupAnswer, Failure>),
}

/// A kind that the dispatcher wants watched, with the progress of its watch.
struct KindWatch {
    kind: Arc<WatchedKind>,
    watch: Option<Watch>,
    /// The store's revision at the last read.
    seen: Option<u64>,
}

impl Process {
    /// Starts a process with empty caches: an agent if `agent` has settings, otherwise the operator. The process
    /// gathers changes to a key for `coalesce`.
    pub(super) fn start(
        scope: Scope,
        agent: Option<&AgentSettings>,
        register: fn(&mut Dispatcher),
        coalesce: SignedDuration,
    ) -> Self {
        let mut dispatcher = Dispatcher::new(DispatcherLimits { coalesce, computations: 1 }, agent.is_some());
        register(&mut dispatcher);
        match agent {
            Some(settings) => dispatcher.set_settings(settings.clone()),
            None => dispatcher.set_settings(Sealing::with_key(HubKey::new(&[7; 32]))),
        }
        Self {
            scope,
            dispatcher,
            feeds: BTreeMap::new(),
            waiting: Vec::new(),
            events: Vec::new(),
            seen: None,
            left: None,
            clock: SignedDuration::ZERO,
            is_hub_restored: false,
        }
    }

    /// Gives the operator another key to encrypt Secrets.
    pub(super) fn set_sealing_key(&mut self, key: [u8; 32]) {
        self.dispatcher.set_settings(Sealing::with_key(HubKey::new(&key)));
    }

    /// Takes over the works that its predecessor cached, because the hub is unreachable.
    pub(super) fn load_persisted(&mut self, works: Vec<ManifestWork>, now: Timestamp) {
        self.dispatcher.load_persisted(works, now);
    }

    /// Makes the process notice the restored hub at its next read of the hub.
    pub(super) fn hub_restored(&mut self) {
        self.is_hub_restored = true;
    }

    /// Crashes the process after this many further writes.
    pub(super) fn crash_after(&mut self, writes: usize) {
        self.left = Some(writes);
    }

    /// Returns true if no crash is due.
    pub(super) fn is_safe(&self) -> bool {
        self.left.is_none()
    }

    /// Returns true if the process has crashed; its pending commands are lost.
    pub(super) fn is_dead(&self) -> bool {
        self.left == Some(0)
    }

    /// Sets how far the process's clock is ahead of the world's clock.
    pub(super) fn set_clock(&mut self, ahead: SignedDuration) {
        self.clock = ahead;
    }

    /// Returns how far the process's clock is ahead of the world's clock.
    pub(super) fn clock(&self) -> SignedDuration {
        self.clock
    }

    fn world_time(&self, own: Timestamp) -> Timestamp {
        own.saturating_sub(self.clock).unwrap_or(own)
    }

    /// Returns everything that the process has read.
    pub(super) fn caches(&self) -> Caches {
        self.dispatcher.caches()
    }

    /// Returns when the next key is due.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.dispatcher.next_at().map(|at| self.world_time(at))
    }

    /// Stores the source state of a repository.
    pub(super) fn set_source(&mut self, repo: &Key, source: Source, now: Timestamp) {
        self.dispatcher.source_changed(repo, source, now);
    }

    /// Reads events from the API servers and executes due commands until it is another process's turn; returns
    /// true if it executed any.
    pub(super) fn round(&mut self, sites: &mut Sites<'_>, random: &mut Random, now: Timestamp) -> bool {
        let now = now.saturating_add(self.clock).unwrap_or(now);
        let mut busy = false;
        loop {
            busy |= self.read(sites, random, now);
            for command in self.dispatcher.due(now) {
                busy |= self.take(command);
            }
            let Ok(waiting) = u64::try_from(self.waiting.len()) else { return true };
            if waiting == 0 {
                return busy;
            }
            busy = true;
            let next = usize::try_from(random.below(waiting)).unwrap_or_default();
            match self.waiting.swap_remove(next) {
                Waiting::Command(command) => self.run(command, sites, random, now),
                Waiting::Answer(acted) => self.dispatcher.acted(acted, now),
                Waiting::LookedUp(site, lookup, answer) => {
                    self.dispatcher.looked_up(site, &lookup, answer, now);
                }
            }
            if random.chance(SWITCH_PER_MILLE) || self.is_dead() {
                return true;
            }
        }
    }

    /// Queues a command for later; returns true if there is something new to read. Watches start and end in
    /// command order, as in production. Otherwise a late end could stop a restarted watch.
    fn take(&mut self, command: Command) -> bool {
        match command {
            Command::Watch(kind) => {
                let feed = KindWatch { kind, watch: None, seen: None };
                self.feeds.insert(feed.id(), feed);
                self.seen = None;
                return true;
            }
            Command::Unwatch(kind) => {
                self.feeds.remove(&KindWatch { kind, watch: None, seen: None }.id());
            }
            Command::Decide(_) | Command::Compute(_) | Command::Act(_) | Command::LookUp(..) => {
                self.waiting.push(Waiting::Command(command));
            }
            Command::Reconciled(result) => self.events.extend(result.events),
            Command::Refused(event) => self.events.push(event),
        }
        false
    }

    fn run(&mut self, command: Command, sites: &mut Sites<'_>, random: &mut Random, now: Timestamp) {
        match command {
            Command::Decide(decision) if random.chance(sites.faults.panics) => {
                self.dispatcher.decided(Decided::panicked(decision.controller_id), now);
            }
            Command::Decide(decision) => {
                let controller = decision.controller;
                let decided = decision.run_inspected(&mut |planning| {
                    let &Planning { key, view, plan, .. } = planning;
                    let is_kept = keeps_times(controller, view);
                    let again = if is_kept { planning.again() } else { planning.with_new_indexes() };
                    sites.checker.planned(&CheckedDecision { controller, key, view, plan, again, now });
                });
                self.dispatcher.decided(decided, now);
            }
            Command::Compute(computation) => self.dispatcher.computed(computation.run(), now),
            Command::Act(act) => {
                let outcome = self.act(&act, sites, random, now);
                let acted = act.done(outcome);
                if random.chance(LATE_PER_MILLE) {
                    self.waiting.push(Waiting::Answer(acted));
                } else {
                    self.dispatcher.acted(acted, now);
                }
            }
            Command::LookUp(site, lookup) => {
                let answer = sites.servers.look_up(site, &lookup, now);
                self.waiting.push(Waiting::LookedUp(site, lookup, answer));
            }
            Command::Watch(_) | Command::Unwatch(_) | Command::Reconciled(_) | Command::Refused(_) => {
                self.take(command);
            }
        }
    }

    fn act(&mut self, act: &Act, sites: &mut Sites<'_>, random: &mut Random, now: Timestamp) -> Outcome {
        if self.is_dead() {
            return Err(unavailable("the process is dead"));
        }
        if random.chance(sites.faults.refused) {
            return Err(unavailable("the API server is too busy"));
        }
        let author = Author { controller: act.controller, key: &act.key, action: act.action() };
        let outcome = sites.act(author, self.world_time(now));
        self.left = self.left.map(|left| left.saturating_sub(1));
        let is_lost = random.chance(sites.faults.answer_lost);
        sites.checker.answered(&author, !is_lost && outcome.is_ok());
        if is_lost {
            return Err(unavailable("the connection was lost before the answer"));
        }
        outcome
    }

    /// Reads the events of all watches; returns true if any arrived or is delayed.
    fn read(&mut self, sites: &Sites<'_>, random: &mut Random, now: Timestamp) -> bool {
        let revisions = sites.revisions();
        self.notice_restore(sites, now);
        if self.seen == Some(revisions) {
            return false;
        }
        let (mut busy, mut is_late) = (false, false);
        for KindWatch { kind, watch, seen } in self.feeds.values_mut() {
            let Some(store) = sites.servers.readable(kind.site) else { continue };
            if *seen == Some(store.revision()) {
                continue;
            }
            if random.chance(sites.faults.stale) {
                is_late = true;
                continue;
            }
            if random.chance(sites.faults.unlisted) {
                is_late = true;
                (*watch, *seen) = (None, None);
                if random.chance(500) {
                    (sites.hear)(&mut self.dispatcher, kind, WatcherEvent::Stale, now);
                }
                let refused = WatcherEvent::Refused("the kind may not be listed".into());
                (sites.hear)(&mut self.dispatcher, kind, refused, now);
                continue;
            }
            for event in read(store, kind, &self.scope, watch, |_, _| true) {
                busy = true;
                (sites.hear)(&mut self.dispatcher, kind, event, now);
            }
            *seen = watch.is_some().then(|| store.revision());
        }
        self.seen = (!is_late).then_some(revisions);
        busy || is_late
    }

    /// Reports the restore to the dispatcher once the hub can be reached. The dispatcher then relists every kind
    /// of the hub.
    fn notice_restore(&mut self, sites: &Sites<'_>, now: Timestamp) {
        if sites.servers.readable(Site::Hub).is_none() || !std::mem::take(&mut self.is_hub_restored) {
            return;
        }
        self.seen = None;
        let mut restored = None;
        for feed in self.feeds.values_mut().filter(|feed| feed.kind.site == Site::Hub) {
            (feed.watch, feed.seen) = (None, None);
            restored = Some(&feed.kind);
        }
        if let Some(kind) = restored {
            (sites.hear)(&mut self.dispatcher, kind, WatcherEvent::Restored, now);
        }
    }
}

impl KindWatch {
    fn id(&self) -> (Site, Gvk, Representation) {
        self.kind.id()
    }
}

/// Returns true if a controller remembers when it first saw something that no object records: a lease, a work that
/// an agent refuses or the hub lost, or the decisions of another scheduler.
fn keeps_times(controller: &str, view: &impl View) -> bool {
    let is_elsewhere =
        |placement: Arc<Placement>| placement.annotation(SCHEDULING_DISABLED_ANNOTATION).is_some();
    let placements = || view.list::<Placement>(Query::ALL).unwrap_or_default();
    let always = ["addon-deploy", "cluster-lease", "unmanaged-applied-work"];
    always.contains(&controller) || placements().into_iter().any(is_elsewhere)
}
