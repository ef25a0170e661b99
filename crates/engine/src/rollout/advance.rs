//! Decides a rollout: classifies every cluster, counts all failures, and only then releases clusters.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::breach::FleetFailures;
use super::classify::{classify, finished, has_succeeded, superseded};
use super::cluster::{Cluster, Group, Hash, Instance};
use super::decision::{Assignment, Counts, RolloutDecision, Stage};
use super::freeze::frozen;
use super::input::Input;
use super::policy::{Joining, Policy, Superseding};
use super::removal::{RemovalDecision, RemovalInput, end, remove, within_window};
use super::rules::{FleetInput, Rules};
use super::stage::{Member, StagePlan, grouped, stages};
use super::state::{Breach, ClusterState, Wait};
use super::strategy::{Limits, Mandatory, Strategy};

/// Decides the next assignments of a rollout.
///
/// This is a pure function. The input carries all state: what was assigned when, the quarantined revision, the
/// recorded breach and the granted approvals. The result depends on `now` only through the times in the input.
/// [`RolloutDecision::recheck`] is the first moment at which the same input can give a different result.
pub fn advance(input: &Input, now: Timestamp) -> RolloutDecision {
    let rules = Rules::new(input);
    let clusters = by_name(&input.clusters);
    let mut plans = stages(rules.strategy, &rules.policy, grouped(&input.groups, &clusters));
    for member in plans.iter_mut().flat_map(|plan| &mut plan.members) {
        member.state = classify(member.cluster, &rules.limits, now);
    }
    let members: BTreeSet<&str> = plans.iter().flat_map(|plan| &plan.members).map(|m| m.name).collect();
    let left = clusters
        .values()
        .filter(|cluster| !members.contains(cluster.name.as_str()))
        .map(|cluster| (cluster.name.clone(), cluster.instance.clone()))
        .collect();
    let mut assignments = BTreeMap::new();
    let mut place = |context: &StageContext<'_>, member: &Member<'_>, state: &ClusterState| {
        assignments.insert(member.name.to_owned(), context.assignment(member, state));
    };
    let decision = decide(FleetInput { input, rules: &rules, left: &left, now }, plans, &mut place);
    RolloutDecision { clusters: assignments, ..decision }
}

/// Decides as if the revision were in quarantine, which is the effect of `wheelwright rollout undo`.
pub fn undone(input: &Input, now: Timestamp) -> RolloutDecision {
    let mut input = input.clone();
    input.quarantined = Some(input.revision.clone());
    if let Ok(policy) = &mut input.policy {
        policy.released.remove(&input.revision);
    }
    advance(&input, now)
}

/// Decides for a fleet whose clusters are already classified. Calls `place` with the state of every cluster, in
/// stage order, and leaves the clusters of the returned decision empty.
pub(super) fn decide(
    fleet: FleetInput<'_>,
    mut plans: Vec<StagePlan<'_>>,
    place: &mut impl FnMut(&StageContext<'_>, &Member<'_>, &ClusterState),
) -> RolloutDecision {
    let FleetInput { input, rules: Rules { strategy, policy, limits }, left, now } = fleet;
    mark_newcomers(&mut plans, input);
    let FleetFailures { breach, quarantine, late_since } = FleetFailures::new(fleet, &plans);
    let reports_until = breach.as_ref().and_then(|breach| breach.reports_until);
    let common_good = quarantine.as_ref().and_then(|_| common_good(&plans));
    let pass =
        StageContext { input, policy, limits: *limits, quarantine: quarantine.as_ref(), common_good, now };
    let hold = pass.hold(strategy.is_some(), &plans, breach.as_ref());
    let refused = [input.strategy.as_ref().err(), input.policy.as_ref().err()];
    let mut decision = RolloutDecision {
        strategy: strategy.cloned(),
        refused: refused.into_iter().flatten().cloned().collect(),
        absent: absent(*strategy, &input.groups),
        clusters: BTreeMap::new(),
        stages: Vec::new(),
        hold,
        breach,
        quarantine: quarantine.clone(),
        late_since,
        approvals: BTreeSet::new(),
        removed: Vec::new(),
        counted: Vec::new(),
        approved: Vec::new(),
        kept: Vec::new(),
        recheck: reports_until,
        counts: Counts::default(),
    };
    pass.release(plans, &mut decision, place);
    pass.remove(left, &mut decision);
    decision
}

/// Returns the mandatory groups without a cluster. A scheduler may list empty groups. Returns nothing if no
/// group has a cluster, because the placement may still be undecided.
fn absent(strategy: Option<&Strategy>, groups: &[Group]) -> Vec<Mandatory> {
    let mut mandatory = strategy.map(Strategy::mandatory).unwrap_or_default();
    let filled: Vec<_> = groups.iter().filter(|group| !group.clusters.is_empty()).collect();
    mandatory.retain(|wanted| !filled.is_empty() && !filled.iter().any(|group| wanted.selects(&group.key)));
    mandatory
}

/// Returns the rollback target if all clusters that have one share it.
fn common_good<'a>(plans: &[StagePlan<'a>]) -> Option<&'a Hash> {
    let mut good = plans.iter().flat_map(|plan| &plan.members).filter_map(Member::rollback_target);
    let first = good.next()?;
    good.all(|other| other == first).then_some(first)
}

/// Indexes the clusters by name. If several entries share a name, the first in sort order wins.
pub(super) fn by_name(clusters: &[Cluster]) -> BTreeMap<&str, &Cluster> {
    let mut sorted: Vec<&Cluster> = clusters.iter().filter(|cluster| !cluster.name.is_empty()).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    sorted.into_iter().map(|cluster| (cluster.name.as_str(), cluster)).collect()
}

/// Marks the clusters that joined after the rollout began. If the input has no start time, the rollout began
/// when the first cluster was assigned the revision.
fn mark_newcomers(plans: &mut [StagePlan], input: &Input) {
    let clusters = plans.iter().flat_map(|plan| &plan.members).filter_map(|member| member.cluster);
    let moved = clusters
        .filter(|cluster| cluster.runs.as_ref() == Some(&cluster.wants) && cluster.wants == input.revision);
    let begin = input.began.or_else(|| moved.filter_map(|cluster| cluster.runs_since).min());
    for member in plans.iter_mut().flat_map(|plan| &mut plan.members) {
        let joined = member.cluster.and_then(|cluster| cluster.joined);
        member.newcomer = begin.zip(joined).is_some_and(|(begin, joined)| joined > begin);
    }
}

/// The input that all stages of a decision share.
pub(super) struct StageContext<'a> {
    input: &'a Input,
    policy: &'a Policy,
    limits: Limits,
    quarantine: Option<&'a Hash>,
    /// The rollback target that all clusters share, if the revision is in quarantine.
    common_good: Option<&'a Hash>,
    now: Timestamp,
}

impl StageContext<'_> {
    /// Returns the reason that no cluster may start. If several apply, the one that lasts longest wins.
    fn hold(&self, has_strategy: bool, plans: &[StagePlan], breach: Option<&Breach>) -> Option<Wait> {
        if !has_strategy || self.input.policy.is_err() {
            return Some(Wait::Refused);
        }
        if self.policy.paused {
            return Some(Wait::Paused { policies: self.policy.paused_by.clone() });
        }
        if let Some(revision) = self.quarantine {
            return Some(Wait::Quarantine { revision: revision.clone() });
        }
        if let Some(breach) = breach {
            return Some(Wait::Breach(breach.clone()));
        }
        if let Some((window, until)) = frozen(&self.policy.freezes, self.now) {
            return Some(Wait::Frozen { window: window.into(), until });
        }
        self.unreachable_hold(plans).or_else(|| self.unfinished_revision(plans))
    }

    fn unreachable_hold(&self, plans: &[StagePlan]) -> Option<Wait> {
        let members = || plans.iter().flat_map(|plan| &plan.members);
        let is_silent = |member: &&Member| member.cluster.is_some_and(|c| c.unreachable && !c.skip);
        let (clusters, allowed) =
            (members().filter(is_silent).count(), self.policy.unreachable.of(members().count()));
        let is_held = clusters > allowed && !self.limits.start_unreachable;
        is_held.then_some(Wait::Unreachable { clusters, allowed })
    }

    fn unfinished_revision(&self, plans: &[StagePlan]) -> Option<Wait> {
        match self.policy.superseding {
            Superseding::Latest => return None,
            Superseding::FinishCurrent => {}
        }
        let members = plans.iter().flat_map(|plan| &plan.members).filter_map(|member| member.cluster);
        let untils: Vec<_> =
            members.filter_map(|cluster| superseded(cluster, &self.limits, self.now)).collect();
        untils.iter().max().map(|until| Wait::Superseded { clusters: untils.len(), until: *until })
    }

    /// Walks the stages in order and starts the clusters that may start.
    fn release(
        &self,
        plans: Vec<StagePlan>,
        decision: &mut RolloutDecision,
        place: &mut impl FnMut(&Self, &Member<'_>, &ClusterState),
    ) {
        let mut gate = decision.hold.clone();
        for plan in plans {
            let has_to_do = plan.members.iter().any(|member| member.state.is_none());
            if gate.is_none() && has_to_do {
                gate = self.approval(&plan, decision);
            }
            let stage = self.start(&plan, gate.as_ref(), decision, place);
            if gate.is_none() {
                gate = self.gate_after(&stage, &plan);
            }
            decision.stages.push(stage);
        }
    }

    fn approval(&self, plan: &StagePlan, decision: &mut RolloutDecision) -> Option<Wait> {
        let token = approval_token(&self.input.revision, &plan.name);
        if !plan.needs_approval || self.input.granted.contains(&token) {
            return None;
        }
        decision.approvals.insert(token.clone());
        Some(Wait::Approval { token })
    }

    /// Determines the state of every cluster in a stage.
    fn start(
        &self,
        plan: &StagePlan,
        gate: Option<&Wait>,
        decision: &mut RolloutDecision,
        place: &mut impl FnMut(&Self, &Member<'_>, &ClusterState),
    ) -> Stage {
        let known: Vec<Option<ClusterState>> = plan.members.iter().map(|member| self.state(member)).collect();
        let mut stage = Stage {
            name: plan.name.clone(),
            mandatory: plan.mandatory,
            clusters: plan.members.len(),
            slots: plan.slots,
            busy: known.iter().flatten().filter(|state| state.holds_slot()).count(),
            failures: known.iter().flatten().filter(|state| state.is_failure()).count(),
            allowed: plan.allowed,
            unfinished: 0,
        };
        let slot = || Wait::Slot { slots: plan.slots };
        let waiting = ClusterState::Waiting(gate.cloned().unwrap_or_else(slot));
        for (member, known) in plan.members.iter().zip(&known) {
            let state = match known {
                Some(state) => state,
                None if gate.is_none() && stage.busy < stage.slots => {
                    stage.busy += 1;
                    &ClusterState::Starting
                }
                None => &waiting,
            };
            // A breach also counts clusters whose state changes once the quarantine takes effect.
            let counts = decision.breach.is_some() || !state.is_quarantined();
            let ends = self.ends(member).filter(|_| counts).into_iter().chain(wait_ends(state));
            decision.recheck = decision.recheck.into_iter().chain(ends).min();
            let is_open = matches!(state, ClusterState::Waiting(_)) || state.holds_slot();
            stage.unfinished += usize::from(is_open && !member.newcomer);
            decision.counts.add(state);
            place(self, member, state);
        }
        stage
    }

    /// Returns the assignment of a cluster in the given state.
    pub(super) fn assignment(&self, member: &Member<'_>, state: &ClusterState) -> Assignment {
        let assigned = self.assigned(member, state);
        Assignment { group: member.group.clone(), state: state.clone(), assigned }
    }

    /// Returns the state of a cluster, or `None` if it waits for a decision.
    fn state(&self, member: &Member) -> Option<ClusterState> {
        self.quarantined(member).or_else(|| member.state.clone())
    }

    /// Returns the time at which the state of a cluster changes without an event, always later than now. An
    /// unreachable cluster that succeeded changes state when its soak ends.
    fn ends(&self, member: &Member) -> Option<Timestamp> {
        match member.state.as_ref()? {
            ClusterState::Unreachable { moved: true } => finished(member.cluster?, &self.limits),
            state => state.ends(),
        }
    }

    /// Returns the state of a cluster that should run the revision while the revision is in quarantine.
    fn quarantined(&self, member: &Member) -> Option<ClusterState> {
        self.quarantine?;
        let Some(cluster) = member.cluster else { return Some(ClusterState::Quarantined) };
        if cluster.skip || cluster.last_good.as_ref() == Some(&cluster.wants) {
            return None;
        }
        let target = match &cluster.runs {
            Some(runs) if *runs != cluster.wants => {
                let to = runs.clone();
                return Some(match has_succeeded(cluster, runs) {
                    true => ClusterState::Returned { to },
                    false => ClusterState::Returning { to, unreachable: cluster.unreachable },
                });
            }
            Some(_) => member.rollback_target(),
            // A cluster that joins or comes back gets the revision that the others return to.
            None => member.rollback_target().or(self.common_good.filter(|good| **good != cluster.wants)),
        };
        Some(match target {
            Some(to) => ClusterState::Returning { to: to.clone(), unreachable: cluster.unreachable },
            None => ClusterState::Quarantined,
        })
    }

    /// Returns the hash that a cluster in the given state runs from now on.
    fn assigned(&self, member: &Member, state: &ClusterState) -> Option<Hash> {
        match state {
            ClusterState::Starting => {
                Some(member.cluster.map_or(&self.input.revision, |cluster| &cluster.wants).clone())
            }
            ClusterState::Returning { to, unreachable: _ } if !self.policy.paused => Some(to.clone()),
            ClusterState::Waiting(_) | ClusterState::Unreachable { moved: false } => {
                let joins = member.runs().is_none()
                    && self.policy.joining == Joining::LastGood
                    && !self.policy.paused;
                if joins { member.rollback_target().cloned() } else { member.runs().cloned() }
            }
            ClusterState::Done
            | ClusterState::Soaking { .. }
            | ClusterState::Progressing { .. }
            | ClusterState::Failed { .. }
            | ClusterState::TimedOut
            | ClusterState::Skipped
            | ClusterState::Unreachable { moved: true }
            | ClusterState::Returning { .. }
            | ClusterState::Returned { .. }
            | ClusterState::Quarantined => member.runs().cloned(),
        }
    }

    /// Returns the reason that the stages after this one wait.
    fn gate_after(&self, stage: &Stage, plan: &StagePlan) -> Option<Wait> {
        if stage.unfinished > 0 {
            return Some(Wait::Stage { stage: stage.name.clone(), unfinished: stage.unfinished });
        }
        if self.policy.group_soak.is_zero() {
            return None;
        }
        let waited_for = plan.members.iter().filter(|member| !member.newcomer);
        let finished = waited_for.filter_map(|member| finished(member.cluster?, &self.limits)).max();
        let until = finished?.min(self.now).checked_add(self.policy.group_soak).ok()?;
        (until > self.now).then(|| Wait::StageSoak { stage: stage.name.clone(), until })
    }

    /// Removes the content from clusters that left their groups, within the removal budget.
    fn remove(&self, left: &BTreeMap<String, Instance>, decision: &mut RolloutDecision) {
        let Input { owner, recent_removals, policy, granted, .. } = self.input;
        let recent = policy
            .as_ref()
            .map(|policy| within_window(recent_removals, policy, self.now))
            .unwrap_or_default();
        let gone = recent.keys().filter(|name| !left.contains_key(*name)).count();
        let total = decision.counts.total + left.len() + gone;
        let input = RemovalInput { owner, left, total, recent: &recent, policy, granted };
        let RemovalDecision { removed, counted, approved, kept, approval, recheck } =
            remove(&input, self.now);
        decision.approvals.extend(approval);
        // A recorded but unfinished removal needs an approval again once its record expires.
        let recorded = removed.iter().filter_map(|name| recent.get(name));
        let ends = policy.iter().flat_map(|policy| recorded.clone().map(|at| end(*at, policy)));
        decision.recheck = decision.recheck.into_iter().chain(recheck).chain(ends).min();
        (decision.removed, decision.counted) = (removed, counted);
        (decision.approved, decision.kept) = (approved, kept);
    }
}

/// Returns the time at which a wait ends without an event.
fn wait_ends(state: &ClusterState) -> Option<Timestamp> {
    match state {
        ClusterState::Waiting(
            Wait::Frozen { until, .. } | Wait::StageSoak { until, .. } | Wait::Superseded { until, .. },
        ) => Some(*until),
        _ => None,
    }
}

/// Returns the token that approves the start of a stage with a revision.
pub(super) fn approval_token(revision: &Hash, stage: &str) -> String {
    format!("{revision}/{stage}")
}
