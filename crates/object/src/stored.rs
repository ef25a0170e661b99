//! What caches and watches need to know of an object, typed or not.

use serde::de::DeserializeOwned;

use crate::{Gvk, Key, Kind, Object};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object as an API server stores it: of a typed kind, or a plain [`Object`].
pub trait Stored: DeserializeOwned + Send + Sync + 'static {
    /// Namespace and name.
    fn key(&self) -> Key;

    /// `metadata.resourceVersion` as a number; 0 where it is absent.
    ///
    /// Resource versions of one server are comparable integers
    /// ([KEP-5504](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5504-comparable-resource-version)).
    fn version(&self) -> u64;

    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;

    /// Drops the parts of the object that no controller reads and no cache should hold.
    #[must_use]
    fn trim(self, gvk: &Gvk) -> Self;
}

/// A resource version as a number; see [`Stored::version`].
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
        self.metadata_mut().remove("managedFields");
        // Items of a list of built-in kinds do not say what they are.
        self.0.insert("apiVersion".into(), gvk.api_version().into());
        self.0.insert("kind".into(), gvk.kind.as_str().into());
        self
    }
}
