//! The clusters selected by the placements of an add-on.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::rollout::cluster::{Group, GroupKey};
use api::cluster::v1beta1::{DecisionGroupStatus, Placement, PlacementDecision};
use api::names::{DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL};
use object::duration::later;

/// The time for which decisions of another scheduler must stay the same to count as complete. A scheduler that
/// dies between two pages is restarted within five minutes, the longest backoff of a kubelet.
const UNCHANGED_FOR: SignedDuration = SignedDuration::from_mins(10);

/// The reason that a rollout waits for the decisions of a placement.
pub const UNDECIDED: &str = "the decisions of a placement are not complete yet";

/// The clusters of one placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The clusters by group.
    pub groups: Vec<Group>,
    /// True if the list is complete. Until then, missing clusters may still be selected.
    pub settled: bool,
    /// The time at which the list counts as complete if nothing changes; `None` if time alone does not complete
    /// it.
    pub settles: Option<Timestamp>,
}

impl Selection {
    /// Reads the decisions of a placement.
    ///
    /// They are complete if the placement exists, has been scheduled, and has as many clusters in each group as
    /// its status says. A cluster that moves between pages is briefly on neither. See
    /// docs/hazards.md#cluster-between-pages. A page may get its group after its clusters. See
    /// docs/hazards.md#late-group.
    pub fn read<'a>(
        placement: Option<&Placement>,
        decisions: impl IntoIterator<Item = &'a PlacementDecision>,
    ) -> Self {
        let mut groups: BTreeMap<GroupKey, Vec<String>> = BTreeMap::new();
        let mut clusters = BTreeSet::new();
        for decision in decisions {
            let label = |name: &str| {
                decision.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str)
            };
            // A non-numeric label sorts last, so that it does not block the add-on. See
            // docs/hazards.md#bad-group-index.
            let index =
                label(DECISION_GROUP_INDEX_LABEL).map_or(0, |index| index.parse().unwrap_or(i32::MAX));
            let key =
                GroupKey { index, name: label(DECISION_GROUP_NAME_LABEL).unwrap_or_default().to_owned() };
            let decided =
                decision.status.iter().flat_map(|status| &status.decisions).map(|d| d.cluster_name.clone());
            let new = decided.filter(|cluster| clusters.insert(cluster.clone()));
            groups.entry(key).or_default().extend(new);
        }
        let expected =
            placement.and_then(|p| p.status.as_ref()).filter(|status| !status.conditions.is_empty());
        let settled = expected.is_some_and(|status| {
            let selected = usize::try_from(status.number_of_selected_clusters);
            selected == Ok(clusters.len()) && has_groups(&groups, &status.decision_groups)
        });
        let groups = groups.into_iter().map(|(key, clusters)| Group { key, clusters }).collect();
        Self { groups, settled, settles: None }
    }

    /// Treats the decisions of another scheduler as complete after ten minutes without a change. Such a
    /// scheduler may write no status with the number of decisions. See docs/hazards.md#no-status.
    pub fn settle(&mut self, unchanged_since: Timestamp, now: Timestamp) {
        if !self.settled {
            let at = later(unchanged_since, UNCHANGED_FOR);
            self.settled = at <= now;
            self.settles = Some(at).filter(|at| *at > now);
        }
    }

    /// Returns true if a rollout can use the list: it is complete, or only time can complete it. Clusters that
    /// are missing from an incomplete list may sort before the others. See docs/hazards.md#first-page.
    pub fn is_decided(&self) -> bool {
        self.settled || self.settles.is_some()
    }

    /// Returns the clusters of all groups.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|group| &group.clusters).map(String::as_str)
    }

    /// Returns the groups without the clusters in `taken`. Empty groups are kept.
    pub fn without(&self, taken: &BTreeSet<String>) -> Vec<Group> {
        let left = |group: &Group| {
            group.clusters.iter().filter(|cluster| !taken.contains(*cluster)).cloned().collect()
        };
        self.groups.iter().map(|group| Group { key: group.key.clone(), clusters: left(group) }).collect()
    }
}

/// Returns true if the group sizes match the status. A status never counts pages with a non-numeric index.
fn has_groups(groups: &BTreeMap<GroupKey, Vec<String>>, counted: &[DecisionGroupStatus]) -> bool {
    let has = |group: &DecisionGroupStatus| {
        let key = GroupKey { index: group.decision_group_index, name: group.decision_group_name.clone() };
        let clusters = groups.get(&key).map_or(0, Vec::len);
        usize::try_from(group.cluster_count) == Ok(clusters)
    };
    groups.keys().any(|key| key.index == i32::MAX) || counted.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn placement(selected: i32) -> Placement {
        let mut placement: Placement = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        placement.status = serde_json::from_value(json!({"numberOfSelectedClusters": selected})).unwrap();
        if let Some(status) = &mut placement.status {
            status.conditions = vec![api::Condition::default()];
        }
        placement
    }

    fn page(index: &str, clusters: &[&str]) -> PlacementDecision {
        let decisions: Vec<_> =
            clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
        let labels = json!({ DECISION_GROUP_INDEX_LABEL: index });
        serde_json::from_value(
            json!({"metadata": {"name": "d", "labels": labels}, "status": {"decisions": decisions}}),
        )
        .unwrap()
    }

    #[test]
    fn a_list_with_a_cluster_missing_is_not_whole() {
        let pages = [page("0", &["a", "b"]), page("0", &["c"])];
        assert!(Selection::read(Some(&placement(3)), &pages).settled);
        assert!(!Selection::read(Some(&placement(4)), &pages).settled);
        assert!(!Selection::read(None, &pages).settled, "the placement is gone");
        assert!(!Selection::read(Some(&Placement::default()), &[]).settled, "nobody has scheduled it");
        let is_decided = |selected| Selection::read(Some(&placement(selected)), &pages).is_decided();
        assert_eq!((is_decided(3), is_decided(4)), (true, false));
        let twice = [page("0", &["a", "b"]), page("0", &["b"])];
        assert!(Selection::read(Some(&placement(2)), &twice).settled, "a cluster on two pages counts once");
    }

    #[test]
    fn a_list_is_complete_when_its_pages_have_the_groups_of_the_status() {
        let mut placement = placement(2);
        let group =
            |index: i32| json!({"decisionGroupIndex": index, "decisionGroupName": "", "clusterCount": 1});
        let groups = json!([group(0), group(1)]);
        placement.status.as_mut().unwrap().decision_groups = serde_json::from_value(groups).unwrap();
        let is_settled = |pages: &[PlacementDecision]| Selection::read(Some(&placement), pages).settled;
        assert!(is_settled(&[page("0", &["a"]), page("1", &["b"])]));
        assert!(!is_settled(&[page("0", &["a"]), page("0", &["b"])]), "the second page has its old group");
        assert!(
            is_settled(&[page("0", &["a"]), page("x", &["b"])]),
            "an index that is no number stops nothing"
        );
    }

    #[test]
    fn decisions_without_a_status_are_complete_when_they_stop_changing() {
        let since = Timestamp::from_second(1_000).unwrap();
        let settled = |minutes: i64| {
            let mut selection = Selection::read(Some(&Placement::default()), &[page("0", &["a"])]);
            selection.settle(since, since + SignedDuration::from_mins(minutes));
            assert!(selection.is_decided(), "no status will tell more");
            (selection.settled, selection.settles)
        };
        assert_eq!(settled(9), (false, Some(since + SignedDuration::from_mins(10))));
        assert_eq!(settled(10), (true, None));
        let mut counted = Selection::read(Some(&placement(1)), &[page("0", &["a"])]);
        counted.settle(since, since);
        assert!(counted.settled, "the status says that it is whole");
    }

    #[test]
    fn a_group_index_that_is_not_a_number_stops_nothing() {
        let pages = [page("x", &["b"]), page("1", &["a"])];
        let selection = Selection::read(Some(&placement(2)), &pages);
        assert_eq!(selection.clusters().collect::<Vec<_>>(), ["a", "b"]);
    }
}
