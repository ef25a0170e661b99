//! The observed kinds that keys ask for.

use std::collections::{BTreeMap, BTreeSet};

use object::{Gvk, Key};

/// The observed kinds of each key and the keys of each kind, so that the cost of a change depends only on the
/// keys that it concerns.
#[derive(Default)]
pub(super) struct Observed {
    asked: BTreeMap<(usize, Key), BTreeSet<Gvk>>,
    askers: BTreeMap<Gvk, BTreeSet<(usize, Key)>>,
}

/// The kinds for which a watch has to start or end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Watching {
    pub(super) started: Vec<Gvk>,
    pub(super) ended: Vec<Gvk>,
}

impl Observed {
    /// The kinds that a key asks for.
    pub(super) fn of(&self, asker: &(usize, Key)) -> Option<&BTreeSet<Gvk>> {
        self.asked.get(asker)
    }

    /// The keys that ask for a kind.
    pub(super) fn askers(&self, gvk: &Gvk) -> impl Iterator<Item = &(usize, Key)> {
        self.askers.get(gvk).into_iter().flatten()
    }

    /// Whether any key asks for a kind.
    pub(super) fn is_asked(&self, gvk: &Gvk) -> bool {
        self.askers.contains_key(gvk)
    }

    /// Replaces the kinds that a key asks for.
    pub(super) fn ask(&mut self, asker: (usize, Key), kinds: BTreeSet<Gvk>) -> Watching {
        let mut watching = Watching::default();
        let before = self.asked.remove(&asker).unwrap_or_default();
        for gvk in before.difference(&kinds) {
            if let Some(askers) = self.askers.get_mut(gvk) {
                askers.remove(&asker);
                if askers.is_empty() {
                    self.askers.remove(gvk);
                    watching.ended.push(gvk.clone());
                }
            }
        }
        for gvk in kinds.difference(&before) {
            let askers = self.askers.entry(gvk.clone()).or_insert_with(|| {
                watching.started.push(gvk.clone());
                BTreeSet::new()
            });
            askers.insert(asker.clone());
        }
        if !kinds.is_empty() {
            self.asked.insert(asker, kinds);
        }
        watching
    }
}
