//! Installs an agent from a Klusterlet: the desired objects and the status.
//!
//! [`KlusterletSettings::read`] parses the spec once and lists the fields without effect. Object names, command
//! lines and pod labels match OCM's registration operator. Either operator can take over an installation of the
//! other, with OCM's images or ours.

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

/// The secret with the managed cluster's kubeconfig, for a hosted agent.
pub const MANAGED_SECRET: &str = "external-managed-kubeconfig";
/// The environment variable with the labels for a ManagedCluster that the agent creates. It is not a flag,
/// because OCM's agents reject unknown flags.
pub const CLUSTER_LABELS_VARIABLE: &str = "WHEELWRIGHT_CLUSTER_LABELS";
/// The field manager of all objects of a Klusterlet, and the controller name.
pub const MANAGER: &str = "klusterlet";

/// Adds the digest of an object to its annotations. It distinguishes fields that this operator wanted earlier
/// from fields of other clients.
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

/// Returns true if a live object has the desired content, as applied by the manager.
pub fn is_applied(live: &Object, wanted: &Object, manager: &str) -> bool {
    let digest = |object: &Object| {
        object.annotations().get(APPLIED_DIGEST_ANNOTATION).map(|digest| (*digest).to_owned())
    };
    digest(live) == digest(wanted) && object::fields::is_as_applied(live, wanted, manager)
}

#[cfg(test)]
mod tests;
