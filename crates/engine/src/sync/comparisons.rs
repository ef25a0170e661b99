//! Comparisons of live objects with a commit, kept from one plan to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DesiredObject, IgnoreRule};
use crate::health::ObjectHealth;
use object::{Object, ObjectRef};

/// The objects of a ConfigRepo that did not differ from the commit at their last comparison. A comparison
/// reads the managed fields of an object. In a plan that writes nothing it would cost more than everything
/// else.
///
/// It is a cache: a plan with an empty one is the same.
#[derive(Clone, Debug, Default)]
pub struct Comparisons {
    unchanged: BTreeMap<ObjectRef, Unchanged>,
    /// The fields that are not compared.
    ignored: Vec<IgnoreRule>,
}

/// An object that does not differ from the commit.
#[derive(Clone, Debug)]
struct Unchanged {
    live: Arc<Object>,
    digest: String,
    health: ObjectHealth,
}

impl Comparisons {
    /// Drops all of them if other fields are compared now, and those of objects that left the commit if they
    /// are many.
    pub(super) fn hold_for(&mut self, ignored: &[IgnoreRule], desired: &[Arc<DesiredObject>]) {
        if self.ignored != ignored {
            *self = Self { unchanged: BTreeMap::new(), ignored: ignored.to_vec() };
        }
        if self.unchanged.len() > desired.len() {
            let mut known = std::mem::take(&mut self.unchanged);
            let kept = desired.iter().filter_map(|desired| known.remove_entry(&desired.reference));
            self.unchanged = kept.collect();
        }
    }

    /// Returns the health of an object that was compared before, in the same state and with the same object
    /// of a commit.
    pub(super) fn unchanged(&self, desired: &DesiredObject, live: &Arc<Object>) -> Option<ObjectHealth> {
        let known = self.unchanged.get(&desired.reference)?;
        let is_same = Arc::ptr_eq(&known.live, live) && known.digest == desired.digest;
        is_same.then(|| known.health.clone())
    }

    /// Records that an object does not differ from the commit.
    pub(super) fn remember(&mut self, desired: &DesiredObject, live: &Arc<Object>, health: &ObjectHealth) {
        let (live, digest) = (Arc::clone(live), desired.digest.clone());
        self.unchanged.insert(desired.reference.clone(), Unchanged { live, digest, health: health.clone() });
    }
}
