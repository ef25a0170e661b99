//! The list of a ClusterDecision, from which the generator of an Argo CD ApplicationSet creates one application
//! per entry.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use api::gitops::v1alpha1::{ClusterDecisionStatus, HeldDecisions};
use object::hex;

/// The maximum number of clusters that may leave a list at once without an approval: the larger of a number and
/// a percentage.
const BUDGET: (usize, usize) = (5, 5);
/// The maximum number of held clusters listed in a status.
const LISTED: usize = 10;
/// The maximum size of a list. etcd accepts requests of 1.5 MiB.
const MAX_BYTES: usize = 1_000_000;

/// The entry of a cluster: values by key.
pub type DecisionEntry = BTreeMap<String, String>;

/// Returns the next list, given the desired entries by cluster and the published list.
///
/// Argo CD removes the applications of a cluster that leaves the list. If more clusters leave than the budget
/// allows, or if the list would become empty, they stay listed until `approved` matches exactly this set. An
/// approval counts only once.
///
/// # Errors
/// Fails if the list is too large for an object.
pub fn decision_list(
    wanted: BTreeMap<String, DecisionEntry>,
    published: Option<&ClusterDecisionStatus>,
    approved: &str,
) -> Result<ClusterDecisionStatus, String> {
    let (published, mut last_approval) = published
        .map(|status| (status.decisions.as_slice(), status.last_approval.clone()))
        .unwrap_or_default();
    let name = |entry: &DecisionEntry| entry.get("clusterName").cloned().unwrap_or_default();
    let before = published.iter().map(|entry| (name(entry), entry));
    let left: BTreeMap<String, &DecisionEntry> =
        before.filter(|(name, _)| !wanted.contains_key(name)).collect();
    let allowed = BUDGET.0.max(published.len() * BUDGET.1 / 100);
    let message = if left.is_empty() {
        None
    } else if wanted.is_empty() {
        Some("the placement no longer selects any cluster".to_owned())
    } else if left.len() > allowed {
        Some(format!(
            "{} clusters would leave the list at once; at most {allowed} may without an approval",
            left.len()
        ))
    } else {
        None
    };
    let hash = Sha256::new().chain_update(&last_approval);
    let hash = left.keys().fold(hash, |hash, name| hash.chain_update(format!("{name}\n")));
    let approval = hex(hash.finalize().get(..8).unwrap_or_default());
    let mut entries = wanted;
    let held = match message {
        Some(_) if approval == approved => {
            last_approval = approval;
            None
        }
        Some(message) => {
            entries.extend(left.iter().map(|(name, entry)| (name.clone(), (*entry).clone())));
            let (total, clusters) = (count(left.len()), left.into_keys().take(LISTED).collect());
            Some(HeldDecisions { approval, total, clusters, message, ..HeldDecisions::default() })
        }
        None => None,
    };
    let size = |entry: &DecisionEntry| {
        entry.iter().map(|(field, value)| field.len() + value.len() + 6).sum::<usize>()
    };
    let bytes: usize = entries.values().map(size).sum();
    if bytes > MAX_BYTES {
        return Err(format!("the list has {bytes} bytes, more than {MAX_BYTES}"));
    }
    let clusters = count(entries.len());
    let decisions = entries.into_values().collect();
    Ok(ClusterDecisionStatus { decisions, clusters, held, last_approval, ..ClusterDecisionStatus::default() })
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, wave: &str) -> DecisionEntry {
        [("clusterName", name), ("wave", wave)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn wanted(range: std::ops::Range<usize>) -> BTreeMap<String, DecisionEntry> {
        range.map(|i| format!("c{i:02}")).map(|name| (name.clone(), entry(&name, "0"))).collect()
    }

    fn names(status: &ClusterDecisionStatus) -> Vec<&str> {
        status.decisions.iter().map(|entry| entry["clusterName"].as_str()).collect()
    }

    #[test]
    fn a_list_loses_a_few_clusters_at_once_and_more_with_an_approval_of_exactly_them() {
        let all = decision_list(wanted(0..20), None, "").unwrap();
        assert_eq!((all.clusters, &all.held), (20, &None));
        let few = decision_list(wanted(5..25), Some(&all), "").unwrap();
        assert_eq!((few.clusters, few.held), (20, None));
        let many = decision_list(wanted(6..25), Some(&all), "").unwrap();
        let held = many.held.clone().unwrap();
        assert_eq!((many.clusters, held.total, held.clusters.len()), (25, 6, 6));
        assert_eq!(
            held.message,
            "6 clusters would leave the list at once; at most 5 may without an approval"
        );
        let approved = decision_list(wanted(6..25), Some(&many), &held.approval).unwrap();
        assert_eq!((approved.clusters, approved.held), (19, None));
        let other = decision_list(wanted(7..25), Some(&many), &held.approval).unwrap();
        assert_eq!(other.clusters, 25, "the approval was for other clusters");
    }

    #[test]
    fn an_approval_counts_once() {
        let all = decision_list(wanted(0..20), None, "").unwrap();
        let first = decision_list(wanted(6..20), Some(&all), "").unwrap().held.unwrap().approval;
        let left = decision_list(wanted(6..20), Some(&all), &first).unwrap();
        assert_eq!((left.clusters, &left.held), (14, &None));
        let restored = decision_list(wanted(0..20), Some(&left), &first).unwrap();
        assert_eq!((restored.clusters, &restored.held), (20, &None));
        let again = decision_list(wanted(6..20), Some(&restored), &first).unwrap();
        assert_eq!((again.clusters, again.held.is_some()), (20, true), "it is another removal");
        let second = again.held.clone().unwrap().approval;
        let left = decision_list(wanted(6..20), Some(&again), &second).unwrap();
        assert_eq!((left.clusters, left.held), (14, None));
    }

    #[test]
    fn a_list_becomes_empty_only_with_an_approval() {
        let one = decision_list(wanted(0..1), None, "").unwrap();
        let none = decision_list(BTreeMap::new(), Some(&one), "").unwrap();
        let held = none.held.clone().unwrap();
        assert_eq!(
            (names(&none), held.message.as_str()),
            (vec!["c00"], "the placement no longer selects any cluster")
        );
        let approved = decision_list(BTreeMap::new(), Some(&none), &held.approval).unwrap();
        assert_eq!((approved.clusters, approved.held), (0, None));
    }

    #[test]
    fn a_list_that_is_too_large_for_an_object_is_refused() {
        let list = |bytes: usize| {
            let entry: DecisionEntry = [("f".to_owned(), "x".repeat(bytes - "f".len() - 6))].into();
            decision_list([("c".to_owned(), entry)].into(), None, "")
        };
        assert!(list(MAX_BYTES).is_ok());
        let refused = list(MAX_BYTES + 1).unwrap_err();
        assert_eq!(refused, "the list has 1000001 bytes, more than 1000000");
    }

    #[test]
    fn a_large_list_loses_a_share_of_its_clusters_at_once_and_names_a_few_that_are_held() {
        let all = decision_list(wanted(0..300), None, "").unwrap();
        let lost = |range| decision_list(wanted(range), Some(&all), "").unwrap().held;
        assert_eq!(lost(15..300), None);
        let held = lost(16..300).unwrap();
        assert_eq!((held.total, held.clusters.len()), (16, LISTED));
    }
}
