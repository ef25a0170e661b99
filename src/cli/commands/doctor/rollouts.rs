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
    let workloads = overview.add_ons.iter().chain(&overview.replica_sets);
    let failed: Vec<Finding> = workloads.filter_map(failure).collect();
    if failed.is_empty() { vec![Finding::good(CHECK, "no rollout has failed")] } else { failed }
}

/// Returns the finding of a rollout that has failed on a cluster. It is a warning when all such clusters have
/// returned to the revision before.
fn failure(summary: &WorkloadSummary) -> Option<Finding> {
    if summary.failed + summary.returning + summary.returned + summary.quarantined == 0 {
        return None;
    }
    let hold = summary.holds.first().map(|hold| format!("; {hold}")).unwrap_or_default();
    let message = format!("{}: {}{hold}", summary.name, summary.progress());
    let advice = format!("wheelwright rollout status {}", summary.name);
    Some(match summary.failed {
        0 => Finding::warning(CHECK, message, advice),
        _ => Finding::bad(CHECK, message, advice),
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

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
                "Warning: fleet/returned: 3 of 3 clusters run what ran before (returned); held; wheelwright rollout status fleet/returned",
            ]
        );
        assert_eq!(of(&Overview::default())[0].health, Health::Good);
    }
}
