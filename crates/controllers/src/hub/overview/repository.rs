//! The summary of a ConfigRepo.

use serde::Serialize;

use super::MESSAGE;
use api::Condition;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, PushedReport, ReportStatus, Revision};
use api::names::gitops_conditions;
use object::Key;
use object::text::{plain, short_commit};

/// A ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    /// Namespace and name.
    pub name: String,
    /// The URL that it fetches.
    pub url: String,
    /// The commit that was fetched last; empty before the first.
    pub seen: String,
    /// The commit that was applied last; empty before the first.
    pub applied: String,
    /// Whether the hub is as the repository says (condition Ready).
    pub ready: bool,
    /// Reason of its condition Ready.
    pub reason: String,
    /// Message of its condition Ready.
    pub message: String,
    /// Whether a person has paused it.
    pub suspended: bool,
    /// The approval that its held deletions wait for.
    pub approval: Option<String>,
    /// Hash of the plan that waits for an approval; empty if none waits.
    pub held_plan: String,
    /// Its last report; empty before the first.
    pub report: String,
    /// Why the newest state could not be reported; empty if it was.
    pub report_error: String,
    /// Its last reports, the newest first.
    pub reports: Vec<ReportSummary>,
}

/// A report that was pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportSummary {
    /// The first digits of its commit.
    pub commit: String,
    /// Time of the push, in UTC; empty if it is unknown.
    pub time: String,
    /// Its content in one line.
    pub summary: String,
}

impl Repository {
    pub(super) fn of(repo: &ConfigRepo) -> Self {
        let status = repo.status.clone().unwrap_or_default();
        let ready = find_condition(&status.conditions, gitops_conditions::READY);
        let commit =
            |revision: &Option<Revision>| revision.as_ref().map(|r| r.commit.clone()).unwrap_or_default();
        let report = status.report.unwrap_or_default();
        Self {
            name: Key::of(repo).to_string(),
            url: repo.spec.url.clone(),
            seen: commit(&status.seen),
            applied: commit(&status.applied),
            ready: ready.is_some_and(Condition::is_true),
            reason: ready.map_or_else(|| "Unknown".into(), |ready| ready.reason.clone()),
            message: ready.map_or_else(
                || "no operator has reconciled it yet".into(),
                |ready| plain(&ready.message, MESSAGE),
            ),
            suspended: repo.spec.suspend,
            approval: status.held_deletions.map(|held| held.approval),
            held_plan: status.held_plan,
            report: self::report(&report),
            report_error: plain(&report.error, MESSAGE),
            reports: report.history.iter().map(pushed).collect(),
        }
    }
}

/// Names the commit of a report, and where it is.
fn report(report: &ReportStatus) -> String {
    let ReportStatus { branch, path, commit, .. } = report;
    if commit.is_empty() {
        return String::new();
    }
    let directory = if path.is_empty() { String::new() } else { format!(" in {path}") };
    let commit = short_commit(commit);
    plain(&format!("{commit} on {branch}{directory}"), MESSAGE)
}

fn pushed(report: &PushedReport) -> ReportSummary {
    let PushedReport { commit, time, summary, unknown: _ } = report;
    ReportSummary {
        commit: plain(short_commit(commit), MESSAGE),
        time: time.as_ref().map(|time| time.0.to_string()).unwrap_or_default(),
        summary: plain(summary, MESSAGE),
    }
}
