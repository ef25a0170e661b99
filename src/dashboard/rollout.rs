//! The page of a rollout: its stages from left to right, with the clusters of each stage and the gate to the next.

use std::rc::Rc;

use jiff::Timestamp;
use maud::{Markup, html};

use super::actions;
use super::fleet_map::{CELLS, Cell, cells_of, drawn};
use super::html::{ago, bar, relative, state};
use super::paging::encoded;
use super::repository::commit;
use super::rollouts::{clusters_of, is_moving, stage_state, summary, versions};
use super::shown::Shown;
use super::state::State;
use super::table::{table, workload};
use super::timeline::Timeline;
use controllers::hub::overview::{ClusterSummary, ReportSummary, Repository, StageSummary, WorkloadSummary};
use engine::plural::counted;
use engine::rollout::ClusterState;
use engine::rollout::state::Wait;
use object::text::clip;

/// The maximum number of stages.
const STAGES: usize = 40;
/// The maximum number of clusters, and that if none needs attention.
const ROWS: usize = 20;
const CALM: usize = 10;
/// The maximum number of events, and of reports.
const EVENTS: usize = 8;
/// The maximum length of the message of an event, in characters.
const MESSAGE: usize = 200;

/// Returns the content of the page; `None` if the rollout does not exist or the visitor may not see it.
pub(super) fn content(name: &str, shown: &Shown, now: Timestamp) -> Option<Markup> {
    let workload = workload(shown, name)?;
    let (worst, words) = summary(workload);
    let timeline = Timeline::from_workload(workload);
    let is_moving = is_moving(workload);
    Some(html! {
        p .small.dim { a #back href="./" { "Fleet" } " / " a #all href="rollouts" { "Rollouts" } }
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
        (facts(workload, timeline.as_ref().filter(|_| is_moving), now))
        (pipe(workload, now))
        div .split {
            div .stack {
                (clusters(workload, now))
                @if let Some(timeline) = &timeline {
                    section .panel aria-labelledby="timeline" {
                        header {
                            h2 #timeline { "Timeline" }
                            span .small.dim { "clusters done" @if is_moving { "; dotted: at the current pace" } }
                        }
                        div .body.scroll { (timeline.chart(now, is_moving)) }
                    }
                }
            }
            div .stack { (events(workload, now)) (history(name, shown, now)) (rules(workload)) }
        }
        @if !workload.undo.is_empty() && !shown.change_rollouts {
            p .note.dim.small { "To undo this revision, run " code { "wheelwright rollout undo " (name) } "." }
        }
    })
}

/// Returns the most urgent clusters.
fn clusters(workload: &WorkloadSummary, now: Timestamp) -> Markup {
    let mut cells = cells_of(workload);
    cells.sort_by(|a, b| (a.state, a.name).cmp(&(b.state, b.name)));
    // A cluster that has returned works. The rollout needs attention, not the cluster.
    let needs_attention = |cell: &&Cell<'_>| cell.state.is_exception() && cell.state != State::Returned;
    let urgent = cells.iter().filter(needs_attention).count();
    html! {
        section .panel aria-labelledby="of-rollout" {
            header {
                @if urgent > 0 { h2 #of-rollout { "Clusters that need attention " span .dim { (urgent) } } }
                @else { h2 #of-rollout { "Clusters " span .dim { (cells.len()) } } }
                a .small #table href={ "clusters?rollout=" (encoded(&workload.name)) } {
                    "All " (counted(cells.len(), "cluster"))
                }
            }
            (table(cells.iter().take(if urgent > 0 { urgent.min(ROWS) } else { CALM }), None, now))
        }
    }
}

/// Returns what happened last: clusters that failed, and stages that were done.
fn events(workload: &WorkloadSummary, now: Timestamp) -> Markup {
    let mut events: Vec<(Timestamp, State, String, String)> = Vec::new();
    for (one, clusters) in workload.stages.iter().zip(clusters_of(workload)) {
        let ends: Option<Vec<_>> = clusters
            .iter()
            .map(|one| one.since.filter(|_| State::from_cluster(one) == State::Done))
            .collect();
        if let Some(end) = ends.into_iter().flatten().max() {
            let what = format!("{} done", one.stage.name);
            events.push((end, State::Done, what, counted(clusters.len(), "cluster")));
        }
    }
    for cluster in workload.clusters() {
        let shown = State::from_cluster(cluster);
        if let (Some(since), State::Failed | State::Returned) = (cluster.since, shown) {
            let what = format!("{} {}", cluster.name, cluster.label());
            events.push((since, shown, what, clip(&cluster.message, MESSAGE)));
        }
    }
    events.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    html! {
        @if !events.is_empty() {
            section .panel aria-labelledby="events" {
                header { h2 #events { "What happened" } span .small.dim { "newest first" } }
                ol .rows {
                    @for (at, shown, what, detail) in events.iter().take(EVENTS) {
                        li {
                            span .row { (state(*shown, what)) span .end.small { (relative(*at, now)) } }
                            p .small.dim.why { (detail) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the last reports that name a workload, with links to the git server.
fn history(name: &str, shown: &Shown, now: Timestamp) -> Markup {
    let is_named = |report: &ReportSummary| report.summary.split([' ', ',', ':']).any(|word| word == name);
    let mut reports: Vec<(&str, &ReportSummary)> = Vec::new();
    for Repository { report_url, reports: all, .. } in &shown.overview.repositories {
        reports.extend(all.iter().filter(|one| is_named(one)).map(|one| (report_url.as_str(), one)));
    }
    reports.sort_by(|(_, a), (_, b)| b.time.cmp(&a.time));
    html! {
        @if !reports.is_empty() {
            section .panel aria-labelledby="history" {
                header { h2 #history { "History" } span .small.dim { "reports that name it, newest first" } }
                ol .rows {
                    @for (url, ReportSummary { commit: id, time, summary }) in reports.iter().take(EVENTS) {
                        li {
                            span .row { (commit(url, id)) span .end.small { (ago(time, now)) } }
                            p .small.why { (summary) }
                        }
                    }
                }
            }
        }
    }
}

/// Describes the strategies and the policy.
fn rules(workload: &WorkloadSummary) -> Markup {
    html! {
        @if !workload.rules.is_empty() {
            section .panel aria-labelledby="rules" {
                header { h2 #rules { "Strategy and policy" } }
                div .body.stack { @for (placement, rules) in &workload.rules {
                    div { h3 { (placement) } @for rule in rules { p { (rule) } } }
                } }
            }
        }
    }
}

fn facts(workload: &WorkloadSummary, timeline: Option<&Timeline>, now: Timestamp) -> Markup {
    let WorkloadSummary { stages, settled, total, unselected, holds, corrections, .. } = workload;
    let counts = State::count(workload.clusters().map(State::from_cluster));
    let slots: usize = stages.iter().filter(|one| one.stage.unfinished > 0).map(|one| one.stage.slots).sum();
    let deadline = workload.clusters().filter_map(|one| one.state.ends());
    let in_flight = || workload.clusters().filter(|one| State::from_cluster(one) == State::InFlight);
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
                        div { dt { "In flight since" } dd { (relative(since, now)) } }
                    }
                    @if let Some(deadline) = deadline.min() {
                        div { dt { "Next deadline" } dd { (relative(deadline, now)) } }
                    }
                    @if let Some(timeline) = timeline {
                        div { dt { "Started" } dd { (relative(timeline.started, now)) } }
                        @if let Some(pace) = timeline.pace(now) { div { dt { "Pace" } dd { (pace) } } }
                        @if let Some(end) = timeline.end(now) {
                            div { dt { "Expected end" } dd { b { "about " (relative(end, now)) } } }
                        }
                    }
                }
                (bar(&counts))
                @for line in holds.iter().chain(corrections) { p .hold { (line) } }
            }
        }
    }
}

/// Returns the stages and the gates between them.
fn pipe(workload: &WorkloadSummary, now: Timestamp) -> Markup {
    let more = workload.stages.len().saturating_sub(STAGES);
    let (state, _) = summary(workload);
    let clusters = clusters_of(workload);
    let limit = if workload.total > CELLS { CELLS / workload.stages.len().clamp(1, STAGES) } else { CELLS };
    html! {
        @if !workload.stages.is_empty() {
            section .panel aria-labelledby="stages" {
                header {
                    h2 #stages { "Stages " span .dim { (workload.stages.len()) } }
                    span .small.dim { "left to right; a gate opens the next stage" }
                }
                ol .pipe {
                    @for (number, (one, clusters)) in workload.stages.iter().zip(&clusters).take(STAGES).enumerate() {
                        @if let Some((word, text)) = gate(clusters, now) {
                            li .gate { div { b { (word) } br; (text) } }
                        } @else if number > 0 { li .gate.thin aria-hidden="true" {} }
                        (stage(number + 1, one, clusters, state == State::Paused, limit))
                    }
                }
                @if more > 0 {
                    p .note { a href={ "clusters?rollout=" (encoded(&workload.name)) } { "Clusters of " (counted(more, "more stage")) } }
                }
            }
        }
    }
}

/// Returns the reason why the next clusters of a stage wait, unless they only wait for their turn.
fn gate(clusters: &[&ClusterSummary], now: Timestamp) -> Option<(&'static str, Markup)> {
    clusters.iter().find_map(|cluster| {
        let ClusterState::Waiting(wait) = &cluster.state else { return None };
        let text = html! { (cluster.state.to_string()) };
        Some(match wait {
            Wait::Slot { .. } | Wait::Stage { .. } => return None,
            Wait::Frozen { window, until } => {
                ("Freeze", html! { (window) br; "ends " (relative(*until, now)) })
            }
            Wait::StageSoak { stage, until } => {
                ("Soak", html! { "of stage " (stage) br; "ends " (relative(*until, now)) })
            }
            Wait::Refused => ("Strategy", text),
            Wait::Paused { .. } => ("Paused", text),
            Wait::Quarantine { .. } => ("Quarantine", text),
            Wait::Breach(_) => ("Failures", text),
            Wait::Unreachable { .. } => ("Unreachable", text),
            Wait::Superseded { .. } => ("Earlier revision", text),
            Wait::Approval { .. } => ("Approval", text),
            Wait::Unassigned => ("No rollout", text),
        })
    })
}

/// Returns clusters as cells. If there are too many, shows the most urgent.
fn cells(clusters: &[&ClusterSummary], limit: usize) -> Markup {
    let none: Rc<str> = "".into();
    let mut cells: Vec<_> = clusters.iter().map(|cluster| Cell::new(cluster, "", Rc::clone(&none))).collect();
    if cells.len() > limit {
        cells.sort_by_key(|cell| cell.state);
    }
    html! {
        div .cells {
            @for cell in cells.iter().take(limit) { (drawn(cell, false)) }
        }
        @if cells.len() > limit { p .small.dim { (cells.len() - limit) " less urgent clusters are in the table" } }
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
    let done = clusters.iter().filter(|cluster| State::from_cluster(cluster) == State::Done).count();
    let is_current = worst == State::InFlight;
    let is_over = matches!(worst, State::Done | State::Returned);
    html! {
        li .stage.now[is_current] {
            p .small.dim { "Stage " (number) " · " (placement) }
            h3 { (stage.name) }
            p { (state(worst, if worst == State::Warned { "Passed with failures" } else { worst.word() })) }
            p .small.dim {
                (done) " of " (counted(stage.clusters, "cluster")) " done"
                @if !is_over {
                    br; (stage.busy) " of " (counted(stage.slots, "slot")) " in use"
                }
                @if stage.failures > 0 || !is_over {
                    br; (stage.failures) " failed, "
                    @match stage.allowed { Some(allowed) => { (allowed) " allowed" }, None => { "any number allowed" } }
                }
            }
            (cells(clusters, limit))
        }
    }
}
