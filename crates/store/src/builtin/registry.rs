//! All built-in kinds, as the resources that stores serve.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::{
    BuiltinKind, admissionregistration, apiextensions, apps, autoscaling, batch, certificates, coordination,
    core, discovery, events, networking, node, policy, rbac, scheduling, storage,
};
use crate::schema::{Collector, Definitions};
use crate::{ApiResource, ApiResources, Convert};

static GROUPS: [&[&BuiltinKind]; 16] = [
    core::KINDS,
    admissionregistration::KINDS,
    apiextensions::KINDS,
    apps::KINDS,
    autoscaling::KINDS,
    batch::KINDS,
    certificates::KINDS,
    coordination::KINDS,
    discovery::KINDS,
    events::KINDS,
    networking::KINDS,
    node::KINDS,
    policy::KINDS,
    rbac::KINDS,
    scheduling::KINDS,
    storage::KINDS,
];

fn kinds() -> impl Iterator<Item = &'static BuiltinKind> {
    GROUPS.iter().copied().flatten().copied()
}

/// The schemas of all built-in kinds.
pub(crate) static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
    let mut collector = Collector::new();
    for kind in kinds() {
        (kind.collect)(&mut collector);
    }
    collector.finish(kinds().flat_map(|kind| kind.defaults))
});

static RESOURCES: LazyLock<(ApiResources, ApiResources)> = LazyLock::new(|| {
    let with_id = |resource: ApiResource| (resource.id(), Arc::new(resource));
    let (aliases, stored): (Vec<_>, Vec<_>) = kinds().partition(|kind| kind.stored_as.is_some());
    let resources =
        |kinds: Vec<&'static BuiltinKind>| kinds.into_iter().map(|kind| with_id(kind.resource())).collect();
    (resources(stored), resources(aliases))
});

/// Returns the built-in resources, which all stores share.
pub(crate) fn resources() -> ApiResources {
    RESOURCES.0.clone()
}

/// Returns resources that show the objects of another one, because two groups serve events.
pub(crate) fn aliases() -> ApiResources {
    RESOURCES.1.clone()
}

/// Returns the conversions of built-in kinds whose versions differ in more than their name, by group and kind.
pub(crate) fn conversions() -> BTreeMap<(String, String), Convert> {
    let with_key = |kind: &BuiltinKind| Some(((kind.group.to_owned(), kind.kind.to_owned()), kind.convert?));
    kinds().filter_map(with_key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds that hold data, or that the store, its HTTP server or their readers act on.
    const IN_FORCE: &[&str] = &[
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "ControllerRevision",
        "CustomResourceDefinition",
        "Event",
        "Lease",
        "Namespace",
        "Role",
        "RoleBinding",
        "Secret",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    /// Kinds that are rejected because the API server cannot act on them.
    const REFUSED: &[&str] =
        &["MutatingAdmissionPolicy", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    /// Kinds that promise a limit or protection that does not exist here, which a warning points out.
    const WARNED_OF: &[&str] = &[
        "HorizontalPodAutoscaler",
        "LimitRange",
        "MutatingAdmissionPolicyBinding",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "ResourceQuota",
    ];
    /// Kinds about pods, nodes and volumes, which the embedded hub does not have. They promise nothing to their
    /// authors, their status says that nothing runs, and simulated spokes have many of them.
    const OF_WORKLOADS: &[&str] = &[
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "CronJob",
        "DaemonSet",
        "Deployment",
        "EndpointSlice",
        "Endpoints",
        "Ingress",
        "IngressClass",
        "Job",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "PriorityClass",
        "ReplicaSet",
        "ReplicationController",
        "RuntimeClass",
        "Service",
        "StatefulSet",
        "StorageClass",
        "VolumeAttachment",
    ];

    #[test]
    fn every_kind_is_in_force_refused_warned_of_or_of_workloads() {
        let mut listed: Vec<&str> = [IN_FORCE, REFUSED, WARNED_OF, OF_WORKLOADS].concat();
        let mut known: Vec<&str> = kinds().map(|kind| kind.kind).collect();
        listed.sort_unstable();
        known.sort_unstable();
        known.dedup();
        assert_eq!(listed, known);
        for kind in kinds() {
            let expected = WARNED_OF.contains(&kind.kind);
            assert_eq!(kind.not_enforced.is_some(), expected, "{} warns", kind.kind);
        }
    }
}
