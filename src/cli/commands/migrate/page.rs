//! Formats a plan as text.

use super::plan::{MigrationPlan, PlacementPlan};
use engine::plural::counted;

/// Formats a plan, with a line for each placement that selects the cluster.
pub(super) fn text(plan: &MigrationPlan) -> String {
    let MigrationPlan { cluster, taint, done: _, placements } = plan;
    if placements.is_empty() {
        return format!("no placement selects cluster {cluster}\n");
    }
    let mut page = format!("when cluster {cluster} has the taint {taint}:NoSelect\n");
    let width = placements.iter().map(|planned| planned.placement.len()).max().unwrap_or_default();
    for planned in placements {
        page += &format!("  {:width$}  {}\n", planned.placement, outcome(planned));
    }
    page
}

/// Describes the effect on a placement.
fn outcome(planned: &PlacementPlan) -> String {
    let PlacementPlan { placement: _, stays, leaves_after_seconds, to, selected, wanted, before: _ } =
        planned;
    if let Some(reason) = stays {
        return format!("stays: {reason}");
    }
    let first =
        leaves_after_seconds.map(|seconds| format!("stays for {seconds} s (tolerationSeconds), then "));
    let move_ = match (to.as_slice(), selected) {
        ([], 0) => "leaves it, and no cluster takes its place".into(),
        ([], selected) => format!("leaves it, and keeps {}", counted(selected, "other cluster")),
        (to, _) => format!("moves to {}", to.join(", ")),
    };
    let short = wanted
        .filter(|wanted| selected < wanted)
        .map(|wanted| format!("; it requests {wanted} and gets {selected}"))
        .unwrap_or_default();
    format!("{}{move_}{short}", first.unwrap_or_default())
}
