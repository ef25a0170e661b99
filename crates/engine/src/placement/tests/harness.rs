//! An in-memory hub for tests, which schedules a placement repeatedly and executes the writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::publish::DecisionWrite;
use super::super::{Fleet, IncrementalSchedule, Schedule, ScheduleInput, explain, schedule};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision, PlacementDecisionStatus};
use api::cluster::v1beta2::ManagedClusterSet;
use api::names::{DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL};

/// The step limit for all expressions. It is low, so that tests can reach it.
const MAX_STEPS: u64 = 20_000;

/// A namespace with one placement `p`, bound to sets.
pub(crate) struct Hub {
    pub now: Timestamp,
    pub placement: Placement,
    pub sets: Vec<Arc<ManagedClusterSet>>,
    pub decisions: BTreeMap<String, Arc<PlacementDecision>>,
    pub fleet: Fleet,
    /// The decision of another placement.
    pub elsewhere: Option<PlacementDecision>,
    pub incremental: IncrementalSchedule,
    /// The published clusters by decision after each write of the last schedule.
    pub seen: Vec<BTreeMap<String, Vec<String>>>,
    /// The number of writes of the next schedule that succeed, if not all do.
    pub crash_after: Option<usize>,
    /// The step limit for the placement's expressions.
    pub max_steps: u64,
}

/// Returns a hub with one placement and clusters without labels.
pub(crate) fn hub(spec: Value, clusters: &[&str]) -> Hub {
    let mut hub = Hub::new(spec);
    clusters.iter().for_each(|name| hub.cluster(name, &[]));
    hub
}

/// Returns a predicate on one label.
pub(crate) fn selector(key: &str, value: &str) -> Value {
    json!([{ "requiredClusterSelector": { "labelSelector": { "matchLabels": { key: value } } } }])
}

impl Hub {
    pub(crate) fn new(spec: Value) -> Self {
        let placement = json!({ "metadata": { "namespace": "ns", "name": "p", "uid": "u", "generation": 1 }, "spec": spec });
        let global = json!({
            "metadata": { "name": "global" },
            "spec": { "clusterSelector": { "selectorType": "LabelSelector", "labelSelector": {} } },
        });
        Self {
            now: Timestamp::from_second(1_700_000_000).unwrap(),
            placement: serde_json::from_value(placement).unwrap(),
            sets: vec![Arc::new(serde_json::from_value(global).unwrap())],
            decisions: BTreeMap::new(),
            fleet: Fleet::default(),
            elsewhere: None,
            incremental: IncrementalSchedule::default(),
            seen: Vec::new(),
            crash_after: None,
            max_steps: MAX_STEPS,
        }
    }

    pub(crate) fn spec(&mut self, spec: Value) {
        self.placement.spec = serde_json::from_value(spec).unwrap();
    }

    pub(crate) fn cluster(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        self.put(json!({ "metadata": { "name": name, "labels": labels } }));
    }

    pub(crate) fn put(&mut self, cluster: Value) {
        let cluster: ManagedCluster = serde_json::from_value(cluster).unwrap();
        self.fleet.set_cluster(Arc::new(cluster));
    }

    pub(crate) fn score(&mut self, cluster: &str, value: i32, valid_for: Option<i64>) {
        let until = valid_for.map(|seconds| self.now + SignedDuration::from_secs(seconds));
        let score = json!({
            "metadata": { "namespace": cluster, "name": "usage" },
            "status": { "scores": [{ "name": "cpu", "value": value }], "validUntil": until },
        });
        let score: AddOnPlacementScore = serde_json::from_value(score).unwrap();
        self.fleet.set_score(None, Some(Arc::new(score)));
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Returns the cluster counts of the decision groups in the status.
    pub(crate) fn group_sizes(&self) -> Vec<i32> {
        let groups = &self.placement.status.as_ref().unwrap().decision_groups;
        groups.iter().map(|group| group.cluster_count).collect()
    }

    /// Binds the set of all clusters, the set with labeled clusters, or both.
    pub(crate) fn bind(&mut self, which: u8) {
        let everything = json!({
            "metadata": { "name": "global" },
            "spec": { "clusterSelector": { "selectorType": "LabelSelector", "labelSelector": {} } },
        });
        let own = json!({ "metadata": { "name": "own" } });
        let sets = match which {
            0 => vec![everything],
            1 => vec![own],
            2 => vec![
                serde_json::json!({ "metadata": { "name": "broken" }, "spec": { "clusterSelector": {
                "selectorType": "LabelSelector", "labelSelector": { "matchExpressions": [{ "key": "k", "operator": "Like" }] },
            } } }),
                own,
            ],
            _ => vec![everything, own],
        };
        self.sets = sets.into_iter().map(|set| Arc::new(serde_json::from_value(set).unwrap())).collect();
    }

    /// Schedules a fleet that received the same objects in reverse order. The result must be the same.
    pub(crate) fn compare_with_reversed(&self) {
        let decisions: Vec<_> = self.decisions.values().cloned().collect();
        let mut ids: Vec<_> = self.fleet.ids().collect();
        ids.reverse();
        let clusters: Vec<_> = ids.iter().filter_map(|id| self.fleet.cluster(*id).cloned()).collect();
        let scores: Vec<_> =
            ids.iter().filter_map(|id| self.fleet.scores(*id, "usage").cloned().map(Arc::new)).collect();
        let all = decisions.iter().rev().cloned().chain(self.elsewhere.clone().map(Arc::new));
        let fleet = Fleet::new(clusters, scores, all);
        let reversed = schedule(&ScheduleInput { fleet: &fleet, ..self.input(&decisions) }, self.now);
        assert_eq!(
            reversed,
            schedule(&self.input(&decisions), self.now),
            "the order of objects decides something"
        );
    }

    pub(crate) fn explain(&self) -> explain::Explanation {
        let decisions: Vec<_> = self.decisions.values().cloned().collect();
        explain::explain(&self.input(&decisions), self.now)
    }

    fn input<'a>(&'a self, decisions: &'a [Arc<PlacementDecision>]) -> ScheduleInput<'a> {
        let (placement, bound, fleet) = (&self.placement, self.sets.as_slice(), &self.fleet);
        ScheduleInput { placement, bound, decisions, fleet, max_steps: self.max_steps }
    }

    /// Schedules once, both incrementally and in a full cycle, which must agree. Writes the result.
    pub(crate) fn schedule(&mut self) -> Schedule {
        let decisions: Vec<_> = self.decisions.values().cloned().collect();
        let fresh = schedule(&self.input(&decisions), self.now);
        let mut incremental = std::mem::take(&mut self.incremental);
        let schedule = incremental.schedule(&self.input(&decisions), self.now);
        self.incremental = incremental;
        assert_eq!(schedule, fresh, "the incremental schedule differs from the one from nothing");
        assert!(
            schedule.wake_at.is_none_or(|at| at > self.now),
            "it wants to be woken at a time that is not in the future"
        );
        self.seen.clear();
        let crash_after = self.crash_after.take();
        for write in schedule.steps.iter().flatten().take(crash_after.unwrap_or(usize::MAX)) {
            self.write(write);
            let members = |d: &PlacementDecision| {
                d.status.iter().flat_map(|s| &s.decisions).map(|e| e.cluster_name.clone()).collect()
            };
            self.seen.push(
                self.decisions.iter().map(|(name, decision)| (name.clone(), members(decision))).collect(),
            );
        }
        if crash_after.is_none() {
            self.placement.status = Some(schedule.status.clone());
        }
        schedule
    }

    /// Schedules until nothing is written. Returns the selected clusters.
    pub(crate) fn settle(&mut self) -> Vec<String> {
        for _ in 0..10 {
            if self.schedule().steps.is_empty() {
                return self.decided();
            }
        }
        panic!("no fixpoint after ten schedules");
    }

    pub(crate) fn decided(&self) -> Vec<String> {
        let entries = self.decisions.values().flat_map(|d| d.status.iter().flat_map(|s| &s.decisions));
        let names: BTreeSet<String> = entries.map(|entry| entry.cluster_name.clone()).collect();
        names.into_iter().collect()
    }

    /// Returns the decisions as `name[index group] cluster,…`.
    pub(crate) fn shape(&self) -> Vec<String> {
        let one = |(name, decision): (&String, &Arc<PlacementDecision>)| {
            let label = |key: &str| {
                decision.metadata.labels.as_ref().and_then(|l| l.get(key)).cloned().unwrap_or_default()
            };
            let names: Vec<_> =
                decision.status.iter().flat_map(|s| &s.decisions).map(|e| e.cluster_name.as_str()).collect();
            format!(
                "{name}[{} {}] {}",
                label(DECISION_GROUP_INDEX_LABEL),
                label(DECISION_GROUP_NAME_LABEL),
                names.join(",")
            )
        };
        self.decisions.iter().map(one).collect()
    }

    pub(crate) fn condition(&self, type_: &str) -> String {
        let conditions = &self.placement.status.as_ref().unwrap().conditions;
        let condition = conditions.iter().find(|c| c.type_ == type_).unwrap();
        format!("{} {}: {}", condition.status, condition.reason, condition.message)
    }

    /// Replaces the selection of another placement.
    pub(crate) fn select_elsewhere(&mut self, clusters: impl Iterator<Item = String>) {
        let entries: Vec<Value> = clusters.map(|name| json!({ "clusterName": name, "reason": "" })).collect();
        let decision = json!({ "metadata": { "name": "other" }, "status": { "decisions": entries } });
        let decision: PlacementDecision = serde_json::from_value(decision).unwrap();
        self.fleet.set_decision(self.elsewhere.as_ref(), Some(&decision));
        self.elsewhere = Some(decision);
    }

    /// Renumbers the clusters, which invalidates everything that is cached by number.
    pub(crate) fn renumber(&mut self) {
        self.fleet.renumber();
        self.incremental = IncrementalSchedule::default();
    }

    /// Changes, creates or (with `Null`) deletes a decision, as another client would.
    pub(crate) fn edit(&mut self, name: &str, decision: Value) {
        let new = (!decision.is_null()).then(|| Arc::new(serde_json::from_value(decision).unwrap()));
        self.replace(name, new);
    }

    fn write(&mut self, write: &DecisionWrite) {
        let (name, new) = match write {
            DecisionWrite::Create(labels) => {
                let decision = json!({ "metadata": { "namespace": "ns", "name": labels.name, "labels": {
                    PLACEMENT_LABEL: "p", DECISION_GROUP_INDEX_LABEL: labels.index.to_string(), DECISION_GROUP_NAME_LABEL: labels.group,
                } } });
                (&labels.name, Some(serde_json::from_value(decision).unwrap()))
            }
            DecisionWrite::Decide { name, decisions } => {
                let mut decision = (*self.decisions[name]).clone();
                decision.status =
                    Some(PlacementDecisionStatus { decisions: decisions.clone(), ..Default::default() });
                (name, Some(decision))
            }
            DecisionWrite::Label(labels) => {
                let mut decision = (*self.decisions[&labels.name]).clone();
                let all = decision.metadata.labels.get_or_insert_default();
                all.insert(DECISION_GROUP_INDEX_LABEL.into(), labels.index.to_string());
                all.insert(DECISION_GROUP_NAME_LABEL.into(), labels.group.clone());
                (&labels.name, Some(decision))
            }
            DecisionWrite::Delete { name } => (name, None),
        };
        self.replace(name, new.map(Arc::new));
    }

    pub(crate) fn replace(&mut self, name: &str, new: Option<Arc<PlacementDecision>>) {
        let old = match &new {
            Some(new) => self.decisions.insert(name.to_owned(), Arc::clone(new)),
            None => self.decisions.remove(name),
        };
        self.fleet.set_decision(old.as_deref(), new.as_deref());
    }
}
