//! What keeps a cluster out of a placement: predicates first, then taints.

pub mod cel;
pub mod predicate;
pub mod taint;

use jiff::Timestamp;

use crate::api::cluster::v1::ManagedCluster;

/// How far a cluster came through the filters; the order is that of the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verdict {
    /// There is no such cluster, or it is being deleted. Nothing brings it back, so its decision goes at once.
    #[default]
    Gone,
    /// It is in none of the sets the placement may use.
    Outside,
    /// No predicate matches it.
    Unmatched,
    /// It has a taint that is not tolerated.
    Tainted,
    /// It had a taint whose toleration has expired; that was announced, so its decision goes at once.
    Expired,
    /// It may be selected.
    Feasible,
}

/// The labels of a cluster, looked up one at a time.
pub fn label<'a>(cluster: &'a ManagedCluster, key: &str) -> Option<&'a str> {
    cluster.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// The claims of a cluster, looked up one at a time; of two with one name the later counts.
pub fn claim<'a>(cluster: &'a ManagedCluster, name: &str) -> Option<&'a str> {
    let claims = &cluster.status.as_ref()?.cluster_claims;
    claims.iter().rev().find(|claim| claim.name == name).map(|claim| claim.value.as_str())
}

/// What the taints of a cluster mean for a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerated {
    /// When the first toleration it depends on expires.
    pub until: Option<Timestamp>,
    /// Whether the cluster should come after those without such taints.
    pub avoid: bool,
}
