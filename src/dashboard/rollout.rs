//! The page of a rollout: its stages from left to right, with the clusters of each stage and the gate to the next.

use jiff::Timestamp;
use maud::{Markup, html};

use super::actions;
use super::fleet_map::{Cell, cells_of, drawn, encoded, ends};
use super::html::{ago, bar, clock, state};
use super::rollouts::{clusters_of, stage_state, summary, versions};
use super::shown::Shown;
use super::state::State;
use super::table::{ROWS, table, workload};
use controllers::hub::overview::{ClusterSummary, StageSummary, WorkloadSummary};
use engine::plural::counted;
use engine::rollout::ClusterState;
use engine::rollout::state::Wait;

/// The maximum number of cells in all stages.
const CELLS: usize = 500;
/// The maximum number of stages.
const STAGES: usize = 40;

/// Returns the content of the page; `None` if the rollout does not exist or the visitor may not see it.
pub(super) fn content(name: &str, shown: &Shown, now: Timestamp) -> Option<Markup> {
    let workload = workload(shown, name)?;
    let (worst, words) = summary(workload);
    let mut cells = cells_of(workload);
    cells.sort_by(|a, b| (a.state, a.name).cmp(&(b.state, b.name)));
    Some(html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Rollouts" }
        div .head {
            div {
                h1 { (name) }
                p { (state(worst, words)) " " span .dim { (versions(workload)) } }
            }
            @if shown.change_rollouts { div .acts {
                @if let Some(button) = actions::pause_or_resume(workload) { (button) }
                @if !workload.undo.is_empty() { (actions::undo(workload)) }
                @for (token, about) in &workload.approvals { (actions::approve(workload, token, about)) }
            } }
        }
        (facts(workload, now))
        (pipe(workload))
        section .panel aria-labelledby="of-rollout" {
            header {
                h2 #of-rollout { "Clusters " span .dim { (cells.len()) } }
                a .small #table href={ "clusters?rollout=" (encoded(name)) } {
                    @if cells.len() > ROWS { "Filter, and see the other " (cells.len() - ROWS) } @else { "Filter" }
                }
            }
            (table(cells.iter().take(ROWS), now))
        }
        (rules(workload))
        @if !workload.undo.is_empty() && !shown.change_rollouts {
            p .note.dim.small { "To take this revision back, run " code { "wheelwright rollout undo " (name) } "." }
        }
    })
}

/// Describes the strategies and the policy.
fn rules(workload: &WorkloadSummary) -> Markup {
    html! {
        @if !workload.rules.is_empty() {
            section .panel aria-labelledby="rules" {
                header { h2 #rules { "Strategy and policy" } }
                div .body { @for (placement, rules) in &workload.rules {
                    h3 { (placement) }
                    p { (rules.join(" ")) }
                } }
            }
        }
    }
}

fn facts(workload: &WorkloadSummary, now: Timestamp) -> Markup {
    let WorkloadSummary { stages, settled, total, unselected, holds, corrections, .. } = workload;
    let counts = State::count(workload.clusters().map(State::of));
    let slots: usize = stages.iter().filter(|one| one.stage.unfinished > 0).map(|one| one.stage.slots).sum();
    let deadline = workload.clusters().filter_map(|one| ends(&one.state));
    let in_flight = || workload.clusters().filter(|one| State::of(one) == State::InFlight);
    html! {
        section .panel aria-label="Progress" {
            div .body.top {
                dl .facts {
                    div { dt { "Done" } dd { b { (settled) } " of " (counted(*total, "cluster")) } }
                    @for (state, count) in counts.iter().filter(|(state, _)| *state != State::Done) {
                        div { dt { (state.word()) } dd { (count)
                            @if *state == State::InFlight && slots > 0 { " of " (counted(slots, "slot")) } } }
                    }
                    @if *unselected > 0 { div { dt { "No longer selected" } dd { (counted(*unselected, "cluster")) } } }
                    @if let Some(since) = in_flight().filter_map(|one| one.since).min() {
                        div { dt { "In flight since" } dd { (ago(&since.to_string(), now)) } }
                    }
                    @if let Some(deadline) = deadline.min() {
                        div { dt { "Next deadline" } dd { (clock(deadline)) } }
                    }
                }
                (bar(&counts))
                @for line in holds.iter().chain(corrections) { p .hold { (line) } }
            }
        }
    }
}

/// Returns the stages and the gates between them.
fn pipe(workload: &WorkloadSummary) -> Markup {
    let more = workload.stages.len().saturating_sub(STAGES);
    let (state, _) = summary(workload);
    let clusters = clusters_of(workload);
    let limit = CELLS / workload.stages.len().clamp(1, STAGES);
    html! {
        @if !workload.stages.is_empty() {
            section .panel aria-labelledby="stages" {
                header {
                    h2 #stages { "Stages " span .dim { (workload.stages.len()) } }
                    span .small.dim { "left to right; a gate opens the next stage" }
                }
                ol .pipe {
                    @for (number, (one, clusters)) in workload.stages.iter().zip(&clusters).take(STAGES).enumerate() {
                        @if let Some((word, text)) = gate(clusters) {
                            li .gate { div { b { (word) } br; (text) } }
                        } @else if number > 0 { li .gate.thin aria-hidden="true" {} }
                        (stage(number + 1, one, clusters, state == State::Paused, limit))
                    }
                }
                @if more > 0 { p .small.dim { "and " (more) " more stages" } }
            }
        }
    }
}

/// Returns the reason why the next clusters of a stage wait, unless they only wait for their turn.
fn gate(clusters: &[&ClusterSummary]) -> Option<(&'static str, String)> {
    clusters.iter().find_map(|cluster| {
        let ClusterState::Waiting(wait) = &cluster.state else { return None };
        let word = match wait {
            Wait::Slot { .. } | Wait::Stage { .. } => return None,
            Wait::Refused => "Strategy",
            Wait::Paused { .. } => "Paused",
            Wait::Quarantine { .. } => "Quarantine",
            Wait::Breach(_) => "Failures",
            Wait::Frozen { .. } => "Freeze",
            Wait::Unreachable { .. } => "Unreachable",
            Wait::Superseded { .. } => "Earlier revision",
            Wait::StageSoak { .. } => "Soak",
            Wait::Approval { .. } => "Approval",
            Wait::Unassigned => "No rollout",
        };
        Some((word, cluster.state.to_string()))
    })
}

/// Returns clusters as cells. If there are too many, shows the most urgent.
fn cells(clusters: &[&ClusterSummary], limit: usize) -> Markup {
    let mut cells: Vec<_> = clusters.iter().map(|cluster| Cell::of(cluster, "", "")).collect();
    if cells.len() > limit {
        cells.sort_by_key(|cell| cell.state);
    }
    html! {
        div .cells {
            @for cell in cells.iter().take(limit) { (drawn(cell, false)) }
        }
        @if cells.len() > limit { p .small.dim { "and " (cells.len() - limit) " more" } }
    }
}

fn stage(
    number: usize,
    one: &StageSummary,
    clusters: &[&ClusterSummary],
    is_held: bool,
    limit: usize,
) -> Markup {
    let StageSummary { placement, stage } = one;
    let worst = stage_state(one, clusters, is_held);
    let done = clusters.iter().filter(|cluster| State::of(cluster) == State::Done).count();
    let is_current = worst == State::InFlight;
    html! {
        li .stage.now[is_current] {
            p .small.dim { "Stage " (number) " · " (placement) }
            h3 { (stage.name) }
            p { (state(worst, if worst == State::Warned { "Passed with failures" } else { worst.word() })) }
            p .small.dim {
                (done) " of " (counted(stage.clusters, "cluster")) " done"
                @if worst != State::Done {
                    br; (stage.busy) " of " (counted(stage.slots, "slot")) " in use"
                }
                @if stage.failures > 0 || worst != State::Done {
                    br; (stage.failures) " failed, "
                    @match stage.allowed { Some(allowed) => { (allowed) " allowed" }, None => { "any number allowed" } }
                }
            }
            (cells(clusters, limit))
        }
    }
}
