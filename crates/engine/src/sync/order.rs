//! In which order kinds of the hub are applied.

use object::Gvk;

/// The stage in which a kind is applied; stages go in order, and deletions in the reverse order.
///
/// 0: what makes room for others (namespaces, definitions). 1: identities and rights. 2: content that others refer to.
/// 3: everything else. 4: what sets a rollout going, when all it refers to is there. 5: what intercepts requests.
pub fn stage(gvk: &Gvk) -> u8 {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => 0,
        ("", "ServiceAccount" | "ResourceQuota" | "LimitRange")
        | ("rbac.authorization.k8s.io", _)
        | ("scheduling.k8s.io", "PriorityClass")
        | ("storage.k8s.io", "StorageClass") => 1,
        ("", "Secret" | "ConfigMap")
        | ("addon.open-cluster-management.io", "AddOnTemplate" | "AddOnDeploymentConfig")
        | ("cluster.open-cluster-management.io", "ManagedClusterSet" | "ManagedClusterSetBinding")
        | ("gitops.wheelwright.dev", "RolloutPolicy") => 2,
        ("addon.open-cluster-management.io", "ClusterManagementAddOn")
        | ("work.open-cluster-management.io", "ManifestWorkReplicaSet") => 4,
        ("admissionregistration.k8s.io", _) | ("apiregistration.k8s.io", "APIService") => 5,
        _ => 3,
    }
}

/// The number of stages.
pub(super) const STAGES: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first() {
        let order = [
            ("v1", "Namespace"),
            ("v1", "ServiceAccount"),
            ("addon.open-cluster-management.io/v1alpha1", "AddOnTemplate"),
            ("cluster.open-cluster-management.io/v1beta1", "Placement"),
            ("addon.open-cluster-management.io/v1alpha1", "ClusterManagementAddOn"),
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ];
        let stages: Vec<_> = order.iter().map(|(version, kind)| stage(&Gvk::parse(version, kind))).collect();
        assert_eq!(stages, [0, 1, 2, 3, 4, 5]);
        assert!(stages.iter().all(|stage| *stage < STAGES));
    }
}
