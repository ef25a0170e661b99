//! The commit message of a report.

use std::collections::BTreeSet;

use super::{FleetReport, Workload, WorkloadCluster};
use crate::plural::counted;
use crate::rollout::decision::Counts;
use object::text::plain;

/// The maximum length of a commit subject, which is what `git log --oneline` shows on a typical terminal.
const SUBJECT: usize = 72;

/// The outcome of a workload, worst first.
pub(super) enum Outcome<'a> {
    /// Failed on this number of clusters.
    Failed(usize),
    /// This number of clusters is returning from the given version, which failed or was undone.
    Returning(usize, &'a str),
    /// The given version failed or was undone, and no cluster has anything to return to.
    Quarantined(&'a str),
    /// The clusters have returned from the given version, which failed or was undone.
    RolledBack(&'a str),
    /// Done on only this number of clusters.
    Behind(usize),
    /// Not working on this number of clusters.
    Broken(usize),
    Done,
}

impl<'a> Outcome<'a> {
    pub(super) fn from_workload(workload: &'a Workload) -> Self {
        let count =
            |is: fn(&WorkloadCluster) -> bool| workload.clusters.iter().filter(|cluster| is(cluster)).count();
        if let Some(rollout) = workload.rollouts.iter().find(|rollout| rollout.quarantined.is_some()) {
            let template = rollout.desired.split('@').next().unwrap_or_default();
            let version = template.strip_prefix(workload.name.as_str()).unwrap_or(template);
            let version = version.trim_start_matches('-');
            return match workload.counts() {
                Counts { returning: 0, returned: 0, .. } => Self::Quarantined(version),
                Counts { returning: 0, .. } => Self::RolledBack(version),
                Counts { returning, .. } => Self::Returning(returning, version),
            };
        }
        // A cluster that keeps the last good version has not failed.
        let failed = count(|cluster| cluster.state.is_failure());
        let done = count(WorkloadCluster::is_settled);
        if failed > 0 {
            Self::Failed(failed)
        } else if done < workload.clusters.len() {
            Self::Behind(done)
        } else if workload.unavailable() > 0 {
            Self::Broken(workload.unavailable())
        } else {
            Self::Done
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Failed(_) => 0,
            Self::Returning(..) => 1,
            Self::Quarantined(_) => 2,
            Self::RolledBack(_) => 3,
            Self::Behind(_) => 4,
            Self::Broken(_) => 5,
            Self::Done => 6,
        }
    }

    fn of_one(&self, Workload { name, clusters, .. }: &Workload) -> String {
        let clusters = counted(clusters.len(), "cluster");
        match self {
            Self::Returning(returning, version) => {
                format!("{name} is rolling back {returning} of {clusters} from {version}")
            }
            Self::Quarantined(version) => format!("{name}: {version} is quarantined"),
            Self::RolledBack(version) => format!("{name} is rolled back from {version}"),
            Self::Failed(failed) => format!("{name} failed on {failed} of {clusters}"),
            Self::Behind(done) => format!("{name} is done on {done} of {clusters}"),
            Self::Broken(broken) => format!("{name} does not work on {broken} of {clusters}"),
            Self::Done => format!("{name} is done on {clusters}"),
        }
    }

    fn of_several(&self) -> &'static str {
        match self {
            Self::Returning(..) => "are returning",
            Self::Quarantined(_) => "are quarantined",
            Self::RolledBack(_) => "are rolled back",
            Self::Failed(_) => "failed",
            Self::Behind(_) => "are rolling out",
            Self::Broken(_) => "do not work",
            Self::Done => "are done",
        }
    }
}

/// Returns the workloads with the worst outcome; `None` if there are none.
pub(super) fn worst<'a>(
    workloads: impl Iterator<Item = &'a Workload>,
) -> Option<(Outcome<'a>, Vec<&'a Workload>)> {
    let mut worst: Option<(Outcome<'_>, Vec<&Workload>)> = None;
    for workload in workloads {
        let outcome = Outcome::from_workload(workload);
        match &mut worst {
            Some((known, _)) if known.rank() < outcome.rank() => {}
            Some((known, same)) if known.rank() == outcome.rank() => same.push(workload),
            Some(_) | None => worst = Some((outcome, vec![workload])),
        }
    }
    worst
}

/// Describes the outcome of some workloads.
pub(super) fn phrase((outcome, workloads): (Outcome<'_>, Vec<&Workload>)) -> String {
    match workloads.as_slice() {
        [only] => outcome.of_one(only),
        several => {
            let names: Vec<&str> = several.iter().map(|workload| workload.name.as_str()).collect();
            format!("{} workloads {}: {}", names.len(), outcome.of_several(), names.join(", "))
        }
    }
}

/// Returns the state of the fleet as one line, without text from clusters or conditions.
pub(super) fn headline(fleet: &FleetReport) -> String {
    let head = match worst(fleet.workloads()) {
        _ if !fleet.ready => format!("not ready: {}", fleet.condition.0),
        None | Some((Outcome::Done, _)) => "every cluster is up to date".to_owned(),
        Some(worst) => phrase(worst),
    };
    plain(&head, SUBJECT)
}

/// Returns the changes since the last report as one line. `changed` are the names of changed workloads; `None`
/// if there is no previous report.
fn subject(fleet: &FleetReport, changed: Option<&BTreeSet<String>>) -> String {
    let Some(changed) = changed.filter(|_| fleet.ready) else { return headline(fleet) };
    let head = match worst(fleet.workloads().filter(|workload| changed.contains(&workload.name))) {
        Some(worst) => phrase(worst),
        None => match worst(fleet.workloads()) {
            None | Some((Outcome::Done, _)) => {
                "labels, settings or placements of the fleet changed".to_owned()
            }
            Some(worst) => phrase(worst),
        },
    };
    plain(&head, SUBJECT)
}

/// Returns the commit message, with trailers for programs. `changed` are the names of the workloads that changed
/// since the last report; `None` if there is none.
pub fn message(fleet: &FleetReport, changed: Option<&BTreeSet<String>>, digest: &str) -> String {
    let head = subject(fleet, changed);
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "report: {head}\n\nWheelwright-Version: {version}\nWheelwright-Repo: {}\nWheelwright-Source: {}\nWheelwright-Report: {digest}\n",
        fleet.repo, fleet.applied
    )
}
