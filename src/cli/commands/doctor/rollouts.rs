//! Checks that no rollout has failed, and lists pending approvals.

use super::finding::Finding;
use super::hub::ExaminedHub;
use crate::cli::CommandError;
use crate::cli::origin::{read_by_rollouts, read_hub};
use crate::shell::now;
use controllers::hub::overview::{Overview, OverviewController, Repository, WorkloadSummary};
use engine::plural::counted;

const CHECK: &str = "rollouts";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    match read(hub).await {
        Ok(overview) => of(&overview).into_iter().chain(approvals(&overview)).collect(),
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
        vec![Finding::good(CHECK, "no rollout has failed, and all completed rollouts are healthy")]
    } else {
        failed
    }
}

/// Returns the pending approvals, each with the command that approves it.
fn approvals(overview: &Overview) -> Vec<Finding> {
    let waits = |name: &str, about: &str, command: String| {
        Finding::warning("approvals", format!("{name} waits for an approval of {about}"), command)
    };
    let mut findings = Vec::new();
    for Repository { name, held_plan, held_deletions, .. } in &overview.repositories {
        let command = |value: &str| format!("wheelwright repo approve {name} {value}");
        if !held_plan.is_empty() {
            findings.push(waits(name, "its plan", command(held_plan)));
        }
        if let Some(held) = held_deletions {
            findings.push(waits(name, &counted(held.total(), "deletion"), command(&held.approval)));
        }
    }
    for WorkloadSummary { name, approvals, .. } in overview.workloads() {
        let command = |token: &str| format!("wheelwright rollout approve {name} {token}");
        findings.extend(approvals.iter().map(|(token, about)| waits(name, about, command(token))));
    }
    findings
}

/// Returns the finding for an add-on or set that has failed on a cluster, reports an error, or does not work although
/// its rollout has ended. It is a warning if all failed clusters have returned to the previous revision.
fn failure(summary: &WorkloadSummary) -> Option<Finding> {
    let first = summary.first_troubled();
    let failing = summary.failed + summary.warned + summary.broken;
    let troubled = failing + summary.returning + summary.returned + summary.quarantined;
    if troubled == 0 {
        return None;
    }
    let hold = summary.holds.first().map(|hold| format!("; {hold}")).unwrap_or_default();
    let cause = first.map(|first| format!("; {}: {}", first.name, first.message)).unwrap_or_default();
    let message = format!("{}: {}{hold}{cause}", summary.name, summary.progress());
    let advice = format!("wheelwright rollout status {}", summary.name);
    Some(match failing {
        0 => Finding::warning(CHECK, message, advice),
        _ => Finding::bad(CHECK, message, advice),
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;
    use controllers::hub::overview::{ClusterSummary, GroupSummary, HeldObjects};
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
        assert_eq!(
            found(ClusterState::Done, true),
            "fleet/all: 1 of 1 cluster done, 1 not available; c1: ConfigMap X: is invalid"
        );
        for failure in [ClusterState::Failed { deadline: None }, ClusterState::TimedOut] {
            assert_eq!(
                found(failure, false),
                "fleet/all: 0 of 1 cluster done, 1 failed; c1: ConfigMap X: is invalid"
            );
        }
    }

    #[test]
    fn approvals_that_wait_for_a_person_are_named_with_their_commands() {
        let held = HeldObjects { approval: "d0".into(), more: 3, ..HeldObjects::default() };
        let repository = Repository {
            name: "n/fleet".into(),
            held_plan: "c0de".into(),
            held_deletions: Some(held),
            ..Repository::default()
        };
        let approvals = [("t".to_owned(), "the start of canary".to_owned())].into();
        let add_on = WorkloadSummary { name: "msa".into(), approvals, ..WorkloadSummary::default() };
        let overview =
            Overview { repositories: vec![repository], add_ons: vec![add_on], ..Overview::default() };
        let line = |one: Finding| format!("{}; {}", one.message, one.advice);
        let found: Vec<String> = super::approvals(&overview).into_iter().map(line).collect();
        assert_eq!(
            found,
            [
                "n/fleet waits for an approval of its plan; wheelwright repo approve n/fleet c0de",
                "n/fleet waits for an approval of 3 deletions; wheelwright repo approve n/fleet d0",
                "msa waits for an approval of the start of canary; wheelwright rollout approve msa t",
            ]
        );
        assert!(super::approvals(&Overview::default()).is_empty());
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
        let line = |one: &Finding| format!("{:?}: {}; {}", one.health, one.message, one.advice);
        let found: Vec<String> = of(&overview).iter().map(line).collect();
        assert_eq!(
            found,
            [
                "Bad: stopped: 0 of 3 clusters done, 1 failed; held; wheelwright rollout status stopped",
                "Warning: fleet/returned: 3 of 3 clusters are back on the previous revision; held; wheelwright rollout status fleet/returned",
            ]
        );
        assert_eq!(of(&Overview::default())[0].health, Health::Good);
    }
}
