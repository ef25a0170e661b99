//! An exhaustive check in a small world: three clusters, two groups, two or three revisions.
//!
//! Every state that commits, reports, failures, deadlines, crashes, lost writes, churn, silence, pauses, freezes and approvals
//! can lead to is visited; in each the engine is asked once, and its answer is held against what it promises. The promises are
//! computed here from the state alone, without a line of the engine.
//!
//! - I1: no cluster of a stage starts while an earlier stage has clusters to do or in flight.
//! - I2: clusters in flight never exceed the slots by a start, those moved and not heard of included.
//! - I3: nothing starts while a stage has more failures than it tolerates.
//! - I4: a terminal cluster holds no slot: what may start does.
//! - I5: no more clusters lose their content than the budget allows.
//! - I10: under a pause nothing changes.
//! - Every assignment is what the cluster ran, what it should run, or what it returns to; once everything is written, asking again
//!   changes nothing (fixpoint).
//!
//! Time is a bit per cluster: whether its last change is younger than deadline and soak. Stale reads are reports that lag behind
//! assignments, or about hashes from before. A crash loses any part of a pass's writes; the quarantine is written ahead of them.
//!
//! `WHEELWRIGHT_MODEL=large` adds worlds with everything at once, for runs by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use super::bug::Bug;
use super::freeze::Freeze;
use super::input::{Cluster, Group, GroupKey, Hash, Health, Report};
use super::policy::{Approval, OnBreach, Superseding};
use super::strategy::{Mandatory, Options, Size};
use super::{Input, Policy, Strategy, Wave, advance};

/// 20:00 of a day, outside of the freeze window, and 12:00, inside of it.
const NOW: i64 = 20 * 3600 + 86_400 * 20_000;
const FROZEN: i64 = NOW - 8 * 3600;
const YOUNG: SignedDuration = SignedDuration::from_secs(1);
const OLD: SignedDuration = SignedDuration::from_secs(1000);
const LIMIT: SignedDuration = SignedDuration::from_secs(90);
const NAMES: [&str; 3] = ["c0", "c1", "c2"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Pending,
    Good,
    Bad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct C {
    member: bool,
    /// Revision that was assigned; 0 is none.
    runs: u8,
    /// Revision the last report is about; 0 is none.
    seen: u8,
    outcome: Outcome,
    old: bool,
    silent: bool,
    /// It joined when the rollout was under way, if it is.
    late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct S {
    revision: u8,
    quarantined: u8,
    paused: bool,
    frozen: bool,
    /// Stages approved for `revision`.
    approved: bool,
    clusters: [C; 3],
}

/// A world: which strategy, and what may happen in it.
#[derive(Clone, Copy, Default)]
struct World {
    name: &'static str,
    per_group: bool,
    all: bool,
    mandatory: bool,
    slots: usize,
    failures: u32,
    revisions: u8,
    no_deadline: bool,
    fresh_fleet: bool,
    rollback: bool,
    finish_current: bool,
    approvals: bool,
    pauses: bool,
    freezes: bool,
    silence: bool,
    /// Which clusters leave and join.
    churn: &'static [usize],
    /// Good clusters turn bad and bad ones good.
    moods: bool,
    /// One write of a pass can be lost (else all of a pass is written or nothing).
    crashes: bool,
}

/// A step from one state to the next.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "printed with a broken promise")]
enum What {
    Event(&'static str),
    Cluster(usize, &'static str),
    /// A pass whose writes `part`, a bit each, happened.
    Pass {
        part: u32,
        of: u32,
    },
}

/// What the world says of a cluster and the revision, computed without the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    ToDo,
    InFlight,
    Failed,
    Done,
    Silent,
}

impl World {
    fn worlds() -> Vec<Self> {
        let base = Self { slots: 1, revisions: 2, crashes: true, ..Self::default() };
        vec![
            // The small ones first: most bugs need no more.
            Self { name: "progressive, more failures tolerated than clusters", failures: 9, no_deadline: true, ..base },
            Self { name: "progressive, three revisions", revisions: 3, failures: 1, ..base },
            Self { name: "progressive, two slots, a failure tolerated", slots: 2, failures: 1, moods: true, ..base },
            Self { name: "progressive, finish current, three revisions", revisions: 3, finish_current: true, slots: 2, ..base },
            Self { name: "progressive, mandatory, silence", mandatory: true, failures: 1, silence: true, ..base },
            Self { name: "per group, first rollout, silence", per_group: true, fresh_fleet: true, revisions: 1, silence: true, ..base },
            Self { name: "per group, rollback", per_group: true, rollback: true, moods: true, ..base },
            Self { name: "progressive, churn", churn: &[0, 2], ..base },
            Self { name: "progressive, mandatory, rollback", mandatory: true, rollback: true, pauses: true, moods: true, ..base },
            Self {
                name: "per group, approvals, freezes",
                per_group: true,
                approvals: true,
                freezes: true,
                moods: true,
                revisions: 3,
                ..base
            },
            Self { name: "per group, churn, a failure tolerated", per_group: true, failures: 1, churn: &[0], ..base },
            Self { name: "all", all: true, slots: 3, failures: 9, pauses: true, freezes: true, silence: true, ..base },
        ]
    }

    fn large() -> Vec<Self> {
        let everything = Self {
            slots: 1,
            failures: 1,
            revisions: 3,
            rollback: true,
            silence: true,
            churn: &[0, 1, 2],
            moods: true,
            crashes: true,
            ..Self::default()
        };
        vec![
            Self { name: "progressive with everything", mandatory: true, ..everything },
            Self { name: "per group with everything", per_group: true, ..everything },
            Self { name: "progressive, two slots, everything", slots: 2, ..everything },
        ]
    }

    fn start(&self) -> S {
        let runs = u8::from(!self.fresh_fleet);
        let cluster = C { member: true, runs, seen: runs, outcome: Outcome::Good, old: true, silent: false, late: false };
        S { revision: 1, quarantined: 0, paused: false, frozen: false, approved: false, clusters: [cluster; 3] }
    }

    fn strategy(&self) -> Strategy {
        let deadline = (!self.no_deadline).then_some(LIMIT);
        let options = Options { soak: LIMIT, deadline, failures: Size::Count(self.failures) };
        let mandatory = if self.mandatory { vec![Mandatory::Name("g0".into())] } else { Vec::new() };
        match (self.all, self.per_group) {
            (true, _) => Strategy::All { deadline },
            (_, true) => Strategy::ProgressivePerGroup { options, mandatory },
            _ => Strategy::Progressive { options, mandatory, concurrency: Some(Size::Count(self.slots as u32)) },
        }
    }

    /// Stages as lists of clusters with slots and allowance: `c0` is the first group, `c1` and `c2` are the second.
    fn stages(&self, state: &S) -> Vec<(Vec<usize>, usize, usize)> {
        let groups = if self.per_group || self.mandatory { vec![vec![0], vec![1, 2]] } else { vec![vec![0, 1, 2]] };
        let total = state.clusters.iter().filter(|c| c.member).count();
        let mut stages = Vec::new();
        for (at, group) in groups.into_iter().enumerate() {
            let members: Vec<_> = group.into_iter().filter(|at| state.clusters[*at].member).collect();
            let size = members.len();
            let (slots, allowed) = match (self.all, self.per_group, self.mandatory && at == 0) {
                (true, _, _) => (size, usize::MAX),
                (_, _, true) => (size, 0),
                (_, true, _) => (size, (self.failures as usize).min(size)),
                _ => (self.slots.min(size), (self.failures as usize).min(total)),
            };
            if size > 0 {
                stages.push((members, slots, allowed));
            }
        }
        stages
    }

    fn input(&self, state: &S) -> Input {
        let mut world = Input::new(hash(state.revision), Ok(self.strategy()));
        world.policy = Ok(Policy {
            on_breach: if self.rollback { OnBreach::Rollback } else { OnBreach::Pause },
            superseding: if self.finish_current { Superseding::FinishCurrent } else { Superseding::Latest },
            approval: if self.approvals { Approval::BetweenGroups } else { Approval::Never },
            freezes: if self.freezes { vec![Freeze::read("noon", "0 11 * * *", "", "2h").unwrap()] } else { Vec::new() },
            ..Policy::default()
        });
        self.input_at(&world, state)
    }

    /// What the engine is told in a state; `world` has what never changes.
    fn input_at(&self, world: &Input, state: &S) -> Input {
        let mut input = world.clone();
        input.revision = hash(state.revision);
        if let Ok(policy) = &mut input.policy {
            policy.paused = state.paused;
        }
        let group = |index: i32, names: &[usize]| Group {
            key: GroupKey { index, name: format!("g{index}") },
            clusters: names.iter().filter(|at| state.clusters[**at].member).map(|at| NAMES[*at].to_owned()).collect(),
        };
        input.groups = vec![group(0, &[0]), group(1, &[1, 2])];
        let known = state.clusters.iter().zip(NAMES).filter(|(c, _)| c.member || c.runs > 0);
        input.clusters = known.map(|(c, name)| self.cluster(state, c, name)).collect();
        input.quarantined = (state.quarantined > 0).then(|| hash(state.quarantined));
        if state.approved {
            input.granted = BTreeSet::from([format!("r{}/g1", state.revision)]);
        }
        input
    }

    fn cluster(&self, state: &S, c: &C, name: &str) -> Cluster {
        let since = Some(self.now(state) - if c.old { OLD } else { YOUNG });
        let report = match c.outcome {
            Outcome::Pending => Report::Progressing,
            Outcome::Good => Report::Succeeded,
            Outcome::Bad => Report::Failed,
        };
        Cluster {
            name: name.into(),
            wants: hash(state.revision),
            runs: (c.runs > 0).then(|| hash(c.runs)),
            // A report is never older than the assignment it is about, but one about another hash may carry any time.
            runs_since: since.filter(|_| c.runs > 0),
            health: (c.seen > 0).then(|| Health { of: hash(c.seen), report, since }),
            last_good: (!self.fresh_fleet).then(|| hash(1)),
            unreachable: c.silent,
            skip: false,
            answers_since: None,
            joined: c.late.then(|| self.joined(state, c)),
        }
    }

    /// After the first of the others was moved, if one is; else before everything.
    fn joined(&self, state: &S, late: &C) -> Timestamp {
        let moved = state.clusters.iter().filter(|c| !std::ptr::eq(*c, late) && c.member && c.runs == state.revision);
        let begin = moved.map(|c| self.now(state) - if c.old { OLD } else { YOUNG }).min();
        begin.map_or(self.now(state) - OLD - OLD, |begin| begin + SignedDuration::from_millis(1))
    }

    /// Everything that can happen next but a pass of the controller.
    fn events(&self, s: &S) -> Vec<(What, S)> {
        let mut next = Vec::new();
        let mut push = |what: &'static str, state: S| next.push((What::Event(what), state));
        if s.revision < self.revisions {
            // Whoever is there by now was there when this revision began.
            let clusters = s.clusters.map(|c| C { late: false, ..c });
            push("commit", S { revision: s.revision + 1, approved: false, clusters, ..*s });
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
                next.push((What::Cluster(at, what), state));
            }
        }
        next
    }

    fn cluster_events(&self, s: &S, at: usize) -> Vec<(&'static str, C)> {
        let c = &s.clusters[at];
        let mut next = Vec::new();
        let tells = |outcome| C { outcome, old: false, seen: c.runs, ..*c };
        if c.runs > 0 && !c.silent {
            match c.outcome {
                _ if c.seen != c.runs => next.push(("applies", tells(Outcome::Pending))),
                Outcome::Pending => next.extend([("succeeds", tells(Outcome::Good)), ("fails", tells(Outcome::Bad))]),
                Outcome::Good if self.moods => next.push(("turns bad", tells(Outcome::Bad))),
                Outcome::Bad if self.moods => next.push(("recovers", tells(Outcome::Good))),
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
            next.push(("leaves or joins", C { member: !c.member, late: !c.member && self.is_under_way(s, at), ..*c }));
        }
        next
    }

    fn now(&self, state: &S) -> Timestamp {
        Timestamp::from_second(if state.frozen { FROZEN } else { NOW }).unwrap()
    }

    fn truth(&self, s: &S, c: &C) -> Truth {
        let expired = c.old && !self.no_deadline;
        match c.outcome {
            _ if c.runs != s.revision => {
                if c.silent && !self.all {
                    Truth::Silent
                } else {
                    Truth::ToDo
                }
            }
            Outcome::Good if c.seen == c.runs && (c.old || self.all) => Truth::Done,
            Outcome::Bad if c.seen == c.runs => Truth::Failed,
            _ if c.silent => Truth::Silent,
            Outcome::Good if c.seen == c.runs => Truth::InFlight,
            _ if expired => Truth::Failed,
            _ => Truth::InFlight,
        }
    }

    /// Holds a pass against the promises.
    fn check(&self, s: &S, wave: &Wave) -> Result<(), String> {
        let assigned = |at: usize| wave.clusters.get(NAMES[at]).and_then(|verdict| verdict.assigned.clone());
        let starts = |at: &usize| s.clusters[*at].runs != s.revision && assigned(*at) == Some(hash(s.revision));
        let members: Vec<usize> = (0..3).filter(|at| s.clusters[*at].member).collect();
        let stages = self.stages(s);
        let quarantined = wave.quarantine.is_some();
        for at in &members {
            let runs = Some(s.clusters[*at].runs).filter(|runs| *runs > 0).map(hash);
            let returns = quarantined && !s.paused && runs == Some(hash(s.revision)) && assigned(*at) == Some(hash(1));
            ensure(assigned(*at) == runs || starts(at) || returns, "an assignment came from nowhere")?;
            let must_return = quarantined && !s.paused && s.clusters[*at].runs == s.revision && s.revision != 1;
            ensure(!must_return || returns, "a cluster stays on a quarantined revision")?;
        }
        let removals = (0..3).filter(|at| !s.clusters[*at].member && s.clusters[*at].runs > 0).count();
        ensure(wave.removed.len() <= 1 && (wave.removed.len() == removals || removals > 1 || s.paused), "I5: the removal budget")?;

        let truth = |at: &usize| self.truth(s, &s.clusters[*at]);
        let failed = |stage: &[usize]| stage.iter().filter(|at| truth(at) == Truth::Failed).count();
        let breach = stages.iter().any(|(stage, _, allowed)| failed(stage) > *allowed);
        let silent = members.iter().filter(|at| s.clusters[**at].silent).count();
        let count = members.iter().filter(|at| starts(at)).count();
        ensure(!(breach && count > 0), "I3: a start under a breach")?;
        ensure(!(s.paused && (count > 0 || !wave.removed.is_empty())), "I10: a change under a pause")?;
        ensure(!(s.frozen && count > 0), "a start in a freeze")?;
        ensure(!(s.quarantined == s.revision && count > 0), "a start of a quarantined revision")?;
        ensure(!(silent > 1 && count > 0 && !self.all), "a start while too many clusters do not answer")?;
        let unfinished = self.finish_current && members.iter().any(|at| self.is_superseded(s, &s.clusters[*at]));
        ensure(!(unfinished && count > 0), "a start while the revision before is in flight")?;

        let held = breach || s.paused || s.frozen || quarantined || silent > 1 && !self.all || unfinished;
        let mut open = !held;
        for (at, (stage, slots, _)) in stages.iter().enumerate() {
            let starting = stage.iter().filter(|at| starts(at)).count();
            let (to_do, flying) = (
                stage.iter().filter(|at| truth(at) == Truth::ToDo).count(),
                stage.iter().filter(|at| truth(at) == Truth::InFlight).count(),
            );
            ensure(starting == 0 || flying + starting <= *slots, "I2: more in flight than slots")?;
            let approved = !self.approvals || at == 0 || s.approved;
            let waited_for = |at: &&usize| !(s.clusters[**at].late && self.is_under_way(s, **at));
            let unfinished = stage.iter().filter(waited_for).any(|at| matches!(truth(at), Truth::ToDo | Truth::InFlight));
            ensure(starting == 0 || approved, "a start without the approval")?;
            ensure(starting == 0 || open, "I1: a start before its turn")?;
            let free = slots.saturating_sub(flying);
            ensure(!open || !approved || starting == to_do.min(free), "I4: a free slot stays empty")?;
            open = open && !unfinished;
        }
        Ok(())
    }

    /// Another cluster of a group was moved to the revision.
    fn is_under_way(&self, s: &S, at: usize) -> bool {
        (0..3).any(|other| other != at && s.clusters[other].member && s.clusters[other].runs == s.revision)
    }

    fn is_superseded(&self, s: &S, c: &C) -> bool {
        let settled = c.seen == c.runs && c.outcome != Outcome::Pending;
        c.runs > 0 && c.runs != s.revision && !settled && !c.silent && !c.old
    }

    /// The states a pass can end in: all its writes, or any part of them.
    fn passes(&self, s: &S, wave: &Wave) -> Vec<(What, S)> {
        let mut ahead = *s;
        ahead.quarantined = wave.quarantine.as_ref().map_or(0, |_| s.revision);
        let writes: Vec<(usize, u8)> = (0..3)
            .filter_map(|at| {
                let verdict = wave.clusters.get(NAMES[at]);
                let removed = wave.removed.iter().any(|name| name == NAMES[at]);
                let assigned = verdict.map_or(s.clusters[at].runs, |v| v.assigned.as_ref().map_or(0, revision));
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
                (What::Pass { part, of: parts - 1 }, state)
            })
            .collect()
    }

    /// Visits every state; the number of them, or the way to the first broken promise.
    fn explore(&self) -> Result<usize, String> {
        let world = self.input(&self.start());
        let ask = |state: &S| advance(&self.input_at(&world, state), self.now(state));
        let mut came_from: BTreeMap<S, Option<S>> = BTreeMap::from([(self.start(), None)]);
        let mut queue = VecDeque::from([self.start()]);
        while let Some(state) = queue.pop_front() {
            let wave = ask(&state);
            let passes = self.passes(&state, &wave);
            let fixpoint = || match passes.last() {
                Some((_, written)) if *written != state => {
                    let changes = self.passes(written, &ask(written)).last().is_some_and(|(_, next)| next != written);
                    ensure(!changes, "a second pass changes something (fixpoint)")
                }
                _ => Ok(()),
            };
            if let Err(broken) = self.check(&state, &wave).and_then(|()| fixpoint()) {
                return Err(self.story(&came_from, state, &broken));
            }
            for (_, next) in self.events(&state).into_iter().chain(passes) {
                if let std::collections::btree_map::Entry::Vacant(unseen) = came_from.entry(next) {
                    unseen.insert(Some(state));
                    queue.push_back(next);
                }
            }
        }
        Ok(came_from.len())
    }

    fn story(&self, came_from: &BTreeMap<S, Option<S>>, broken: S, why: &str) -> String {
        let mut steps = Vec::new();
        let mut at = broken;
        while let Some(from) = came_from[&at] {
            let passes = self.passes(&from, &advance(&self.input(&from), self.now(&from)));
            let step = self.events(&from).into_iter().chain(passes).find(|(_, next)| *next == at);
            steps.push(step.map_or_else(String::new, |(what, _)| format!("{what:?}")));
            at = from;
        }
        steps.reverse();
        format!("{}: {why}\n  after {}\n  in {broken:?}", self.name, steps.join("; "))
    }
}

fn ensure(holds: bool, promise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(promise.to_owned()) }
}

fn hash(revision: u8) -> Hash {
    Hash(format!("r{revision}"))
}

fn revision(hash: &Hash) -> u8 {
    hash.0[1..].parse().unwrap()
}

#[test]
fn every_state_of_a_small_world_keeps_the_promises() {
    let mut worlds = World::worlds();
    if std::env::var("WHEELWRIGHT_MODEL").is_ok_and(|size| size == "large") {
        worlds.extend(World::large());
    }
    let mut total = 0;
    for world in worlds {
        let states = world.explore().unwrap_or_else(|broken| panic!("{broken}"));
        println!("{states:>9} states: {}", world.name);
        total += states;
    }
    println!("{total:>9} states in all");
}

#[test]
fn every_seeded_bug_is_caught() {
    for bug in Bug::ALL {
        let caught = bug.seed(|| World::worlds().iter().find_map(|world| world.explore().err()));
        let story = caught.unwrap_or_else(|| panic!("{bug:?} breaks no promise"));
        println!("{bug:?}: {}", story.lines().next().unwrap_or_default());
    }
}
