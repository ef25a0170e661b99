//! What the engine promises, computed from the state alone.

use super::super::Wave;
use super::world::{C, Outcome, S, World};
use super::{NAMES, hash};

/// What the world says of a cluster and the revision, computed without the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    ToDo,
    InFlight,
    Failed,
    Done,
    Silent,
}

impl World {
    pub(super) fn truth(&self, s: &S, c: &C) -> Truth {
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
    pub(super) fn check(&self, s: &S, wave: &Wave) -> Result<(), String> {
        let assigned = |at: usize| wave.clusters.get(NAMES[at]).and_then(|verdict| verdict.assigned.clone());
        let starts =
            |at: &usize| s.clusters[*at].runs != s.revision && assigned(*at) == Some(hash(s.revision));
        let members: Vec<usize> = (0..3).filter(|at| s.clusters[*at].member).collect();
        let stages = self.stages(s);
        let quarantined = wave.quarantine.is_some();
        for at in &members {
            let runs = Some(s.clusters[*at].runs).filter(|runs| *runs > 0).map(hash);
            let returns =
                quarantined && !s.paused && runs == Some(hash(s.revision)) && assigned(*at) == Some(hash(1));
            ensure(assigned(*at) == runs || starts(at) || returns, "an assignment came from nowhere")?;
            let must_return =
                quarantined && !s.paused && s.clusters[*at].runs == s.revision && s.revision != 1;
            ensure(!must_return || returns, "a cluster stays on a quarantined revision")?;
        }
        let removals = (0..3).filter(|at| !s.clusters[*at].member && s.clusters[*at].runs > 0).count();
        ensure(
            wave.removed.len() <= 1 && (wave.removed.len() == removals || removals > 1 || s.paused),
            "I5: the removal budget",
        )?;

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
        let unfinished =
            self.finish_current && members.iter().any(|at| self.is_superseded(s, &s.clusters[*at]));
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
            let unfinished =
                stage.iter().filter(waited_for).any(|at| matches!(truth(at), Truth::ToDo | Truth::InFlight));
            ensure(starting == 0 || approved, "a start without the approval")?;
            ensure(starting == 0 || open, "I1: a start before its turn")?;
            let free = slots.saturating_sub(flying);
            ensure(!open || !approved || starting == to_do.min(free), "I4: a free slot stays empty")?;
            open = open && !unfinished;
        }
        Ok(())
    }

    /// Another cluster of a group was moved to the revision.
    pub(super) fn is_under_way(&self, s: &S, at: usize) -> bool {
        (0..3).any(|other| other != at && s.clusters[other].member && s.clusters[other].runs == s.revision)
    }

    pub(super) fn is_superseded(&self, s: &S, c: &C) -> bool {
        let settled = c.seen == c.runs && c.outcome != Outcome::Pending;
        c.runs > 0 && c.runs != s.revision && !settled && !c.silent && !c.old
    }
}

pub(super) fn ensure(holds: bool, promise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(promise.to_owned()) }
}
