//! The message of a report's commit.

use super::{AddOn, Cluster, Fleet};
use object::text::plain;

/// Longest subject of a commit, in characters: `git log --oneline` shows so much on a usual terminal.
const SUBJECT: usize = 72;

/// Returns the message of the commit, with trailers for programs.
pub fn message(fleet: &Fleet, digest: &str) -> String {
    let count = |add_on: &AddOn, is: fn(&Cluster) -> bool| {
        add_on.clusters.iter().filter(|cluster| is(cluster)).count()
    };
    // A cluster that keeps the last good version has not failed.
    let has_failed = |cluster: &Cluster| cluster.state.is_failure();
    let failed = fleet.add_ons.iter().find(|add_on| count(add_on, has_failed) > 0);
    let behind =
        fleet.add_ons.iter().find(|add_on| count(add_on, Cluster::is_settled) < add_on.clusters.len());
    let broken = fleet.add_ons.iter().find(|add_on| add_on.unavailable() > 0);
    let quarantined = fleet.add_ons.iter().find_map(|add_on| {
        let rollout = add_on.rollouts.iter().find(|rollout| rollout.quarantined)?;
        let template = rollout.desired.split('@').next().unwrap_or_default();
        let version = template.strip_prefix(add_on.name.as_str()).unwrap_or(template);
        Some((&add_on.name, version.trim_start_matches('-')))
    });
    let head = match (failed, behind, broken) {
        _ if !fleet.ready => format!("not ready: {}", fleet.condition.0),
        (Some(AddOn { name, clusters, .. }), _, _) => {
            let failed = clusters.iter().filter(|cluster| has_failed(cluster)).count();
            format!("{name} failed on {failed} of {} clusters", clusters.len())
        }
        (None, Some(AddOn { name, clusters, .. }), _) => {
            let done = clusters.iter().filter(|cluster| cluster.is_settled()).count();
            format!("{name} is done on {done} of {} clusters", clusters.len())
        }
        (None, None, Some(add_on)) => {
            let AddOn { name, clusters, .. } = add_on;
            format!("{name} does not work on {} of {} clusters", add_on.unavailable(), clusters.len())
        }
        (None, None, None) => "every cluster is up to date".to_owned(),
    };
    let head = quarantined
        .filter(|_| fleet.ready)
        .map_or(head, |(name, desired)| format!("{name} is rolled back: {desired} failed"));
    let head = plain(&head, SUBJECT);
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "report: {head}\n\nWheelwright-Version: {version}\nWheelwright-Repo: {}\nWheelwright-Source: {}\nWheelwright-Report: {digest}\n",
        fleet.repo, fleet.applied
    )
}
