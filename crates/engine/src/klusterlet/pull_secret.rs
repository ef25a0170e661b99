//! The secret with which nodes pull the images of agents and of add-ons, copied as OCM's operator copies it.

use serde_json::json;

use super::{MANAGER, is_applied, with_digest};
use api::names::APPLIED_DIGEST_ANNOTATION;
use object::Object;

/// The secret with the credentials of registries. The service accounts of an agent name it. The original is
/// in the namespace [`OCM_NAMESPACE`](api::names::OCM_NAMESPACE).
pub const PULL_SECRET: &str = "open-cluster-management-image-pull-credentials";

/// A write that makes the pull secret of a namespace equal to the original.
#[derive(Clone, Debug, PartialEq)]
pub enum PullSecretChange {
    /// The copy is applied.
    Apply(Object),
    /// The secret is deleted. Its type cannot change, or its original is gone.
    Delete,
}

/// Returns the change of the pull secret of a namespace. A secret without an original that is no copy of this
/// operator stays.
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

/// Returns whether this operator made the pull secret of a namespace.
pub fn is_copy(secret: &Object) -> bool {
    secret.annotations().contains_key(APPLIED_DIGEST_ANNOTATION)
}
