//! The random values of charts.

use std::collections::BTreeMap;

use jiff::Timestamp;

use chart::Fresh;
use object::{Key, Seed};

/// The source of the random values of charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RandomValues {
    /// The seed of all releases; `None` if there is none yet.
    pub seed: Option<Seed>,
    /// When each release drew first, by its namespace and name.
    pub since: BTreeMap<Key, Timestamp>,
}

impl RandomValues {
    /// Returns the values of a release; `None` if it has none yet.
    pub(crate) fn of(&self, release: &Key) -> Option<Fresh> {
        let (seed, since) = (self.seed?, self.since.get(release)?);
        // A later seed means that everything is drawn again.
        let since = seed.time.max(*since);
        Some(Fresh::of_release(&seed.bytes, &release.namespace, &release.name, since))
    }
}
