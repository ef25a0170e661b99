//! The pull secret for the images of agents and add-ons, copied in the same way as by OCM's operator.

use serde_json::json;

use super::{MANAGER, is_applied, with_digest};
use api::names::APPLIED_DIGEST_ANNOTATION;
use object::Object;

/// The name of the secret with registry credentials, which the service accounts of an agent reference. The
/// original is in the namespace [`OCM_NAMESPACE`](api::names::OCM_NAMESPACE).
pub const PULL_SECRET: &str = "open-cluster-management-image-pull-credentials";

/// A write that syncs the pull secret in a namespace with the original.
#[derive(Clone, Debug, PartialEq)]
pub enum PullSecretChange {
    /// Applies the copy.
    Apply(Object),
    /// Deletes the secret, because its immutable type differs or its original is gone.
    Delete,
}

/// Returns the change for the pull secret in a namespace. A secret that is not a copy by this operator is kept
/// if there is no original.
pub fn pull_secret_change(
    original: Option<&Object>,
    copy: Option<&Object>,
    namespace: &str,
) -> Option<PullSecretChange> {
    let Some(original) = original.filter(|original| original.namespace() != namespace) else {
        return copy.filter(|copy| is_copy(copy)).map(|_| PullSecretChange::Delete);
    };
    let type_ = |secret: &Object| secret.at(&["type"]).cloned();
    let wanted = Object::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": PULL_SECRET, "namespace": namespace},
        "type": type_(original), "data": original.at(&["data"]),
    }));
    let wanted = with_digest(wanted.ok()?);
    match copy {
        Some(copy) if type_(copy) != type_(&wanted) => Some(PullSecretChange::Delete),
        Some(copy) if is_applied(copy, &wanted, MANAGER) => None,
        Some(_) | None => Some(PullSecretChange::Apply(wanted)),
    }
}

/// Returns true if this operator created the pull secret in a namespace.
pub fn is_copy(secret: &Object) -> bool {
    secret.annotations().contains_key(APPLIED_DIGEST_ANNOTATION)
}
