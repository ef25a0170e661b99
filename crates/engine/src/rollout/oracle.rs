//! The promises of the rollout engine, and a check that decisions keep them.
//!
//! [`check`] reads an input and its decision, and recomputes everything else. It shares no guard with the
//! engine, only the types, the arithmetic of [`Size`], the rules of a strategy and the calendar of freeze
//! windows. The model check, the properties, the fleet in virtual time and the simulator all use it.
//!
//! The promises:
//!
//! 1. Every cluster of the groups has exactly one assignment, and its state is correct.
//! 2. A cluster is assigned the revision that it runs, the one that it should run, or a known good one. The
//!    assignment changes only at a start, at a return from a quarantined revision, and when a new cluster gets
//!    its first good revision.
//! 3. Nothing starts while the strategy or policy is invalid, during a pause, freeze, breach or quarantine,
//!    while too many clusters are unreachable, and while a revision that must finish is under way.
//! 4. A stage starts after all earlier stages have finished, soaked and been approved, and never without its
//!    own approval.
//! 5. A start never raises the number of clusters in flight above the number of slots. A cluster with a new
//!    assignment is in flight until it reports.
//! 6. A stage with more failures than it tolerates is a breach, whether or not its turn has come. With
//!    `onBreach: Rollback`, a breach quarantines the revision if there is anything to return to. A quarantine
//!    lasts until the revision is released or replaced. A breach that depends on late clusters causes a
//!    quarantine only after it has been on record for as long as they have to report.
//! 7. A cluster that runs a quarantined revision returns to a good one, unless the rollout is paused. A cluster
//!    that runs nothing gets a good one. No cluster has returned before it reports that the good revision
//!    succeeds. Only a cluster without a good revision keeps the quarantined one.
//! 8. A stage that nothing blocks uses all its slots, for the first clusters by name. Failed, unreachable and
//!    finished clusters hold no slot. The stage waits for no unnecessary approval, budget or newcomer.
//! 9. Clusters that left lose their content only within the removal budget, or with an approval of exactly
//!    this removal.
//! 10. The time of the next check is in the future.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::advance::approval_token;
use super::cluster::{Cluster, GroupKey, Hash, Instance, Report};
use super::decision::{Assignment, RolloutDecision};
use super::freeze::frozen;
use super::input::Input;
use super::policy::{Approval, Joining, OnBreach, Policy, Superseding};
use super::removal::removal_token;
use super::state::ClusterState;
use super::strategy::{All, Failures, Strategy};
use object::duration::later;

/// The longest time that late clusters have to report.
const CATCH_UP: SignedDuration = SignedDuration::from_mins(5);
/// The time that the next revision waits for one that must finish, if there is no deadline.
const FINISH_CURRENT: SignedDuration = SignedDuration::from_mins(10);

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{promise}: {subject}")]
pub struct BrokenPromise {
    /// The text of the promise.
    pub promise: &'static str,
    /// The cluster or stage that breaks it; empty if it concerns the whole rollout.
    pub subject: String,
}

type CheckResult = Result<(), BrokenPromise>;

fn ensure(holds: bool, promise: &'static str, subject: &str) -> CheckResult {
    if holds { Ok(()) } else { Err(BrokenPromise { promise, subject: subject.to_owned() }) }
}

/// Checks a decision against the promises of the engine.
///
/// # Errors
/// Names the first broken promise.
pub fn check(input: &Input, decision: &RolloutDecision, now: Timestamp) -> CheckResult {
    let checker = Checker::read(input, now);
    checker.check_assignments(decision)?;
    checker.check_breach(decision)?;
    checker.check_stages(decision)?;
    checker.check_removals(decision)?;
    ensure(decision.recheck.is_none_or(|at| at > now), "the next check is later than now", "")
}

/// The state of a cluster, computed without the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedState {
    /// The cluster does not run the wanted revision and can be started.
    ToDo,
    /// The cluster was assigned the wanted revision and has no result yet, or has not soaked. Or its turn came,
    /// and the API server refuses to create its content.
    InFlight,
    /// The cluster failed, or did not succeed in time.
    Failed,
    /// The cluster succeeded for long enough.
    Done,
    /// The cluster is unreachable.
    Silent,
    /// The cluster is skipped.
    Skipped,
}

/// A cluster in a stage.
struct Member<'a> {
    name: &'a str,
    cluster: Option<&'a Cluster>,
    truth: ExpectedState,
    /// True if the cluster joined after the rollout began.
    is_newcomer: bool,
    /// The hash that the cluster should run.
    wants: &'a Hash,
}

impl Member<'_> {
    fn runs(&self) -> Option<&Hash> {
        self.cluster?.runs.as_ref()
    }

    fn is_moved(&self) -> bool {
        self.runs() == Some(self.wants)
    }

    /// Returns the hash that the cluster can return to, or run before it starts.
    fn good(&self) -> Option<&Hash> {
        self.cluster?.last_good.as_ref().filter(|good| *good != self.wants)
    }

    /// Returns true if a decision assigns the wanted hash to the cluster for the first time.
    fn starts(&self, decision: &RolloutDecision) -> bool {
        let assigned = decision.clusters.get(self.name).and_then(|assignment| assignment.assigned.as_ref());
        !self.is_moved() && assigned == Some(self.wants)
    }
}

/// Clusters that start together.
struct CheckedStage<'a> {
    name: String,
    members: Vec<Member<'a>>,
    slots: usize,
    allowed: Option<usize>,
    needs_approval: bool,
}

impl CheckedStage<'_> {
    fn count(&self, truth: ExpectedState) -> usize {
        self.members.iter().filter(|member| member.truth == truth).count()
    }

    /// Returns true if reported failures alone, without late clusters, exceed the allowance.
    fn is_breached_by_reports(&self) -> bool {
        let has_reported = |member: &&Member<'_>| {
            let report = member.cluster.and_then(|cluster| known_of(cluster, member.wants).0);
            matches!(report, Some(Report::Failed | Report::Relapsed { failed: true } | Report::TimeOut))
        };
        let failed = self.members.iter().filter(|member| member.truth == ExpectedState::Failed);
        let reported = failed.filter(has_reported).count();
        self.allowed.is_some_and(|allowed| reported > allowed)
    }

    fn is_breached_without_relapses(&self) -> bool {
        let is_relapse = |member: &&Member<'_>| {
            let report = member.cluster.and_then(|cluster| known_of(cluster, member.wants).0);
            matches!(report, Some(Report::Relapsed { .. }))
        };
        let failed = self.members.iter().filter(|member| member.truth == ExpectedState::Failed);
        let others = failed.filter(|member| !is_relapse(member)).count();
        self.allowed.is_some_and(|allowed| others > allowed)
    }

    fn is_breached(&self) -> bool {
        self.allowed.is_some_and(|allowed| self.count(ExpectedState::Failed) > allowed)
    }
}

/// An input, prepared for the checks of the promises.
struct Checker<'a> {
    input: &'a Input,
    now: Timestamp,
    has_strategy: bool,
    has_policy: bool,
    policy: Policy,
    soak: SignedDuration,
    deadline: Option<SignedDuration>,
    starts_silent: bool,
    stages: Vec<CheckedStage<'a>>,
    /// The clusters outside all groups, with their content.
    left: BTreeMap<String, Instance>,
}

impl<'a> Checker<'a> {
    fn read(input: &'a Input, now: Timestamp) -> Self {
        let strategy = input.strategy.as_ref().ok().or(input.last_strategy.as_ref());
        let policy = input.policy.clone().unwrap_or_default();
        let limits = strategy.map(Strategy::limits).unwrap_or_default();
        let no_soak = strategy.is_some() && limits.soak.is_none();
        let mut checker = Self {
            input,
            now,
            has_strategy: strategy.is_some(),
            has_policy: input.policy.is_ok(),
            soak: if no_soak {
                SignedDuration::ZERO
            } else {
                policy.soak.max(limits.soak.unwrap_or_default())
            },
            deadline: limits.deadline.or(policy.deadline),
            starts_silent: limits.start_unreachable,
            policy,
            stages: Vec::new(),
            left: BTreeMap::new(),
        };
        let mut known: BTreeMap<&str, &Cluster> = BTreeMap::new();
        for cluster in input.clusters.iter().filter(|cluster| !cluster.name.is_empty()) {
            let first = known.entry(&cluster.name).or_insert(cluster);
            *first = cluster.min(first);
        }
        checker.lay_out(strategy, &known);
        let members: BTreeSet<&str> = checker.members().map(|member| member.name).collect();
        let left = known.values().filter(|cluster| !members.contains(cluster.name.as_str()));
        checker.left = left.map(|cluster| (cluster.name.clone(), cluster.instance.clone())).collect();
        checker
    }

    fn members(&self) -> impl Iterator<Item = &Member<'a>> {
        self.stages.iter().flat_map(|stage| &stage.members)
    }

    fn clusters(&self) -> impl Iterator<Item = &'a Cluster> {
        self.members().filter_map(|member| member.cluster)
    }

    /// Assigns every cluster of a group to its stage.
    fn lay_out(&mut self, strategy: Option<&Strategy>, known: &BTreeMap<&str, &'a Cluster>) {
        let mut groups: BTreeMap<&GroupKey, Vec<Member<'a>>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut sorted: Vec<_> = self.input.groups.iter().collect();
        sorted.sort_by_key(|group| &group.key);
        for group in sorted {
            let members = groups.entry(&group.key).or_default();
            for name in group.clusters.iter().filter(|name| !name.is_empty() && seen.insert(name.as_str())) {
                members.push(self.member(name, known.get(name.as_str()).copied()));
            }
        }
        let begin = self.begin(groups.values().flatten());
        for member in groups.values_mut().flatten() {
            let joined = member.cluster.and_then(|cluster| cluster.joined);
            member.is_newcomer = begin.is_some_and(|begin| joined > Some(begin));
        }
        let total = groups.values().map(Vec::len).sum();
        let all = Strategy::All(All::default());
        for rule in strategy.unwrap_or(&all).stages() {
            let takes =
                |key: &GroupKey| rule.groups.is_none_or(|groups| groups.iter().any(|g| g.selects(key)));
            let taken: Vec<&GroupKey> = groups.keys().copied().filter(|key| takes(key)).collect();
            let mut parts: Vec<(String, Vec<Member<'a>>)> = Vec::new();
            for key in taken {
                let members = groups.remove(key).unwrap_or_default();
                match (rule.together, parts.first_mut()) {
                    (Some(_), Some((_, together))) => together.extend(members),
                    (name, _) => parts.push((name.map_or_else(|| key.to_string(), str::to_owned), members)),
                }
            }
            for (name, mut members) in parts.into_iter().filter(|(_, members)| !members.is_empty()) {
                members.sort_by_key(|member| member.name);
                let slots = rule.slots.of(members.len());
                let allowed = match rule.failures {
                    Failures::Unlimited => None,
                    Failures::OfStage(size) => Some(size.of(members.len())),
                    Failures::OfAll(size) => Some(size.of(total)),
                };
                let Approval { between_groups, groups } = &self.policy.approval;
                let needs_approval = *between_groups && !self.stages.is_empty() || groups.contains(&name);
                self.stages.push(CheckedStage { name, members, slots, allowed, needs_approval });
            }
        }
    }

    fn member(&self, name: &'a str, cluster: Option<&'a Cluster>) -> Member<'a> {
        let wants = cluster.map_or(&self.input.revision, |cluster| &cluster.wants);
        let truth = cluster.map_or(ExpectedState::ToDo, |cluster| self.truth(cluster));
        Member { name, cluster, truth, is_newcomer: false, wants }
    }

    /// Returns the start of the rollout, if it is known.
    fn begin<'m>(&self, members: impl Iterator<Item = &'m Member<'a>>) -> Option<Timestamp>
    where
        'a: 'm,
    {
        let moved = members.filter(|member| member.is_moved() && *member.wants == self.input.revision);
        let first = moved.filter_map(|member| member.cluster?.runs_since).min();
        self.input.began.or(first)
    }

    fn truth(&self, cluster: &Cluster) -> ExpectedState {
        if cluster.skip {
            return ExpectedState::Skipped;
        }
        let is_over = |begin: Timestamp, span| begin.checked_add(span).is_ok_and(|end| end <= self.now);
        if cluster.runs.as_ref() != Some(&cluster.wants) {
            if cluster.unreachable && !self.starts_silent {
                return ExpectedState::Silent;
            }
            let is_late = |since| self.deadline.is_some_and(|deadline| is_over(since, deadline));
            return match cluster.refused_since.map(is_late) {
                None => ExpectedState::ToDo,
                Some(true) => ExpectedState::Failed,
                Some(false) => ExpectedState::InFlight,
            };
        }
        let (report, begin) = known_of(cluster, &cluster.wants);
        // Deadlines do not run while a cluster is unreachable.
        let counted = begin.max(cluster.answers_since).unwrap_or(self.now);
        let is_late = self.deadline.is_some_and(|deadline| is_over(counted, deadline));
        match report {
            Some(Report::Failed | Report::TimeOut) => ExpectedState::Failed,
            Some(Report::Relapsed { .. }) if !is_over(begin.unwrap_or(self.now), self.soak) => {
                ExpectedState::InFlight
            }
            Some(Report::Relapsed { .. }) if cluster.last_good.as_ref() == Some(&cluster.wants) => {
                ExpectedState::Done
            }
            Some(Report::Relapsed { .. }) => ExpectedState::Failed,
            Some(Report::Succeeded) if is_over(begin.unwrap_or(self.now), self.soak) => ExpectedState::Done,
            _ if cluster.unreachable => ExpectedState::Silent,
            Some(Report::Succeeded) => ExpectedState::InFlight,
            Some(Report::Progressing) if is_late => ExpectedState::Failed,
            Some(Report::ToApply) | None if begin.is_some() && is_late => ExpectedState::Failed,
            Some(Report::Progressing | Report::ToApply) | None => ExpectedState::InFlight,
        }
    }

    /// Checks promises 1, 2 and 7.
    fn check_assignments(&self, decision: &RolloutDecision) -> CheckResult {
        let names: BTreeSet<&str> = self.members().map(|member| member.name).collect();
        let assigned: BTreeSet<&str> = decision.clusters.keys().map(String::as_str).collect();
        ensure(names == assigned, "every cluster of the groups has an assignment, and no other", "")?;
        for member in self.members() {
            let Some(assignment) = decision.clusters.get(member.name) else { continue };
            let is_quarantined = decision.quarantine.is_some();
            let is_true = is_true(&assignment.state, member.truth, is_quarantined);
            ensure(is_true, "the state of a cluster is true", member.name)?;
            self.check_assignment(member, assignment, decision)?;
        }
        Ok(())
    }

    fn check_assignment(
        &self,
        member: &Member,
        assignment: &Assignment,
        decision: &RolloutDecision,
    ) -> CheckResult {
        let assigned = assignment.assigned.as_ref();
        let is_left_alone = member.truth == ExpectedState::Skipped;
        // A cluster on which the revision is the last good one keeps it.
        let is_concerned = decision.quarantine.is_some()
            && !is_left_alone
            && member.cluster.is_some_and(|cluster| cluster.last_good.as_ref() != Some(member.wants));
        if is_concerned {
            self.check_return(member, assignment)?;
        }
        let must_return = is_concerned
            && (member.is_moved() || member.runs().is_none())
            && member.good().is_some()
            && !self.policy.paused;
        if must_return {
            return ensure(assigned == member.good(), "a quarantined revision is left", member.name);
        }
        let good = member.good().or_else(|| self.common_good().filter(|_| is_concerned));
        let gets_good = member.runs().is_none()
            && (self.policy.joining == Joining::LastGood || is_concerned)
            && !self.policy.paused
            && assigned == good;
        let may_change = !is_left_alone && (member.starts(decision) || gets_good);
        ensure(assigned == member.runs() || may_change, "an assignment is never invented", member.name)
    }

    /// Checks the assignment of a cluster whose revision is quarantined.
    fn check_return(&self, member: &Member, assignment: &Assignment) -> CheckResult {
        let runs = member.runs().filter(|_| !member.is_moved());
        let succeeds = |runs: &Hash| {
            member.cluster.is_some_and(|cluster| known_of(cluster, runs).0 == Some(Report::Succeeded))
        };
        let is_true = match &assignment.state {
            ClusterState::Returned { to } => runs == Some(to) && succeeds(to),
            ClusterState::Returning { to, unreachable } => {
                let is_target = match runs {
                    Some(runs) => runs == to && !succeeds(runs),
                    None => Some(to) == member.good().or_else(|| self.common_good()),
                };
                is_target && member.cluster.is_some_and(|cluster| cluster.unreachable == *unreachable)
            }
            ClusterState::Quarantined => runs.is_none() && member.good().is_none(),
            _ => false,
        };
        ensure(is_true, "a cluster has returned when it says so", member.name)
    }

    /// Returns the good hash that all clusters share, ignoring clusters without one.
    fn common_good(&self) -> Option<&Hash> {
        let good: BTreeSet<&Hash> = self.members().filter_map(|member| member.good()).collect();
        good.first().copied().filter(|_| good.len() == 1)
    }

    /// Checks promise 6.
    fn check_breach(&self, decision: &RolloutDecision) -> CheckResult {
        let revision = &self.input.revision;
        let is_released = self.policy.released.contains(revision);
        let is_remembered = self.input.quarantined.as_ref() == Some(revision) && !is_released;
        let is_breached = self.stages.iter().any(CheckedStage::is_breached) && !is_remembered;
        ensure(decision.breach.is_some() == is_breached, "a breach is reported when there is one", "")?;
        let is_recovering =
            self.input.late_since.is_some() && !is_breached && !is_remembered && self.is_recovering();
        let is_rejected = (is_breached || is_recovering)
            && self.policy.on_breach == OnBreach::Rollback
            && !self.policy.paused
            && !is_released
            && (self.is_on_its_way()
                || self.input.late_since.is_some()
                || self.stages.iter().any(CheckedStage::is_breached_without_relapses))
            && self.members().any(|member| member.good().is_some());
        let awaited = self.awaited().filter(|_| is_rejected && is_breached);
        let is_over = is_rejected && is_breached && awaited.is_none();
        let expected = (is_remembered || is_over).then_some(revision);
        let is_quarantined = decision.quarantine.as_ref() == expected;
        ensure(is_quarantined, "a breach quarantines, and the quarantine lasts", "")?;
        let (since, until) = awaited.unzip();
        let since = since.or_else(|| self.since().filter(|_| is_rejected && is_recovering));
        ensure(
            decision.late_since == since,
            "a breach by late clusters is on record until they have soaked",
            "",
        )?;
        let is_checked = until.is_none_or(|until| decision.recheck.is_some_and(|at| at <= until));
        ensure(is_checked, "a breach by late clusters is checked at the end of their time", "")
    }

    /// Returns true if a cluster waits to start or is in flight.
    fn is_on_its_way(&self) -> bool {
        self.members().any(|member| matches!(member.truth, ExpectedState::ToDo | ExpectedState::InFlight))
    }

    /// Returns true if a stage would have too many failures if clusters that soak after a failure failed again.
    fn is_recovering(&self) -> bool {
        let soaks_again = |member: &&Member<'_>| {
            let Some(cluster) = member.cluster.filter(|_| member.truth == ExpectedState::InFlight) else {
                return false;
            };
            let (report, begin) = known_of(cluster, member.wants);
            let deadline = cluster.runs_since.max(cluster.answers_since).zip(self.deadline);
            let is_late = deadline.is_some_and(|(start, span)| {
                begin.is_some_and(|begin| start.checked_add(span).is_ok_and(|end| end <= begin))
            });
            report == Some(Report::Succeeded) && (cluster.recovered || is_late)
        };
        self.stages.iter().any(|stage| {
            let again = stage.members.iter().filter(soaks_again).count();
            stage.allowed.is_some_and(|allowed| stage.count(ExpectedState::Failed) + again > allowed)
        })
    }

    /// Returns the time at which a breach is recorded.
    fn since(&self) -> Option<Timestamp> {
        let since = self.input.late_since.unwrap_or(self.now).min(self.now);
        Timestamp::from_second(since.as_second()).ok()
    }

    /// Returns the start and end of the wait for reports from late clusters; `None` if the breach does not wait.
    fn awaited(&self) -> Option<(Timestamp, Timestamp)> {
        let since = self.since()?;
        let until = since.checked_add(self.deadline.unwrap_or_default().min(CATCH_UP)).ok()?;
        let is_reported = self.stages.iter().any(CheckedStage::is_breached_by_reports);
        (until > self.now && !is_reported).then_some((since, until))
    }

    /// Returns the reason that no cluster may start.
    fn hold(&self, decision: &RolloutDecision) -> Option<&'static str> {
        let silent = self.clusters().filter(|cluster| cluster.unreachable && !cluster.skip).count();
        let budget = self.policy.unreachable.of(self.members().count());
        let holds = [
            (!self.has_strategy, "nothing starts without a strategy"),
            (!self.has_policy, "nothing starts without a policy that can be read"),
            (self.policy.paused, "nothing starts under a pause"),
            (decision.quarantine.is_some(), "nothing starts of a quarantined revision"),
            (self.stages.iter().any(CheckedStage::is_breached), "nothing starts over the failure budget"),
            (frozen(&self.policy.freezes, self.now).is_some(), "nothing starts in a freeze"),
            (silent > budget && !self.starts_silent, "nothing starts over the unreachable budget"),
            (self.is_superseding(), "nothing starts while the revision before is in flight"),
        ];
        holds.into_iter().find(|(holds, _)| *holds).map(|(_, promise)| promise)
    }

    fn is_superseding(&self) -> bool {
        let is_awaited = |cluster: &Cluster| {
            let Some(runs) = cluster.runs.as_ref().filter(|runs| **runs != cluster.wants) else {
                return false;
            };
            let (report, begin) = known_of(cluster, runs);
            let is_open = matches!(report, None | Some(Report::ToApply | Report::Progressing));
            let span = self.deadline.unwrap_or(FINISH_CURRENT);
            let until = begin.and_then(|begin| begin.checked_add(span).ok());
            is_open && !cluster.skip && !cluster.unreachable && until > Some(self.now)
        };
        self.policy.superseding == Superseding::FinishCurrent && self.clusters().any(is_awaited)
    }

    /// Checks promises 3, 4, 5 and 8.
    fn check_stages(&self, decision: &RolloutDecision) -> CheckResult {
        let hold = self.hold(decision);
        let mut is_open = hold.is_none();
        for stage in &self.stages {
            let starting: Vec<&str> =
                stage.members.iter().filter(|m| m.starts(decision)).map(|m| m.name).collect();
            let to_do = stage.members.iter().filter(|m| m.truth == ExpectedState::ToDo).map(|m| m.name);
            let token = approval_token(&self.input.revision, &stage.name);
            let is_approved = !stage.needs_approval || self.input.granted.contains(&token);
            if let Some(first) = starting.first() {
                ensure(hold.is_none(), hold.unwrap_or_default(), first)?;
                ensure(is_open, "a stage waits for the stages before it", first)?;
                ensure(is_approved, "a stage waits for its approval", first)?;
            }
            let in_flight = stage.count(ExpectedState::InFlight);
            let is_within = starting.is_empty() || in_flight + starting.len() <= stage.slots;
            ensure(is_within, "clusters in flight stay within the slots", &stage.name)?;
            if is_open && is_approved {
                let free = stage.slots.saturating_sub(in_flight);
                let expected: Vec<&str> = to_do.take(free).collect();
                ensure(starting == expected, "no free slot stays empty, and names go in order", &stage.name)?;
            } else if is_open && stage.count(ExpectedState::ToDo) > 0 {
                let is_requested = decision.approvals.contains(&token);
                ensure(is_requested, "a stage that waits for an approval requests it", &stage.name)?;
                is_open = false;
            }
            is_open = is_open && self.is_finished(stage);
        }
        Ok(())
    }

    /// Returns true if the next stage may start.
    fn is_finished(&self, stage: &CheckedStage) -> bool {
        let waited_for = || stage.members.iter().filter(|member| !member.is_newcomer);
        let is_open = |member: &Member| matches!(member.truth, ExpectedState::ToDo | ExpectedState::InFlight);
        let ends = waited_for().filter(|member| member.is_moved()).filter_map(|member| {
            let cluster = member.cluster?;
            let (report, begin) = known_of(cluster, member.wants);
            let span = match report {
                Some(Report::Succeeded | Report::Relapsed { .. }) => self.soak,
                Some(Report::Failed | Report::TimeOut) => SignedDuration::ZERO,
                Some(Report::Progressing | Report::ToApply) | None if cluster.unreachable => return None,
                Some(Report::Progressing | Report::ToApply) | None => self.deadline?,
            };
            begin?.checked_add(span).ok()
        });
        let last = ends.max().map(|last| last.min(self.now));
        let soaked = last.and_then(|last| last.checked_add(self.policy.group_soak).ok());
        !waited_for().any(is_open) && soaked.is_none_or(|soaked| soaked <= self.now)
    }

    /// Checks promise 9. A removal that was decided earlier needs no budget and no approval.
    fn check_removals(&self, decision: &RolloutDecision) -> CheckResult {
        let still_counts = |at: Timestamp| later(at, self.policy.removal_window) > self.now;
        let recent =
            self.input.recent_removals.iter().filter(|(_, at)| self.has_policy && still_counts(**at));
        let recent: BTreeSet<&String> = recent.map(|(name, _)| name).collect();
        let may_go = |(name, instance): &(&String, &Instance)| instance.is_decided || recent.contains(*name);
        let (going, new): (Vec<_>, Vec<_>) = self.left.iter().partition(may_go);
        let others: BTreeSet<&String> = self.left.keys().chain(recent.iter().copied()).collect();
        let total = self.members().count() + others.len();
        let budget = self.policy.removals.of(total);
        let token = removal_token(&self.input.owner, new.iter().copied());
        let is_granted = self.input.granted.contains(&token);
        let is_within = budget >= total || new.len() + recent.len() <= budget;
        let may_leave = self.has_policy && !self.policy.paused;
        let names = |left: &[(&String, &Instance)]| -> BTreeSet<String> {
            left.iter().map(|(name, _)| (*name).clone()).collect()
        };
        let all: BTreeSet<String> = self.left.keys().cloned().collect();
        let (removed, kept) = match may_leave {
            true if is_within || is_granted => (all, BTreeSet::new()),
            true => (names(&going), names(&new)),
            false => (BTreeSet::new(), all),
        };
        let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        ensure(set(&decision.removed) == removed, "removals stay within their budget", "")?;
        ensure(set(&decision.kept) == kept, "a cluster that left keeps its content or loses it", "")
    }
}

/// Returns the report of a cluster on a hash, and its time.
fn known_of(cluster: &Cluster, hash: &Hash) -> (Option<Report>, Option<Timestamp>) {
    let health = cluster.health.as_ref().filter(|health| health.of == *hash);
    let since = [health.and_then(|health| health.since), cluster.runs_since].into_iter().flatten().max();
    (health.map(|health| health.report), since)
}

/// Returns true if the state of a cluster is correct.
fn is_true(state: &ClusterState, truth: ExpectedState, is_quarantined: bool) -> bool {
    match state {
        ClusterState::Starting | ClusterState::Waiting(_) => truth == ExpectedState::ToDo,
        ClusterState::Progressing { .. } | ClusterState::Soaking { .. } => truth == ExpectedState::InFlight,
        ClusterState::Failed { .. } | ClusterState::TimedOut => truth == ExpectedState::Failed,
        ClusterState::Done => truth == ExpectedState::Done,
        ClusterState::Unreachable { .. } => truth == ExpectedState::Silent,
        ClusterState::Skipped => truth == ExpectedState::Skipped,
        ClusterState::Returning { .. } | ClusterState::Returned { .. } | ClusterState::Quarantined => {
            is_quarantined && truth != ExpectedState::Skipped
        }
    }
}
