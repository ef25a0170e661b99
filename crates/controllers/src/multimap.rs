//! Sets by key, as indexes keep them.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// Removes a value from the set of a key, and the set when it is empty.
pub(super) fn remove<K, Q, V>(sets: &mut BTreeMap<K, BTreeSet<V>>, key: &Q, value: &V)
where
    K: Ord + Borrow<Q>,
    Q: Ord + ?Sized,
    V: Ord,
{
    let Some(set) = sets.get_mut(key) else { return };
    set.remove(value);
    if set.is_empty() {
        sets.remove(key);
    }
}
