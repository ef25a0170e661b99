//! Comparisons of live objects with a commit, kept from one plan to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DesiredObject, Health};
use object::{Object, ObjectRef};

/// The objects of a ConfigRepo that were as the commit says when they were compared last. A comparison
/// reads the managed fields of an object, which costs more than all else in a plan that finds nothing to
/// do.
///
/// It is a cache: a plan with an empty one is the same.
#[derive(Clone, Debug, Default)]
pub struct Comparisons(BTreeMap<ObjectRef, Unchanged>);

/// An object that was as the commit says.
#[derive(Clone, Debug)]
struct Unchanged {
    live: Arc<Object>,
    digest: String,
    health: Health,
}

impl Comparisons {
    /// The health of an object that was compared before, in the same state and with the same object of a
    /// commit.
    pub(super) fn unchanged(&self, desired: &DesiredObject, live: &Arc<Object>) -> Option<Health> {
        let known = self.0.get(&desired.reference)?;
        let is_same = Arc::ptr_eq(&known.live, live) && known.digest == desired.digest;
        is_same.then(|| known.health.clone())
    }

    /// Remembers that an object is as the commit says.
    pub(super) fn remember(&mut self, desired: &DesiredObject, live: &Arc<Object>, health: &Health) {
        let (live, digest) = (Arc::clone(live), desired.digest.clone());
        self.0.insert(desired.reference.clone(), Unchanged { live, digest, health: health.clone() });
    }

    /// Forgets the objects that left the commit, when they are many.
    pub(super) fn forget(&mut self, desired: &[Arc<DesiredObject>]) {
        if self.0.len() > desired.len() {
            let mut known = std::mem::take(&mut self.0);
            let kept = desired.iter().filter_map(|desired| known.remove_entry(&desired.reference));
            self.0 = kept.collect();
        }
    }
}
