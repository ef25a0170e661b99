//! The API servers and the git remote of a world, as one process reaches them at one moment.

use jiff::Timestamp;

use super::check::{Author, Checker};
use preview::Servers;
use reconcile::{Action, Dispatcher, Outcome, Site, WatchedKind, WatcherEvent};
use store::Store;

/// Executes one action as a field manager.
pub type Execute = fn(&mut Servers<'_>, &str, &Action, Timestamp) -> Outcome;

/// Delivers a watch event to a process's dispatcher.
pub type Hear = fn(&mut Dispatcher, &WatchedKind, WatcherEvent, Timestamp);

/// Faults between a process and the API servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Writes per 1,000 that fail with "unavailable" before they take effect.
    pub refused: u32,
    /// Writes per 1,000 that succeed although the process gets an error.
    pub answer_lost: u32,
    /// Watch reads per 1,000 that deliver no event, so the process decides on stale state.
    pub stale: u32,
    /// Watch reads per 1,000 that end the watch because the server refuses to list the kind. In half of these
    /// cases the outage has lasted long enough that the cached objects no longer count.
    pub unlisted: u32,
    /// Decisions per 1,000 that panic.
    pub panics: u32,
}

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
