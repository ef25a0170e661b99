//! The decision: judge every cluster, count every failure, then release.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use super::freeze::frozen;
use super::input::{Cluster, Group, Hash, Input};
use super::policy::{Joining, OnBreach, Policy};
use super::stage::{Member, Plan, grouped, stages};
use super::stand::{Limits, Stand, finished, stand, superseded};
use super::strategy::{Mandatory, Options, Strategy};
use super::wave::{Breach, Counts, Stage, State, Verdict, Wait, Wave};

/// Says where a rollout stands and what is to be done now.
///
/// The function is total and has no memory: what must be remembered (what was assigned when, the quarantined revision, granted
/// approvals) is part of the input. Its answer depends on `now` only through the times it names; [`Wave::recheck`] is the first
/// moment at which the same input could give another one.
pub fn advance(input: &Input, now: Timestamp) -> Wave {
    let strategy = input.strategy.as_ref().ok().or(input.last_strategy.as_ref());
    let fallback = Policy::default();
    let policy = input.policy.as_ref().unwrap_or(&fallback);
    let limits = limits(strategy, policy);
    let clusters = by_name(&input.clusters);
    let mut plans = stages(strategy, policy, grouped(&input.groups, &clusters));
    for member in plans.iter_mut().flat_map(|plan| &mut plan.members) {
        member.stand = stand(member.cluster, &limits, now);
    }
    mark_newcomers(&mut plans, input);

    let remembered = is_remembered(input, policy);
    let breach = if remembered { None } else { breach(&plans) };
    let is_quarantined = remembered || breach.is_some() && is_rejected(input, policy, &plans);
    let quarantine = is_quarantined.then(|| input.revision.clone());
    let turn = Turn { input, policy, limits, quarantine: quarantine.as_ref(), now };
    let hold = turn.hold(strategy.is_some(), &plans, breach.as_ref());
    let mut wave = Wave {
        strategy: strategy.cloned(),
        refused: [input.strategy.as_ref().err(), input.policy.as_ref().err()]
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
        absent: absent(strategy, &input.groups),
        clusters: BTreeMap::new(),
        stages: Vec::new(),
        hold,
        breach,
        quarantine: quarantine.clone(),
        approvals: BTreeSet::new(),
        removed: Vec::new(),
        kept: Vec::new(),
        recheck: None,
        counts: Counts::default(),
    };
    turn.release(plans, &mut wave);
    turn.remove(&clusters, &mut wave);
    turn.recheck(&mut wave);
    wave.counts = Counts::of(wave.clusters.values().map(|verdict| &verdict.state));
    wave
}

fn limits(strategy: Option<&Strategy>, policy: &Policy) -> Limits {
    let no_options = Options::default();
    let (options, start_unreachable) = match strategy {
        None => (&no_options, false),
        Some(Strategy::All { deadline }) => (&Options { deadline: *deadline, ..no_options }, true),
        Some(Strategy::Progressive { options, .. } | Strategy::ProgressivePerGroup { options, .. }) => {
            (options, false)
        }
    };
    Limits {
        // All has nothing that would wait for a soak.
        soak: if start_unreachable { SignedDuration::ZERO } else { options.soak.max(policy.soak) },
        deadline: options.deadline.or(policy.deadline),
        start_unreachable,
        superseding: policy.superseding,
    }
}

/// Mandatory groups that are not there; a placement without any group has not decided yet.
fn absent(strategy: Option<&Strategy>, groups: &[Group]) -> Vec<Mandatory> {
    let mandatory =
        strategy.filter(|_| !groups.is_empty()).map(Strategy::mandatory).unwrap_or_default().iter();
    mandatory.filter(|wanted| !groups.iter().any(|group| wanted.selects(&group.key))).cloned().collect()
}

/// Clusters by name; of entries with one name, the one that sorts first.
fn by_name(clusters: &[Cluster]) -> BTreeMap<&str, &Cluster> {
    let mut sorted: Vec<&Cluster> = clusters.iter().filter(|cluster| !cluster.name.is_empty()).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    sorted.into_iter().map(|cluster| (cluster.name.as_str(), cluster)).collect()
}

/// A newcomer joined after the rollout began: where nobody knows when that was, when the first cluster was moved to the revision.
fn mark_newcomers(plans: &mut [Plan], input: &Input) {
    let clusters = plans.iter().flat_map(|plan| &plan.members).filter_map(|member| member.cluster);
    let moved = clusters
        .filter(|cluster| cluster.runs.as_ref() == Some(&cluster.wants) && cluster.wants == input.revision);
    let begin = input.began.or_else(|| moved.filter_map(|cluster| cluster.runs_since).min());
    for member in plans.iter_mut().flat_map(|plan| &mut plan.members) {
        let joined = member.cluster.and_then(|cluster| cluster.joined);
        member.newcomer =
            begin.zip(joined).is_some_and(|(begin, joined)| joined > begin) && !bug!(NewcomersAreWaitedFor);
    }
}

/// The first stage with more failures than it tolerates, counted over all its clusters before anything is released.
fn breach(plans: &[Plan]) -> Option<Breach> {
    plans.iter().enumerate().filter(|(at, _)| *at == 0 || !bug!(CountsFirstStageOnly)).find_map(
        |(_, plan)| {
            let failures = plan.failures();
            let allowed = plan.allowed? + usize::from(bug!(BreachOneLate));
            (failures > allowed).then(|| Breach { stage: plan.name.clone(), failures, allowed })
        },
    )
}

/// Whether the revision was quarantined before. Its failures are history then: clusters have other things to do than to run it.
fn is_remembered(input: &Input, policy: &Policy) -> bool {
    let released = policy.released.contains(&input.revision);
    input.quarantined.as_ref() == Some(&input.revision) && !released && !bug!(QuarantineIsForgotten)
}

/// Whether a breach quarantines the revision. Without anything to return to it is a pause.
fn is_rejected(input: &Input, policy: &Policy, plans: &[Plan]) -> bool {
    let way_back = || plans.iter().flat_map(|plan| &plan.members).any(|member| member.way_back().is_some());
    policy.on_breach == OnBreach::Rollback
        && !policy.paused
        && !policy.released.contains(&input.revision)
        && way_back()
}

impl Plan<'_> {
    fn failures(&self) -> usize {
        self.members
            .iter()
            .filter(|member| matches!(&member.stand, Stand::Settled(state) if state.is_failure()))
            .count()
    }
}

impl<'a> Member<'a> {
    fn runs(&self) -> Option<&'a Hash> {
        self.cluster.and_then(|cluster| cluster.runs.as_ref())
    }

    /// When its stand ends by itself: for a silent cluster that had succeeded, with its soak.
    fn ends(&self, limits: &Limits) -> Option<Timestamp> {
        match &self.stand {
            Stand::ToDo => None,
            Stand::Settled(State::Unreachable { moved: true }) => finished(self.cluster?, limits),
            Stand::Settled(state) => state.ends(),
        }
    }

    /// The last good hash, if that is another one than the cluster should run.
    fn way_back(&self) -> Option<&'a Hash> {
        self.cluster.and_then(|cluster| cluster.last_good.as_ref().filter(|good| **good != cluster.wants))
    }
}

/// What holds for every stage of one pass.
struct Turn<'a> {
    input: &'a Input,
    policy: &'a Policy,
    limits: Limits,
    quarantine: Option<&'a Hash>,
    now: Timestamp,
}

impl Turn<'_> {
    /// Why nothing may start anywhere; the reason that lasts longest comes first.
    fn hold(&self, has_strategy: bool, plans: &[Plan], breach: Option<&Breach>) -> Option<Wait> {
        if !has_strategy || self.input.policy.is_err() {
            return Some(Wait::Refused);
        }
        if self.policy.paused && !bug!(PauseIsIgnored) {
            return Some(Wait::Paused);
        }
        if let Some(revision) = self.quarantine {
            return Some(Wait::Quarantine { revision: revision.clone() });
        }
        if let Some(breach) = breach.filter(|_| !bug!(BreachIsIgnored)) {
            return Some(Wait::Breach(breach.clone()));
        }
        if let Some((window, until)) =
            frozen(&self.policy.freezes, self.now).filter(|_| !bug!(FreezeIsIgnored))
        {
            return Some(Wait::Frozen { window: window.into(), until });
        }
        self.silence(plans).or_else(|| self.unfinished_revision(plans))
    }

    fn silence(&self, plans: &[Plan]) -> Option<Wait> {
        let members = || plans.iter().flat_map(|plan| &plan.members);
        let clusters =
            members().filter(|member| member.cluster.is_some_and(|c| c.unreachable && !c.skip)).count();
        let allowed = self.policy.unreachable.of(members().count());
        let within = clusters <= allowed || self.limits.start_unreachable || bug!(UnreachableIsUnlimited);
        (!within).then_some(Wait::Unreachable { clusters, allowed })
    }

    fn unfinished_revision(&self, plans: &[Plan]) -> Option<Wait> {
        let members = plans.iter().flat_map(|plan| &plan.members).filter_map(|member| member.cluster);
        let untils: Vec<_> =
            members.filter_map(|cluster| superseded(cluster, &self.limits, self.now)).collect();
        untils.iter().max().map(|until| Wait::Superseded { clusters: untils.len(), until: *until })
    }

    /// Walks the stages in order and starts what may start.
    fn release(&self, plans: Vec<Plan>, wave: &mut Wave) {
        let mut gate = wave.hold.clone();
        for plan in plans {
            let has_to_do = plan.members.iter().any(|member| member.stand == Stand::ToDo);
            if gate.is_none() && has_to_do {
                gate = self.approval(&plan, wave);
            }
            let soaked = plan
                .members
                .iter()
                .filter(|member| !member.newcomer)
                .filter_map(|member| finished(member.cluster?, &self.limits))
                .max();
            let stage = self.start(plan, gate.as_ref(), wave);
            if gate.is_none() {
                gate = gate_after(&stage, soaked, self.now, self.policy.group_soak);
            }
            wave.stages.push(stage);
        }
    }

    fn approval(&self, plan: &Plan, wave: &mut Wave) -> Option<Wait> {
        let token = format!("{}/{}", self.input.revision, plan.name);
        if !plan.needs_approval || self.input.granted.contains(&token) || bug!(ApprovalIsIgnored) {
            return None;
        }
        wave.approvals.insert(token.clone());
        Some(Wait::Approval { token })
    }

    /// Gives every cluster of a stage its verdict.
    fn start(&self, plan: Plan, gate: Option<&Wait>, wave: &mut Wave) -> Stage {
        let settled: Vec<Option<State>> = plan.members.iter().map(|member| self.settled(member)).collect();
        let mut stage = Stage {
            name: plan.name,
            mandatory: plan.mandatory,
            clusters: plan.members.len(),
            slots: plan.slots + usize::from(bug!(OneSlotTooMany)),
            busy: settled.iter().flatten().filter(|state| state.holds_slot()).count(),
            failures: settled.iter().flatten().filter(|state| state.is_failure()).count(),
            allowed: plan.allowed,
            unfinished: 0,
        };
        for (member, settled) in plan.members.into_iter().zip(settled) {
            let state = match (settled, gate) {
                (Some(state), _) => state,
                (None, Some(wait)) => State::Waiting(wait.clone()),
                (None, None) if stage.busy < stage.slots => {
                    stage.busy += 1;
                    State::Starting
                }
                (None, None) => State::Waiting(Wait::Slot { slots: stage.slots }),
            };
            let waits = matches!(state, State::Waiting(_));
            // A breach counts clusters that its quarantine shows as something else.
            let matters = wave.breach.is_some() || !matches!(state, State::Quarantined { .. });
            let ends = member.ends(&self.limits).filter(|at| matters && *at > self.now);
            wave.recheck = wave.recheck.into_iter().chain(ends).min();
            stage.unfinished +=
                usize::from(!member.newcomer && (waits || state.holds_slot() && !bug!(GroupsOverlap)));
            let assigned = self.assigned(&member, &state);
            wave.clusters
                .insert(member.name.to_owned(), Verdict { group: member.group.clone(), state, assigned });
        }
        stage
    }

    /// The state of a cluster about which there is nothing to decide.
    fn settled(&self, member: &Member) -> Option<State> {
        self.quarantined(member).or_else(|| match &member.stand {
            Stand::ToDo => None,
            Stand::Settled(state) => Some(state.clone()),
        })
    }

    /// What the quarantine of the revision makes of a cluster that should run it.
    fn quarantined(&self, member: &Member) -> Option<State> {
        self.quarantine?;
        let cluster = member
            .cluster
            .filter(|cluster| !cluster.skip && cluster.last_good.as_ref() != Some(&cluster.wants));
        let on_it = cluster.is_some_and(|cluster| cluster.runs.as_ref() == Some(&cluster.wants));
        let returns_to =
            member.way_back().filter(|_| on_it && !self.policy.paused && !bug!(RollbackIsForgotten)).cloned();
        (cluster.is_some() || member.cluster.is_none()).then_some(State::Quarantined { returns_to })
    }

    fn assigned(&self, member: &Member, state: &State) -> Option<Hash> {
        let wants = || member.cluster.map_or(&self.input.revision, |cluster| &cluster.wants);
        match state {
            State::Starting => Some(wants().clone()),
            State::Quarantined { returns_to: Some(good) } => Some(good.clone()),
            State::Waiting(_) if bug!(AssignsEarly) => Some(wants().clone()),
            State::Waiting(_)
            | State::Quarantined { returns_to: None }
            | State::Unreachable { moved: false } => {
                let joins = member.runs().is_none()
                    && self.policy.joining == Joining::LastGood
                    && !self.policy.paused;
                if joins { member.way_back().cloned() } else { member.runs().cloned() }
            }
            State::Done
            | State::Soaking { .. }
            | State::Progressing { .. }
            | State::Failed { .. }
            | State::TimedOut
            | State::Skipped
            | State::Unreachable { moved: true } => member.runs().cloned(),
        }
    }

    /// Lets clusters that left their groups lose their content, unless they are suspiciously many.
    fn remove(&self, clusters: &BTreeMap<&str, &Cluster>, wave: &mut Wave) {
        let left: Vec<String> = clusters
            .keys()
            .filter(|name| !wave.clusters.contains_key(**name))
            .map(|name| (*name).to_owned())
            .collect();
        let allowed = self.policy.removals.of(wave.clusters.len() + left.len());
        let token = format!("remove/{}", digest(&left));
        let within = left.len() <= allowed || self.input.granted.contains(&token) || bug!(RemovalIsUnlimited);
        if self.policy.paused || self.input.policy.is_err() {
            wave.kept = left;
        } else if within {
            wave.removed = left;
        } else {
            wave.approvals.insert(token);
            wave.kept = left;
        }
    }

    /// Looks again when something that is waited for ends by itself.
    fn recheck(&self, wave: &mut Wave) {
        let waits = wave.clusters.values().filter_map(|verdict| match &verdict.state {
            State::Waiting(
                Wait::Frozen { until, .. } | Wait::StageSoak { until, .. } | Wait::Superseded { until, .. },
            ) => Some(*until),
            _ => None,
        });
        wave.recheck = waits.filter(|at| *at > self.now).chain(wave.recheck).min();
    }
}

/// Why the stages after this one wait; `finished` is when the last of its clusters was done with.
fn gate_after(
    stage: &Stage,
    finished: Option<Timestamp>,
    now: Timestamp,
    soak: SignedDuration,
) -> Option<Wait> {
    if stage.unfinished > 0 {
        return Some(Wait::Stage { stage: stage.name.clone(), unfinished: stage.unfinished });
    }
    let until = finished?.min(now).checked_add(soak).ok().filter(|until| *until > now)?;
    Some(Wait::StageSoak { stage: stage.name.clone(), until })
}

/// Names a set of clusters, so that an approval is about exactly these.
fn digest(names: &[String]) -> String {
    let sum = Sha256::digest(names.join("\n"));
    object::hex(sum.get(..6).unwrap_or_default())
}
