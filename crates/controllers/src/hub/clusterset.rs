//! The cluster set controller: counts the clusters of each set, and maintains the two built-in sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::unreadable;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta2::{ClusterSelector, ManagedClusterSet, ManagedClusterSetSpec, SelectorType};
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Observation, set_condition};
use api::names::cluster_conditions::SET_EMPTY;
use api::names::{CLUSTER_SET_AUTO_UPDATE_ANNOTATION, DEFAULT_CLUSTER_SET, GLOBAL_CLUSTER_SET};
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use object::{Key, Object, merge_diff};
use reconcile::{Action, Change, Controller, Index, Observes, Plan, Query, Read, StatusWrite, View, Watches};

/// Counts the clusters of sets, and maintains the sets `default` and `global`.
pub(crate) struct ClusterSetController;

/// The number of clusters in each set.
#[derive(Default)]
struct SetCounts {
    sets: BTreeMap<String, SetCount>,
}

struct SetCount {
    members: SetMembers,
    clusters: usize,
}

impl SetCounts {
    /// Returns the number of clusters of a set, if it was counted since the set last changed.
    fn get(&self, members: &SetMembers) -> Option<usize> {
        let count = self.sets.get(members.name()).filter(|count| count.members == *members)?;
        Some(count.clusters)
    }

    /// Counts the clusters of a set.
    fn recount(&mut self, members: &SetMembers, clusters: &[Arc<ManagedCluster>]) -> usize {
        let clusters = clusters
            .iter()
            .filter(|cluster| members.contains(&ClusterAttributes::from_cluster(cluster)))
            .count();
        self.sets.insert(members.name().to_owned(), SetCount { members: members.clone(), clusters });
        clusters
    }
}

impl Index for SetCounts {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManagedCluster>(|counts, change| {
            if !may_move(change) {
                return Vec::new();
            }
            let [old, new] = sides(change);
            for count in counts.sets.values_mut() {
                let members = |attributes: &Option<ClusterAttributes>| {
                    usize::from(
                        attributes.as_ref().is_some_and(|attributes| count.members.contains(attributes)),
                    )
                };
                count.clusters = (count.clusters + members(&new)).saturating_sub(members(&old));
            }
            Vec::new()
        });
        observes.on::<ManagedClusterSet>(|counts, change| {
            if let Change { old: Some(old), new: None } = change {
                counts.sets.remove(old.metadata.name.as_deref().unwrap_or_default());
            }
            Vec::new()
        });
    }
}

impl Controller for ClusterSetController {
    const NAME: &'static str = "clusterset";
    type Primary = ManagedClusterSet;
    const EXPECTED: &'static [&'static str] = &[DEFAULT_CLUSTER_SET, GLOBAL_CLUSTER_SET];

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(joined_or_left);
        watches.on_readability::<ManagedCluster>(|view| view.keys::<ManagedClusterSet>(Query::ALL));
        watches.keep::<SetCounts>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let permanent = permanent(&key.name);
        let Some(set) = view.get::<ManagedClusterSet>(key)? else {
            plan.step(
                permanent.map(|selector| Action::create(Object::from_typed(&new(&key.name, selector)))),
            );
            return Ok(plan);
        };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(plan);
        }
        if let Some(selector) =
            permanent.filter(|selector| *selector != set.spec.cluster_selector && !is_left_alone(&set))
        {
            let mut wanted = ManagedClusterSet::clone(&set);
            wanted.spec.cluster_selector = selector;
            let [before, after] = [&*set, &wanted].map(|set| Object::from_typed(set).into_value());
            if let Some(Value::Object(patch)) = merge_diff(&before, &after) {
                plan.step([Action::patch(&*set, patch)]);
            }
            return Ok(plan);
        }
        let members = SetMembers::from_set(&set);
        let count = match view.index(|counts: &mut SetCounts| counts.get(&members))? {
            Some(count) => count,
            None => {
                let clusters = view.list_readable::<ManagedCluster>(Query::ALL)?;
                view.index(|counts: &mut SetCounts| counts.recount(&members, &clusters))?
            }
        };
        let mut status = set.status.clone().unwrap_or_default();
        let mut empty = match (&members, count) {
            (SetMembers::Unknown(_, message), _) => {
                Observation::new(SET_EMPTY, Unknown, "InvalidClusterSelector").message(message.clone())
            }
            (_, 0) => {
                Observation::new(SET_EMPTY, True, "NoClusterMatched").message("No ManagedCluster selected")
            }
            (_, count) => Observation::new(SET_EMPTY, False, "ClustersSelected")
                .message(format!("{count} ManagedClusters selected")),
        };
        unreadable::append(&mut empty.message, &unreadable::of_sets(&[members], view)?);
        if set_condition(&mut status.conditions, empty, now) {
            plan.status =
                StatusWrite::between(&*set, &ManagedClusterSet { status: Some(status), ..(*set).clone() });
        }
        Ok(plan)
    }
}

/// Returns true if a change can move a cluster between sets. Most changes in a fleet are status reports.
fn may_move(change: &Change<ManagedCluster>) -> bool {
    change.differs_in(|cluster| &cluster.metadata.labels)
}

fn sides(change: &Change<ManagedCluster>) -> [Option<ClusterAttributes>; 2] {
    [&change.old, &change.new]
        .map(|cluster| cluster.as_ref().map(|cluster| ClusterAttributes::from_cluster(cluster)))
}

/// Returns the sets that a cluster joined or left.
fn joined_or_left(change: &Change<ManagedCluster>, view: &impl View) -> Vec<Key> {
    if !may_move(change) {
        return Vec::new();
    }
    let sets = view.readable::<ManagedClusterSet>(Query::ALL);
    let [old, new] = sides(change);
    let holds = |members: &SetMembers, attributes: &Option<ClusterAttributes>| {
        attributes.as_ref().is_some_and(|attributes| members.contains(attributes))
    };
    let changed = sets
        .iter()
        .map(|set| SetMembers::from_set(set))
        .filter(|members| holds(members, &old) != holds(members, &new));
    changed.map(|members| Key::cluster(members.name())).collect()
}

/// Returns the selector of a built-in set.
fn permanent(name: &str) -> Option<ClusterSelector> {
    match name {
        DEFAULT_CLUSTER_SET => Some(ClusterSelector::default()),
        GLOBAL_CLUSTER_SET => Some(ClusterSelector {
            selector_type: SelectorType::LabelSelector,
            label_selector: Some(LabelSelector::default()),
            ..ClusterSelector::default()
        }),
        _ => None,
    }
}

fn is_left_alone(set: &ManagedClusterSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(CLUSTER_SET_AUTO_UPDATE_ANNOTATION))
        .is_some_and(|value| value == "false")
}

fn new(name: &str, cluster_selector: ClusterSelector) -> ManagedClusterSet {
    let mut set = ManagedClusterSet {
        spec: ManagedClusterSetSpec { cluster_selector, ..Default::default() },
        ..Default::default()
    };
    set.metadata.name = Some(name.to_owned());
    set
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use reconcile::{Caches, Delta, Site};

    fn typed<K: object::Kind>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    fn caches(set: Value, clusters: Vec<ManagedCluster>) -> Caches {
        let mut caches = Caches::default();
        caches.replace::<ManagedClusterSet>(Site::Hub, vec![typed(set)], "1");
        caches.replace::<ManagedCluster>(Site::Hub, clusters, "1");
        caches
    }

    fn plan(caches: &Caches, set: &str) -> Value {
        let plan = ClusterSetController::plan(&Key::cluster(set), caches, Timestamp::UNIX_EPOCH);
        serde_json::to_value(plan.unwrap()).unwrap()
    }

    #[test]
    fn an_edited_selector_is_undone_whole_unless_the_set_is_to_be_left_alone() {
        let edited = |annotations: Value| {
            json!({
                "metadata": {"name": "global", "resourceVersion": "1", "annotations": annotations},
                "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}},
            })
        };
        let undone = plan(&caches(edited(json!({})), Vec::new()), "global");
        assert_eq!(
            undone["steps"][0][0]["patch"],
            json!({"spec": {"clusterSelector": {"labelSelector": {"matchLabels": null}}}})
        );
        let left =
            plan(&caches(edited(json!({CLUSTER_SET_AUTO_UPDATE_ANNOTATION: "false"})), Vec::new()), "global");
        assert_eq!(left["steps"], json!([]));
    }

    #[test]
    fn only_a_change_of_labels_moves_a_cluster() {
        let state = |label: &str, available: &str| {
            let conditions = json!([{"type": "ManagedClusterConditionAvailable", "status": available, "reason": "R",
                "message": "", "lastTransitionTime": "2023-01-01T00:00:00Z"}]);
            Some(Arc::new(typed::<ManagedCluster>(json!({
                "metadata": {"name": "a", "labels": {"team": label}}, "spec": {}, "status": {"conditions": conditions},
            }))))
        };
        let moves = |old, new| may_move(&Change { old, new });
        assert!(!moves(state("red", "True"), state("red", "False")));
        assert!(moves(state("red", "True"), state("blue", "True")));
        assert!(moves(None, state("red", "True")) && moves(state("red", "True"), None));
    }

    #[test]
    fn a_count_follows_the_clusters_that_join_leave_and_change() {
        let cluster = |name: &str, set: &str, version: &str| -> ManagedCluster {
            let labels = json!({"cluster.open-cluster-management.io/clusterset": set});
            typed(
                json!({"metadata": {"name": name, "resourceVersion": version, "labels": labels}, "spec": {}}),
            )
        };
        let set = json!({"metadata": {"name": "team", "resourceVersion": "1"}, "spec": {}});
        let mut caches = caches(set, vec![cluster("a", "team", "1"), cluster("b", "other", "1")]);
        let message = |caches: &Caches| {
            plan(caches, "team")["status"]["patch"]["status"]["conditions"][0]["message"].clone()
        };
        assert_eq!(message(&caches), "1 ManagedClusters selected");
        caches.apply(Site::Hub, Delta::Seen(cluster("b", "team", "2")));
        assert_eq!(message(&caches), "2 ManagedClusters selected");
        caches.apply(Site::Hub, Delta::Seen(cluster("b", "team", "3")));
        caches.apply(Site::Hub, Delta::Seen(cluster("a", "other", "4")));
        assert_eq!(message(&caches), "1 ManagedClusters selected");
        caches.apply::<ManagedCluster>(Site::Hub, Delta::Gone(Key::cluster("b"), "5".into()));
        assert_eq!(message(&caches), "No ManagedCluster selected");
    }
}
