//! The inputs of a rendering that are not files.

use std::collections::BTreeMap;

use jiff::Timestamp;

use chart::Fresh;
use object::{Key, KeyFiles, Seed};

/// The inputs of a rendering that are not files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The namespace of the release if the rendered directory is a chart; empty for `default`.
    pub namespace: String,
    /// The random values of charts.
    pub random: RandomValues,
    /// The keys that decrypt files, or the reason why they are unreadable; `None` if there are none.
    pub keys: Option<Result<KeyFiles, String>>,
}

/// The source of the random values of charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RandomValues {
    /// The seed for all releases, if there is one.
    pub seed: Option<Seed>,
    /// The time at which each release first drew values, by its namespace and name.
    pub since: BTreeMap<Key, Timestamp>,
}

impl RandomValues {
    /// Returns the values of a release. Returns None if it has none yet.
    pub(crate) fn of(&self, release: &Key) -> Option<Fresh> {
        let (seed, since) = (self.seed?, self.since.get(release)?);
        // After a change of the seed, all values are drawn again.
        let since = seed.time.max(*since);
        Some(Fresh::of_release(&seed.bytes, &release.namespace, &release.name, since))
    }
}
