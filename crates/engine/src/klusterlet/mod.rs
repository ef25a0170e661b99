//! The installation of an agent from a Klusterlet: the wanted objects and the status.
//!
//! [`KlusterletSettings::read`] parses the spec once, and lists the fields that change nothing. The names of
//! objects, the command lines and the labels of pods are those of OCM's registration operator: either
//! operator can take over an installation of the other, with OCM's images or ours.

mod access;
mod conditions;
mod deployment;
mod pull_secret;
mod settings;

pub use access::{AccessObjects, access, left_by_ocm};
pub use conditions::{InstalledObjects, Secrets, conditions, generations, prepared, related};
pub(crate) use conditions::{fields_ignored, valid_gates};
pub(crate) use deployment::number;
pub use deployment::{cleanup, deployments, is_available, is_drained, is_shaped_by_others};
pub use pull_secret::{PULL_SECRET, PullSecretChange, is_copy, pull_secret_change};
pub(crate) use settings::resources;
pub use settings::{KlusterletRefusal, KlusterletSettings};

use sha2::{Digest as _, Sha256};

use api::names::APPLIED_DIGEST_ANNOTATION;
use object::{Object, hex};

/// The secret with the kubeconfig of the managed cluster, beside a hosted agent.
pub const MANAGED_SECRET: &str = "external-managed-kubeconfig";
/// The environment variable with the labels of a ManagedCluster that the agent creates. Agents of OCM refuse
/// flags that they do not know.
pub const CLUSTER_LABELS_VARIABLE: &str = "WHEELWRIGHT_CLUSTER_LABELS";
/// The field manager of all objects of a Klusterlet, and the name of the controller.
pub const MANAGER: &str = "klusterlet";

/// Writes the digest of an object into its annotations. It distinguishes a field that this operator wanted
/// before from a field of another client.
#[must_use]
pub(crate) fn with_digest(mut object: Object) -> Object {
    let text = serde_json::to_string(&object.0).unwrap_or_default();
    let digest = hex(Sha256::digest(text.as_bytes()));
    let annotations = object.metadata_mut().entry("annotations").or_insert_with(|| serde_json::json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(APPLIED_DIGEST_ANNOTATION.into(), digest.into());
    }
    object
}

/// Returns whether a live object has the content that a manager wanted and applied.
pub fn is_applied(live: &Object, wanted: &Object, manager: &str) -> bool {
    let digest = |object: &Object| {
        object.annotations().get(APPLIED_DIGEST_ANNOTATION).map(|digest| (*digest).to_owned())
    };
    digest(live) == digest(wanted) && object::fields::is_as_applied(live, wanted, manager)
}

#[cfg(test)]
mod tests;
