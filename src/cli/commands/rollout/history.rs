//! `wheelwright rollout history`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use controllers::hub::overview::template_version;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cluster_history;
use crate::cli::checkout::{RepositoryArgs, Revisions};
use crate::cli::output::{Output, Ui, age, table};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use object::text::{plain, short_commit};
use object::tree::FileTree;

/// The file of a report that has the state of each rollout.
const SUMMARY: &str = "summary.json";
/// The maximum number of reports to read.
const REPORTS: usize = 1_000;
/// The longest text in the output, in characters.
pub(super) const TEXT: usize = 300;

/// Show how a rollout went, or what went wrong on a cluster, from the reports in git, newest first.
///
/// The command reads the branch with the reports, so `spec.report` of the ConfigRepo must be set. It needs no hub.
/// Each line is a state that the rollout had in a report. With `--cluster`, it is a problem of the cluster; a report
/// lists the problems of the 1,000 worst clusters.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the add-on (its ClusterManagementAddOn), or NAMESPACE/NAME of a ManifestWorkReplicaSet.
    #[arg(value_name = "ADDON|NAMESPACE/NAME", required_unless_present = "cluster")]
    name: Option<String>,
    /// Show the problems of this cluster instead.
    #[arg(long, value_name = "CLUSTER", conflicts_with = "name")]
    cluster: Option<String>,
    /// Branch with the reports.
    #[arg(long, value_name = "REF", default_value = "wheelwright/status")]
    report: String,
    /// Directory of the report on the branch, if the branch has several.
    #[arg(long, value_name = "DIR")]
    report_path: Option<String>,
    /// Maximum number of states to show.
    #[arg(long, value_name = "NUMBER", default_value = "20")]
    limit: NonZeroUsize,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    repository: RepositoryArgs,
}

/// A state that a rollout had in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct State {
    /// Time of the report.
    time: Timestamp,
    /// Commit of the report.
    report: String,
    /// The commit of the repository that was applied.
    commit: String,
    #[serde(flatten)]
    workload: Workload,
}

/// The parts of a report's summary that a history shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Summary {
    commit: Commits,
    add_ons: BTreeMap<String, Workload>,
    replica_sets: BTreeMap<String, Workload>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Commits {
    applied: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Workload {
    /// Number of clusters in each state, and `total`.
    clusters: BTreeMap<String, usize>,
    /// Number of clusters by configuration.
    configurations: BTreeMap<String, usize>,
    rollouts: Vec<Rollout>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Rollout {
    placement: String,
    state: String,
    message: String,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let repository = args.repository.open()?;
    let reports = args.reports(&repository)?;
    if let Some(cluster) = &args.cluster {
        return cluster_history::run(cluster, &reports, args.output, ui);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let states = reports.states(name)?;
    match args.output {
        Output::Json => ui.json(&states)?,
        Output::Text => ui.text(text(&states, name, now()))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Finds the reports.
    ///
    /// # Errors
    /// Fails if the branch cannot be read, has no report, or has several and the arguments name none.
    fn reports<'a>(&'a self, repository: &'a Revisions) -> Result<Reports<'a>, CommandError> {
        let branch = self.report.as_str();
        let tip = repository.checkout(branch)?;
        let directory = match &self.report_path {
            Some(directory) => directory.trim_matches('/').to_owned(),
            None => only_report(&tip.tree, branch)?,
        };
        Ok(Reports { repository, branch, tip: tip.revision.clone(), directory, limit: self.limit.get() })
    }
}

/// The reports in a directory of a branch.
pub(super) struct Reports<'a> {
    pub(super) repository: &'a Revisions,
    pub(super) branch: &'a str,
    /// The newest commit of the branch.
    pub(super) tip: String,
    directory: String,
    /// The maximum number of results.
    pub(super) limit: usize,
}

impl Reports<'_> {
    /// Returns the path of a file of the report.
    pub(super) fn path(&self, file: &str) -> String {
        if self.directory.is_empty() { file.to_owned() } else { format!("{}/{file}", self.directory) }
    }

    /// Returns the commit of the repository that was applied at the time of a report; empty if unknown.
    ///
    /// # Errors
    /// Fails if the report cannot be read.
    pub(super) fn applied(&self, report: &str) -> Result<String, CommandError> {
        Ok(self.read::<Summary>(report, SUMMARY)?.unwrap_or_default().commit.applied)
    }

    /// Reads a file of a report; `None` if the report does not have it.
    ///
    /// # Errors
    /// Fails if the file cannot be read or has another format.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        report: &str,
        file: &str,
    ) -> Result<Option<T>, CommandError> {
        let file = self.path(file);
        let Some(bytes) = self.repository.file(report, &file)? else { return Ok(None) };
        let place = || format!("cannot read {file} of {}", short_commit(report));
        Ok(Some(serde_json::from_slice(&bytes).with_context(place)?))
    }

    /// Returns the states of a rollout, newest first.
    ///
    /// # Errors
    /// Fails if the branch cannot be read, or no report has the rollout.
    fn states(&self, name: &str) -> Result<Vec<State>, CommandError> {
        let mut states: Vec<State> = Vec::new();
        for change in self.repository.changes(&self.tip, &self.path(SUMMARY), REPORTS)? {
            let Some(summary) = self.read::<Summary>(&change.commit, SUMMARY)? else { break };
            let Summary { commit, mut add_ons, mut replica_sets } = summary;
            let Some(workload) = add_ons.remove(name).or_else(|| replica_sets.remove(name)) else { continue };
            let state = State { time: change.time, report: change.commit, commit: commit.applied, workload };
            // The older report is the one in which the state began.
            let is_full = states.len() == self.limit;
            match states.last_mut() {
                Some(newer) if newer.workload == state.workload && newer.commit == state.commit => {
                    *newer = state
                }
                _ if is_full => break,
                _ => states.push(state),
            }
        }
        if states.is_empty() {
            let error = anyhow!("no report on {} has a rollout {name}", self.branch);
            let hint =
                "name the add-on, or NAMESPACE/NAME of the ManifestWorkReplicaSet; git log shows the reports";
            return Err(CommandError::hinted(error, hint));
        }
        Ok(states)
    }
}

/// Returns the directory of the only report on a branch.
///
/// # Errors
/// Fails if there is none, or several.
fn only_report(tree: &FileTree, branch: &str) -> Result<String, CommandError> {
    let is_summary = |path: &&str| path.rsplit('/').next() == Some(SUMMARY);
    let found: Vec<&str> = tree.below("").map(|(path, _)| path).filter(is_summary).collect();
    match found.as_slice() {
        [only] => Ok(only.trim_end_matches(SUMMARY).trim_end_matches('/').to_owned()),
        [] => {
            let error = anyhow!("the branch {branch} has no report");
            Err(CommandError::hinted(
                error,
                "set spec.report of the ConfigRepo, or name another branch with --report",
            ))
        }
        [first, ..] => {
            let directory = first.trim_end_matches(SUMMARY).trim_end_matches('/');
            let directory = if directory.is_empty() { "/" } else { directory };
            let error = anyhow!("the branch {branch} has {} reports", found.len());
            Err(CommandError::hinted(error, format!("name one, such as --report-path {directory}")))
        }
    }
}

fn text(states: &[State], name: &str, now: Timestamp) -> String {
    let header = ["AGE", "REPORT", "COMMIT", "STATE", "CLUSTERS", "RUNNING"].map(str::to_owned);
    let rows = states.iter().map(|State { time, report, commit, workload }| {
        let [report, commit] = [report, commit].map(|commit| short_commit(commit).to_owned());
        [age(*time, now), report, commit, workload.state(), workload.clusters(), workload.versions(name)]
    });
    table([header].into_iter().chain(rows))
}

/// Returns the state of a cluster in a report as words, such as `timed out` for `timedOut`.
fn words(state: &str) -> String {
    let parts = state.chars().map(|letter| match letter.is_ascii_uppercase() {
        true => format!(" {}", letter.to_ascii_lowercase()),
        false => letter.to_string(),
    });
    parts.collect()
}

impl Workload {
    /// Returns the states of the rollouts on the placements, each once.
    fn state(&self) -> String {
        let states: BTreeSet<&str> = self.rollouts.iter().map(|rollout| rollout.state.as_str()).collect();
        plain(&Vec::from_iter(states).join(", "), TEXT)
    }

    /// Returns the number of clusters that are done, followed by the other states.
    fn clusters(&self) -> String {
        let count = |state: &str| self.clusters.get(state).copied().unwrap_or_default();
        let others = self
            .clusters
            .iter()
            .filter(|(state, count)| **count > 0 && !["done", "total"].contains(&state.as_str()));
        let others = others.map(|(state, count)| format!(", {count} {}", words(state))).collect::<String>();
        plain(&format!("{} of {} done{others}", count("done"), count("total")), TEXT)
    }

    /// Returns the versions that run, with the number of clusters of each.
    fn versions(&self, name: &str) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (configuration, count) in &self.configurations {
            *counts.entry(template_version(configuration, name)).or_default() += count;
        }
        counts.remove("");
        let counts: Vec<_> =
            counts.into_iter().map(|(version, count)| format!("{version} on {count}")).collect();
        plain(&counts.join(", "), TEXT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_clusters_are_words() {
        let clusters = [("done", 1), ("failed", 0), ("timedOut", 2), ("total", 3)];
        let clusters = clusters.map(|(state, count)| (state.to_owned(), count)).into();
        let workload = Workload { clusters, ..Workload::default() };
        assert_eq!(workload.clusters(), "1 of 3 done, 2 timed out");
    }
}
