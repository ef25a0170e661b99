//! The entries that need a person, each with its cause and the next step.

use std::collections::BTreeMap;

use jiff::Timestamp;
use maud::{Markup, html};

use super::actions;
use super::html::{ago, cluster_link, list, state};
use super::paging::{Page, encoded};
use super::rollouts::summary;
use super::shown::Shown;
use super::state::State;
use controllers::hub::overview::{ClusterSummary, Clusters, Repository, WorkloadSummary};
use engine::plural::counted;
use engine::rollout::ClusterState;
use object::text::{clip, short_commit};

/// The maximum number of entries in the overview.
const SHOWN: usize = 10;
/// The maximum number of clusters to name per entry.
const NAMED: usize = 3;
/// The maximum length of a cause, in characters.
const CAUSE: usize = 300;

/// An entry that needs a person.
struct Need {
    state: State,
    /// A title of a few words.
    what: String,
    /// The subject and the cause.
    cause: Markup,
    /// The next step.
    action: Markup,
}

/// Returns the panel at the top of the overview.
pub(super) fn band(shown: &Shown, now: Timestamp) -> Markup {
    let needs = needs(shown, now);
    if needs.is_empty() {
        return html! {
            p .panel.calm #attention { (state(State::Done, "Nothing needs your attention.")) }
        };
    }
    html! {
        section .panel.need aria-labelledby="attention" {
            header {
                h2 #attention { "Needs attention " span .dim { (needs.len()) } }
                span .small.dim { "Most urgent first" }
            }
            (rows(needs.iter().take(SHOWN)))
            @if needs.len() > SHOWN {
                p .empty { a #more-attention href="attention" { "Show " (needs.len() - SHOWN) " more" } }
            }
        }
    }
}

/// Returns the page with all entries.
pub(super) fn page(number: usize, shown: &Shown, now: Timestamp) -> Markup {
    let needs = needs(shown, now);
    let page = Page::new(number, needs.len());
    html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Needs attention" }
        div .head { h1 { "Needs attention" } p .dim { (needs.len()) ", most urgent first" } }
        section .panel.need[!needs.is_empty()] aria-label="Needs attention" {
            @if needs.is_empty() { p .calm { (state(State::Done, "Nothing needs your attention.")) } }
            (rows(page.rows(&needs)))
            (page.links("attention", &[]))
        }
    }
}

fn rows<'n>(needs: impl Iterator<Item = &'n Need>) -> Markup {
    html! {
        ul .rows {
            @for need in needs {
                li {
                    (state(need.state, &need.what))
                    div { (need.cause) }
                    div .acts { (need.action) }
                }
            }
        }
    }
}

fn needs(shown: &Shown, now: Timestamp) -> Vec<Need> {
    let overview = &shown.overview;
    let mut needs = Vec::new();
    for repository in &overview.repositories {
        needs.extend(of_repository(repository, now));
    }
    for workload in overview.workloads() {
        needs.extend(of_workload(workload, shown));
    }
    needs.extend(silent(&overview.clusters));
    needs.extend(overview.placements.iter().filter(|one| !one.satisfied).map(|placement| Need {
        state: State::Warned,
        what: "Placement".into(),
        cause: html! { b { (placement.name) } " " (clip(&placement.message, CAUSE)) },
        action: html! { @if shown.explain_placements {
            a .btn href={ "placement?of=" (encoded(&placement.name)) } { "Why" }
        } },
    }));
    // The sort is stable: entries of the same urgency keep their order.
    needs.sort_by_key(|need| need.state);
    needs
}

fn of_repository(repository: &Repository, now: Timestamp) -> Vec<Need> {
    let Repository { name, seen, message, report_error, unanswered, .. } = repository;
    let address = format!("repository?of={}", encoded(name));
    let commit = |what: &str| {
        html! {
            a id={ "need:" (what) ":" (name) } href=(address) { b { (name) } } " " code { (short_commit(seen)) }
        }
    };
    let open = html! { a .btn href=(address) { "Open" } };
    let mut needs = Vec::new();
    if super::repository::summary(repository).0 == State::Failed {
        let is_rejected = seen != &repository.applied && !seen.is_empty();
        needs.push(Need {
            state: State::Failed,
            what: if is_rejected { "Commit rejected" } else { "Repository" }.into(),
            cause: html! {
                (commit("ready")) " " (repository.reason) " " span .dim.small { (ago(&repository.ready_since, now)) }
                br; span .why { (clip(message, CAUSE)) }
                @if is_rejected && !repository.applied.is_empty() {
                    " " span .dim.small { (short_commit(&repository.applied)) " stays applied" }
                }
            },
            action: open.clone(),
        });
    }
    for problem in [unanswered, report_error].into_iter().filter(|problem| !problem.is_empty()) {
        let what = if problem == report_error { "Report failed" } else { "No response" };
        let cause = html! { (commit(what)) br; span .why { (clip(problem, CAUSE)) } };
        needs.push(Need { state: State::Warned, what: what.into(), cause, action: open.clone() });
    }
    if !repository.held_plan.is_empty() {
        let changes: Vec<_> = repository.held_changes.iter().map(|list| list.what.clone()).collect();
        needs.push(Need {
            state: State::Paused,
            what: "Plan waits".into(),
            cause: html! {
                (commit("plan")) " " span .dim.small { (ago(&repository.seen_at, now)) }
                @if !changes.is_empty() { br; (changes.join(" · ")) }
            },
            action: html! { a .btn.go href=(address) { "Review" } },
        });
    }
    if let Some(pending) = &repository.held_deletions {
        needs.push(Need {
            state: State::Paused,
            what: "Deletions wait".into(),
            cause: html! {
                (commit("deletions")) br; (counted(pending.total(), "object"))
                @if !pending.until.is_empty() { ", to be deleted without an approval " (ago(&pending.until, now)) }
            },
            action: html! { a .btn.go href=(address) { "Review" } },
        });
    }
    needs
}

fn of_workload(workload: &WorkloadSummary, shown: &Shown) -> Vec<Need> {
    let WorkloadSummary { name, holds, corrections, approvals, .. } = workload;
    let open = html! { a .btn href={ "rollout?of=" (encoded(name)) } { "Open" } };
    let link = |what: &str| html! { a id={ "need:" (what) ":" (name) } href={ "rollout?of=" (encoded(name)) } { b { (name) } } };
    let failing = if summary(workload).0 == State::Failed { "Rollout failed" } else { "Clusters failed" };
    let undo = html! {
        @if !workload.undo.is_empty() && shown.change_rollouts { (actions::undo(workload)) }
    };
    let mut needs = Vec::new();
    let mut need = |state: State, what: &str, clusters: Vec<&ClusterSummary>| {
        if clusters.is_empty() {
            return;
        }
        let cause = html! {
            (link(what)) " " (reason(workload, state, clusters.len()))
            (first_of(name, &clusters))
        };
        // Only one entry of a rollout has the button, because its id is unique.
        let action = html! { @if what == failing { (undo) } (open) };
        needs.push(Need { state, what: what.into(), cause, action });
    };
    let in_state = |state: State| workload.clusters().filter(move |one| State::from_cluster(one) == state);
    let (failed, broken): (Vec<_>, Vec<_>) = in_state(State::Failed).partition(|one| one.state.has_failed());
    need(State::Failed, failing, failed);
    need(State::Failed, "Not working", broken);
    need(State::Warned, "Reports an error", in_state(State::Warned).collect());
    need(State::Returned, "Rolled back", in_state(State::Returned).collect());
    if !workload.paused_by.is_empty() {
        let returning = |one: &&ClusterSummary| matches!(one.state, ClusterState::Returning { .. });
        need(State::Paused, "Return paused", workload.clusters().filter(returning).collect());
    }
    for (token, about) in approvals {
        let action =
            html! { @if shown.change_rollouts { (actions::approve(workload, token, about)) } (open) };
        let cause = html! { (link(token)) " waits for an approval" br; span .dim { (about) } };
        needs.push(Need { state: State::Paused, what: "Waits for approval".into(), cause, action });
    }
    if !corrections.is_empty() {
        let cause = html! { (link("strategy")) (list(corrections, 0)) };
        needs.push(Need { state: State::Warned, what: "Strategy".into(), cause, action: open.clone() });
    }
    // A hold that has no other entry, such as a rollout that cannot be decided.
    if needs.is_empty() && workload.paused_by.is_empty() && !holds.is_empty() {
        let cause = html! { (link("held")) " " (holds.join("; ")) };
        needs.push(Need { state: State::Paused, what: "Rollout held".into(), cause, action: open });
    }
    needs
}

/// Describes how many clusters of a workload are in a state, and what that stops.
fn reason(workload: &WorkloadSummary, state: State, number: usize) -> Markup {
    let of = format!("{number} of {}", counted(workload.total, "cluster"));
    html! {
        @match state {
            State::Returned => { "returned on " (of) "; fix or revert the commit" }
            State::Paused => { "keeps its quarantined revision on " (of) " until the pause ends" }
            State::Warned => { "reports an error on " (of) }
            _ => { "failed on " (of) @if let Some(hold) = workload.holds.first() { ": " (clip(hold, CAUSE)) } }
        }
    }
}

/// Formats the first clusters of an entry, and the reason of the very first.
fn first_of(workload: &str, clusters: &[&ClusterSummary]) -> Markup {
    let message = clusters.first().map(|one| clip(&one.message, CAUSE)).unwrap_or_default();
    html! {
        br;
        @if !message.is_empty() { span .why { (message) } " " }
        span .small.dim {
            @for (number, cluster) in clusters.iter().take(NAMED).enumerate() {
                @if number > 0 { ", " }
                (cluster_link(&format!("need:{workload}"), &cluster.name))
                " " (cluster.label())
            }
            @if clusters.len() > NAMED { " and " (clusters.len() - NAMED) " more" }
        }
    }
}

/// Returns an entry for each distinct reason why clusters are not available.
fn silent(clusters: &Clusters) -> Vec<Need> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cluster in &clusters.troubled {
        reasons.entry(&cluster.message).or_default().push(&cluster.name);
    }
    let need = |(message, names): (&str, Vec<&str>)| Need {
        state: State::Unreachable,
        what: format!("{} not available", names.len()),
        cause: html! {
            @for (number, name) in names.iter().take(NAMED).enumerate() {
                @if number > 0 { ", " } (cluster_link("silent", name))
            }
            @if names.len() > NAMED { " and " (names.len() - NAMED) " more" }
            br; span .why { (clip(message, CAUSE)) }
        },
        action: html! { a .btn href="clusters?state=u" { "Show" } },
    };
    reasons.into_iter().map(need).collect()
}
