//! The timeline of a rollout: how many clusters were done at which time, and when the others may be done.
//!
//! It comes from the times at which clusters finished, so it starts over when a newer revision replaces them.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::html::span;
use super::state::State;
use controllers::hub::overview::WorkloadSummary;

/// The longest time without a finished cluster within a change. Clusters that finished before such a gap belong to an
/// earlier change.
const GAP: SignedDuration = SignedDuration::from_hours(24);
/// The maximum number of points in the chart.
const POINTS: usize = 60;
/// The chart in pixels: its left and right edge, its top and its bottom.
const LEFT: f64 = 44.0;
const RIGHT: f64 = 944.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 190.0;

/// The progress of a rollout over time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timeline {
    /// When the change began, as far as its clusters tell.
    pub(super) started: Timestamp,
    /// The times at which its clusters finished, in order.
    finished: Vec<Timestamp>,
    /// The number of clusters that were done before.
    before: usize,
    /// The number of clusters that are still to finish.
    open: usize,
    total: usize,
}

impl Timeline {
    /// Returns the timeline of a workload; `None` if fewer than two clusters tell when they finished.
    pub(super) fn from_workload(workload: &WorkloadSummary) -> Option<Self> {
        let in_state =
            |wanted: State| workload.clusters().filter(move |one| State::from_cluster(one) == wanted);
        let mut done: Vec<_> = in_state(State::Done).filter_map(|one| one.since).collect();
        done.sort_unstable();
        let is_gap = |pair: &[Timestamp]| match pair {
            [first, second] => second.duration_since(*first) > GAP,
            _ => false,
        };
        let finished = done.split_off(done.windows(2).rposition(is_gap).map_or(0, |place| place + 1));
        let assigned = in_state(State::InFlight).filter_map(|one| one.since).min();
        let open = [State::InFlight, State::Waiting].map(|state| in_state(state).count()).iter().sum();
        let first = *finished.first().filter(|_| finished.len() > 1)?;
        Some(Self {
            started: assigned.map_or(first, |assigned| assigned.min(first)),
            before: in_state(State::Done).count() - finished.len(),
            finished,
            open,
            total: workload.total,
        })
    }

    /// Returns the mean time between two clusters that finish; `None` if there is none to measure yet.
    fn step(&self, now: Timestamp) -> Option<SignedDuration> {
        let step = now.duration_since(self.started) / i32::try_from(self.finished.len()).ok()?;
        step.is_positive().then_some(step)
    }

    /// Returns the time at which all clusters are done, if they continue as before; `None` if no cluster is open.
    pub(super) fn end(&self, now: Timestamp) -> Option<Timestamp> {
        let rest = self.step(now)?.checked_mul(i32::try_from(self.open).ok().filter(|open| *open > 0)?)?;
        now.checked_add(rest).ok()
    }

    /// Describes how many clusters finish in an hour.
    pub(super) fn pace(&self, now: Timestamp) -> Option<String> {
        let step = self.step(now)?.as_secs().max(1);
        Some(match 3_600 / step {
            0 => format!("1 cluster every {}", span(step)),
            1 => "1 cluster an hour".into(),
            number => format!("{number} clusters an hour"),
        })
    }

    /// Returns the chart. `is_moving` is true if more clusters will finish without a person.
    pub(super) fn chart(&self, now: Timestamp, is_moving: bool) -> Markup {
        let done = self.before + self.finished.len();
        let end = self.end(now).filter(|_| is_moving);
        let last = end.unwrap_or(now).max(now);
        let axes = Axes { from: self.started, to: last, total: self.total };
        let every = self.finished.len().div_ceil(POINTS).max(1);
        let steps = self.finished.iter().enumerate().filter(|(place, _)| (place + 1) % every == 0);
        let mut points = vec![axes.point(self.started, self.before)];
        points.extend(steps.map(|(place, at)| axes.point(*at, self.before + place + 1)));
        points.push(axes.point(now, done));
        let line = points.join(" ");
        let right = axes.x(now);
        let label = format!("{done} of {} clusters done", self.total);
        html! {
            svg .plot.chart viewBox="0 0 960 216" role="img" aria-label=(label) {
                @for number in [0, self.total / 2, self.total] {
                    path .grid d={ "M" (LEFT) " " (axes.y(number)) "H" (RIGHT) } {}
                    text x="38" y=(axes.y(number) + 4.0) text-anchor="end" { (number) }
                }
                polygon .area points={ (line) " " (right) "," (BOTTOM) " " (LEFT) "," (BOTTOM) } {}
                polyline .val points=(line) {}
                @if let Some(end) = end {
                    polyline .val stroke-dasharray="2 4" points={ (axes.point(now, done)) " " (axes.point(end, done + self.open)) } {}
                    text x=(RIGHT) y="208" text-anchor="end" { "about " (axes.label(end)) }
                }
                path .now d={ "M" (right) " 20V" (BOTTOM) } {}
                text x=(LEFT) y="208" { (axes.label(self.started)) }
                // Beside the end of the line, where there is more room.
                @if right > 700.0 { text .ink x=(right - 6.0) y="18" text-anchor="end" { (done) " done" } }
                @else { text .ink x=(right + 6.0) y="18" { (done) " done now" } }
            }
        }
    }
}

/// The range of a chart.
struct Axes {
    from: Timestamp,
    to: Timestamp,
    total: usize,
}

impl Axes {
    fn x(&self, at: Timestamp) -> f64 {
        let range = self.to.duration_since(self.from).as_secs_f64().max(1.0);
        let part = at.duration_since(self.from).as_secs_f64() / range;
        (LEFT + (RIGHT - LEFT) * part.clamp(0.0, 1.0)).round()
    }

    fn y(&self, number: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a fleet has fewer than 2^52 clusters")]
        let part = number as f64 / self.total.max(1) as f64;
        (BOTTOM - (BOTTOM - TOP) * part.clamp(0.0, 1.0)).round()
    }

    fn point(&self, at: Timestamp, number: usize) -> String {
        format!("{},{}", self.x(at), self.y(number))
    }

    /// Formats a time, with its date if the chart covers more than a day.
    fn label(&self, at: Timestamp) -> String {
        let is_long = self.to.duration_since(self.from) > SignedDuration::from_hours(20);
        at.strftime(if is_long { "%b %-d %H:%M UTC" } else { "%H:%M UTC" }).to_string()
    }
}
