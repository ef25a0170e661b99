//! The apply orders of kinds for the hub and for spokes.
//!
//! The hub's order is ours: it knows OCM's kinds, and it ends with kinds that start a rollout or intercept
//! requests. The spoke's order is the same as in OCM's agent, so that a ManifestWork leads to the same sequence
//! of writes with either agent.

use crate::registration::rbac::RBAC;
use api::names::{ADDON_GROUP, CLUSTER_GROUP, GITOPS_GROUP, WORK_GROUP};
use object::Gvk;

/// Returns the stage in which a kind is applied to the hub. Stages are applied in ascending order and deleted in
/// descending order.
///
/// [`ROOM`]: kinds that others need to exist (namespaces, definitions). 1: identities and roles.
/// [`PERMISSIONS`]: role bindings, which an API server rejects if the role does not exist. 3: content that
/// others refer to. 4: everything else. 5: kinds that start a rollout, after everything that they refer to. 6:
/// kinds that intercept requests.
pub(crate) fn hub_stage(gvk: &Gvk) -> u8 {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => ROOM,
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => PERMISSIONS,
        ("", "ServiceAccount" | "ResourceQuota" | "LimitRange")
        | (RBAC, _)
        | ("scheduling.k8s.io", "PriorityClass")
        | ("storage.k8s.io", "StorageClass") => 1,
        ("", "Secret" | "ConfigMap")
        | (ADDON_GROUP, "AddOnTemplate" | "AddOnDeploymentConfig")
        | (CLUSTER_GROUP, "ManagedClusterSet" | "ManagedClusterSetBinding")
        | (GITOPS_GROUP, "RolloutPolicy") => 3,
        (ADDON_GROUP, "ClusterManagementAddOn") | (WORK_GROUP, "ManifestWorkReplicaSet") => 5,
        ("admissionregistration.k8s.io", _) | ("apiregistration.k8s.io", "APIService") => 6,
        _ => 4,
    }
}

/// The stage of namespaces and definitions.
pub(crate) const ROOM: u8 = 0;

/// The stage of role bindings. Permissions are complete once it is applied.
pub(crate) const PERMISSIONS: u8 = 2;

/// The number of stages in [`hub_stage`].
pub(crate) const HUB_STAGES: u8 = 7;

/// Returns the position of a kind in the order in which OCM's agent applies manifests, lowest first.
pub fn spoke_rank(kind: &str) -> u32 {
    match kind {
        "PriorityClass"
        | "Namespace"
        | "CustomResourceDefinition"
        | "StorageClass"
        | "PersistentVolume"
        | "PodSecurityPolicy" => 0,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => 1,
        "NetworkPolicy" | "ResourceQuota" | "LimitRange" | "PodDisruptionBudget" | "ServiceAccount" => 2,
        "Secret" | "ConfigMap" | "PersistentVolumeClaim" => 3,
        "Service" => 4,
        "DaemonSet"
        | "Pod"
        | "ReplicationController"
        | "ReplicaSet"
        | "Deployment"
        | "HorizontalPodAutoscaler"
        | "StatefulSet"
        | "Job"
        | "CronJob" => 5,
        "APIService"
        | "MutatingWebhookConfiguration"
        | "ValidatingWebhookConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding" => 6,
        _ => 1000,
    }
}

/// Returns true if deleting objects in an API group may need a program in the cluster, such as an operator that
/// removes a finalizer. Kubernetes itself serves the other groups.
pub fn needs_its_controller(group: &str) -> bool {
    let name = group.strip_suffix(".k8s.io").unwrap_or(group);
    name.contains('.') && !matches!(name, "rbac.authorization" | "flowcontrol.apiserver")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first() {
        let order = [
            ("v1", "Namespace"),
            ("v1", "ServiceAccount"),
            ("rbac.authorization.k8s.io/v1", "RoleBinding"),
            ("addon.open-cluster-management.io/v1alpha1", "AddOnTemplate"),
            ("cluster.open-cluster-management.io/v1beta1", "Placement"),
            ("addon.open-cluster-management.io/v1alpha1", "ClusterManagementAddOn"),
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ];
        let stages: Vec<_> =
            order.iter().map(|(version, kind)| hub_stage(&Gvk::parse(version, kind))).collect();
        assert_eq!(stages, [0, 1, 2, 3, 4, 5, 6]);
        assert!(stages.iter().all(|stage| *stage < HUB_STAGES));
    }

    #[test]
    fn kinds_of_kubernetes_need_no_controller_of_the_cluster() {
        for group in ["", "apps", "networking.k8s.io", "apiextensions.k8s.io", "rbac.authorization.k8s.io"] {
            assert!(!needs_its_controller(group), "{group}");
        }
        for group in ["example.com", "cluster.x-k8s.io", "gateway.networking.k8s.io"] {
            assert!(needs_its_controller(group), "{group}");
        }
    }
}
