//! The hashes of configurations, so that a plan hashes only those that changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use api::addon::v1alpha1::ClusterManagementAddOn;
use engine::addon::spec_hash;
use object::{Object, ObjectRef};
use reconcile::{Change, Index, Observes, Read, View};

/// Hashes by the object that they are of.
#[derive(Default)]
pub(super) struct ConfigHashes(BTreeMap<ObjectRef, (Weak<Object>, String)>);

impl Index for ConfigHashes {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ClusterManagementAddOn>(|hashes, change| {
            if let Change { old: Some(_), new: None } = change {
                hashes.0.retain(|_, (object, _)| object.strong_count() > 0);
            }
            Vec::new()
        });
    }
}

impl ConfigHashes {
    /// Returns the hash of a configuration. A changed object has another address in the caches.
    pub(super) fn of(&mut self, reference: &ObjectRef, object: &Arc<Object>) -> String {
        let held = self.0.get(reference).filter(|(held, _)| held.as_ptr() == Arc::as_ptr(object));
        if let Some((_, hash)) = held {
            return hash.clone();
        }
        let hash = spec_hash::spec_hash(object);
        self.0.insert(reference.clone(), (Arc::downgrade(object), hash.clone()));
        hash
    }
}
