//! The page of a repository: the commit, the plan that waits, the conditions and the history.

use jiff::Timestamp;
use maud::{Markup, html};

use super::actions;
use super::html::{ago, list, state};
use super::reasons;
use super::shown::Shown;
use super::state::State;
use controllers::hub::overview::{
    CommitSummary, DirectorySummary, HeldChange, HeldField, HeldFields, HeldObjects, ReportSummary,
    Repository,
};
use engine::plural::counted;
use engine::report::{commit_link, repository_link};
use object::text::short_commit;

/// The number of directories to list.
const LISTED: usize = 100;
/// The number of changes whose fields are unfolded at first.
const UNFOLDED: usize = 3;

/// Returns the content of the page; `None` if the repository does not exist or the visitor may not see it.
pub(super) fn content(name: &str, shown: &Shown, now: Timestamp) -> Option<Markup> {
    let repository = shown.overview.repositories.iter().find(|repository| repository.name == name)?;
    let has_buttons = shown.change_repositories.contains(name);
    Some(html! {
        p .small.dim { a #back href="./" { "Fleet" } " / " a #all href="repositories" { "Repositories" } }
        (head(repository, has_buttons))
        @if !repository.held_plan.is_empty() { (plan(repository, has_buttons)) (fields(repository)) }
        @if let Some(pending) = &repository.held_deletions { (deletions(repository, pending, has_buttons)) }
        (facts(repository, now))
        div .split {
            div .stack { (history(repository, now)) (reports(repository, now)) (objects(repository)) (directories(repository)) }
            div .stack { (reasons::panel(true, &repository.conditions, now)) }
        }
    })
}

/// Returns the state of a repository, and the reason of its condition Ready.
pub(super) fn summary(repository: &Repository) -> (State, &str) {
    let Repository { ready, reconciling, suspended, reason, .. } = repository;
    let waits = !repository.held_plan.is_empty() || repository.held_deletions.is_some();
    match () {
        () if *suspended => (State::Paused, "Suspended"),
        () if waits => (State::Paused, "Waits for approval"),
        () if *ready => (State::Done, reason),
        () if *reconciling => (State::InFlight, reason),
        () if reason == "Unknown" => (State::Waiting, "Not reconciled yet"),
        () => (State::Failed, reason),
    }
}

/// Returns a commit, with a link to it on the git server.
pub(super) fn commit(url: &str, commit: &str) -> Markup {
    let short = html! { code { (short_commit(commit)) } };
    let Some(link) = commit_link(url, commit) else { return short };
    html! { a href=(link) rel="noreferrer" { (short) } }
}

fn head(repository: &Repository, has_buttons: bool) -> Markup {
    let Repository { name, url, follows, message, .. } = repository;
    let (worst, word) = summary(repository);
    html! {
        div .head {
            div {
                h1 { (name) }
                p { (state(worst, word)) " " span .dim { (follows) " of "
                    @if let Some(web) = repository_link(url) { a href=(web) rel="noreferrer" .url { (url) } } @else { span .url { (url) } }
                } }
                p .why { (message) }
            }
            @if has_buttons { div .acts { (actions::suspend_or_resume(repository)) } }
        }
        @if repository.suspended { p .hold { "It is suspended (spec.suspend)." } }
        @for problem in [&repository.unanswered].into_iter().filter(|problem| !problem.is_empty()) { p .problem { (problem) } }
        @if !repository.report_error.is_empty() {
            p .problem { "The current state is not reported: " (repository.report_error) }
        }
    }
}

fn facts(repository: &Repository, now: Timestamp) -> Markup {
    let Repository { url, seen, seen_at, applied, healthy, report, .. } = repository;
    let commits = [("Newest", seen), ("Applied", applied), ("Healthy on the hub", healthy)];
    html! {
        section .panel aria-label="Revisions" {
            dl .facts.body.top {
                @for (term, id) in commits.iter().filter(|(_, id)| !id.is_empty()) {
                    div { dt { (term) } dd { (commit(url, id)) } }
                }
                @if !seen_at.is_empty() { div { dt { "Seen" } dd { (ago(seen_at, now)) } } }
                @if !report.is_empty() { div { dt { "Last report" } dd { (report) } } }
            }
        }
    }
}

/// Returns the plan that waits for an approval: its verdict, its changes and the button.
fn plan(repository: &Repository, has_buttons: bool) -> Markup {
    let Repository { name, url, seen, applied, held_plan, held_changes, .. } = repository;
    let changes: Vec<_> = held_changes.iter().map(|change| change.what.as_str()).collect();
    let compared = repository_link(url)
        .filter(|_| !applied.is_empty())
        .map(|web| format!("{web}/compare/{applied}...{seen}"));
    html! {
        section .panel.verdict aria-labelledby="plan" {
            header {
                h2 #plan { (state(State::Paused, "Plan waits for approval")) }
                span .acts {
                    @if let Some(compared) = compared {
                        a .btn href=(compared) rel="noreferrer" { "See the commits" }
                    }
                    @if has_buttons { (actions::approve_plan(repository)) }
                }
            }
            div .body {
                p {
                    @if changes.is_empty() { "It changes no object that the operator has listed." }
                    @else { (changes.join(", ")) "." }
                    " Nothing changes before the approval."
                }
                dl .facts {
                    div { dt { "Commit" } dd { (commit(url, seen)) } }
                    @if !applied.is_empty() { div { dt { "After" } dd { (commit(url, applied)) } } }
                    div { dt { "Plan hash" } dd { code { (held_plan) } } }
                    div { dt { "Valid until" } dd { "another commit changes the objects" } }
                }
                div .lists { (actions::object_lists(repository)) }
                p .small.dim {
                    "In a clone, " (plan_command(repository))
                    " shows every field and the batches of clusters. Without this page, approve it with "
                    code { "wheelwright repo approve " (name) " " (held_plan) } "."
                }
            }
        }
    }
}

/// Returns the command that shows a waiting plan in full.
fn plan_command(repository: &Repository) -> Markup {
    let Repository { name, seen, .. } = repository;
    html! { code { "wheelwright plan --config-repo " (name) " --head " (short_commit(seen)) } }
}

/// Returns the fields that the waiting plan changes. Objects with the same change share an entry.
fn fields(repository: &Repository) -> Markup {
    let HeldFields { changes, unlisted } = &repository.held_fields;
    html! {
        @if !changes.is_empty() {
            section .panel aria-labelledby="changes" {
                header {
                    h2 #changes { "Changes" }
                    span .small.dim {
                        (counted(repository.held_fields.total(), "object")) " in "
                        (counted(changes.len(), "different change"))
                    }
                }
                ul .rows {
                    @for (number, one) in changes.iter().enumerate() { li { (change(number, one)) } }
                }
                @if *unlisted > 0 {
                    p .note.small.dim {
                        "The fields of " (counted(*unlisted, "more object")) " are not listed here. "
                        (plan_command(repository)) " shows them."
                    }
                }
            }
        }
    }
}

/// Returns a change of fields and its objects.
fn change(number: usize, change: &HeldChange) -> Markup {
    let HeldChange { is_new, objects, more, fields, more_fields } = change;
    let total = change.total();
    let names = objects.join(", ");
    html! {
        details id={ "change:" (number) } open[number < UNFOLDED] {
            summary id={ "open:change:" (number) } {
                b {
                    @if *is_new { "+ " } @else { "~ " }
                    @match (is_new, total) {
                        (_, 1) => { (names) }
                        (true, _) => { "The same fields in " (total) " new objects" }
                        (false, _) => { "The same change in " (total) " objects" }
                    }
                }
            }
            @if total > 1 { p .small.dim.why { (names) @if *more > 0 { " and " (more) " more" } } }
            @if fields.is_empty() { p .small.dim { "No field of the hub differs." } }
            @else {
                div .diff {
                    @for HeldField { path, before, after } in fields {
                        span { (path) }
                        @if !before.is_empty() { del { "− " (before) } }
                        @if !after.is_empty() { ins { "+ " (after) } }
                    }
                }
            }
            @if *more_fields > 0 { p .small.dim { "and " (counted(*more_fields, "more field")) } }
        }
    }
}

fn deletions(repository: &Repository, pending: &HeldObjects, has_buttons: bool) -> Markup {
    html! {
        section .panel.verdict aria-labelledby="deletions" {
            header {
                h2 #deletions { (state(State::Paused, "Deletions wait for approval")) }
                @if has_buttons { span .acts { (actions::approve_deletions(repository, pending)) } }
            }
            div .body { p { (pending.summary()) } (list(&pending.objects, pending.more)) }
        }
    }
}

fn history(repository: &Repository, now: Timestamp) -> Markup {
    let Repository { url, history, applied, .. } = repository;
    html! {
        section .panel aria-labelledby="history" {
            header { h2 #history { "Commits" } span .small.dim { "the last results, newest first" } }
            @if history.is_empty() { p .empty { "No commit has a result yet." } }
            @else {
                table {
                    thead { tr {
                        th scope="col" { "Commit" } th scope="col" { "Result" } th scope="col" { "Since" }
                    } }
                    tbody {
                        @for CommitSummary { commit: id, reason, time } in history {
                            tr {
                                td { (commit(url, id)) @if id == applied { " " span .small.dim { "applied" } } }
                                td { (state(result(reason), reason)) }
                                td { (ago(time, now)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the state in which the result of a commit is shown.
fn result(reason: &str) -> State {
    match reason {
        "Applied" | "Observed" => State::Done,
        "PlanNotApproved" | "DeletionsHeld" | "Frozen" | "OutsideApplyWindows" => State::Paused,
        _ => State::Failed,
    }
}

fn reports(repository: &Repository, now: Timestamp) -> Markup {
    let Repository { report_url, reports, .. } = repository;
    html! {
        @if !reports.is_empty() {
            section .panel aria-labelledby="reports" {
                header { h2 #reports { "Reports" } span .small.dim { "commits on the report branch, newest first" } }
                table {
                    thead { tr {
                        th scope="col" { "Report" } th scope="col" { "Summary" } th scope="col" { "Pushed" }
                    } }
                    tbody {
                        @for ReportSummary { commit: id, time, summary } in reports {
                            tr { td { (commit(report_url, id)) } td { (summary) } td { (ago(time, now)) } }
                        }
                    }
                }
            }
        }
    }
}

fn objects(repository: &Repository) -> Markup {
    html! {
        @if !repository.objects.is_empty() {
            section .panel aria-labelledby="objects" {
                header { h2 #objects { "Objects" } }
                div .body { @for objects in &repository.objects { h3 { (objects.what) } (list(&objects.objects, objects.more)) } }
            }
        }
    }
}

fn directories(repository: &Repository) -> Markup {
    let all = &repository.directories;
    html! {
        @if !all.is_empty() {
            section .panel aria-labelledby="directories" {
                header {
                    h2 #directories { "Directories" }
                    span .small.dim { "they match spec.paths, and are rendered separately" }
                }
                table {
                    thead { tr { th scope="col" { "Directory" } th scope="col" { "Objects" } } }
                    tbody {
                        @for DirectorySummary { path, objects } in all.iter().take(LISTED) {
                            tr { td { (path) } td { (objects) } }
                        }
                    }
                }
                @if all.len() > LISTED { p .note.small.dim { "and " (all.len() - LISTED) " more" } }
            }
        }
    }
}
