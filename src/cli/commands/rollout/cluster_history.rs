//! `wheelwright rollout history --cluster`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::history::{Reports, TEXT};
use crate::cli::output::{Output, Ui, age, table};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use engine::report::cluster_file;
use object::text::{plain, short_commit};

/// The problems of a cluster in a report, and in the later ones that repeat them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct State {
    /// Time of the report.
    time: Timestamp,
    /// Commit of the report.
    report: String,
    /// The commit of the repository that was applied.
    commit: String,
    #[serde(flatten)]
    problems: Problems,
}

/// The file of a cluster in a report: the problems of add-ons, sets and works, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Problems {
    add_ons: BTreeMap<String, Problem>,
    replica_sets: BTreeMap<String, Problem>,
    works: BTreeMap<String, Problem>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Problem {
    state: String,
    available: bool,
    configuration: String,
    message: String,
}

pub(super) fn run(cluster: &str, reports: &Reports<'_>, output: Output, ui: &mut Ui) -> CommandResult {
    let states = states(cluster, reports)?;
    match output {
        Output::Json => ui.json(&states)?,
        Output::Text if states.is_empty() => {
            ui.text(format!("No report on {} lists a problem of {cluster}.\n", reports.branch))?;
        }
        Output::Text => ui.text(text(&states, now()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the problems that the cluster had, newest first. A report without problems follows one with problems.
fn states(cluster: &str, reports: &Reports<'_>) -> Result<Vec<State>, CommandError> {
    let file = cluster_file(cluster);
    let mut states = Vec::new();
    let max = reports.limit.saturating_add(1);
    for change in reports.repository.changes(&reports.tip, &reports.path(&file), max)? {
        let problems = reports.read::<Problems>(&change.commit, &file)?;
        let commit = reports.applied(&change.commit)?;
        let problems = problems.unwrap_or_default();
        states.push(State { time: change.time, report: change.commit, commit, problems });
    }
    // The first report of the branch changes nothing if the cluster has no problem in it.
    states.pop_if(|oldest| oldest.problems == Problems::default());
    states.truncate(reports.limit);
    Ok(states)
}

/// Returns a table with a row for each problem.
fn text(states: &[State], now: Timestamp) -> String {
    let header = ["AGE", "REPORT", "COMMIT", "ROLLOUT", "STATE", "MESSAGE"].map(str::to_owned);
    let rows = states.iter().flat_map(|State { time, report, commit, problems }| {
        let Problems { add_ons, replica_sets, works } = problems;
        let all = add_ons.iter().chain(replica_sets).chain(works);
        let all = all.map(|(name, Problem { state, message, .. })| {
            [name, state, message].map(|text| plain(text, TEXT))
        });
        let mut all: Vec<_> = all.collect();
        if all.is_empty() {
            all.push(["-", "no problem", ""].map(str::to_owned));
        }
        let start = [age(*time, now), short_commit(report).to_owned(), short_commit(commit).to_owned()];
        all.into_iter().map(move |[name, state, message]| {
            let [age, report, commit] = start.clone();
            [age, report, commit, name, state, message]
        })
    });
    table([header].into_iter().chain(rows))
}
