//! The state of a commit, for the commit status at a git provider.

use std::sync::Arc;

use super::message::headline;
use super::{FleetReport, Workload, WorkloadCluster};
use api::gitops::v1alpha1::CommitState;
use api::names::approval_reasons::{DELETIONS_HELD, PLAN_NOT_APPROVED, POLICY_HELD};

/// The reasons for which a stalled repository waits for an approval of the commit.
pub(super) const WAITS_FOR_APPROVAL: [&str; 3] = [PLAN_NOT_APPROVED, DELETIONS_HELD, POLICY_HELD];

/// The state of a rollout whose placement has no decisions.
const NO_DECISIONS: &str = "PlacementDecisionNotFound";

/// Returns the state of the newest commit and a one-line description. The text consists only of our words and
/// object names, so that no message can leak a secret.
///
/// An unreachable cluster, or one on which an add-on does not work, leaves the commit pending. Only a refusal by
/// the hub or a failed rollout is a failure of the commit.
pub fn commit_state(fleet: &FleetReport, is_stalled: bool) -> (CommitState, String) {
    let waits_for_approval = WAITS_FOR_APPROVAL.contains(&fleet.condition.0.as_str());
    let has_failed = |workload: &Workload| workload.clusters.iter().any(|cluster| cluster.has_failed());
    let lacks_decisions =
        |workload: &Workload| workload.rollouts.iter().any(|rollout| rollout.state == NO_DECISIONS);
    let is_there = |cluster: &Arc<WorkloadCluster>| cluster.is_settled() && cluster.available;
    let state = match fleet.ready {
        false if is_stalled && !waits_for_approval => CommitState::Failure,
        false => CommitState::Pending,
        true if fleet.workloads().any(has_failed) => CommitState::Failure,
        true if fleet.workloads().any(lacks_decisions) => {
            return (CommitState::Pending, "a placement has no decisions".into());
        }
        true if fleet.workloads().flat_map(|workload| &workload.clusters).all(is_there) => {
            CommitState::Success
        }
        true => CommitState::Pending,
    };
    (state, headline(fleet))
}

/// Returns true if a state should be sent to the provider, given the last one that it accepted. A commit that
/// succeeded or failed never becomes pending again, so that clusters that come and go send nothing.
pub fn is_news(state: &CommitState, taken: Option<&CommitState>) -> bool {
    match (state, taken) {
        (CommitState::Other(_), _) => false,
        (_, None) => true,
        (CommitState::Pending, Some(_)) => false,
        (CommitState::Success | CommitState::Failure, Some(taken)) => taken != state,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rollout;
    use super::*;
    use crate::rollout::ClusterState;

    fn cluster(state: ClusterState, available: bool) -> Arc<WorkloadCluster> {
        let (name, message, runs) = ("c1".into(), "token=hunter22".into(), String::new());
        Arc::new(WorkloadCluster {
            state,
            available,
            reports_error: false,
            name,
            message,
            runs,
            started: None,
            ended: None,
        })
    }

    fn fleet(ready: bool, reason: &str, clusters: Vec<Arc<WorkloadCluster>>, rollout: &str) -> FleetReport {
        let rollouts = vec![Rollout { state: rollout.into(), ..Rollout::default() }];
        let add_on = Workload { name: "msa".into(), rollouts, clusters, ..Workload::default() };
        let condition = (reason.into(), "password: hunter22".into());
        FleetReport { ready, condition, add_ons: vec![add_on], ..FleetReport::default() }
    }

    #[test]
    fn a_commit_has_the_state_of_the_hub_and_of_its_clusters() {
        use CommitState::{Failure, Pending, Success};
        let done = || cluster(ClusterState::Done, true);
        let failed = || cluster(ClusterState::Failed { deadline: None }, false);
        let unreachable = || cluster(ClusterState::Unreachable { moved: false }, true);
        let quarantined = || cluster(ClusterState::Quarantined, true);
        let cases = [
            (fleet(false, "Rendering", vec![], ""), false, Pending, "not ready: Rendering"),
            (fleet(false, "Frozen", vec![failed()], ""), false, Pending, "not ready: Frozen"),
            (fleet(false, "InvalidObject", vec![done()], ""), true, Failure, "not ready: InvalidObject"),
            (fleet(false, "PlanNotApproved", vec![], ""), true, Pending, "not ready: PlanNotApproved"),
            (fleet(false, "DeletionsHeld", vec![], ""), true, Pending, "not ready: DeletionsHeld"),
            (fleet(true, "Applied", vec![], ""), false, Success, "every cluster is up to date"),
            (fleet(true, "Applied", vec![done(), done()], ""), false, Success, "every cluster is up to date"),
            (
                fleet(true, "Applied", vec![done(), unreachable()], ""),
                false,
                Pending,
                "msa is done on 1 of 2 clusters",
            ),
            (
                fleet(true, "Applied", vec![cluster(ClusterState::Done, false)], ""),
                false,
                Pending,
                "msa does not work on 1 of 1 cluster",
            ),
            (fleet(true, "Applied", vec![], NO_DECISIONS), false, Pending, "a placement has no decisions"),
            (
                fleet(true, "Applied", vec![failed(), done()], ""),
                false,
                Failure,
                "msa failed on 1 of 2 clusters",
            ),
            (
                fleet(true, "Applied", vec![quarantined(), done()], ""),
                false,
                Failure,
                "msa is done on 1 of 2 clusters",
            ),
        ];
        for (fleet, is_stalled, state, line) in cases {
            assert_eq!(commit_state(&fleet, is_stalled), (state, line.to_owned()), "{fleet:?}");
        }
    }

    #[test]
    fn a_state_is_sent_once_and_a_final_one_is_not_revoked() {
        use CommitState::{Failure, Pending, Success};
        let sent = |states: &[CommitState]| {
            let mut sent: Vec<CommitState> = Vec::new();
            for state in states {
                if is_news(state, sent.last()) {
                    sent.push(state.clone());
                }
            }
            sent
        };
        assert_eq!(sent(&[Pending, Pending, Success, Success, Pending, Success]), [Pending, Success]);
        assert_eq!(sent(&[Failure, Pending, Failure, Success, Failure]), [Failure, Success, Failure]);
    }
}
