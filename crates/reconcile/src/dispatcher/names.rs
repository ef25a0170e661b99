//! The names of existing objects, so that an absent object needs no request.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use object::Key;

/// The maximum number of remembered names of a kind: a set of that many 8-byte hashes takes less than 1 MiB.
/// Beyond it, none are remembered, so that nobody can fill the memory by creating objects.
const MAX_NAMES: usize = 65_536;

/// Hashes of the names of all objects that a watch has reported.
///
/// A name remains after its object is deleted, because another name may have the same hash. So an object whose
/// name is missing does not exist; others may exist.
#[derive(Debug, Default)]
pub(super) struct Names {
    hashes: BTreeSet<u64>,
    /// True if names may be missing, because there were too many or the watch has failed.
    is_partial: bool,
}

impl Names {
    /// Records that an object exists.
    pub(super) fn add(&mut self, key: &Key) {
        if self.is_partial {
            return;
        }
        self.hashes.insert(hash(key));
        if self.hashes.len() > MAX_NAMES {
            *self = Self::partial();
        }
    }

    /// Returns names that rule out no object.
    pub(super) fn partial() -> Self {
        Self { hashes: BTreeSet::new(), is_partial: true }
    }

    /// Returns true if an object may exist.
    pub(super) fn may_have(&self, key: &Key) -> bool {
        self.is_partial || self.hashes.contains(&hash(key))
    }
}

fn hash(key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_cost_nothing_and_hide_no_object() {
        let key = |n: usize| Key::namespaced("ns", n.to_string());
        let mut names = Names::default();
        (0..MAX_NAMES).for_each(|n| names.add(&key(n)));
        assert!(names.may_have(&key(0)) && !names.may_have(&key(MAX_NAMES)));
        names.add(&key(MAX_NAMES));
        assert!(names.may_have(&key(0)) && names.may_have(&key(MAX_NAMES + 1)));
        assert!(names.hashes.is_empty());
    }
}
