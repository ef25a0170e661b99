//! The repositories in the overview.

use jiff::Timestamp;
use maud::{Markup, html};

use super::actions;
use super::html::{ago, list, state};
use super::shown::Shown;
use super::state::State;
use controllers::hub::overview::{ReportSummary, Repository};
use object::text::short_commit;

/// Returns the repositories, with pending approvals and reports.
pub(super) fn repositories(shown: &Shown, now: Timestamp) -> Markup {
    let repositories = &shown.overview.repositories;
    html! {
        section .panel aria-labelledby="repositories" {
            header { h2 #repositories { "Repositories " span .dim { (repositories.len()) } } }
            @if repositories.is_empty() { p .empty { "No ConfigRepo drives this fleet yet." } }
            ul .rows {
                @for repository in repositories {
                    (row(repository, shown.change_repositories.contains(&repository.name), now))
                }
            }
        }
    }
}

fn row(repository: &Repository, has_buttons: bool, now: Timestamp) -> Markup {
    let Repository { name, url, seen, seen_at, applied, healthy, message, reports, .. } = repository;
    let (worst, word) = summary(repository);
    html! {
        li .repo id={ "repository:" (name) } {
            div {
                b { (name) }
                br; span .small.dim.url { (url) }
            }
            div {
                p {
                    (state(worst, word)) " "
                    (commit("", seen)) " " span .dim.small { (ago(seen_at, now)) }
                }
                p .why { (message) }
                p .small.dim {
                    @if applied != seen { (commit("applied ", applied)) " " }
                    @if healthy != applied { (commit("last healthy ", healthy)) " " }
                    @if !repository.report.is_empty() { "last report " (repository.report) }
                }
                (problems(repository))
                @for objects in &repository.objects { h3 { (objects.what) } (list(&objects.objects, objects.more)) }
                (self::reports(name, reports, now))
            }
            @if has_buttons { div .acts { (actions::suspend_or_resume(repository)) } }
        }
    }
}

/// Returns the state of a repository, and the reason of its condition Ready.
fn summary(repository: &Repository) -> (State, &str) {
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

fn commit(what: &str, commit: &str) -> Markup {
    html! { @if !commit.is_empty() { (what) code { (short_commit(commit)) } } }
}

/// Returns the problems and the pending approvals of a repository. The panel at the top has the buttons.
fn problems(repository: &Repository) -> Markup {
    let Repository { name, seen, held_plan, held_deletions, unanswered, report_error, suspended, .. } =
        repository;
    html! {
        @if *suspended { p .hold { "It is suspended (spec.suspend)." } }
        @if !unanswered.is_empty() { p .problem { (unanswered) } }
        @if !report_error.is_empty() { p .problem { "The present state is not reported: " (report_error) } }
        @if let Some(held) = held_deletions {
            p .hold { (held.summary()) }
            (list(&held.objects, held.more))
        }
        @if !held_plan.is_empty() {
            p .hold {
                "The plan of commit " code { (short_commit(seen)) } " waits for the annotation "
                code { "gitops.wheelwright.dev/approve-plan=" (held_plan) } ". In a clone, "
                code { "wheelwright plan --hub KUBECONFIG --config-repo " (name) " --head " (short_commit(seen)) }
                " shows it."
            }
            (actions::object_lists(repository))
        }
    }
}

fn reports(name: &str, reports: &[ReportSummary], now: Timestamp) -> Markup {
    html! {
        @if !reports.is_empty() {
            details .fold id={ "reports:" (name) } {
                summary id={ "open:reports:" (name) } { "Reports" }
                ol .plain {
                    @for ReportSummary { commit, time, summary } in reports {
                        li { (ago(time, now)) " " code { (commit) } " " (summary) }
                    }
                }
            }
        }
    }
}
