//! Strings of ClusterProfile, the cluster inventory of SIG Multicluster.

/// API group of ClusterProfile.
pub const MULTICLUSTER_GROUP: &str = "multicluster.x-k8s.io";
/// Label of a profile: the cluster manager that writes it.
pub const CLUSTER_MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
/// OCM's name as a cluster manager.
pub const CLUSTER_MANAGER: &str = super::OCM_NAMESPACE;
/// Label of a profile: the exclusive cluster set of its cluster.
pub const PROFILE_SET_LABEL: &str = "multicluster.x-k8s.io/clusterset";
/// Condition of a profile: the control plane of the cluster is healthy.
pub const CONTROL_PLANE_HEALTHY: &str = "ControlPlaneHealthy";
/// Condition of a profile: the cluster has joined its cluster manager.
pub const PROFILE_JOINED: &str = "Joined";
/// Name of the ClusterRole, and its binding, that let the operator write profiles.
pub const CLUSTER_PROFILES_ROLE: &str = "wheelwright-operator-cluster-profiles";
