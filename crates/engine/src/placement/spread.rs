//! The select stage for clusters that are spread over topology domains.
//!
//! Without constraints, the best `numberOfClusters` are selected. With constraints, clusters are selected one by
//! one. Each must satisfy all hard constraints. Among those, the clusters that violate the soft constraints
//! least come first, and the best of them is selected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::filter::ClusterAttributes;
use super::fleet::Id;
use api::cluster::v1beta1::{SpreadConstraint, TopologyKeyType, UnsatisfiableAction};

/// A spread constraint: the topology key, and the allowed skew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The label or claim whose values are the domains.
    pub key: String,
    /// True if the key is a claim.
    pub is_claim: bool,
    /// The maximum difference in the number of clusters between two domains.
    pub max_skew: usize,
    /// True if clusters that violate the constraint cannot be selected.
    pub is_hard: bool,
}

/// The excess of a cluster without the key. As in Kubernetes, it is in no domain, and it comes after all others.
const NO_DOMAIN: usize = usize::MAX / 16;

impl Constraint {
    /// Parses a constraint. A skew below 1 counts as 1.
    pub fn read(constraint: &SpreadConstraint) -> Self {
        let SpreadConstraint { topology_key, topology_key_type, max_skew, when_unsatisfiable, unknown: _ } =
            constraint;
        Self {
            key: topology_key.clone(),
            is_claim: *topology_key_type == TopologyKeyType::Claim,
            max_skew: usize::try_from(*max_skew).unwrap_or(1).max(1),
            is_hard: *when_unsatisfiable == UnsatisfiableAction::DoNotSchedule,
        }
    }

    /// Returns the domain of a cluster.
    pub(crate) fn domain<'a>(&self, attributes: &'a ClusterAttributes) -> Option<&'a str> {
        if self.is_claim { attributes.claim(&self.key) } else { attributes.label(&self.key) }
    }
}

/// The number of selected clusters in each domain of a constraint.
type Counts<'a> = BTreeMap<&'a str, usize>;

/// Selects at most `wanted` clusters. `ranked` lists the best first.
pub(super) fn spread<'a>(
    ranked: impl Iterator<Item = (Id, &'a ClusterAttributes)>,
    constraints: &[Constraint],
    wanted: Option<usize>,
) -> BTreeSet<Id> {
    let mut counts: Vec<Counts<'a>> = constraints.iter().map(|_| Counts::new()).collect();
    let mut buckets: BTreeMap<Vec<Option<&'a str>>, VecDeque<(usize, Id)>> = BTreeMap::new();
    for (rank, (id, attributes)) in ranked.enumerate() {
        let domains: Vec<_> = constraints.iter().map(|constraint| constraint.domain(attributes)).collect();
        for (counts, domain) in counts.iter_mut().zip(&domains) {
            domain.map(|domain| counts.entry(domain).or_default());
        }
        buckets.entry(domains).or_default().push_back((rank, id));
    }
    let mut taken = BTreeSet::new();
    while taken.len() < wanted.unwrap_or(usize::MAX) {
        let least: Vec<usize> =
            counts.iter().map(|counts| counts.values().min().copied().unwrap_or_default()).collect();
        let candidates = buckets.iter_mut().filter_map(|(domains, waiting)| {
            let (rank, _) = *waiting.front()?;
            let cost = cost(constraints, &counts, &least, domains)?;
            Some(((cost, rank), domains, waiting))
        });
        let Some((_, domains, waiting)) = candidates.min_by_key(|(order, ..)| *order) else { break };
        taken.extend(waiting.pop_front().map(|(_, id)| id));
        for (counts, domain) in counts.iter_mut().zip(domains) {
            if let Some(count) = domain.and_then(|domain| counts.get_mut(domain)) {
                *count += 1;
            }
        }
    }
    taken
}

/// Returns the amount by which another cluster in these domains would violate the soft constraints; `None` if it
/// would violate a hard one.
fn cost(
    constraints: &[Constraint],
    counts: &[Counts<'_>],
    least: &[usize],
    domains: &[Option<&str>],
) -> Option<usize> {
    let mut cost = 0_usize;
    for (((constraint, counts), least), domain) in constraints.iter().zip(counts).zip(least).zip(domains) {
        let excess = match domain {
            Some(domain) => (counts.get(domain).copied().unwrap_or_default() + 1)
                .saturating_sub(least + constraint.max_skew),
            None => NO_DOMAIN,
        };
        if constraint.is_hard && excess > 0 {
            return None;
        }
        cost = cost.saturating_add(excess);
    }
    Some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cluster::v1::ManagedCluster;

    fn check(zones: &[&str], max_skew: usize, is_hard: bool, wanted: Option<usize>) -> Vec<Id> {
        let clusters = zones.iter().map(|zone| {
            let mut cluster = ManagedCluster::default();
            cluster.metadata.labels =
                (!zone.is_empty()).then(|| [("zone".to_owned(), (*zone).to_owned())].into());
            ClusterAttributes::from_cluster(&cluster)
        });
        let clusters: Vec<ClusterAttributes> = clusters.collect();
        let constraint = Constraint { key: "zone".into(), is_claim: false, max_skew, is_hard };
        spread((0..).zip(&clusters), &[constraint], wanted).into_iter().collect()
    }

    #[test]
    fn hard_constraints_leave_clusters_out() {
        assert_eq!(check(&["a", "a", "a", "b"], 1, true, None), [0, 1, 3]);
        assert_eq!(check(&["a", "a", "a", "b"], 2, true, None), [0, 1, 2, 3]);
        assert_eq!(check(&["a", "", "b"], 1, true, None), [0, 2]);
    }

    #[test]
    fn soft_constraints_only_change_the_order() {
        assert_eq!(check(&["a", "a", "a", "b"], 1, false, Some(2)), [0, 3]);
        assert_eq!(check(&["a", "a", "a", "b"], 1, false, Some(4)), [0, 1, 2, 3]);
        assert_eq!(check(&["", "a", "a"], 1, false, Some(2)), [1, 2]);
    }
}
