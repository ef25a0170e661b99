//! Caches the hashes of configurations, so that a plan only hashes the changed ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use engine::addon::spec_hash;
use object::{Object, ObjectRef};

/// Hashes by object.
#[derive(Default)]
pub(super) struct ConfigHashes(BTreeMap<ObjectRef, (Weak<Object>, String)>);

impl ConfigHashes {
    /// Returns the hash of a configuration. A changed object has a different address in the caches.
    pub(super) fn of(&mut self, reference: &ObjectRef, object: &Arc<Object>) -> String {
        let known = self.0.get(reference).filter(|(known, _)| known.as_ptr() == Arc::as_ptr(object));
        if let Some((_, hash)) = known {
            return hash.clone();
        }
        let hash = spec_hash::spec_hash(object);
        self.0.insert(reference.clone(), (Arc::downgrade(object), hash.clone()));
        hash
    }

    /// Removes the objects that no longer exist.
    pub(super) fn truncate(&mut self) {
        self.0.retain(|_, (object, _)| object.strong_count() > 0);
    }
}
