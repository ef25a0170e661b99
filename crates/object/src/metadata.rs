//! Accessors for the metadata of typed objects, like the methods of [`Object`](crate::Object).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::{Gvk, Kind};

/// Returns true if an owner reference names this kind and object. The API version may differ within the group.
pub fn refers_to<K: Kind>(reference: &OwnerReference, name: &str) -> bool {
    let (Gvk { group, kind, version: _ }, wanted) =
        (Gvk::parse(&reference.api_version, &reference.kind), Gvk::of::<K>());
    (group, kind) == (wanted.group, wanted.kind) && reference.name == name
}

/// Borrowed fields of `metadata`, empty if absent. kube's `ResourceExt` copies the names.
pub trait Metadata {
    /// Returns `metadata.name`.
    fn name(&self) -> &str;

    /// Returns `metadata.namespace`; empty for cluster-scoped objects.
    fn namespace(&self) -> &str;

    /// Returns `metadata.uid`.
    fn uid(&self) -> &str;

    /// Returns the value of a label.
    fn label(&self, name: &str) -> Option<&str>;

    /// Returns the value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str>;

    /// Returns true if the object has a finalizer.
    fn has_finalizer(&self, finalizer: &str) -> bool;

    /// Returns true if `metadata.deletionTimestamp` is set.
    fn is_terminating(&self) -> bool;

    /// Returns a reference to the object as an owner, so that the garbage collector deletes dependents after it.
    fn owner_reference(&self) -> OwnerReference;

    /// Returns a reference to the object as a controller, like client-go's `NewControllerRef`.
    fn controller_reference(&self) -> OwnerReference {
        OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..self.owner_reference() }
    }
}

impl<K: Kind> Metadata for K {
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(name).map(String::as_str)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(name).map(String::as_str)
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.meta().finalizers.iter().flatten().any(|name| name == finalizer)
    }

    fn is_terminating(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    fn owner_reference(&self) -> OwnerReference {
        let gvk = Gvk::of::<K>();
        OwnerReference {
            api_version: gvk.api_version(),
            kind: gvk.kind,
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            ..OwnerReference::default()
        }
    }
}
