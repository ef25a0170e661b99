//! A hub, its spokes, a git remote and the processes between them, in virtual time under seeded faults.
//!
//! Time advances only when nothing is left to do now, and then to the next instant at which something is due. The
//! same seed gives the same history. A checker verifies every decision and every write; the first broken invariant
//! ends the run.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::{SignedDuration, Timestamp};

use super::Spoke;
use super::check::{Checker, Invariant, InvariantViolation, Write};
use super::process::Process;
use super::sites::{Execute, Faults, Hear, Sites};
use api::crds;
use object::duration::later;
use object::{Key, Random};
use preview::{Branches, Servers, execute, install};
use reconcile::{CommitStatus, Dispatcher, Event, Notification, Scope, Source};
use store::Store;

/// Maximum number of rounds at one instant, far more than any sequence of plans needs. A world that exceeds it
/// counts as never coming to rest.
const ROUNDS_PER_INSTANT: u32 = 10_000;

/// The code that runs in a world. The default is production code.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Registers the controllers of the operator.
    pub hub: fn(&mut Dispatcher),
    /// Registers the controllers of an agent.
    pub agent: fn(&mut Dispatcher),
    /// Executes one action.
    pub execute: Execute,
    /// Delivers a watch event to the dispatcher.
    pub hear: Hear,
    /// The time for which processes gather changes to a key. At zero they plan at once, and time advances only when
    /// nothing is left to do.
    pub coalesce: SignedDuration,
    /// True if the hub has a garbage collector, as a Kubernetes API server with its controller manager has.
    pub collects_garbage: bool,
}

impl Setup {
    /// Returns a setup whose hub runs Argo CD.
    pub fn with_argo_cd() -> Self {
        let hub = |process: &mut Dispatcher| {
            controllers::hub(process);
            controllers::argo_cd(process);
        };
        Self { hub, ..Self::default() }
    }

    /// Returns a setup whose processes gather changes to a key for as long as in production.
    pub fn coalescing() -> Self {
        Self { coalesce: SignedDuration::from_millis(50), ..Self::default() }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            hub: controllers::hub,
            agent: controllers::agent,
            execute,
            hear: Dispatcher::watched,
            coalesce: SignedDuration::ZERO,
            collects_garbage: true,
        }
    }
}

/// A hub with its managed clusters.
pub struct World {
    /// The current time.
    pub now: Timestamp,
    /// The objects of the hub.
    pub hub: Store,
    /// The managed clusters.
    pub spokes: BTreeMap<String, Spoke>,
    /// The commits pushed to the remote's status branches.
    pub branches: Branches,
    /// The commit statuses that the git provider accepted, oldest first.
    pub commit_statuses: Vec<CommitStatus>,
    /// The notifications that the receivers accepted, oldest first.
    pub notifications: Vec<Notification>,
    /// The faults between the processes and the API servers.
    pub faults: Faults,
    /// True if any process's clock was ever set ahead, so that objects may contain future times.
    pub(crate) had_wrong_clock: bool,
    /// The hub's state at the last backup.
    pub(crate) backup: Option<Store>,
    /// True if the hub was ever restored, so that agents may have lost works.
    pub(crate) was_restored: bool,
    pub(crate) checker: Checker,
    pub(crate) operator: Process,
    pub(crate) sources: BTreeMap<Key, Source>,
    pub(crate) random: Random,
    pub(crate) setup: Setup,
}

/// Creates a hub with every CRD. Parsing their schemas takes longer than most histories, so a copy is cached.
fn empty_hub(start: Timestamp) -> Store {
    static KEPT: OnceLock<(Timestamp, Store)> = OnceLock::new();
    let make = || {
        let mut hub = Store::new(0, start);
        install(&mut hub, crds::hub(), start);
        (start, hub)
    };
    let (at, hub) = KEPT.get_or_init(make);
    if *at == start { hub.clone() } else { make().1 }
}

impl World {
    /// Creates a hub with every CRD and a running operator, but no clusters.
    pub fn new(seed: u64, start: Timestamp) -> Self {
        Self::with(Setup::default(), seed, start)
    }

    /// Creates a world that runs other code than production's.
    pub fn with(setup: Setup, seed: u64, start: Timestamp) -> Self {
        let mut hub = empty_hub(start);
        let mut checker = Checker::default();
        checker.follow(None, &mut hub, start);
        Self {
            now: start,
            hub,
            spokes: BTreeMap::new(),
            branches: Branches::new(),
            commit_statuses: Vec::new(),
            notifications: Vec::new(),
            faults: Faults::default(),
            had_wrong_clock: false,
            backup: None,
            was_restored: false,
            checker,
            operator: Process::start(Scope::Everything, None, setup.hub, setup.coalesce),
            sources: BTreeMap::new(),
            random: Random::new(seed),
            setup,
        }
    }

    /// Runs until `done` or for `limit`; returns true if `done` became true.
    ///
    /// # Errors
    /// Returns the first broken invariant.
    pub fn run_until(
        &mut self,
        limit: SignedDuration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<bool, InvariantViolation> {
        let end = later(self.now, limit);
        loop {
            self.settle()?;
            if done(self) {
                return Ok(true);
            }
            match self.next_at() {
                Some(next) if next <= end => self.now = next.max(self.now),
                Some(_) | None => {
                    self.now = end;
                    return Ok(false);
                }
            }
        }
    }

    /// Runs for the given time.
    ///
    /// # Errors
    /// Returns the first broken invariant.
    pub fn run_for(&mut self, time: SignedDuration) -> Result<(), InvariantViolation> {
        self.run_until(time, |_| false).map(drop)
    }

    /// Stops checking an invariant, because a test deliberately breaks it.
    pub fn ignore(&mut self, invariant: Invariant) {
        self.checker.ignore(invariant);
    }

    /// Records every write from now on for [`World::take_history`].
    pub fn keep_history(&mut self) {
        self.checker.keep_history();
    }

    /// Returns the writes since the last call, in order.
    pub fn take_history(&mut self) -> Vec<Write> {
        self.checker.take_history()
    }

    /// Returns the events that the operator recorded since the last call or its start, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.operator.events)
    }

    fn settle(&mut self) -> Result<(), InvariantViolation> {
        for _ in 0..ROUNDS_PER_INSTANT {
            let busy = self.round();
            if let Some(violation) = self.checker.violation() {
                return Err(violation.clone());
            }
            if !busy {
                return Ok(());
            }
        }
        let reason = format!("processes still work after {ROUNDS_PER_INSTANT} rounds at one instant");
        Err(InvariantViolation {
            invariant: Invariant::ComesToRest,
            blames: "the world".into(),
            reason,
            at: self.now,
        })
    }

    /// Runs every process and cluster once; returns true if any had something to do.
    fn round(&mut self) -> bool {
        let mut busy = self.operator.is_dead();
        if busy {
            self.restart_operator();
        }
        let Self {
            now,
            hub,
            spokes,
            branches,
            commit_statuses,
            notifications,
            faults,
            checker,
            operator,
            random,
            setup,
            ..
        } = self;
        let now = *now;
        checker.observe(None, hub, None, now);
        for (name, spoke) in spokes.iter_mut() {
            checker.observe(Some(name), &mut spoke.store, None, now);
        }
        let (execute, hear) = (setup.execute, setup.hear);
        let faults = *faults;
        let servers =
            Servers { hub: Some(hub), spoke: None, version: "", branches, commit_statuses, notifications };
        let mut sites = Sites { servers, checker, execute, hear, faults };
        busy |= operator.round(&mut sites, random, now);
        busy |= setup.collects_garbage && hub.collect(now);
        checker.observe(None, hub, None, now);
        for (name, spoke) in spokes.iter_mut() {
            let Spoke { store, connected, answers, version, agent, .. } = spoke;
            let hub = connected.then_some(&mut *hub);
            let spoke_site = answers.then_some((name.as_str(), store));
            let servers =
                Servers { hub, spoke: spoke_site, version, branches, commit_statuses, notifications };
            let mut sites = Sites { servers, checker, execute, hear, faults };
            busy |= agent.round(&mut sites, random, now);
            busy |= spoke.run_workloads(now) | spoke.store.collect(now);
            checker.observe(Some(name), &mut spoke.store, None, now);
        }
        busy
    }

    fn next_at(&self) -> Option<Timestamp> {
        let agents = self.spokes.values().filter_map(|spoke| spoke.agent.next_at());
        let workloads = self.spokes.values().filter_map(|spoke| spoke.wake_at);
        self.operator.next_at().into_iter().chain(agents).chain(workloads).min()
    }
}
