//! The rollouts in the overview: add-ons and ManifestWorkReplicaSets, each with its stages from left to right.

use std::collections::BTreeMap;

use jiff::Timestamp;
use maud::{Markup, html};

use super::actions;
use super::html::{bar, legend, relative, search, state};
use super::paging::{Page, address, encoded};
use super::query::FleetQuery;
use super::shown::Shown;
use super::state::State;
use super::timeline::Timeline;
use controllers::hub::overview::{ClusterSummary, StageSummary, WorkloadSummary};
use engine::plural::counted;
use engine::rollout::ClusterState;
use engine::rollout::state::Wait;

/// The maximum number of stages per rollout.
const STAGES: usize = 20;
/// The maximum number of rollouts in the overview.
const SHOWN: usize = 20;
/// The maximum number of finished rollouts in the overview.
const UNFOLDED: usize = 5;
/// The maximum number of versions to name.
const VERSIONS: usize = 3;

/// Returns the open rollouts, and the finished ones if there are few.
pub(super) fn rollouts(shown: &Shown, now: Timestamp) -> Markup {
    let open: Vec<_> = open_rollouts(shown).collect();
    let done: Vec<_> = shown.overview.workloads().filter(|workload| is_done(workload)).collect();
    let total = open.len() + done.len();
    html! {
        section .panel aria-labelledby="rollouts" {
            header {
                h2 #rollouts { "Open rollouts " span .dim { (open.len()) } }
                @if total > 0 { a .small #all-rollouts href="rollouts" { "All rollouts, " (done.len()) " finished" } }
            }
            @if open.is_empty() { p .empty { "No rollout is open." } }
            ul .rows { @for workload in open.iter().take(SHOWN) { (row(workload, shown, now)) } }
            @if open.len() > SHOWN {
                p .empty { a #more-rollouts href="rollouts" { (counted(open.len() - SHOWN, "more open rollout")) } }
            }
            @if (1..=UNFOLDED).contains(&done.len()) {
                h3 .part { "Finished" }
                ul .rows { @for workload in &done { (row(workload, shown, now)) } }
            }
        }
    }
}

/// Returns the fields of the address, with another state.
fn fields<'q>(query: &'q FleetQuery, state: &'q str) -> [(&'static str, &'q str); 2] {
    [("state", state), ("q", &query.q)]
}

/// Returns the page with all rollouts, the most urgent ones first.
pub(super) fn page(query: &FleetQuery, shown: &Shown, now: Timestamp) -> Markup {
    let is_match = |workload: &&WorkloadSummary| workload.name.contains(query.q.trim());
    let matching = shown.overview.workloads().filter(is_match);
    let mut all: Vec<_> = matching.map(|workload| (summary(workload).0, workload)).collect();
    all.sort_by_key(|(state, _)| *state);
    let counts = State::count(all.iter().map(|(state, _)| *state));
    let wanted = State::from_class(&query.state);
    all.retain(|(state, _)| wanted.is_none_or(|wanted| *state == wanted));
    let page = Page::new(query.page, all.len());
    html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Rollouts" }
        div .head {
            h1 { "Rollouts" }
            form .filter action="rollouts" {
                @if !query.state.is_empty() { input type="hidden" name="state" value=(query.state); }
                (search("q", "Name contains", &query.q)) button { "Filter" }
            }
        }
        section .panel aria-label="Rollouts" {
            div .body.top {
                (legend("Filter by state", &counts, Some(wanted.map_or("", State::class)), |state| {
                    address("rollouts", &fields(query, state), 1)
                }))
            }
            @if all.is_empty() { p .empty { "No rollout matches." } }
            ul .rows { @for (_, workload) in page.rows(&all) { (row(workload, shown, now)) } }
            (page.links("rollouts", &fields(query, &query.state)))
        }
    }
}

/// Returns the rollouts that are in progress or need attention.
pub(super) fn open_rollouts(shown: &Shown) -> impl Iterator<Item = &WorkloadSummary> {
    shown.overview.workloads().filter(|workload| !is_done(workload))
}

/// Returns true if a workload is done and needs no attention.
fn is_done(workload: &WorkloadSummary) -> bool {
    let is_calm =
        workload.approvals.is_empty() && workload.corrections.is_empty() && workload.paused_by.is_empty();
    is_calm && summary(workload).0 == State::Done
}

/// Returns the state of a rollout, and a description.
pub(super) fn summary(workload: &WorkloadSummary) -> (State, String) {
    let worst = workload.clusters().map(State::from_cluster).min();
    let worst = worst.unwrap_or(State::Done);
    let stage = || {
        let current = workload.stages.iter().position(|one| one.stage.unfinished > 0);
        let total = workload.stages.len();
        current.map(|number| format!(", stage {} of {total}", number + 1)).unwrap_or_default()
    };
    match worst {
        State::Failed if goes_on(workload) => {
            (State::InFlight, format!("In flight{}, {} failed", stage(), workload.failed))
        }
        State::Failed if workload.failed > 0 => (worst, format!("Failed{}", stage())),
        State::Failed => (worst, "Not working".into()),
        State::Warned | State::Unreachable | State::Idle | State::Done => (worst, worst.word().into()),
        State::Returned => (worst, "Rolled back".into()),
        _ if !workload.paused_by.is_empty() => (State::Paused, "Paused".into()),
        _ if !workload.approvals.is_empty() => (State::Paused, "Waits for approval".into()),
        State::Paused => (worst, "Held".into()),
        State::InFlight | State::Waiting => (worst, format!("{}{}", worst.word(), stage())),
    }
}

/// Returns true if clusters have failed, but the others continue because the strategy tolerates it.
fn goes_on(workload: &WorkloadSummary) -> bool {
    let is_held = |one: &ClusterSummary| {
        matches!(
            one.state,
            ClusterState::Waiting(Wait::Breach(_) | Wait::Quarantine { .. } | Wait::Paused { .. })
        )
    };
    let is_open = |one: &ClusterSummary| matches!(State::from_cluster(one), State::InFlight | State::Waiting);
    let mut clusters = workload.clusters();
    workload.failed > 0
        && workload.paused_by.is_empty()
        && clusters.clone().any(is_open)
        && !clusters.any(is_held)
}

/// Describes the running versions, with the number of clusters of each.
pub(super) fn versions(workload: &WorkloadSummary) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for cluster in workload.clusters() {
        *counts.entry(cluster.version(&workload.name)).or_default() += 1;
    }
    counts.remove("");
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = counts.iter().take(VERSIONS).map(|(version, count)| format!("{version} on {count}"));
    named.collect::<Vec<_>>().join(", ")
}

/// Returns true if more clusters will finish without a person.
pub(super) fn is_moving(workload: &WorkloadSummary) -> bool {
    matches!(summary(workload).0, State::InFlight | State::Waiting) && workload.holds.is_empty()
}

fn row(workload: &WorkloadSummary, shown: &Shown, now: Timestamp) -> Markup {
    let WorkloadSummary { name, holds, corrections, .. } = workload;
    let (worst, words) = summary(workload);
    let counts = State::count(workload.clusters().map(State::from_cluster));
    let timeline = if is_moving(workload) { Timeline::from_workload(workload) } else { None };
    let button = actions::pause_or_resume(workload).filter(|_| shown.change_rollouts);
    html! {
        li .run {
            div {
                a id={ "rollout:" (name) } href={ "rollout?of=" (encoded(name)) } { b { (name) } }
                br; span .small.dim { (versions(workload)) }
                br; (state(worst, words))
            }
            div {
                (arrows(workload, worst == State::Paused))
                (bar(&counts))
                p .small.dim { (workload.progress()) }
                @for line in holds.iter().chain(corrections) { p .small.hold { (line) } }
            }
            div .side {
                @if let Some(timeline) = timeline {
                    div {
                        @if let Some(end) = timeline.end(now) { b { "ends about " (relative(end, now)) } }
                        @if let Some(pace) = timeline.pace(now) { p .small.dim { (pace) } }
                    }
                }
                @if let Some(button) = button { div .acts { (button) } }
            }
        }
    }
}

/// Returns the clusters of each stage. A group without a stage of its name belongs to the last optional stage of
/// its placement.
pub(super) fn clusters_of(workload: &WorkloadSummary) -> Vec<Vec<&ClusterSummary>> {
    let stages = &workload.stages;
    let mut of_stages: Vec<Vec<&ClusterSummary>> = vec![Vec::new(); stages.len()];
    for group in &workload.groups {
        let is_of = |one: &StageSummary| one.placement == group.placement;
        let by_name = stages.iter().position(|one| is_of(one) && one.stage.name == group.name);
        let rest = || stages.iter().rposition(|one| is_of(one) && !one.stage.mandatory);
        if let Some(clusters) = by_name.or_else(rest).and_then(|place| of_stages.get_mut(place)) {
            clusters.extend(&group.clusters);
        }
    }
    of_stages
}

pub(super) fn stage_state(one: &StageSummary, clusters: &[&ClusterSummary], is_held: bool) -> State {
    let stage = &one.stage;
    // Clusters that are starting, or waiting to start, for the first time are not counted as unfinished.
    let is_any = |wanted: &[State]| clusters.iter().any(|one| wanted.contains(&State::from_cluster(one)));
    let is_over = stage.unfinished == 0 && !is_any(&[State::Waiting, State::Paused, State::InFlight]);
    let is_quarantined = clusters.iter().any(|one| matches!(one.state, ClusterState::Quarantined));
    match () {
        () if is_over && is_quarantined => State::Failed,
        () if stage.allowed.is_some_and(|allowed| stage.failures > allowed) => State::Failed,
        () if is_over && is_any(&[State::Returned]) => State::Returned,
        () if is_over && stage.failures > 0 => State::Warned,
        () if is_over => State::Done,
        () if stage.busy > 0 || is_any(&[State::InFlight]) => State::InFlight,
        () if is_held => State::Paused,
        () => State::Waiting,
    }
}

/// Returns the stages as arrows. If there are too many, leaves out finished stages at the start first.
fn arrows(workload: &WorkloadSummary, is_held: bool) -> Markup {
    let stages = &workload.stages;
    let clusters = clusters_of(workload);
    let more = stages.len().saturating_sub(STAGES);
    let finished = stages.iter().take_while(|one| one.stage.unfinished == 0).count();
    let shown = stages.iter().zip(&clusters).skip(finished.min(more)).take(STAGES);
    html! {
        @if !stages.is_empty() {
            ol .arrows {
                @for (one, clusters) in shown {
                    @let class = stage_state(one, clusters, is_held).class();
                    li class=(class) title={ (one.placement) " " (one.stage) } {
                        span class={ "st " (class) } { (one.stage.name) " " (one.stage.clusters) }
                    }
                }
            }
            @if more > 0 {
                p .small { a href={ "rollout?of=" (encoded(&workload.name)) } { (counted(more, "more stage")) } }
            }
        }
    }
}
