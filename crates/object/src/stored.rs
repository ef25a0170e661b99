//! The parts of an object, typed or untyped, that caches and watches read.

use serde::de::DeserializeOwned;

use crate::{Gvk, Key, Kind, Object, fields};

/// The annotation in which kubectl stores the last object it applied client-side.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object as an API server stores it: of a typed kind, or a plain [`Object`].
pub trait Stored: DeserializeOwned + Send + Sync + 'static {
    /// Returns the namespace and name.
    fn key(&self) -> Key;

    /// Returns `metadata.resourceVersion` as a number; 0 if absent.
    ///
    /// Resource versions of one server are comparable integers
    /// ([KEP-5504](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5504-comparable-resource-version)).
    fn version(&self) -> u64;

    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str>;

    /// Drops the parts of the object that no controller reads, so that caches do not store them.
    ///
    /// `metadata.managedFields` is a third of most objects, so only objects that are compared with an applied
    /// configuration keep it; see [`is_as_applied`](crate::fields::is_as_applied). They keep the entries of
    /// updates too: these show who changed a field, and a client that writes the entries must write all of them.
    #[must_use]
    fn trim(self, gvk: &Gvk) -> Self;
}

/// Returns a resource version as a number; see [`Stored::version`].
pub fn version(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

impl<K: Kind> Stored for K {
    fn key(&self) -> Key {
        Key::of(self)
    }

    fn version(&self) -> u64 {
        version(self.meta().resource_version.as_deref().unwrap_or_default())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }

    fn trim(mut self, _: &Gvk) -> Self {
        let meta = self.meta_mut();
        meta.managed_fields = None;
        if let Some(annotations) = &mut meta.annotations {
            annotations.remove(LAST_APPLIED);
        }
        self
    }
}

impl Stored for Object {
    fn key(&self) -> Key {
        self.key()
    }

    fn version(&self) -> u64 {
        version(self.resource_version())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "labels"])?.get(key)?.as_str()
    }

    fn trim(mut self, gvk: &Gvk) -> Self {
        // Items in a list of built-in kinds lack `apiVersion` and `kind`.
        self.0.insert("apiVersion".into(), gvk.api_version().into());
        self.0.insert("kind".into(), gvk.kind.as_str().into());
        fields::pack(&mut self);
        self
    }
}
