//! The state of a dispatcher, and the commands that are due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::command::Command;
use super::decision::{self, Decision, DecisionContext};
use super::kind_feed::Feed;
use super::lookups::Lookups;
use super::observed::Observed;
use super::outage::Outages;
use super::reconciliation::Reconciliation;
use super::routes::Routes;
use super::undone::LastWrites;
use crate::controller::ErasedController;
use crate::index::Indexes;
use crate::memo::{Computed, Memos};
use crate::snapshot::Snapshot;
use crate::{CachedCount, Caches, Controller, Executed, Lookup, Site, Wake, WatchedKind, WorkQueue};
use object::{Gvk, Key};

/// Limits on the work of a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatcherLimits {
    /// The time for which the dispatcher gathers changes of a key before it plans the key.
    pub coalesce: SignedDuration,
    /// The maximum number of [`Computation`](crate::Computation)s that run at the same time.
    pub computations: usize,
}

/// Runs controllers; see the [module](super).
pub struct Dispatcher {
    pub(super) limits: DispatcherLimits,
    pub(super) has_spoke: bool,
    pub(super) caches: Caches,
    pub(super) routes: Routes,
    pub(super) kinds: BTreeMap<(Site, Gvk), KnownKind>,
    /// The controllers, in registration order.
    pub(super) controllers: Vec<RegisteredController>,
    pub(super) reconciliations: BTreeMap<u64, Reconciliation>,
    pub(super) next_reconcile_id: u64,
    pub(super) observed: Observed,
    pub(super) lookups: Lookups,
    pub(super) outages: Outages,
    /// The number of times that each API server was restored from a backup.
    pub(super) restores: BTreeMap<Site, u64>,
    pub(super) memos: Memos,
    /// The latest time since the last step back of the clock.
    pub(super) latest: Timestamp,
    /// The commands that the next call of [`Dispatcher::due`] returns.
    pub(super) commands: Vec<Command>,
}

/// A typed kind that is watched.
pub(super) struct KnownKind {
    pub(super) kind: Arc<WatchedKind>,
    pub(super) feed: FeedFn,
    pub(super) confirm: fn(&mut Caches, Site, &Key, u64) -> bool,
    pub(super) count: fn(&Caches, Site) -> CachedCount,
}

/// Handles a report about a kind.
pub(super) type FeedFn = fn(&mut Dispatcher, Site, Feed, Timestamp);

/// One controller with its keys.
pub(super) struct RegisteredController {
    pub(super) controller: ErasedController,
    pub(super) queue: WorkQueue,
    /// The kinds that it registered.
    pub(super) needs: BTreeSet<(Site, Gvk)>,
    /// The kinds among them that have not been read, or not recently enough. Until they are, no decision starts.
    pub(super) missing: BTreeSet<(Site, Gvk)>,
    pub(super) indexes: Indexes,
    pub(super) deciding: Deciding,
    pub(super) undone: LastWrites,
    /// Reconciliations whose actions have all been attempted.
    pub(super) concluding: VecDeque<(u64, Executed)>,
}

/// The decision of a controller that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deciding {
    Nothing,
    CatchingUp,
    Reconciliation(u64),
}

/// The state of a registered controller, for metrics and health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerInfo {
    /// The `controller` label of its metrics and logs.
    pub name: &'static str,
    /// The reporting controller of its events.
    pub reporter: &'static str,
    /// The number of keys that are due or running.
    pub depth: usize,
    /// True if every kind that it needs has been read.
    pub is_ready: bool,
}

impl RegisteredController {
    pub(super) fn of<C: Controller>(spacing: SignedDuration) -> Self {
        Self {
            controller: ErasedController::of::<C>(),
            queue: WorkQueue::with_spacing(spacing),
            needs: BTreeSet::new(),
            missing: BTreeSet::new(),
            indexes: Indexes::default(),
            deciding: Deciding::Nothing,
            undone: LastWrites::default(),
            concluding: VecDeque::new(),
        }
    }

    fn may_start(&self) -> bool {
        let limit = self.controller.max_concurrent_reconciles;
        self.missing.is_empty() && self.deciding == Deciding::Nothing && self.queue.running() < limit
    }
}

impl Dispatcher {
    /// Creates a dispatcher without controllers. It applies and observes users' objects on the spoke if there is
    /// one, otherwise on the hub.
    pub fn new(limits: DispatcherLimits, has_spoke: bool) -> Self {
        Self {
            limits,
            has_spoke,
            caches: Caches::default(),
            routes: Routes::default(),
            kinds: BTreeMap::new(),
            controllers: Vec::new(),
            reconciliations: BTreeMap::new(),
            next_reconcile_id: 0,
            observed: Observed::default(),
            lookups: Lookups::default(),
            outages: Outages::default(),
            restores: BTreeMap::new(),
            memos: Memos::new(limits.computations),
            latest: Timestamp::MIN,
            commands: Vec::new(),
        }
    }

    /// Returns how often an API server was restored.
    pub(super) fn restores_of(&self, site: Site) -> u64 {
        self.restores.get(&site).copied().unwrap_or_default()
    }

    /// Returns a copy of the caches, which later changes do not affect.
    pub fn caches(&self) -> Caches {
        self.caches.clone()
    }

    /// Returns the registered controllers; the position of each is its
    /// [`controller_id`](Decision::controller_id).
    pub fn controllers(&self) -> impl Iterator<Item = ControllerInfo> {
        self.controllers.iter().map(|registered| ControllerInfo {
            name: registered.controller.name,
            reporter: registered.controller.reporter,
            depth: registered.queue.len(),
            is_ready: registered.missing.is_empty(),
        })
    }

    /// Counts the cached objects by kind.
    pub fn cached(&self) -> Vec<(Gvk, CachedCount)> {
        let count =
            |known: &KnownKind| (known.kind.gvk.clone(), (known.count)(&self.caches, known.kind.site));
        let observed = self.caches.observed_counts().map(|(gvk, count)| (gvk.clone(), count));
        self.kinds.values().map(count).chain(observed).collect()
    }

    /// Returns the API server of the observed objects.
    pub(super) fn observed_site(&self) -> Site {
        if self.has_spoke { Site::Spoke } else { Site::Hub }
    }

    /// Marks a typed kind as unread, so that controllers that need it make no decision.
    pub(super) fn expired<K: object::Kind>(&mut self, site: Site) {
        let id = (site, Gvk::of::<K>());
        for registered in &mut self.controllers {
            if registered.needs.contains(&id) {
                registered.missing.insert(id.clone());
            }
        }
    }

    /// Marks a typed kind as read.
    pub(super) fn listed<K: object::Kind>(&mut self, site: Site) {
        let id = (site, Gvk::of::<K>());
        for registered in &mut self.controllers {
            registered.missing.remove(&id);
        }
    }

    /// Marks a typed kind as kept by an earlier process, so that controllers that accept kept objects may decide.
    pub(super) fn has_persisted<K: object::Kind>(&mut self, site: Site) {
        let id = (site, Gvk::of::<K>());
        for registered in
            self.controllers.iter_mut().filter(|registered| registered.controller.uses_persisted)
        {
            registered.missing.remove(&id);
        }
    }

    /// Returns the commands that are due, each only once. The clock may go back between two calls.
    pub fn due(&mut self, now: Timestamp) -> Vec<Command> {
        self.follow_clock(now);
        for controller_id in 0..self.controllers.len() {
            if let Some(decision) = self.decide(controller_id, now) {
                self.commands.push(Command::Decide(decision));
            }
        }
        while let Some(computation) = self.memos.start() {
            self.commands.push(Command::Compute(computation));
        }
        while let Some(lookup) = self.lookups.start(now) {
            let site = if matches!(lookup, Lookup::OnHub(_)) { Site::Hub } else { self.observed_site() };
            self.commands.push(Command::LookUp(site, lookup));
        }
        std::mem::take(&mut self.commands)
    }

    /// Returns the time of the next command if nothing else happens first.
    pub fn next_at(&self) -> Option<Timestamp> {
        let keys = self
            .controllers
            .iter()
            .filter(|registered| registered.may_start())
            .filter_map(|registered| registered.queue.next_at());
        keys.chain(self.lookups.next_at()).min()
    }

    /// Handles the end of a computation.
    pub fn computed(&mut self, computed: Computed, now: Timestamp) {
        let waiting = self.memos.finished(computed, now);
        self.wake(waiting, Wake::changed(now));
    }

    /// Cancels a computation that has run for longer than its [deadline](crate::Computation::deadline).
    pub fn overdue(&mut self, computation: u64, now: Timestamp) {
        let waiting = self.memos.overdue(computation, now);
        self.wake(waiting, Wake::changed(now));
    }

    /// Returns the next decision of a controller, unless one is running.
    fn decide(&mut self, index: usize, now: Timestamp) -> Option<Decision> {
        let registered = self.controllers.get_mut(index)?;
        if registered.deciding != Deciding::Nothing {
            return None;
        }
        if let Some((id, done)) = registered.concluding.pop_front() {
            let key = self.reconciliations.get(&id)?.key.clone();
            registered.deciding = Deciding::Reconciliation(id);
            return Some(decision::conclude(self.context(index, &key, now)?, id, key, done));
        }
        if registered.may_start()
            && let Some(key) = registered.queue.start(now)
        {
            let id = self.next_reconcile_id;
            self.next_reconcile_id += 1;
            registered.deciding = Deciding::Reconciliation(id);
            self.reconciliations.insert(id, Reconciliation::new(index, key.clone(), now));
            return Some(decision::plan(self.context(index, &key, now)?, id, key));
        }
        if registered.indexes.are_behind() {
            registered.deciding = Deciding::CatchingUp;
            return Some(decision::catch_up(self.context(index, &Key::default(), now)?));
        }
        None
    }

    fn context(&mut self, index: usize, key: &Key, now: Timestamp) -> Option<DecisionContext<'_>> {
        let memos = self.memos.of(index, key);
        let registered = self.controllers.get_mut(index)?;
        let snapshot = Snapshot::new(self.caches.clone(), memos, registered.indexes.lend());
        Some(DecisionContext { controller_id: index, controller: &registered.controller, snapshot, now })
    }
}
