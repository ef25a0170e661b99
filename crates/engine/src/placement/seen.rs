//! What placements see of a cluster.

use super::prioritizer;
use api::cluster::v1::ManagedCluster;
use object::Metadata as _;

/// A cluster as placements without CEL expressions see it: two states are equal if no predicate and no
/// prioritizer tells them apart.
pub struct SeenCluster<'a>(pub &'a ManagedCluster);

impl PartialEq for SeenCluster<'_> {
    fn eq(&self, other: &Self) -> bool {
        fields(self.0) == fields(other.0) && !prioritizer::differs(self.0, other.0)
    }
}

/// Returns the fields that predicates and tolerations read.
fn fields(cluster: &ManagedCluster) -> impl PartialEq + '_ {
    let claims = cluster.status.as_ref().map(|status| &status.cluster_claims);
    (cluster.is_terminating(), &cluster.metadata.labels, &cluster.spec.taints, claims)
}
