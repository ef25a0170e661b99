//! Cluster profiles.

mod cluster_profile;

pub use cluster_profile::{
    ClusterProfile, ClusterProfileManager, ClusterProfileProperty, ClusterProfileSpec, ClusterProfileStatus,
    ClusterProfileVersion,
};
