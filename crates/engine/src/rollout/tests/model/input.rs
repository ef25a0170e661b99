//! The engine input for a state of the model.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::world::{C, Outcome, S, World};
use super::{FROZEN, LIMIT, NAMES, NOW, OLD, YOUNG, hash};
use crate::rollout::cluster::{Cluster, Group, GroupKey, Health, Report};
use crate::rollout::freeze::Window;
use crate::rollout::policy::{Approval, OnBreach, Superseding};
use crate::rollout::strategy::{All, Mandatory, Options, Progressive, ProgressivePerGroup};
use crate::rollout::{Input, Policy, Size, Strategy};
use api::gitops::v1alpha1::TimeWindow;

impl World {
    pub(super) fn strategy(&self) -> Strategy {
        let deadline = (!self.no_deadline).then_some(LIMIT);
        let options = Options { soak: LIMIT, deadline, failures: Size::Count(self.failures) };
        let mandatory = if self.mandatory { vec![Mandatory::Name("g0".into())] } else { Vec::new() };
        match (self.all, self.per_group) {
            (true, _) => Strategy::All(All { deadline }),
            (_, true) => Strategy::ProgressivePerGroup(ProgressivePerGroup { options, mandatory }),
            _ => Strategy::Progressive(Progressive {
                options,
                mandatory,
                concurrency: Some(Size::Count(self.slots as u32)),
            }),
        }
    }

    pub(super) fn input(&self, state: &S) -> Input {
        let mut world = Input::new(hash(state.revision), Ok(self.strategy()));
        world.policy = Ok(Policy {
            on_breach: if self.rollback { OnBreach::Rollback } else { OnBreach::Pause },
            superseding: if self.finish_current { Superseding::FinishCurrent } else { Superseding::Latest },
            approval: Approval { between_groups: self.approvals, ..Approval::default() },
            freezes: if self.freezes { vec![noon()] } else { Vec::new() },
            ..Policy::default()
        });
        self.input_at(&world, state)
    }

    /// Returns the engine input for a state; `world` contains the constant part.
    pub(super) fn input_at(&self, world: &Input, state: &S) -> Input {
        let mut input = world.clone();
        input.revision = hash(state.revision);
        if let Ok(policy) = &mut input.policy {
            policy.paused = state.paused;
        }
        let group = |index: i32, names: &[usize]| Group {
            key: GroupKey { index, name: format!("g{index}") },
            clusters: names
                .iter()
                .filter(|at| state.clusters[**at].member)
                .map(|at| NAMES[*at].to_owned())
                .collect(),
        };
        input.groups = vec![group(0, &[0]), group(1, &[1, 2])];
        let known = state.clusters.iter().zip(NAMES).filter(|(c, _)| c.member || c.runs > 0);
        input.clusters = known.map(|(c, name)| self.cluster(state, c, name)).collect();
        input.quarantined = (state.quarantined > 0).then(|| hash(state.quarantined));
        input.late_since = state.recorded.map(|old| self.now(state) - if old { OLD } else { YOUNG });
        if state.approved {
            input.granted = BTreeSet::from([format!("r{}/g1", state.revision)]);
        }
        input
    }

    pub(super) fn cluster(&self, state: &S, c: &C, name: &str) -> Cluster {
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
            // A report is never older than the assignment that it describes. A report about another hash may
            // have any time.
            runs_since: since.filter(|_| c.runs > 0),
            health: (c.seen > 0).then(|| Health { of: hash(c.seen), report, since }),
            last_good: (!self.fresh_fleet).then(|| hash(1)),
            unreachable: c.silent,
            joined: c.late.then(|| self.joined(state, c)),
            ..Cluster::default()
        }
    }

    /// Returns the time at which a late cluster joined: after the first assignment to another cluster, or before
    /// everything if there is none.
    pub(super) fn joined(&self, state: &S, late: &C) -> Timestamp {
        let moved =
            state.clusters.iter().filter(|c| !std::ptr::eq(*c, late) && c.member && c.runs == state.revision);
        let begin = moved.map(|c| self.now(state) - if c.old { OLD } else { YOUNG }).min();
        begin.map_or(self.now(state) - OLD - OLD, |begin| begin + SignedDuration::from_millis(1))
    }

    pub(super) fn now(&self, state: &S) -> Timestamp {
        Timestamp::from_second(if state.frozen { FROZEN } else { NOW }).unwrap()
    }
}

fn noon() -> Window {
    let window = TimeWindow {
        name: "noon".into(),
        schedule: "0 11 * * *".into(),
        duration: "2h".into(),
        ..TimeWindow::default()
    };
    Window::read("freezeWindows", &window).unwrap()
}
