//! The buttons of the pages. Each describes its effect, with the affected clusters or objects.

use maud::{Markup, html};

use super::html::{Action, list};
use super::state::State;
use controllers::hub::overview::{HeldObjects, Repository, WorkloadSummary};
use controllers::undo::{Undo, UndoEffect};
use engine::plural::counted;
use engine::rollout::ClusterState;
use object::text::short_commit;

/// The maximum number of clusters that a confirmation names for each outcome.
const CLUSTERS: usize = 10;

/// Returns the button that pauses or resumes a rollout; `None` if a pause would affect no cluster.
pub(super) fn pause_or_resume(workload: &WorkloadSummary) -> Option<Action<'_>> {
    let is_paused = !workload.paused_by.is_empty();
    if !is_paused && !workload.clusters().any(|cluster| is_open(&cluster.state)) {
        return None;
    }
    let name = workload.name.as_str();
    let states = || workload.clusters().map(State::from_cluster);
    let count =
        |wanted: &[State]| counted(states().filter(|state| wanted.contains(state)).count(), "cluster");
    let (waiting, in_flight) = (count(&[State::Waiting, State::Paused]), count(&[State::InFlight]));
    let (verb, label, effect) = if is_paused {
        let effect = html! {
            p { (waiting) " may start again, stage by stage and within the limits of the strategy." }
        };
        ("resume", format!("Resume {name}"), effect)
    } else {
        let effect = html! {
            p { "No further cluster starts until you resume: " (waiting) " to go. The rollout on " (in_flight)
                " in flight continues." }
        };
        ("pause", format!("Pause {name}"), effect)
    };
    Some(Action { verb, subject: name, token: String::new(), label, effect })
}

/// Returns true if a cluster waits for its turn or is in progress.
fn is_open(state: &ClusterState) -> bool {
    match state {
        ClusterState::Waiting(_)
        | ClusterState::Starting
        | ClusterState::Progressing { .. }
        | ClusterState::Soaking { .. }
        | ClusterState::Returning { .. } => true,
        ClusterState::Done
        | ClusterState::Failed { .. }
        | ClusterState::TimedOut
        | ClusterState::Skipped
        | ClusterState::Unreachable { .. }
        | ClusterState::Returned { .. }
        | ClusterState::Quarantined => false,
    }
}

/// Returns the button that undoes a rollout.
pub(super) fn undo(workload: &WorkloadSummary) -> Action<'_> {
    let WorkloadSummary { name, undo, paused_by, .. } = workload;
    let effect = html! {
        @for Undo { placement, named, effect: UndoEffect { returning, kept, spared }, .. } in undo {
            p { b { (named) " on placement " (placement) } }
            @for (to, clusters) in returning {
                p { (counted(clusters.len(), "cluster")) " will return to " b { (to) } ":" }
                (first(clusters))
            }
            @if !kept.is_empty() {
                p { (counted(kept.len(), "cluster")) " will keep it, because nothing succeeded there before:" }
                (first(kept))
            }
            @if *spared > 0 { p { (counted(*spared, "cluster")) " never received it and will not get it." } }
        }
        @if !paused_by.is_empty() { p { b { "Nothing returns until the pause ends." } } }
        p { "The revision stays in quarantine until another one replaces it or you release it. Also revert or fix its commit." }
    };
    Action { verb: "undo", subject: name, token: undo_token(undo), label: format!("Undo {name}"), effect }
}

/// Returns the revisions and placements that the visitor confirms to undo.
pub(super) fn undo_token(undo: &[Undo]) -> String {
    let of = |one: &Undo| format!("{}@{}", one.placement, one.revision);
    undo.iter().map(of).collect::<Vec<_>>().join(",")
}

/// Formats the first clusters, and the number of the remaining ones.
fn first(clusters: &[String]) -> Markup {
    let shown = clusters.len().min(CLUSTERS);
    list(clusters.get(..shown).unwrap_or_default(), clusters.len() - shown)
}

/// Returns the button that approves a step of a rollout.
pub(super) fn approve<'a>(workload: &'a WorkloadSummary, token: &str, about: &str) -> Action<'a> {
    let effect =
        html! { p { "Allows " (about) ". You cannot take the approval back after clusters have started." } };
    Action {
        verb: "approve",
        subject: &workload.name,
        token: token.to_owned(),
        label: format!("Approve {about}"),
        effect,
    }
}

/// Returns the button that suspends or resumes a repository.
pub(super) fn suspend_or_resume(repository: &Repository) -> Action<'_> {
    let name = repository.name.as_str();
    let (verb, label, effect) = if repository.suspended {
        let effect = html! { p { "Newer commits are applied again, the newest one at once." } };
        ("resume-repository", format!("Resume {name}"), effect)
    } else {
        let effect = html! {
            p { "No further commit is applied until you resume. Applied objects stay, and rollouts continue." }
        };
        ("suspend-repository", format!("Suspend {name}"), effect)
    };
    Action { verb, subject: name, token: String::new(), label, effect }
}

/// Returns the button that approves the plan of a commit.
pub(super) fn approve_plan(repository: &Repository) -> Action<'_> {
    let effect = html! {
        p { "Applies commit " code { (short_commit(&repository.seen)) } " to the hub." }
        (object_lists(repository))
    };
    Action {
        verb: "approve-plan",
        subject: &repository.name,
        token: repository.held_plan.clone(),
        label: format!("Approve the plan of {}", repository.name),
        effect,
    }
}

/// Lists the objects that a plan creates, changes and deletes.
pub(super) fn object_lists(repository: &Repository) -> Markup {
    html! {
        @for change in &repository.held_changes {
            div { h3 { (change.what) } (list(&change.objects, change.more)) }
        }
    }
}

/// Returns the button that approves the deletions of a repository.
pub(super) fn approve_deletions<'a>(repository: &'a Repository, pending: &HeldObjects) -> Action<'a> {
    let effect = html! {
        p { "Deletes " (counted(pending.total(), "object")) " from the hub. Nothing brings them back." }
        (list(&pending.objects, pending.more))
    };
    Action {
        verb: "approve-deletions",
        subject: &repository.name,
        token: pending.approval.clone(),
        label: format!("Approve the deletions of {}", repository.name),
        effect,
    }
}
