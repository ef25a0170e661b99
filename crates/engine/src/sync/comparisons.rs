//! A cache of comparisons between live objects and a commit, kept across plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DesiredObject, IgnoreRule};
use crate::health::ObjectHealth;
use object::{Object, ObjectRef};

/// The objects of a ConfigRepo that matched the commit in their last comparison. A comparison reads the managed
/// fields of an object. Without this cache, comparisons would dominate the cost of a plan that writes nothing.
///
/// An empty cache gives the same plan.
#[derive(Clone, Debug, Default)]
pub struct Comparisons {
    unchanged: BTreeMap<ObjectRef, Unchanged>,
    /// The fields that comparisons ignore.
    ignored: Vec<IgnoreRule>,
}

/// An object that matches the commit.
#[derive(Clone, Debug)]
struct Unchanged {
    live: Arc<Object>,
    digest: String,
    health: ObjectHealth,
}

impl Comparisons {
    /// Drops all entries if the ignored fields changed. Drops entries for objects that left the commit if there
    /// are many.
    pub(super) fn hold_for(&mut self, ignored: &[IgnoreRule], desired: &[Arc<DesiredObject>]) {
        if self.ignored != ignored {
            *self = Self { unchanged: BTreeMap::new(), ignored: ignored.to_vec() };
        }
        if self.unchanged.len() > desired.len() {
            let mut known = std::mem::take(&mut self.unchanged);
            let still_wanted = desired.iter().filter_map(|desired| known.remove_entry(&desired.reference));
            self.unchanged = still_wanted.collect();
        }
    }

    /// Returns the health of an object if neither its live state nor its desired version has changed since the
    /// last comparison.
    pub(super) fn unchanged(&self, desired: &DesiredObject, live: &Arc<Object>) -> Option<ObjectHealth> {
        let known = self.unchanged.get(&desired.reference)?;
        let is_same = Arc::ptr_eq(&known.live, live) && known.digest == desired.digest;
        is_same.then(|| known.health.clone())
    }

    /// Records that an object matches the commit.
    pub(super) fn remember(&mut self, desired: &DesiredObject, live: &Arc<Object>, health: &ObjectHealth) {
        let (live, digest) = (Arc::clone(live), desired.digest.clone());
        self.unchanged.insert(desired.reference.clone(), Unchanged { live, digest, health: health.clone() });
    }
}
