//! The transitions between states, and the search through all of them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::world::{C, Outcome, S, World};
use super::{NAMES, revision};
use crate::rollout::{Input, RolloutDecision, advance, oracle};

/// A transition from one state to the next.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "printed with a broken promise")]
pub(super) enum Transition {
    Event(&'static str),
    Cluster(usize, &'static str),
    /// A pass of which some writes succeeded: one bit of `part` for each.
    Pass {
        part: u32,
        of: u32,
    },
}

impl World {
    /// Returns every event that can happen next, except a controller pass.
    pub(super) fn events(&self, s: &S) -> Vec<(Transition, S)> {
        let mut next = Vec::new();
        let mut push = |what: &'static str, state: S| next.push((Transition::Event(what), state));
        if s.revision < self.revisions {
            // All clusters that exist now existed when this revision began.
            let clusters = s.clusters.map(|c| C { late: false, ..c });
            let revision = s.revision + 1;
            push("commit", S { revision, recorded: None, approved: false, clusters, ..*s });
        }
        if s.recorded == Some(false) {
            push("the record ages", S { recorded: Some(true), ..*s });
        }
        if self.pauses {
            push("pause", S { paused: !s.paused, ..*s });
        }
        if self.freezes {
            push("freeze", S { frozen: !s.frozen, ..*s });
        }
        if self.approvals && !s.approved {
            push("approve", S { approved: true, ..*s });
        }
        for at in 0..3 {
            for (what, cluster) in self.cluster_events(s, at) {
                let mut state = *s;
                state.clusters[at] = cluster;
                next.push((Transition::Cluster(at, what), state));
            }
        }
        next
    }

    pub(super) fn cluster_events(&self, s: &S, at: usize) -> Vec<(&'static str, C)> {
        let c = &s.clusters[at];
        let mut next = Vec::new();
        let tells = |outcome| C { outcome, old: false, seen: c.runs, ..*c };
        if c.runs > 0 && !c.silent {
            match c.outcome {
                _ if c.seen != c.runs => next.push(("applies", tells(Outcome::Pending))),
                Outcome::Pending => {
                    next.extend([("succeeds", tells(Outcome::Good)), ("fails", tells(Outcome::Bad))])
                }
                Outcome::Good if self.health_changes => next.push(("turns bad", tells(Outcome::Bad))),
                Outcome::Bad if self.health_changes => next.push(("recovers", tells(Outcome::Good))),
                Outcome::Good | Outcome::Bad => {}
            }
        }
        if !c.old {
            next.push(("ages", C { old: true, ..*c }));
        }
        if self.silence {
            next.push(("falls silent or answers", C { silent: !c.silent, ..*c }));
        }
        if self.churn.contains(&at) {
            next.push((
                "leaves or joins",
                C { member: !c.member, late: !c.member && self.is_under_way(s, at), ..*c },
            ));
        }
        next
    }

    /// Returns the states that a pass can end in: with all its writes, or any subset.
    pub(super) fn passes(&self, s: &S, decision: &RolloutDecision) -> Vec<(Transition, S)> {
        let mut ahead = *s;
        ahead.quarantined = decision.quarantine.as_ref().map_or(0, |_| s.revision);
        // A breach that is on record for long enough becomes a quarantine.
        ahead.recorded = decision.late_since.map(|_| false);
        let writes: Vec<(usize, u8)> = (0..3)
            .filter_map(|at| {
                let assignment = decision.clusters.get(NAMES[at]);
                let removed = decision.removed.iter().any(|name| name == NAMES[at]);
                let assigned =
                    assignment.map_or(s.clusters[at].runs, |v| v.assigned.as_ref().map_or(0, revision));
                let target = if removed { 0 } else { assigned };
                (target != s.clusters[at].runs).then_some((at, target))
            })
            .collect();
        let parts: u32 = 1 << writes.len();
        let chosen = if self.crashes { (0..parts).collect() } else { vec![parts - 1] };
        chosen
            .into_iter()
            .map(|part: u32| {
                let mut state = ahead;
                for (_, (at, target)) in writes.iter().enumerate().filter(|(bit, _)| part >> bit & 1 == 1) {
                    let c = &mut state.clusters[*at];
                    *c = C { runs: *target, old: false, seen: if *target == 0 { 0 } else { c.seen }, ..*c };
                    if *target == 0 {
                        c.outcome = Outcome::Good;
                    }
                }
                (Transition::Pass { part, of: parts - 1 }, state)
            })
            .collect()
    }

    /// Visits every state. Returns the number of states, or the steps to the first broken promise.
    pub(super) fn explore(&self) -> Result<usize, String> {
        let world = self.input(&self.start());
        let mut came_from: BTreeMap<S, Option<S>> = BTreeMap::from([(self.start(), None)]);
        let mut queue = VecDeque::from([self.start()]);
        while let Some(state) = queue.pop_front() {
            let (input, now) = (self.input_at(&world, &state), self.now(&state));
            let decision = advance(&input, now);
            let passes = self.passes(&state, &decision);
            let checked = oracle::check(&input, &decision, now).map_err(|broken| broken.to_string());
            if let Err(error) = checked.and_then(|()| self.check_fixpoint(&world, &passes)) {
                return Err(self.trace(&came_from, state, &error));
            }
            for (_, next) in self.events(&state).into_iter().chain(passes) {
                if let Entry::Vacant(unseen) = came_from.entry(next) {
                    unseen.insert(Some(state));
                    queue.push_back(next);
                }
            }
        }
        Ok(came_from.len())
    }

    /// Checks that a second pass changes nothing after a pass that wrote everything.
    fn check_fixpoint(&self, world: &Input, passes: &[(Transition, S)]) -> Result<(), String> {
        let Some((_, written)) = passes.last().filter(|_| passes.len() > 1) else { return Ok(()) };
        let again = advance(&self.input_at(world, written), self.now(written));
        let changes = self.passes(written, &again).last().is_some_and(|(_, next)| next != written);
        if changes { Err("a second pass changes something".into()) } else { Ok(()) }
    }

    /// Returns the steps to the state that breaks a promise.
    fn trace(&self, came_from: &BTreeMap<S, Option<S>>, broken: S, reason: &str) -> String {
        let mut steps = Vec::new();
        let mut at = broken;
        while let Some(from) = came_from[&at] {
            let passes = self.passes(&from, &advance(&self.input(&from), self.now(&from)));
            let step = self.events(&from).into_iter().chain(passes).find(|(_, next)| *next == at);
            steps.push(step.map_or_else(String::new, |(what, _)| format!("{what:?}")));
            at = from;
        }
        steps.reverse();
        format!("{}: {reason}\n  after {}\n  in {broken:?}", self.name, steps.join("; "))
    }

    /// Returns true if another cluster in a group was assigned the revision.
    pub(super) fn is_under_way(&self, s: &S, at: usize) -> bool {
        (0..3).any(|other| other != at && s.clusters[other].member && s.clusters[other].runs == s.revision)
    }
}
