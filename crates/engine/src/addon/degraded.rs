//! Reports problems of an add-on on its cluster, and related objects for debugging.
//!
//! OCM defines the condition `Degraded` and `relatedObjects`, but writes neither.

use super::hosting::Host;
use super::works_status::WorksStatus;
use api::addon::v1alpha1::ObjectReference;
use api::condition::ConditionStatus::{False, True};
use api::condition::Observation;
use api::names::addon_conditions::{
    DEGRADED, HOSTING_MANIFEST_APPLIED, MANIFEST_APPLIED, REGISTRATION_APPLIED,
};
use api::work::v1::ManifestWork;
use object::{Gvk, Key, Metadata as _, ObjectRef};

/// The reason while an object is unhealthy.
pub(super) const PROBE_UNAVAILABLE: &str = "ProbeUnavailable";
/// The reason when an object has failed.
pub(super) const WORKLOAD_FAILED: &str = "WorkloadFailed";
/// The reason when the API server of the cluster rejects an object.
pub(super) const MANIFEST_REJECTED: &str = "AddonManifestAppliedFailed";

/// The reason when the Secrets of a work cannot be encrypted for its cluster.
pub(super) const SECRETS_NOT_ENCRYPTED: &str = "SecretsNotEncrypted";

/// Returns the condition `Degraded`; `None` until the agent has reported on the current works, for example after
/// a takeover from OCM's add-on manager.
///
/// `error` is the reason that the add-on has no manifests. The works of an add-on without manifests count as
/// [`WorksStatus::Done`].
pub fn condition(host: &Host, error: Option<&str>, works: &WorksStatus) -> Option<Observation> {
    let degraded =
        |reason: &str, message: &str| Some(Observation::new(DEGRADED, True, reason).message(message));
    if let Host::Invalid(message) = host {
        return degraded("HostingClusterInvalid", message);
    }
    match (error, works) {
        (Some(message), _) => degraded("ManifestWorkApplyFailed", message),
        (None, WorksStatus::Unsealed(message)) => degraded(SECRETS_NOT_ENCRYPTED, message),
        (None, WorksStatus::Refused(message)) => degraded(MANIFEST_REJECTED, message),
        (None, WorksStatus::Failed(message)) => degraded(WORKLOAD_FAILED, message),
        (None, WorksStatus::NotReady(message) | WorksStatus::NotHealthy(message)) => {
            degraded(PROBE_UNAVAILABLE, message)
        }
        (None, WorksStatus::NoWorks) => degraded("WorkNotFound", "no addon works"),
        (None, WorksStatus::Unreported(_)) => None,
        (None, WorksStatus::OtherConfig | WorksStatus::Done) => {
            Some(Observation::new(DEGRADED, False, "AsExpected"))
        }
    }
}

/// Returns true if this `Degraded` reason comes from the works of an add-on.
pub fn is_by_works(reason: &str) -> bool {
    [SECRETS_NOT_ENCRYPTED, MANIFEST_REJECTED, WORKLOAD_FAILED, PROBE_UNAVAILABLE].contains(&reason)
}

/// Returns the conditions of an add-on if the API server refuses a work or a permission of its agent. Whoever
/// deploys the add-on can grant only permissions that they have. `None` for other objects.
pub fn refused_write(addon: &Key, target: &ObjectRef, reason: &str) -> Option<[Observation; 2]> {
    let failed = match target.gvk.kind.as_str() {
        "Role" | "RoleBinding" => Observation::new(REGISTRATION_APPLIED, False, "SetPermissionFailed")
            .message(format!("Failed to set permission for hub agent: {reason}")),
        "ManifestWork" => {
            let is_here = target.key.namespace == addon.namespace;
            let type_ = if is_here { MANIFEST_APPLIED } else { HOSTING_MANIFEST_APPLIED };
            Observation::new(type_, False, "ManifestWorkApplyFailed")
                .message(format!("failed to apply manifestWork: {reason}"))
        }
        _ => return None,
    };
    let degraded = Observation { type_: DEGRADED.into(), status: True, ..failed.clone() };
    Some([failed, degraded])
}

/// Returns references to works, as related objects of their add-on.
pub fn related_objects(works: &[&ManifestWork]) -> Vec<ObjectReference> {
    let related = |work: &&ManifestWork| ObjectReference {
        group: Gvk::of::<ManifestWork>().group,
        resource: "manifestworks".into(),
        namespace: work.namespace().to_owned(),
        name: work.name().to_owned(),
        ..ObjectReference::default()
    };
    works.iter().map(related).collect()
}
