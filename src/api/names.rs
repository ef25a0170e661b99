//! Every string that lives in clusters. Changing one is a breaking change.

/// Labels that caches index, because controllers look objects up by them.
pub const INDEXED_LABELS: &[&str] = &[
    "cluster.open-cluster-management.io/placement",
    "cluster.open-cluster-management.io/clusterset",
    "open-cluster-management.io/addon-name",
    "open-cluster-management.io/cluster-name",
];
