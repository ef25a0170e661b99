//! The observed kinds that keys request.

use std::collections::{BTreeMap, BTreeSet};

use object::{Gvk, Key};

/// The observed kinds of each key and the keys of each kind, so that the cost of a change depends only on the keys
/// that it concerns.
#[derive(Default)]
pub(super) struct Observed {
    requested: BTreeMap<(usize, Key), BTreeSet<Gvk>>,
    requesters: BTreeMap<Gvk, BTreeSet<(usize, Key)>>,
}

/// The kinds whose watch must start or stop.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Watching {
    pub(super) started: Vec<Gvk>,
    pub(super) ended: Vec<Gvk>,
}

impl Observed {
    /// Returns the kinds that a key requests.
    pub(super) fn of(&self, requester: &(usize, Key)) -> Option<&BTreeSet<Gvk>> {
        self.requested.get(requester)
    }

    /// Returns the keys that request a kind.
    pub(super) fn requesters(&self, gvk: &Gvk) -> impl Iterator<Item = &(usize, Key)> {
        self.requesters.get(gvk).into_iter().flatten()
    }

    /// Returns true if any key requests a kind.
    pub(super) fn is_requested(&self, gvk: &Gvk) -> bool {
        self.requesters.contains_key(gvk)
    }

    /// Replaces the kinds that a key requests.
    pub(super) fn request(&mut self, requester: (usize, Key), kinds: BTreeSet<Gvk>) -> Watching {
        let mut watching = Watching::default();
        let before = self.requested.remove(&requester).unwrap_or_default();
        for gvk in before.difference(&kinds) {
            if let Some(requesters) = self.requesters.get_mut(gvk) {
                requesters.remove(&requester);
                if requesters.is_empty() {
                    self.requesters.remove(gvk);
                    watching.ended.push(gvk.clone());
                }
            }
        }
        for gvk in kinds.difference(&before) {
            let requesters = self.requesters.entry(gvk.clone()).or_insert_with(|| {
                watching.started.push(gvk.clone());
                BTreeSet::new()
            });
            requesters.insert(requester.clone());
        }
        if !kinds.is_empty() {
            self.requested.insert(requester, kinds);
        }
        watching
    }
}
