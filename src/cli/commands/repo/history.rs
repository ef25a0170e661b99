//! `wheelwright repo history`.

use std::cmp::Reverse;
use std::process::ExitCode;

use controllers::hub::overview::Repository;
use jiff::Timestamp;
use object::text::short_commit;
use serde::Serialize;

use super::RepoName;
use crate::cli::CommandResult;
use crate::cli::connect::HubArgs;
use crate::cli::output::{Output, Ui, age, table};
use crate::cli::runtime::block_on;
use crate::shell::now;

/// Show the last results of a repository's commits, and its last reports, newest first.
///
/// The hub keeps the last five results and the last ten reports. The branch with the reports has all of them:
/// `git log origin/wheelwright/status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repo: RepoName,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    hub: HubArgs,
}

/// A result of a commit, or a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    /// Absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
    kind: Kind,
    commit: &'a str,
    /// The reason of the condition Ready, or the summary of the report.
    summary: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Result,
    Report,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let repo = args.repo.find(&args.hub.connect().await?).await?;
        let repository = Repository::from_config_repo(&repo);
        let entries = entries(&repository);
        match args.output {
            Output::Json => ui.json(&entries)?,
            Output::Text if entries.is_empty() => {
                ui.line(format!("ConfigRepo {} has no result yet", repository.name))?;
            }
            Output::Text => ui.text(text(&entries, now()))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the results and the reports, newest first. Of the same time, results come first.
fn entries(repository: &Repository) -> Vec<Entry<'_>> {
    let results = repository.history.iter().map(|one| (&one.time, Kind::Result, &one.commit, &one.reason));
    let reports = repository.reports.iter().map(|one| (&one.time, Kind::Report, &one.commit, &one.summary));
    let entries = results.chain(reports);
    let mut entries: Vec<_> = entries
        .map(|(time, kind, commit, summary)| Entry { time: time.parse().ok(), kind, commit, summary })
        .collect();
    entries.sort_by_key(|entry| Reverse(entry.time));
    entries
}

fn text(entries: &[Entry<'_>], now: Timestamp) -> String {
    let header = ["AGE", "COMMIT", "RESULT"].map(str::to_owned);
    let rows = entries.iter().map(|Entry { time, kind, commit, summary }| {
        let age = time.map_or_else(|| "-".to_owned(), |time| age(time, now));
        let result = match kind {
            Kind::Result => (*summary).to_owned(),
            Kind::Report => format!("report: {summary}"),
        };
        [age, short_commit(commit).to_owned(), result]
    });
    table([header].into_iter().chain(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controllers::hub::overview::{CommitSummary, ReportSummary};

    #[test]
    fn results_and_reports_are_listed_by_time_with_the_newest_first() {
        let result = |commit: &str, reason: &str, time: &str| CommitSummary {
            commit: commit.into(),
            reason: reason.into(),
            time: time.into(),
        };
        let repository = Repository {
            history: vec![
                result("2222222222222222", "InvalidObject", "2026-01-02T03:04:05Z"),
                result("1111111111111111", "Applied", "2026-01-02T03:00:05Z"),
                result("0", "Applied", ""),
            ],
            reports: vec![ReportSummary {
                commit: "aaaaaaaa".into(),
                time: "2026-01-02T03:01:05Z".into(),
                summary: "hello: 3 of 3 clusters done".into(),
            }],
            ..Repository::default()
        };
        let text = text(&entries(&repository), "2026-01-02T03:05:05Z".parse().unwrap());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(
            lines,
            [
                vec!["AGE", "COMMIT", "RESULT"],
                vec!["1m", "222222222222", "InvalidObject"],
                vec!["4m", "aaaaaaaa", "report: hello: 3 of 3 clusters done"],
                vec!["5m", "111111111111", "Applied"],
                vec!["-", "0", "Applied"],
            ]
        );
    }
}
