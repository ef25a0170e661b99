//! `wheelwright rollout history`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use controllers::hub::overview::template_version;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::RolloutName;
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
const TEXT: usize = 300;

/// Show how a rollout went, from the reports in git, newest first.
///
/// The command reads the branch with the reports, so `spec.report` of the ConfigRepo must be set. It needs no hub.
/// Each line is a state that the rollout had in a report.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutName,
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
    let states = args.states(&repository)?;
    match args.output {
        Output::Json => ui.json(&states)?,
        Output::Text => ui.text(text(&states, &args.subject.name, now()))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns the states of the rollout, newest first.
    ///
    /// # Errors
    /// Fails if the branch cannot be read, or no report has the rollout.
    fn states(&self, repository: &Revisions) -> Result<Vec<State>, CommandError> {
        let (branch, name) = (&self.report, &self.subject.name);
        let tip = repository.checkout(branch)?;
        let file = match &self.report_path {
            Some(directory) => below(directory.trim_matches('/')),
            None => only_summary(&tip.tree, branch)?,
        };
        let mut states: Vec<State> = Vec::new();
        for change in repository.changes(&tip.revision, &file, REPORTS)? {
            let Some(bytes) = repository.file(&change.commit, &file)? else { break };
            let place = || format!("cannot read {file} of {}", short_commit(&change.commit));
            let summary: Summary = serde_json::from_slice(&bytes).with_context(place)?;
            let Summary { commit, mut add_ons, mut replica_sets } = summary;
            let Some(workload) = add_ons.remove(name).or_else(|| replica_sets.remove(name)) else { continue };
            let state = State { time: change.time, report: change.commit, commit: commit.applied, workload };
            // The older report is the one in which the state began.
            let is_full = states.len() == self.limit.get();
            match states.last_mut() {
                Some(newer) if newer.workload == state.workload && newer.commit == state.commit => {
                    *newer = state
                }
                _ if is_full => break,
                _ => states.push(state),
            }
        }
        if states.is_empty() {
            let error = anyhow!("no report on {branch} has a rollout {name}");
            let hint =
                "name the add-on, or NAMESPACE/NAME of the ManifestWorkReplicaSet; git log shows the reports";
            return Err(CommandError::hinted(error, hint));
        }
        Ok(states)
    }
}

/// Returns the path of the summary in a directory.
fn below(directory: &str) -> String {
    if directory.is_empty() { SUMMARY.to_owned() } else { format!("{directory}/{SUMMARY}") }
}

/// Returns the path of the only summary on a branch.
///
/// # Errors
/// Fails if there is none, or several.
fn only_summary(tree: &FileTree, branch: &str) -> Result<String, CommandError> {
    let is_summary = |path: &&str| path.rsplit('/').next() == Some(SUMMARY);
    let found: Vec<&str> = tree.below("").map(|(path, _)| path).filter(is_summary).collect();
    match found.as_slice() {
        [only] => Ok((*only).to_owned()),
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
        let others = others.map(|(state, count)| format!(", {count} {state}")).collect::<String>();
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
