//! Checks the rollouts of add-ons and sets: none has failed.

use super::finding::Finding;
use super::hub::ExaminedHub;
use crate::cli::CommandError;
use crate::cli::origin::{read_by_rollouts, read_hub};
use crate::shell::now;
use controllers::hub::overview::{Overview, OverviewController, WorkloadSummary};

const CHECK: &str = "rollouts";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    match read(hub).await {
        Ok(overview) => of(&overview),
        Err(error) => vec![Finding::unknown(CHECK, error)],
    }
}

async fn read(hub: &ExaminedHub) -> Result<Overview, CommandError> {
    let caches = read_hub(&hub.client, &read_by_rollouts::<OverviewController>()).await?;
    Ok(Overview::read(&caches, now())?)
}

fn of(overview: &Overview) -> Vec<Finding> {
    let workloads = overview.workloads();
    let failed: Vec<Finding> = workloads.filter_map(failure).collect();
    if failed.is_empty() {
        vec![Finding::good(CHECK, "no rollout has failed, and no cluster reports an error")]
    } else {
        failed
    }
}

/// Returns the finding of a rollout that has failed on a cluster, or of which a cluster reports an error. It is a
/// warning when all clusters on which it failed have returned to the revision before.
fn failure(summary: &WorkloadSummary) -> Option<Finding> {
    let first = summary.first_troubled();
    let troubled = summary.failed + summary.returning + summary.returned + summary.quarantined;
    if troubled == 0 && first.is_none() {
        return None;
    }
    let hold = summary.holds.first().map(|hold| format!("; {hold}")).unwrap_or_default();
    let cause = first.map(|first| format!("; {}: {}", first.name, first.message)).unwrap_or_default();
    let message = format!("{}: {}{hold}{cause}", summary.name, summary.progress());
    let advice = format!("wheelwright rollout status {}", summary.name);
    Some(match summary.failed + summary.warned {
        0 => Finding::warning(CHECK, message, advice),
        _ => Finding::bad(CHECK, message, advice),
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;
    use controllers::hub::overview::{ClusterSummary, GroupSummary};
    use engine::rollout::ClusterState;

    #[test]
    fn a_cluster_that_reports_an_error_is_named_before_its_rollout_has_failed_and_after_it() {
        let found = |state: ClusterState, reports_error: bool| {
            let cluster = ClusterSummary {
                name: "c1".into(),
                runs: String::new(),
                state,
                available: false,
                reports_error,
                message: "ConfigMap X: is invalid".into(),
                since: None,
            };
            let group = GroupSummary { clusters: vec![cluster], ..GroupSummary::default() };
            let set = WorkloadSummary { name: "fleet/all".into(), ..WorkloadSummary::of(vec![group]) };
            let found = of(&Overview { replica_sets: vec![set], ..Overview::default() });
            assert_eq!(found[0].health, Health::Bad);
            found[0].message.clone()
        };
        assert_eq!(
            found(ClusterState::Starting, true),
            "fleet/all: 0 of 1 cluster done, 1 reports an error; c1: ConfigMap X: is invalid"
        );
        for failure in [ClusterState::Failed { deadline: None }, ClusterState::TimedOut] {
            assert_eq!(
                found(failure, false),
                "fleet/all: 0 of 1 cluster done, 1 failed; c1: ConfigMap X: is invalid"
            );
        }
    }

    #[test]
    fn a_rollout_that_failed_is_named_with_what_holds_it() {
        let summary = |name: &str, failed: usize, returned: usize| WorkloadSummary {
            name: name.into(),
            total: 3,
            failed,
            returned,
            holds: vec!["held".into()],
            ..WorkloadSummary::default()
        };
        let overview = Overview {
            add_ons: vec![summary("well", 0, 0), summary("stopped", 1, 0)],
            replica_sets: vec![summary("fleet/returned", 0, 3)],
            ..Overview::default()
        };
        let told = |one: &Finding| format!("{:?}: {}; {}", one.health, one.message, one.advice);
        let found: Vec<String> = of(&overview).iter().map(told).collect();
        assert_eq!(
            found,
            [
                "Bad: stopped: 0 of 3 clusters done, 1 failed; held; wheelwright rollout status stopped",
                "Warning: fleet/returned: 3 of 3 clusters are back on what ran before; held; wheelwright rollout status fleet/returned",
            ]
        );
        assert_eq!(of(&Overview::default())[0].health, Health::Good);
    }
}
