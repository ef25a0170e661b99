//! `wheelwright top`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::CommandResult;
use crate::cli::origin::{Origin, read_by_rollouts};
use crate::cli::output::{Output, Ui, age, table};
use crate::shell::now;
use controllers::hub::overview::{ClusterSummary, Mark, Overview, OverviewController, WorkloadSummary};
use engine::plural::counted;
use engine::rollout::ClusterState;

/// Show the clusters with the most failures and the slowest rollouts.
///
/// The command counts, for each cluster, its add-ons and ManifestWorkReplicaSets that have failed or do not
/// work, that report an error, and that are in progress, as in `wheelwright status`. Clusters on which
/// everything works are left out. The clusters with the most failures come first, then those with errors, and
/// then those whose rollout has been in progress for the longest time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    origin: Origin,
    /// Maximum number of clusters to show. 0 shows all.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A cluster with its unfinished and failed workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterLoad<'a> {
    name: &'a str,
    /// The reason that the cluster is not available; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'a str>,
    /// Number of workloads that have failed or do not work.
    failed: usize,
    /// Number of the other workloads that report an error.
    errors: usize,
    /// Number of workloads in progress, including those that report an error.
    in_progress: usize,
    /// The time since which a workload has been in progress, the earliest of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// The workload in the worst state, with the state and its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Worst<'a>>,
}

/// A workload of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Worst<'a> {
    #[serde(skip)]
    mark: Mark,
    workload: &'a str,
    state: String,
    message: &'a str,
}

/// The JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Loads<'a> {
    /// Number of clusters on which something has failed or is in progress.
    total: usize,
    clusters: &'a [ClusterLoad<'a>],
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let overview = Overview::read(&args.origin.read(&read_by_rollouts::<OverviewController>())?, now())?;
    let loads = loads(&overview);
    let shown = match args.limit {
        0 => loads.as_slice(),
        limit => loads.get(..limit).unwrap_or(&loads),
    };
    match args.output {
        Output::Json => ui.json(&Loads { total: loads.len(), clusters: shown })?,
        Output::Text => ui.text(page(shown, loads.len(), &overview, now()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the clusters on which something has failed or is in progress, worst first.
fn loads(overview: &Overview) -> Vec<ClusterLoad<'_>> {
    let mut loads: BTreeMap<&str, ClusterLoad<'_>> = BTreeMap::new();
    for cluster in &overview.clusters.troubled {
        let load = loads.entry(&cluster.name).or_default();
        load.unavailable = Some(&cluster.message);
    }
    for workload in overview.workloads() {
        for cluster in workload.groups.iter().flat_map(|group| &group.clusters) {
            let mark = cluster.mark();
            if matches!(mark, Mark::Bad | Mark::Warned | Mark::Busy) {
                loads.entry(&cluster.name).or_default().add(workload, cluster, mark);
            }
        }
    }
    let named = loads.into_iter().map(|(name, load)| ClusterLoad { name, ..load });
    let mut loads: Vec<_> = named.collect();
    loads.sort_by_key(|load| {
        let oldest = load.since.unwrap_or(Timestamp::MAX);
        (Reverse((load.failed, load.errors, load.unavailable.is_some())), oldest)
    });
    loads
}

impl<'a> ClusterLoad<'a> {
    fn add(&mut self, workload: &'a WorkloadSummary, cluster: &'a ClusterSummary, mark: Mark) {
        let is_in_progress = matches!(
            cluster.state,
            ClusterState::Starting
                | ClusterState::Progressing { .. }
                | ClusterState::Soaking { .. }
                | ClusterState::Returning { .. }
        );
        self.failed += usize::from(mark == Mark::Bad);
        self.errors += usize::from(mark == Mark::Warned);
        self.in_progress += usize::from(is_in_progress);
        if let Some(since) = cluster.since.filter(|_| is_in_progress) {
            self.since = Some(self.since.map_or(since, |before| before.min(since)));
        }
        if self.worst.as_ref().is_none_or(|worst| mark < worst.mark) {
            let (workload, message) = (workload.name.as_str(), cluster.message.as_str());
            self.worst = Some(Worst { mark, workload, state: cluster.label(), message });
        }
    }

    fn row(&self, now: Timestamp) -> [String; 6] {
        let worst = self.worst.as_ref().map(|Worst { workload, state, message, .. }| {
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            format!("{workload} {state}{message}")
        });
        [
            self.name.to_owned(),
            self.failed.to_string(),
            self.errors.to_string(),
            self.in_progress.to_string(),
            self.since.map_or_else(|| "-".into(), |since| age(since, now)),
            worst.or_else(|| self.unavailable.map(str::to_owned)).unwrap_or_default(),
        ]
    }
}

fn page(shown: &[ClusterLoad<'_>], total: usize, overview: &Overview, now: Timestamp) -> String {
    if total == 0 {
        let clusters = counted(overview.clusters.total, "cluster");
        return format!("everything works on {clusters}, and no rollout is in progress\n");
    }
    const TITLES: [&str; 6] = ["CLUSTER", "FAILED", "ERRORS", "IN PROGRESS", "LONGEST", "WORST"];
    let rows = shown.iter().map(|load| load.row(now));
    let mut page = table(std::iter::once(TITLES.map(str::to_owned)).chain(rows));
    let hidden = total - shown.len();
    if hidden > 0 {
        page.push_str(&format!("and {}; --limit 0 shows all\n", counted(hidden, "more cluster")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use controllers::hub::overview::{Clusters, GroupSummary, UnavailableCluster};

    fn workload(name: &str, clusters: Vec<(&str, ClusterState, bool, &str)>) -> WorkloadSummary {
        let cluster =
            |(name, state, reports_error, since): (&str, ClusterState, bool, &str)| ClusterSummary {
                name: name.into(),
                runs: String::new(),
                available: true,
                reports_error,
                message: format!("message of {name}"),
                since: since.parse().ok(),
                state,
            };
        let clusters = clusters.into_iter().map(cluster).collect();
        let groups = vec![GroupSummary { clusters, ..GroupSummary::default() }];
        WorkloadSummary { name: name.into(), groups, ..WorkloadSummary::default() }
    }

    #[test]
    fn the_clusters_with_the_most_failures_come_first_and_then_the_slowest() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z");
        let logging = vec![
            ("slow", ClusterState::Starting, false, early),
            ("slower", ClusterState::Starting, true, late),
            ("quick", ClusterState::Starting, false, late),
            ("twice", ClusterState::TimedOut, false, early),
            ("once", ClusterState::TimedOut, false, early),
            ("fine", ClusterState::Done, false, early),
        ];
        let metrics = vec![
            ("twice", ClusterState::TimedOut, false, early),
            ("once", ClusterState::Starting, false, early),
            ("quick", ClusterState::Done, true, early),
        ];
        let silent = UnavailableCluster { name: "silent".into(), message: "no lease".into() };
        let overview = Overview {
            clusters: Clusters { total: 7, available: 6, troubled: vec![silent], ..Clusters::default() },
            add_ons: vec![workload("logging", logging), workload("metrics", metrics)],
            ..Overview::default()
        };
        let loads = loads(&overview);
        let page = page(&loads, loads.len(), &overview, "2026-01-01T00:15:00Z".parse().unwrap());
        let expected = "\
CLUSTER   FAILED   ERRORS   IN PROGRESS   LONGEST   WORST
twice     2        0        0             -         logging TimedOut: message of twice
once      1        0        1             15m       logging TimedOut: message of once
quick     0        1        1             5m        metrics Done (reports an error): message of quick
slower    0        1        1             5m        logging Starting (reports an error): message of slower
silent    0        0        0             -         no lease
slow      0        0        1             15m       logging Starting: message of slow
";
        assert_eq!(page, expected);
    }

    #[test]
    fn a_fleet_on_which_everything_works_has_no_table() {
        let overview =
            Overview { clusters: Clusters { total: 1, ..Clusters::default() }, ..Overview::default() };
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            page(&[], 0, &overview, now),
            "everything works on 1 cluster, and no rollout is in progress\n"
        );
    }
}
