//! The RolloutPolicy for a rollout, and the records in its status.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use api::addon::v1alpha1::ClusterManagementAddOn;
use api::gitops::v1alpha1::{
    RecentRemoval, RefusedAddOn, RemovalStatus, RolloutCounts, RolloutPolicy, RolloutPolicySpec,
    RolloutPolicyStatus, RolloutStatus, Success,
};
use api::names::{DEFAULT_ROLLOUT_POLICY, ROLLOUT_POLICY_ANNOTATION};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::rollout::cluster::Hash;
use engine::rollout::decision::Counts;
use engine::rollout::policy::CombinedPolicy;
use engine::rollout::removal::within_window;
use engine::rollout::state::Breach;
use engine::rollout::{Input, Policy, Refused, RolloutDecision, Size, Strategy};
use object::{Key, Kind, Metadata as _, Object};
use reconcile::{Action, Change, Query, Read, ReadError, ReadErrorReason, StatusWrite, View};

/// The subject of a rollout.
#[derive(Clone, Copy, Debug)]
pub(super) enum RolloutOwner<'a> {
    /// The configuration of an add-on.
    AddOn(&'a str),
    /// The template of a ManifestWorkReplicaSet.
    ReplicaSet(&'a Key),
}

impl Display for RolloutOwner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AddOn(name) => f.write_str(name),
            Self::ReplicaSet(key) => key.fmt(f),
        }
    }
}

impl RolloutOwner<'_> {
    pub(super) fn is_named_by(self, spec: &RolloutPolicySpec) -> bool {
        match self {
            Self::AddOn(name) => spec.add_ons.iter().any(|named| named == name),
            Self::ReplicaSet(key) => spec.replica_sets.contains(&key.to_string()),
        }
    }

    pub(super) fn is_that_of(self, rollout: &RolloutStatus) -> bool {
        match self {
            Self::AddOn(name) => rollout.add_on == name && rollout.replica_set.is_empty(),
            Self::ReplicaSet(key) => rollout.replica_set == key.to_string(),
        }
    }
}

/// Parses the name of an add-on, or of a ManifestWorkReplicaSet as NAMESPACE/NAME.
pub(super) fn with_owner<T>(subject: &str, read: impl FnOnce(RolloutOwner<'_>) -> T) -> T {
    match subject.split_once('/') {
        Some((namespace, name)) => read(RolloutOwner::ReplicaSet(&Key::namespaced(namespace, name))),
        None => read(RolloutOwner::AddOn(subject)),
    }
}

/// Returns the policies that apply to a subject: those that name it, and those without names.
pub(super) fn applicable<'a, P: Borrow<RolloutPolicy>>(
    policies: &'a [P],
    subject: RolloutOwner<'_>,
) -> Vec<&'a P> {
    let is_for = |policy: &&P| {
        let policy = (*policy).borrow();
        subject.is_named_by(&policy.spec) || is_for_all(policy)
    };
    policies.iter().filter(is_for).collect()
}

/// Combines the rules of the policies that apply to a subject.
///
/// # Errors
/// Fails if a rule is invalid.
pub(super) fn combined<P: Borrow<RolloutPolicy>>(
    policies: &[P],
    subject: RolloutOwner<'_>,
) -> Result<CombinedPolicy, Refused> {
    let policies = applicable(policies, subject);
    let named: Vec<_> = policies
        .iter()
        .map(|policy| {
            let policy: &RolloutPolicy = (**policy).borrow();
            (policy.name(), &policy.spec)
        })
        .collect();
    CombinedPolicy::read(&named)
}

/// Returns the policy for the records of a subject: one that names it, or else one without names. The policy that
/// the operator created comes last.
pub(super) fn choose<'a, P: Borrow<RolloutPolicy>>(
    policies: &'a [P],
    subject: RolloutOwner<'_>,
) -> Option<&'a P> {
    let is_made = |policy: &RolloutPolicy| policy.name() == DEFAULT_ROLLOUT_POLICY;
    let find =
        |fits: &dyn Fn(&RolloutPolicy) -> bool| policies.iter().find(|policy| fits((*policy).borrow()));
    let named = find(&|policy| subject.is_named_by(&policy.spec));
    let of_people = || find(&|policy| is_for_all(policy) && !is_made(policy));
    named.or_else(of_people).or_else(|| find(&|policy| is_for_all(policy) && is_made(policy)))
}

/// Returns true if a policy names no subject and so applies to all of them.
pub(super) fn is_for_all(policy: &RolloutPolicy) -> bool {
    policy.spec.add_ons.is_empty() && policy.spec.replica_sets.is_empty()
}

/// Returns the add-ons to which a policy applies after or applied before a change; `None` for all add-ons.
pub(super) fn add_ons_of(change: &Change<RolloutPolicy>) -> Option<BTreeSet<&str>> {
    let is_for_some = change.sides().all(|policy| !is_for_all(policy));
    is_for_some.then(|| change.sides().flat_map(|policy| &policy.spec.add_ons).map(String::as_str).collect())
}

/// Returns the rollouts whose quarantine a change starts or ends, as `wheelwright rollout undo` does.
pub(super) fn quarantines_of(change: &Change<RolloutPolicy>) -> Vec<&RolloutStatus> {
    let quarantine = |rollout: &RolloutStatus| {
        let RolloutStatus { add_on, replica_set, placement_namespace, placement_name, quarantined, .. } =
            rollout;
        [add_on, replica_set, placement_namespace, placement_name, quarantined].map(String::clone)
    };
    let of = |policy: &Option<Arc<RolloutPolicy>>| -> BTreeSet<[String; 5]> {
        let rollouts = policy.iter().flat_map(|policy| all_rollouts(policy));
        rollouts.filter(|rollout| !rollout.quarantined.is_empty()).map(quarantine).collect()
    };
    let (old, new) = (of(&change.old), of(&change.new));
    let rollouts = change.sides().flat_map(all_rollouts);
    rollouts
        .filter(|rollout| old.contains(&quarantine(rollout)) != new.contains(&quarantine(rollout)))
        .collect()
}

/// Returns the policy for the records of a subject; see [`choose`].
///
/// # Errors
/// See [`policies_for`].
pub(super) fn object_for(subject: RolloutOwner<'_>, view: &impl View) -> Read<Option<Arc<RolloutPolicy>>> {
    Ok(choose(&policies_for(subject, view)?, subject).cloned())
}

/// Returns the policies that apply to a subject.
///
/// # Errors
/// Fails if the policies have not been read, or if the subject names a policy that exists on the hub but is
/// missing from the list: a pause must not be forgotten. See docs/hazards-hub.md#policy-left-out.
pub(super) fn policies_for(subject: RolloutOwner<'_>, view: &impl View) -> Read<Vec<Arc<RolloutPolicy>>> {
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    let named = match subject {
        RolloutOwner::AddOn(name) => {
            let cma = view.get_readable::<ClusterManagementAddOn>(&Key::cluster(name))?;
            cma.and_then(|cma| cma.annotation(ROLLOUT_POLICY_ANNOTATION).map(str::to_owned))
        }
        RolloutOwner::ReplicaSet(key) => {
            let set = view.get_readable::<ManifestWorkReplicaSet>(key)?;
            set.and_then(|set| set.annotation(ROLLOUT_POLICY_ANNOTATION).map(str::to_owned))
        }
    };
    let is_known = |name: &str| policies.iter().any(|policy| policy.name() == name);
    for name in named.iter().flat_map(|names| names.split(',')).filter(|name| !is_known(name)) {
        if view.exists::<RolloutPolicy>(&Key::cluster(name))? {
            let cause = "it exists on the hub but is missing from the list of policies".to_owned();
            let reason = ReadErrorReason::NotListed;
            return Err(ReadError { what: format!("RolloutPolicy {name}"), cause, reason });
        }
    }
    Ok(applicable(&policies, subject).into_iter().cloned().collect())
}

/// Returns the name of a policy that a person created.
pub(super) fn of_people(policy: Option<&RolloutPolicy>) -> Option<&str> {
    policy.map(|policy| policy.name()).filter(|name| *name != DEFAULT_ROLLOUT_POLICY)
}

/// Returns the names of the policies with rules from people, as in the annotation of their subject.
pub(super) fn names_of(policies: &[Arc<RolloutPolicy>]) -> Option<String> {
    let has_rules = |policy: &&Arc<RolloutPolicy>| {
        policy.name() != DEFAULT_ROLLOUT_POLICY || policy.spec != RolloutPolicySpec::default()
    };
    let names: Vec<&str> = policies.iter().filter(has_rules).map(|policy| policy.name()).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Returns the write that names the policies from people on their subject; `None` if it already does.
pub(super) fn name_on<K: Kind>(subject: &K, policies: &[Arc<RolloutPolicy>]) -> Option<Action> {
    let names = names_of(policies);
    let patch = json!({"metadata": {"annotations": {ROLLOUT_POLICY_ANNOTATION: names}}});
    let is_named = subject.annotation(ROLLOUT_POLICY_ANNOTATION) == names.as_deref();
    (!is_named).then(|| Action::patch(subject, patch.as_object().cloned().unwrap_or_default()))
}

/// Creates the policy for the operator's records, if no policy from people applies to a subject. It has the
/// default rules, which apply even without it.
pub(super) fn create_default() -> Action {
    let policy = RolloutPolicy {
        metadata: ObjectMeta { name: Some(DEFAULT_ROLLOUT_POLICY.into()), ..ObjectMeta::default() },
        ..RolloutPolicy::default()
    };
    Action::create(Object::from_typed(&policy))
}

/// Returns the record of an add-on's removals from any policy, so that it survives when another policy takes
/// effect.
pub(super) fn removals_of(add_on: &str, view: &impl View) -> Read<RemovalStatus> {
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    let records =
        policies.iter().filter_map(|policy| policy.status.as_ref()).flat_map(|status| &status.removals);
    let mut all = RemovalStatus { add_on: add_on.to_owned(), ..RemovalStatus::default() };
    for record in records.filter(|record| record.add_on == add_on) {
        (all.held, all.approval) = (record.held, record.approval.clone());
        all.recent.extend(record.recent.iter().cloned());
    }
    Ok(all)
}

/// Returns the steps that make `record` the only record of an add-on's removals, in the policy `object`. An older
/// record is deleted after the new one is written, so that there is always at least one.
pub(super) fn remember_removals(
    object: &RolloutPolicy,
    record: &RemovalStatus,
    view: &impl View,
) -> Read<[Vec<Action>; 2]> {
    let is_empty = record.held == 0 && record.recent.is_empty();
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    let write = |policy: &&Arc<RolloutPolicy>| {
        let mut status = policy.status.clone().unwrap_or_default();
        status.removals.retain(|other| other.add_on != record.add_on);
        if policy.name() == object.name() && !is_empty {
            status.removals.push(record.clone());
        }
        status.removals.sort_by(|a, b| a.add_on.cmp(&b.add_on));
        write_status(policy, &status)
    };
    let (in_force, others): (Vec<_>, Vec<_>) =
        policies.iter().partition(|policy| policy.name() == object.name());
    Ok([in_force, others].map(|policies| policies.iter().filter_map(write).collect()))
}

/// Returns the combined policy of a subject and the approvals in its policies.
pub(super) fn policy_for(
    subject: RolloutOwner<'_>,
    view: &impl View,
) -> Read<(Result<Policy, Refused>, BTreeSet<String>)> {
    Ok(rules_of(&policies_for(subject, view)?, subject))
}

/// Returns the combined policy of a subject among `policies`, and the approvals in them.
pub(super) fn rules_of(
    policies: &[Arc<RolloutPolicy>],
    subject: RolloutOwner<'_>,
) -> (Result<Policy, Refused>, BTreeSet<String>) {
    match combined(policies, subject) {
        Ok(CombinedPolicy { policy, granted, .. }) => (Ok(policy), granted),
        Err(refused) => (Err(refused), BTreeSet::new()),
    }
}

/// Returns true if a change has succeeded on a cluster once its objects are applied: at least one policy says so,
/// and none disagrees.
pub(super) fn applied_suffices(policies: &[Arc<RolloutPolicy>]) -> bool {
    let mut rules = policies.iter().filter_map(|policy| policy.spec.success.as_ref()).peekable();
    rules.peek().is_some() && rules.all(|rule| *rule == Success::Applied)
}

/// Returns the records of a subject's rollouts from any policy, so that they survive when another policy takes
/// effect. The records of the policy in force come first.
pub(super) fn rollouts_of(
    subject: RolloutOwner<'_>,
    in_force: Option<&RolloutPolicy>,
    view: &impl View,
) -> Read<Vec<RolloutStatus>> {
    let in_force = in_force.map(|policy| policy.name());
    let mut policies = view.list::<RolloutPolicy>(Query::ALL)?;
    policies.sort_by_key(|policy| Some(policy.name()) != in_force);
    let records = policies.iter().flat_map(|policy| all_rollouts(policy));
    Ok(records.filter(|rollout| subject.is_that_of(rollout)).cloned().collect())
}

/// Returns the record of a rollout on the clusters of a placement, which is the first in [`rollouts_of`].
pub(super) fn remembered<'a>(records: &'a [RolloutStatus], placement: &Key) -> Option<&'a RolloutStatus> {
    records.iter().find(|rollout| {
        rollout.placement_namespace == placement.namespace && rollout.placement_name == placement.name
    })
}

fn all_rollouts(policy: &RolloutPolicy) -> &[RolloutStatus] {
    policy.status.as_ref().map(|status| status.rollouts.as_slice()).unwrap_or_default()
}

/// Copies the recorded state of the last decision to the input of the next one.
pub(super) fn recall(rules: &mut Input, record: &RolloutStatus, group_size: Option<Size>) {
    rules.quarantined = Some(Hash(record.quarantined.clone())).filter(|hash| !hash.0.is_empty());
    let is_same = record.revision == rules.revision.0;
    rules.late_since = record.late_since.as_ref().filter(|_| is_same).map(|since| since.0);
    rules.last_strategy = record.strategy.as_ref().and_then(|last| Strategy::read(last, group_size).ok());
    rules.recent_removals = recent(&record.recent_removals);
}

/// Returns the new record of a rollout in a policy's status.
pub(super) fn rollout_status(
    subject: RolloutOwner<'_>,
    placement: &Key,
    input: &Input,
    decision: &RolloutDecision,
) -> RolloutStatus {
    let (add_on, replica_set) = match subject {
        RolloutOwner::AddOn(name) => (name.to_owned(), String::new()),
        RolloutOwner::ReplicaSet(key) => (String::new(), key.to_string()),
    };
    RolloutStatus {
        add_on,
        replica_set,
        placement_namespace: placement.namespace.clone(),
        placement_name: placement.name.clone(),
        revision: input.revision.0.clone(),
        quarantined: decision.quarantine.clone().map(|hash| hash.0).unwrap_or_default(),
        late_since: decision.late_since.map(Time),
        hold: decision.hold.as_ref().map(ToString::to_string).unwrap_or_default(),
        waiting_approvals: decision.approvals.iter().cloned().collect(),
        counts: counts(&decision.counts),
        ..RolloutStatus::default()
    }
}

/// Returns where and why a revision failed: on the first cluster of the breach or, after the quarantine, as it was
/// recorded then, because its clusters now run another revision.
pub(super) fn failure(
    decision: &RolloutDecision,
    remembered: Option<&RolloutStatus>,
    message: impl FnOnce(&str) -> Option<String>,
) -> String {
    match (&decision.breach, &decision.quarantine) {
        (Some(Breach { first, .. }), _) => message(first).map(|reason| format!("{first}: {reason}")),
        (None, Some(revision)) => {
            remembered.filter(|record| record.quarantined == revision.0).map(|record| record.failure.clone())
        }
        (None, None) => None,
    }
    .unwrap_or_default()
}

/// Records the clusters that a rollout removes now, before they lose their content.
pub(super) fn record_removals(
    record: &mut RolloutStatus,
    input: &Input,
    decision: &RolloutDecision,
    now: Timestamp,
) {
    let mut removals = still_counting(input.recent_removals.clone(), &input.policy, now);
    count(&mut removals, &decision.counted, now);
    record.recent_removals = entries(&removals);
}

/// Returns the time of each recorded removal by cluster.
pub(super) fn recent(record: &[RecentRemoval]) -> BTreeMap<String, Timestamp> {
    record.iter().map(|removal| (removal.cluster.clone(), removal.time.0)).collect()
}

/// Returns the removals that still count; all of them if the policy is invalid.
pub(super) fn still_counting(
    recent: BTreeMap<String, Timestamp>,
    policy: &Result<Policy, Refused>,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    policy.as_ref().map(|policy| within_window(&recent, policy, now)).unwrap_or(recent)
}

/// Adds clusters that are removed now.
pub(super) fn count(recent: &mut BTreeMap<String, Timestamp>, clusters: &[String], now: Timestamp) {
    // Round up: the window must not end early because the record has whole seconds.
    let seconds = Timestamp::from_second(now.as_second().saturating_add(1)).unwrap_or(now);
    recent.extend(clusters.iter().map(|cluster| (cluster.clone(), seconds)));
}

/// Returns the entries of the record.
pub(super) fn entries(recent: &BTreeMap<String, Timestamp>) -> Vec<RecentRemoval> {
    let entry = |(cluster, at): (&String, &Timestamp)| RecentRemoval {
        cluster: cluster.clone(),
        time: Time(*at),
        unknown: Default::default(),
    };
    recent.iter().map(entry).collect()
}

fn counts(counts: &Counts) -> RolloutCounts {
    let Counts {
        total,
        done,
        soaking,
        progressing,
        failed,
        timed_out,
        starting,
        waiting,
        skipped,
        unreachable,
        returning,
        returned,
        quarantined,
    } = *counts;
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    RolloutCounts {
        total: count(total),
        done: count(done),
        soaking: count(soaking),
        // Clusters that start in this pass are progressing once the start is written.
        progressing: count(progressing + starting),
        failed: count(failed),
        timed_out: count(timed_out),
        waiting: count(waiting),
        skipped: count(skipped),
        unreachable: count(unreachable),
        returning: count(returning),
        returned: count(returned),
        quarantined: count(quarantined),
        ..RolloutCounts::default()
    }
}

/// Returns the write that makes the status record exactly these rollouts of a subject.
pub(super) fn remember(
    policy: &RolloutPolicy,
    subject: RolloutOwner<'_>,
    rollouts: Vec<RolloutStatus>,
) -> Option<Action> {
    let mut status = policy.status.clone().unwrap_or_default();
    record(&mut status, subject, rollouts);
    write_status(policy, &status)
}

/// Returns the write that makes the status record exactly these rollouts of an add-on, and these clusters on which
/// the API server rejects the add-on.
pub(super) fn remember_add_on(
    policy: &RolloutPolicy,
    add_on: &str,
    rollouts: Vec<RolloutStatus>,
    refused: Vec<RefusedAddOn>,
) -> Option<Action> {
    let mut status = policy.status.clone().unwrap_or_default();
    record(&mut status, RolloutOwner::AddOn(add_on), rollouts);
    status.refused.retain(|record| record.add_on != add_on);
    status.refused.extend(refused);
    sort_refused(&mut status.refused);
    write_status(policy, &status)
}

fn record(status: &mut RolloutPolicyStatus, subject: RolloutOwner<'_>, rollouts: Vec<RolloutStatus>) {
    status.rollouts.retain(|rollout| !subject.is_that_of(rollout));
    status.rollouts.extend(rollouts);
    status.rollouts.sort_by_key(|r| {
        (r.add_on.clone(), r.replica_set.clone(), r.placement_namespace.clone(), r.placement_name.clone())
    });
}

fn write_status(policy: &RolloutPolicy, status: &RolloutPolicyStatus) -> Option<Action> {
    StatusWrite::from_status(policy, policy.status.as_ref(), status).map(|write| write.action())
}

/// Returns a policy's records of the clusters on which the API server rejects add-ons.
pub(super) fn all_refused(policy: &RolloutPolicy) -> &[RefusedAddOn] {
    policy.status.as_ref().map(|status| status.refused.as_slice()).unwrap_or_default()
}

/// Returns a policy's records of the clusters on which the API server rejects an add-on.
pub(super) fn refused_of(policy: Option<&RolloutPolicy>, add_on: &str) -> BTreeMap<String, RefusedAddOn> {
    let records = policy.map(all_refused).unwrap_or_default().iter();
    let of_add_on = records.filter(|record| record.add_on == add_on);
    of_add_on.map(|record| (record.cluster.clone(), record.clone())).collect()
}

/// Returns the writes that delete the records of a subject from all policies except the one in force. They belong
/// in the step after the subject's new records are written, so that there is always at least one record. Without a
/// policy in force, the records of rollouts stay.
pub(super) fn forget_elsewhere(
    subject: RolloutOwner<'_>,
    in_force: Option<&RolloutPolicy>,
    view: &impl View,
) -> Read<Vec<Action>> {
    let in_force = in_force.map(|policy| policy.name());
    let is_dropped = |rollout: &RolloutStatus| in_force.is_some() && subject.is_that_of(rollout);
    let is_refused = |record: &RefusedAddOn| match subject {
        RolloutOwner::AddOn(name) => record.add_on == name,
        RolloutOwner::ReplicaSet(_) => false,
    };
    let forget = |policy: &Arc<RolloutPolicy>| {
        let mut status = policy.status.clone()?;
        status.rollouts.retain(|rollout| !is_dropped(rollout));
        status.refused.retain(|record| !is_refused(record));
        write_status(policy, &status)
    };
    let has_record = |policy: &RolloutPolicy| {
        all_rollouts(policy).iter().any(is_dropped) || all_refused(policy).iter().any(is_refused)
    };
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    let others = policies.iter().filter(|policy| Some(policy.name()) != in_force && has_record(policy));
    Ok(others.filter_map(forget).collect())
}

/// Sorts the records for the status.
pub(super) fn sort_refused(records: &mut [RefusedAddOn]) {
    records.sort_by(|a, b| (&a.add_on, &a.cluster).cmp(&(&b.add_on, &b.cluster)));
}
