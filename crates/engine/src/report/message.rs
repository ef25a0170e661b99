//! The message of a report's commit.

use super::{FleetReport, Workload, WorkloadCluster};
use crate::plural::counted;
use crate::rollout::decision::Counts;
use object::text::plain;

/// Longest subject of a commit, in characters: `git log --oneline` shows so much on a usual terminal.
const SUBJECT: usize = 72;

/// Returns the state of the fleet in a line, without texts of clusters or conditions.
pub(super) fn headline(fleet: &FleetReport) -> String {
    let count = |workload: &Workload, is: fn(&WorkloadCluster) -> bool| {
        workload.clusters.iter().filter(|cluster| is(cluster)).count()
    };
    // A cluster that keeps the last good version has not failed.
    let has_failed = |cluster: &WorkloadCluster| cluster.state.is_failure();
    let failed = fleet.workloads().find(|workload| count(workload, has_failed) > 0);
    let behind = fleet
        .workloads()
        .find(|workload| count(workload, WorkloadCluster::is_settled) < workload.clusters.len());
    let broken = fleet.workloads().find(|workload| workload.unavailable() > 0);
    let quarantined = fleet.workloads().find_map(|workload| {
        let rollout = workload.rollouts.iter().find(|rollout| rollout.quarantined)?;
        let template = rollout.desired.split('@').next().unwrap_or_default();
        let version = template.strip_prefix(workload.name.as_str()).unwrap_or(template);
        Some((workload, version.trim_start_matches('-')))
    });
    let head = match (failed, behind, broken) {
        _ if !fleet.ready => format!("not ready: {}", fleet.condition.0),
        (Some(Workload { name, clusters, .. }), _, _) => {
            let failed = clusters.iter().filter(|cluster| has_failed(cluster)).count();
            format!("{name} failed on {failed} of {}", counted(clusters.len(), "cluster"))
        }
        (None, Some(Workload { name, clusters, .. }), _) => {
            let done = clusters.iter().filter(|cluster| cluster.is_settled()).count();
            format!("{name} is done on {done} of {}", counted(clusters.len(), "cluster"))
        }
        (None, None, Some(workload)) => {
            let Workload { name, clusters, .. } = workload;
            format!(
                "{name} does not work on {} of {}",
                workload.unavailable(),
                counted(clusters.len(), "cluster")
            )
        }
        (None, None, None) => "every cluster is up to date".to_owned(),
    };
    let head = match quarantined.filter(|_| fleet.ready) {
        None => head,
        Some((workload, failed)) => {
            let (name, counts) = (&workload.name, workload.counts());
            let clusters = counted(counts.total, "cluster");
            match counts {
                Counts { returning: 0, returned: 0, .. } => format!("{name}: {failed} is quarantined"),
                Counts { returning: 0, .. } => format!("{name} is rolled back: {failed} failed"),
                Counts { returning, .. } => {
                    format!("{name} is returning on {returning} of {clusters}: {failed} failed")
                }
            }
        }
    };
    plain(&head, SUBJECT)
}

/// Returns the message of the commit, with trailers for programs.
pub fn message(fleet: &FleetReport, digest: &str) -> String {
    let head = headline(fleet);
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "report: {head}\n\nWheelwright-Version: {version}\nWheelwright-Repo: {}\nWheelwright-Source: {}\nWheelwright-Report: {digest}\n",
        fleet.repo, fleet.applied
    )
}
