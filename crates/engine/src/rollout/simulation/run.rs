//! Simulates a scenario and its outcomes with the engine.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::outcomes::{Conclusion, EventKind, Outcomes};
use super::scenario::{PlainState, ScenarioError};
use super::trace::{Row, Trace};
use crate::rollout::cluster::{Cluster, Hash, Health, Report};
use crate::rollout::state::ClusterState;
use crate::rollout::{Input, RolloutDecision, advance};
use object::duration::later;

/// The maximum number of passes at one moment. Each pass changes at least one cluster, so more passes than
/// clusters indicate a loop.
const PASSES: usize = 10_000;

/// Simulates until nothing more happens or the time limit of the outcomes is reached.
///
/// # Errors
/// Fails if the outcomes name clusters or groups that do not exist.
pub fn run(input: Input, outcomes: &Outcomes, start: Timestamp) -> Result<Trace, ScenarioError> {
    outcomes.check(&input)?;
    let mut play = SimulationRun {
        input,
        outcomes,
        now: start,
        queue: BTreeMap::new(),
        queued: 0,
        trace: Trace::new(start),
    };
    for event in &outcomes.events {
        play.schedule(event.at, Step::Event(event.what.clone()));
    }
    let end = later(start, outcomes.until);
    let mut happened = Vec::new();
    loop {
        let recheck = play.settle(happened);
        let next = play.queue.keys().next().map(|(at, _)| *at);
        let Some(at) = [next, recheck].into_iter().flatten().min() else { break };
        if at > end {
            play.trace.cut_at(end);
            break;
        }
        play.now = at;
        happened = play.due();
    }
    Ok(play.trace)
}

struct SimulationRun<'a> {
    input: Input,
    outcomes: &'a Outcomes,
    now: Timestamp,
    queue: BTreeMap<(Timestamp, usize), Step>,
    queued: usize,
    trace: Trace,
}

enum Step {
    Event(EventKind),
    Report { cluster: String, of: Hash, report: Report },
}

impl SimulationRun<'_> {
    fn schedule(&mut self, after: SignedDuration, step: Step) {
        let at = later(self.now, after);
        self.queued += 1;
        self.queue.insert((at, self.queued), step);
    }

    /// Applies the events that are due, and returns their descriptions.
    fn due(&mut self) -> Vec<String> {
        let mut reports = BTreeMap::<&str, Vec<String>>::new();
        let mut happened = Vec::new();
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Step::Event(what) => happened.push(self.event(what)),
                Step::Report { cluster, of, report } => {
                    if self.report(&cluster, of, report) {
                        reports.entry(word(report)).or_default().push(cluster);
                    }
                }
            }
        }
        happened.extend(reports.into_iter().map(|(word, names)| format!("{} {word}", names.join(", "))));
        happened
    }

    /// Applies a report, unless its cluster is gone, unreachable or was reassigned in the meantime.
    fn report(&mut self, name: &str, of: Hash, report: Report) -> bool {
        let now = self.now;
        let Some(cluster) = self.cluster(name).filter(|c| !c.unreachable && c.runs.as_ref() == Some(&of))
        else {
            return false;
        };
        cluster.health = Some(Health { of, report, since: Some(now) });
        true
    }

    fn cluster(&mut self, name: &str) -> Option<&mut Cluster> {
        self.input.clusters.iter_mut().find(|cluster| cluster.name == name)
    }

    fn event(&mut self, what: EventKind) -> String {
        match what {
            EventKind::Commit(revision) => {
                let text = format!("commit {revision}");
                for cluster in &mut self.input.clusters {
                    cluster.wants = revision.clone();
                }
                self.input.revision = revision;
                (self.input.began, self.input.late_since) = (None, None);
                text
            }
            EventKind::Approve(token) => {
                let text = format!("approve {token}");
                self.input.granted.insert(token);
                text
            }
            EventKind::Pause(paused) => {
                if let Ok(policy) = &mut self.input.policy {
                    policy.paused = paused;
                }
                if paused { "pause".into() } else { "resume".into() }
            }
            EventKind::Join { cluster, group } => self.join(cluster, &group),
            EventKind::Leave(name) => {
                for group in &mut self.input.groups {
                    group.clusters.retain(|cluster| *cluster != name);
                }
                format!("{name} leaves")
            }
            EventKind::Unreachable(name) => self.set_state(&name, PlainState::Unreachable),
            EventKind::Reachable(name) => {
                let now = self.now;
                if let Some(cluster) = self.cluster(&name) {
                    cluster.unreachable = false;
                    cluster.answers_since = Some(now);
                }
                self.follow(&name);
                format!("{name} responds again")
            }
            EventKind::Report { cluster, state } => self.set_state(&cluster, state),
        }
    }

    fn join(&mut self, name: String, group: &str) -> String {
        let last_good = self.input.clusters.iter().find_map(|cluster| cluster.last_good.clone());
        let (wants, joined) = (self.input.revision.clone(), Some(self.now));
        let cluster = Cluster { name: name.clone(), wants, last_good, joined, ..Cluster::default() };
        self.input.clusters.retain(|known| known.name != name);
        self.input.clusters.push(cluster);
        for known in self.input.groups.iter_mut().filter(|known| known.key.to_string() == *group) {
            known.clusters.push(name.clone());
        }
        format!("{name} joins {group}")
    }

    fn set_state(&mut self, name: &str, state: PlainState) -> String {
        let now = self.now;
        let Some(cluster) = self.cluster(name) else { return format!("there is no {name}") };
        cluster.skip = state == PlainState::Skip;
        cluster.unreachable = state == PlainState::Unreachable;
        if let (Some(of), Some(report)) = (cluster.runs.clone(), state.report()) {
            cluster.health = Some(Health { of, report, since: Some(now) });
        }
        match state.report() {
            Some(report) => format!("{name} {}", word(report)),
            None if state == PlainState::Skip => format!("{name} is skipped"),
            None => format!("{name} falls silent"),
        }
    }

    /// Calls the engine and writes its assignments until nothing changes. Returns the time of the next call.
    fn settle(&mut self, mut happened: Vec<String>) -> Option<Timestamp> {
        for _ in 0..PASSES {
            let decision = advance(&self.input, self.now);
            let remembers =
                self.input.quarantined != decision.quarantine || self.input.late_since != decision.late_since;
            let moved = self.write(&decision);
            self.trace.push(Row::of(self.now, std::mem::take(&mut happened), &decision, &moved));
            if !remembers && moved.is_empty() && decision.removed.is_empty() {
                debug_assert!(
                    decision.recheck.is_none_or(|at| at > self.now),
                    "the next check is later than now"
                );
                return decision.recheck;
            }
        }
        None
    }

    /// Writes the assignments of the engine. Returns the names of the clusters that changed.
    fn write(&mut self, decision: &RolloutDecision) -> Vec<String> {
        self.input.quarantined = decision.quarantine.clone();
        self.input.late_since = decision.late_since;
        let complete = decision.counts.is_complete();
        let mut moved = Vec::new();
        for cluster in &mut self.input.clusters {
            let Some(assignment) = decision.clusters.get(&cluster.name) else { continue };
            if assignment.assigned != cluster.runs {
                if cluster.runs.is_none() {
                    cluster.instance.uid = self.now.to_string();
                }
                cluster.runs = assignment.assigned.clone();
                cluster.runs_since = Some(self.now);
                moved.push(cluster.name.clone());
            }
            if complete && assignment.state == ClusterState::Done {
                cluster.last_good = Some(cluster.wants.clone());
            }
        }
        self.input.clusters.retain(|cluster| !decision.removed.contains(&cluster.name));
        for name in &moved {
            self.follow(name);
        }
        moved
    }

    /// Schedules the outcome of the revision that a cluster runs.
    fn follow(&mut self, name: &str) {
        let Some((of, unreachable)) = self.cluster(name).and_then(|c| Some((c.runs.clone()?, c.unreachable)))
        else {
            return;
        };
        let outcome = self.outcomes.of(name, &of);
        let report = |report| Step::Report { cluster: name.to_owned(), of: of.clone(), report };
        if outcome.result == Conclusion::Silent || unreachable {
            return;
        }
        self.schedule(outcome.applies, report(Report::Progressing));
        let end = match outcome.result {
            Conclusion::Succeeded => Report::Succeeded,
            Conclusion::Failed => Report::Failed,
            Conclusion::Never | Conclusion::Silent => return,
        };
        self.schedule(outcome.applies.saturating_add(outcome.after), report(end));
    }
}

fn word(report: Report) -> &'static str {
    match report {
        Report::ToApply => "has not applied it",
        Report::Progressing => "progressing",
        Report::Succeeded => "succeeded",
        Report::Failed => "failed",
        Report::Relapsed { .. } => "no longer works",
        Report::TimeOut => "timed out",
    }
}
