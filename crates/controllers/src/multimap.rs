//! Maps from keys to sets, for indexes.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// Removes a value from the set of a key, and the key if its set becomes empty.
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
