//! Pushes reports to the status branch of a repository.
//!
//! It pushes no report without a change, no two reports within the report's interval, and none while changes
//! still arrive. A report that cannot be pushed is a condition and delays nothing else.

mod fleet_snapshot;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::addon_config::{self, AddOnFleets, is_config, observing};
use super::config_repo::Identity;
use super::replica_set;
use api::Condition;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::ConditionStatus::{self, False, True};
use api::condition::{Conditions as _, Observation, find_condition, set_condition};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode, Report, ReportStatus, RolloutPolicy};
use api::names;
use api::names::WORK_REPLICA_SET_LABEL;
use api::names::gitops_conditions::REPORTED;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::addon::config_refs;
use engine::report::{self, Fleet, Workload};
use object::duration;
use object::text;
use object::{Key, Kind, Metadata as _, ObjectRef};
use reconcile::{
    Action, Change, Controller, Event, EventType, Executed, Failure, FailureKind, Plan, Push, Query, Read,
    StatusWrite, View, Watches,
};

/// How long after the last change a report waits for more of them.
const DEBOUNCE: SignedDuration = SignedDuration::from_secs(5);
/// Time between a refusal by the server and the next attempt.
const REJECTED_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// The least time between two reports if the spec has no valid one.
const DEFAULT_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

pub(crate) struct ReportController;

impl Controller for ReportController {
    const NAME: &'static str = "report";
    type Primary = ConfigRepo;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_source(|repo| vec![repo.clone()]);
        watches.on::<ClusterManagementAddOn>(|change, view| {
            all_repositories(change, view, |cma| cma.status.clone())
        });
        watches.on::<ManagedClusterAddOn>(|change, view| {
            all_repositories(change, view, |addon| {
                let status = addon.status.clone().unwrap_or_default();
                (condition_summaries(&status.conditions), status.config_references)
            })
        });
        watches.on::<ManagedCluster>(|change, view| {
            all_repositories(change, view, |cluster| {
                condition_summaries(
                    &cluster.status.clone().map(|status| status.conditions).unwrap_or_default(),
                )
            })
        });
        watches.on::<RolloutPolicy>(|change, view| {
            all_repositories(change, view, |policy| policy.status.clone())
        });
        watches.on::<ManifestWorkReplicaSet>(|change, view| {
            all_repositories(change, view, |set| condition_summaries(set.conditions()))
        });
        watches.on::<ManifestWork>(|change, view| {
            let is_of_set = |work: &ManifestWork| work.label(WORK_REPLICA_SET_LABEL).is_some();
            if change.sides().any(is_of_set) {
                all_repositories(change, view, |work| condition_summaries(work.conditions()))
            } else {
                Vec::new()
            }
        });
        // The states of clusters depend on these too; the status of the add-on changes with them.
        watches.read::<Placement>();
        watches.read::<PlacementDecision>();
        watches.read::<Namespace>();
        watches.keep::<AddOnFleets>();
        fleet_snapshot::watches(watches);
        watches.on_observed(|change, view| if is_config(change) { reporting(view) } else { Vec::new() });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(Plan::nothing()) };
        let active = repo.metadata.deletion_timestamp.is_none() && !repo.spec.suspend;
        match &repo.spec.report {
            Some(spec) if active && repo.status.as_ref().is_some_and(|status| status.seen.is_some()) => {
                let all = view.list::<ClusterManagementAddOn>(Query::ALL)?;
                let has_template = all.iter().any(|cma| config_refs::has_template(cma));
                observing(has_template, view, || plan(&repo, spec, view, now))
            }
            Some(_) | None => Ok(Plan::nothing()),
        }
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        if done.plan.steps.is_empty() {
            return done.plan.status.clone();
        }
        let (action, outcome) = done.results().next()?;
        let Action::Push(push) = action else { return None };
        let repo = view.get::<ConfigRepo>(key).ok()??;
        let mut new = (*repo).clone();
        let status = new.status.get_or_insert_default();
        let generation = repo.metadata.generation.unwrap_or_default();
        let before = status.report.take().unwrap_or_default();
        let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let (digest, error, observed) = match outcome {
            Ok(_) => (report::digest(&push.files), String::new(), Observation::new(REPORTED, True, "Pushed")),
            Err(failure) => {
                let message = text::plain(&failure.message, 600);
                (
                    before.digest,
                    message.clone(),
                    Observation::new(REPORTED, False, reason(failure)).message(message),
                )
            }
        };
        status.report = Some(ReportStatus {
            branch: push.branch.clone(),
            digest,
            time: Some(Time(seconds)),
            error,
            unknown: before.unknown,
        });
        set_condition(&mut status.conditions, observed.at(generation), now);
        StatusWrite::between(&*repo, &new)
    }
}

/// Returns why a report could not be pushed, in a word.
fn reason(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::Forbidden => REJECTED,
        FailureKind::Invalid => "StatusPushMisconfigured",
        FailureKind::FieldConflict => FENCED,
        FailureKind::Conflict => "StatusPushContended",
        FailureKind::NotFound | FailureKind::Unavailable => "StatusPushFailed",
    }
}

const REJECTED: &str = "StatusPushRejected";
const FENCED: &str = "StatusPushFenced";

fn plan(repo: &ConfigRepo, spec: &Report, view: &impl View, now: Timestamp) -> Read<Plan> {
    let Ok(identity) = Identity::of(repo, view)? else { return Ok(Plan::nothing()) };
    let status = repo.status.clone().unwrap_or_default();
    let last = status.report.clone().unwrap_or_default();
    let interval = duration::parse(&spec.interval).unwrap_or(DEFAULT_INTERVAL);
    let condition = find_condition(&status.conditions, REPORTED);
    let refused = condition.is_some_and(|condition| [REJECTED, FENCED].contains(&condition.reason.as_str()));
    // If a person edited the spec after a refusal, the next attempt comes at once.
    let answered = condition.is_some_and(|c| c.observed_generation != repo.metadata.generation);
    let fenced = condition.is_some_and(|condition| condition.reason == FENCED) && !answered;
    let wait = if refused && !answered { REJECTED_RETRY.max(interval) } else { interval };
    let at = |time: Timestamp, by| time.saturating_add(by).unwrap_or(Timestamp::MAX);
    // A time in the future was written by a clock that was ahead, so it does not count.
    let past = last.time.as_ref().filter(|time| time.0 <= now && !(refused && answered));
    let not_before = past.map(|time| at(time.0, wait));
    let mut plan = Plan::default();
    if let Some(later) = not_before.filter(|later| *later > now) {
        plan.wake(later);
        return Ok(plan);
    }
    let add_ons: Vec<Arc<ClusterManagementAddOn>> = reported(repo, &identity, view.list(Query::ALL)?);
    let sets = reported(repo, &identity, view.list_readable(Query::ALL)?);
    let changed = last_change(repo, &add_ons, &sets, view)?.filter(|changed| *changed <= now);
    // Changes that keep arriving delay a report by an interval at most.
    let since = last.time.or_else(|| status.seen.as_ref().and_then(|seen| seen.since.clone()));
    let since = since.filter(|time| time.0 <= now);
    let deadline = since.map_or(Timestamp::MIN, |time| at(time.0, interval + interval));
    let debounced = changed.map_or(Timestamp::MIN, |changed| at(changed, DEBOUNCE));
    if debounced > now && deadline > now {
        plan.wake(debounced.min(deadline));
        return Ok(plan);
    }
    let add_ons = add_on_states(&add_ons, &mut plan, view, now)?;
    let sets = set_states(&sets, &mut plan, view, now)?;
    // The service account of a namespace may not read the fleet.
    let clusters = match identity {
        Identity::Operator => view.list_readable::<ManagedCluster>(Query::ALL)?,
        Identity::ServiceAccount(_) => Vec::new(),
    };
    let fleet = Fleet::read(repo, &clusters, add_ons, sets);
    let mut files = report::files(&fleet);
    if spec.snapshot && identity == Identity::Operator {
        files.extend(fleet_snapshot::snapshot(view)?.map(|text| (report::SNAPSHOT_FILE.to_owned(), text)));
    }
    let digest = report::digest(&files);
    if digest == last.digest && last.branch == spec.branch && last.error.is_empty() {
        return Ok(plan);
    }
    let hub = hub_uid(view)?;
    if condition.is_some_and(|condition| condition.status == False) {
        plan.events.push(pushed_again(repo, spec));
    }
    plan.step([Action::Push(Box::new(Push {
        repo: Key::of(repo),
        url: if spec.url.is_empty() { repo.spec.url.clone() } else { spec.url.clone() },
        secret: spec.secret_ref.as_ref().map(|secret| Key::namespaced(Key::of(repo).namespace, &secret.name)),
        branch: spec.branch.clone(),
        directory: spec.path.trim_matches('/').to_owned(),
        owner: format!("ConfigRepo {} of hub {hub}", Key::of(repo)),
        takes_over: !fenced,
        message: format!("{}Wheelwright-Hub: {hub}\n", report::message(&fleet, &digest)),
        files,
        time: changed.unwrap_or(Timestamp::UNIX_EPOCH),
        signing: spec.signing_key_ref.as_ref().map(|key| Key::namespaced(Key::of(repo).namespace, &key.name)),
    }))]);
    Ok(plan)
}

/// Returns the event that a report arrived after one that did not.
fn pushed_again(repo: &ConfigRepo, spec: &Report) -> Event {
    Event {
        regarding: ObjectRef::of::<ConfigRepo>(Key::of(repo)),
        uid: repo.uid().to_owned(),
        related: None,
        event_type: EventType::Normal,
        reason: "Pushed".into(),
        action: "Report".into(),
        message: format!("the report is on the branch {} again", spec.branch),
    }
}

/// Returns the uid of the namespace `kube-system`, which is that of the hub, as usual for clusters.
fn hub_uid(view: &impl View) -> Read<String> {
    let system = view.get::<Namespace>(&Key::cluster("kube-system"))?;
    Ok(system.as_ref().map_or("", |namespace| namespace.uid()).to_owned())
}

/// Returns the add-ons or sets of a report: those that the repository applies, or all of them if another tool
/// applies and the ConfigRepo acts as the operator.
fn reported<K: Kind>(repo: &ConfigRepo, identity: &Identity, mut all: Vec<Arc<K>>) -> Vec<Arc<K>> {
    let mark = Key::of(repo).to_string();
    let reports_all = repo.spec.mode == ConfigRepoMode::Observe && *identity == Identity::Operator;
    all.retain(|object| reports_all || object.annotation(names::CONFIG_REPO_ANNOTATION) == Some(&mark));
    all
}

/// Returns when the conditions of a repository, of add-ons on clusters and of works last changed.
fn last_change(
    repo: &ConfigRepo,
    add_ons: &[Arc<ClusterManagementAddOn>],
    sets: &[Arc<ManifestWorkReplicaSet>],
    view: &impl View,
) -> Read<Option<Timestamp>> {
    let mut last = report::ready_since(repo);
    for cma in add_ons {
        last = last.max(addon_config::last_change(cma.name(), view)?);
    }
    for set in sets {
        last = last.max(replica_set::last_change(&Key::of(set.as_ref()), view)?);
    }
    Ok(last)
}

/// Reads the states of the add-ons, and asks to be planned again when the state of a cluster ends by itself.
fn add_on_states(
    add_ons: &[Arc<ClusterManagementAddOn>],
    plan: &mut Plan,
    view: &impl View,
    now: Timestamp,
) -> Read<Vec<Workload>> {
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    let mut read = Vec::new();
    for cma in add_ons {
        let Some(reported) = addon_config::report(cma.name(), view, now)? else { continue };
        if let Some(recheck) = reported.recheck {
            plan.wake(recheck);
        }
        read.push(Workload::read(cma, reported.clusters, &policies));
    }
    Ok(read)
}

/// Reads the states of the sets, and asks to be planned again when the state of a cluster ends by itself.
fn set_states(
    sets: &[Arc<ManifestWorkReplicaSet>],
    plan: &mut Plan,
    view: &impl View,
    now: Timestamp,
) -> Read<Vec<Workload>> {
    let mut read = Vec::new();
    for set in sets {
        let Some(reported) = replica_set::report(set, view, now)? else { continue };
        if let Some(recheck) = reported.recheck {
            plan.wake(recheck);
        }
        read.push(reported.set);
    }
    Ok(read)
}

/// Wakes every repository that reports, if the content of a report has changed.
fn all_repositories<K: Kind, V: View, F: PartialEq>(
    change: &Change<K>,
    view: &V,
    content: impl Fn(&K) -> F,
) -> Vec<Key> {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && content(old) == content(new)
    {
        return Vec::new();
    }
    reporting(view)
}

/// Returns every repository that reports.
fn reporting(view: &impl View) -> Vec<Key> {
    let repos = view.readable::<ConfigRepo>(Query::ALL);
    repos.iter().filter(|repo| repo.spec.report.is_some()).map(|repo| Key::of(&**repo)).collect()
}

/// Returns the text of conditions, without the parts that change by the minute.
fn condition_summaries(conditions: &[Condition]) -> Vec<(String, ConditionStatus, String)> {
    conditions.iter().map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone())).collect()
}

#[cfg(test)]
mod tests;
