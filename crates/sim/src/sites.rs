//! The API servers and the git remote of a world, as one process reaches them at one moment.

use jiff::Timestamp;

use super::check::{Author, Checker};
use super::process::Faults;
use preview::Servers;
use reconcile::{Action, Dispatcher, Outcome, Site, WatchedKind, WatcherEvent};
use store::Store;

/// Executes one action as a field manager.
pub type Execute = fn(&mut Servers<'_>, &str, &Action, Timestamp) -> Outcome;

/// Delivers a watch event to a process's dispatcher.
pub type Hear = fn(&mut Dispatcher, &WatchedKind, WatcherEvent, Timestamp);

/// What a process can reach, with the code that executes its actions and checks their effects.
pub(super) struct Sites<'a> {
    pub(super) servers: Servers<'a>,
    pub(super) checker: &'a mut Checker,
    pub(super) execute: Execute,
    pub(super) hear: Hear,
    pub(super) faults: Faults,
}

impl Sites<'_> {
    /// Returns the revisions of the hub and the spoke; `None` for a store that cannot be reached.
    pub(super) fn revisions(&self) -> (Option<u64>, Option<u64>) {
        let revision = |site| self.servers.readable(site).map(Store::revision);
        (revision(Site::Hub), revision(Site::Spoke))
    }

    /// Executes an action and has the checker verify its writes.
    pub(super) fn act(&mut self, author: Author<'_>, now: Timestamp) -> Outcome {
        let outcome = (self.execute)(&mut self.servers, author.controller, author.action, now);
        let Self { servers: Servers { hub, spoke, .. }, checker, .. } = self;
        if let Some(hub) = hub {
            checker.observe(None, hub, Some(author), now);
        }
        if let Some((name, store)) = spoke {
            checker.observe(Some(name), store, Some(author), now);
        }
        outcome
    }
}
