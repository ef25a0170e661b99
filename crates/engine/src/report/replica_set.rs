//! ManifestWorkReplicaSets in a report, with the same states as add-ons.

use std::sync::Arc;

use super::input::{Rollout, Workload, WorkloadCluster, has_turn, holds, quarantined, short};
use crate::addon::progress;
use crate::replica_set::WorkRecord;
use crate::rollout::cluster::Hash;
use crate::rollout::{ClusterState, RolloutDecision};
use crate::work::{self, cause};
use api::condition::{Condition, Conditions as _};
use api::gitops::v1alpha1::RolloutStatus;
use api::names::work_conditions::{APPLIED, AVAILABLE, DEGRADED, PROGRESSING};
use api::work::v1::ManifestWork;
use object::Key;

/// The reason for a missed deadline if the agent knows nothing of the revision.
const SILENT: &str = "its agent has not reported on this revision";

impl WorkloadCluster {
    /// Reads a set's work on a cluster in the given state, with the hash of its template.
    pub fn from_work(name: &str, state: &ClusterState, work: Option<(&ManifestWork, &Hash)>) -> Self {
        let generation = work.and_then(|(work, _)| work.metadata.generation);
        let condition = |type_| {
            let condition = work.and_then(|(work, _)| work.condition(type_));
            condition.filter(|condition| condition.observed_generation == generation)
        };
        let holds = |type_| condition(type_).is_some_and(Condition::is_true);
        let has_ended = matches!(state, ClusterState::Done | ClusterState::Returned { .. });
        let works = !has_ended || !holds(DEGRADED) && !holds(PROGRESSING);
        let available = holds(AVAILABLE) && works;
        let unless = |type_, is_good: bool| condition(type_).filter(|c| c.is_true() != is_good);
        let trouble = unless(DEGRADED, false)
            .or_else(|| unless(APPLIED, true))
            .or_else(|| unless(AVAILABLE, true))
            .or_else(|| unless(PROGRESSING, false));
        let error = work.filter(|_| has_turn(state)).and_then(|(work, _)| work::error(work));
        let reported =
            || work.zip(trouble).map(|((work, _), trouble)| cause(work, trouble)).unwrap_or_default();
        let message = match state {
            _ if error.is_some() => error.clone().unwrap_or_default(),
            ClusterState::Done | ClusterState::Returned { .. } if available => String::new(),
            ClusterState::TimedOut if work.is_some() && condition(APPLIED).is_none() => SILENT.into(),
            ClusterState::Done
            | ClusterState::Returned { .. }
            | ClusterState::Failed { .. }
            | ClusterState::TimedOut
            | ClusterState::Progressing { .. }
            | ClusterState::Starting
            | ClusterState::Soaking { .. } => reported(),
            ClusterState::Returning { .. } if trouble.is_some() => [state.to_string(), reported()].join("; "),
            ClusterState::Waiting(_)
            | ClusterState::Skipped
            | ClusterState::Unreachable { .. }
            | ClusterState::Returning { .. }
            | ClusterState::Quarantined => state.to_string(),
        };
        let runs = work.map(|(_, runs)| short(&runs.0).to_owned()).unwrap_or_default();
        // Conditions of works keep their times when the work changes, so the time of a failure is unknown.
        let record = work.map(|(work, _)| WorkRecord::read(work)).unwrap_or_default();
        let is_current = record.template.as_ref() == work.map(|(_, runs)| runs);
        let started = record.assigned_at.filter(|_| is_current);
        let ended = record.succeeded_at.filter(|_| is_current && *state == ClusterState::Done);
        let (state, name, reports_error) = (state.clone(), name.to_owned(), error.is_some());
        Self { state, available, reports_error, name, message, runs, started, ended }
    }
}

impl Rollout {
    /// Reads the rollout of a set on a placement: its current decision, and its record in the policy.
    pub fn from_decision(decision: &RolloutDecision, record: &RolloutStatus) -> Self {
        let breach = decision.breach.as_ref().map(|breach| format!("{breach}; the rest waits"));
        let hold = decision.hold.as_ref().map(ToString::to_string);
        let kept = (!decision.kept.is_empty()).then(|| {
            format!("{} clusters that are no longer selected keep their works", decision.kept.len())
        });
        let message: Vec<String> = decision.corrections().chain(breach.or(hold)).chain(kept).collect();
        let total = decision.counts.total;
        Self {
            placement: format!("{}/{}", record.placement_namespace, record.placement_name),
            state: progress::placement_condition(total, total, true, decision).reason,
            message: message.join("; "),
            desired: short(&record.revision).to_owned(),
            last_good: short(&record.last_good).to_owned(),
            quarantined: quarantined(record),
        }
    }
}

impl Workload {
    /// Reads a set; `clusters` are all clusters of its placements, by name.
    pub fn from_set(
        set: &Key,
        rollouts: Vec<Rollout>,
        records: &[RolloutStatus],
        mut clusters: Vec<Arc<WorkloadCluster>>,
    ) -> Self {
        clusters.sort_by_key(|cluster| cluster.rank());
        let name = set.to_string();
        let holds = records.iter().flat_map(|record| holds(record, &name, short(&record.revision))).collect();
        let approvals = records.iter().flat_map(|record| record.waiting_approvals.clone()).collect();
        Self { name, rollouts, holds, approvals, clusters }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deadline_that_passes_without_a_report_names_the_agent() {
        let message = |observed: i64| {
            let applied = json!({"type": "Applied", "status": "True", "reason": "R", "message": "",
                "observedGeneration": observed, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let work: ManifestWork = serde_json::from_value(json!({"metadata": {"generation": 2},
                "spec": {}, "status": {"conditions": [applied]}}))
            .unwrap();
            let runs = Hash::default();
            WorkloadCluster::from_work("c1", &ClusterState::TimedOut, Some((&work, &runs))).message
        };
        assert_eq!((message(1).as_str(), message(2).as_str()), (SILENT, ""));
    }

    #[test]
    fn a_set_that_stopped_working_after_its_rollout_is_not_available() {
        let check = |progressing: &str, want: (bool, &str)| {
            let condition = |type_: &str, status: &str, message: &str| {
                json!({"type": type_, "status": status, "reason": "R", "message": message, "observedGeneration": 2,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let conditions = [
                condition("Applied", "True", ""),
                condition("Available", "True", ""),
                condition("Progressing", progressing, "0 of 1 replicas are available"),
            ];
            let work =
                json!({"metadata": {"generation": 2}, "spec": {}, "status": {"conditions": conditions}});
            let work = serde_json::from_value(work).unwrap();
            let found =
                WorkloadCluster::from_work("c1", &ClusterState::Done, Some((&work, &Hash::default())));
            assert_eq!((found.available, found.message.as_str()), want);
        };
        check("False", (true, ""));
        check("True", (false, "0 of 1 replicas are available"));
    }
}
