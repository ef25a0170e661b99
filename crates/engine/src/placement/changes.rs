//! A log of changed clusters.

use std::collections::BTreeMap;

use super::fleet::Id;

/// A log of changed clusters. It has only the latest change of each, so that it never grows beyond the fleet.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog {
    latest: BTreeMap<u64, Id>,
    changed_at: BTreeMap<Id, u64>,
    now: u64,
}

impl ChangeLog {
    pub(super) fn record(&mut self, id: Id) {
        self.now += 1;
        if let Some(earlier) = self.changed_at.insert(id, self.now) {
            self.latest.remove(&earlier);
        }
        self.latest.insert(self.now, id);
    }

    /// Returns the number of changes so far, for use with [`ChangeLog::since`].
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the clusters that changed after a moment, each once.
    pub fn since(&self, moment: u64) -> impl Iterator<Item = Id> + '_ {
        self.latest.range(moment + 1..).map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_contains_each_change_once_at_its_latest_position() {
        let mut log = ChangeLog::default();
        for id in [1, 2, 1] {
            log.record(id);
        }
        assert_eq!(log.since(0).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(log.since(2).collect::<Vec<_>>(), [1]);
        assert_eq!(log.since(log.now()).count(), 0);
    }
}
