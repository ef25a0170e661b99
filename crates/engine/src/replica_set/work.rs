//! The work of a set on one cluster: its content, and its state for the rollout.
//!
//! OCM's controller compares a work with the template to determine what the cluster runs, and reads the times of
//! conditions to determine since when. Those times come from the spoke, and a condition may describe the
//! previous template. Here, annotations of the work record the assigned template, the time of its assignment and
//! the time of its success, by the hub's clock.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};

use super::content;
use super::health::{SuccessNeeds, with_rules};
use crate::rollout::cluster::{Cluster, Hash, Health, Report};
use crate::work::health::{has_authors_rule, has_rules};
use crate::work::rejection;
use api::Condition;
use api::condition::{ConditionStatus, Conditions as _, find_condition};
use api::names::work_conditions::{APPLIED, AVAILABLE, DEGRADED, PROGRESSING};
use api::names::{
    ASSIGNED_AT_ANNOTATION, LAST_GOOD_TEMPLATE_ANNOTATION, RECOVERED_AT_ANNOTATION,
    REMOVAL_DECIDED_ANNOTATION, SUCCEEDED_AT_ANNOTATION, TEMPLATE_HASH_ANNOTATION, WORK_PLACEMENT_LABEL,
    WORK_REPLICA_SET_LABEL,
};
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::names::label_value_fault;
use object::{Key, Metadata as _, hex};

/// Labels with which tools recognize the objects that they installed. A tool would adopt and prune a work with
/// such a label.
const TRACKING: [&str; 6] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "helm.sh/",
];

/// Returns the value of the label that names the set of a work.
///
/// # Errors
/// Returns the reason that the name of the set is not a valid label value.
pub fn owner_label(set: &Key) -> Result<String, String> {
    let label = format!("{}.{}", set.namespace, set.name);
    match label_value_fault(&label) {
        Some(fault) => Err(format!("invalid label {WORK_REPLICA_SET_LABEL}={label} for works: {fault}")),
        None => Ok(label),
    }
}

/// Returns the name of a set's works. It is constant, so that two reconciliations cannot create two works on a
/// cluster.
pub fn name(set: &Key) -> String {
    let sum = hex(Sha256::digest(set.to_string()));
    format!("{}-{}", set.name, sum.get(..10).unwrap_or_default())
}

/// Returns true if a labeled work belongs to a set. Our works have a fixed name, and OCM's have a name generated
/// from the set's name. The label alone does not prove ownership, because people copy objects with their labels.
pub fn is_owned(set: &Key, work: &ManifestWork) -> bool {
    work.name() == name(set) || work.metadata.generate_name.as_ref() == Some(&set.name)
}

/// The value of [`RECOVERED_AT_ANNOTATION`] before the recovery.
const PENDING: &str = "pending";

/// The record in the annotations of a work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkRecord {
    /// The assigned template.
    pub template: Option<Hash>,
    /// The time of the assignment.
    pub assigned_at: Option<Timestamp>,
    /// The time of its first success.
    pub succeeded_at: Option<Timestamp>,
    /// What followed if it stopped working after it had soaked.
    pub recovery: Option<Recovery>,
    /// The last template that succeeded before it.
    pub last_good: Option<Hash>,
}

/// The recovery of a template that stopped working after it had soaked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The template does not work yet.
    Pending,
    /// The template has worked again since this time.
    At(Timestamp),
}

impl WorkRecord {
    /// Reads the annotations of a work. Invalid annotations count as absent.
    pub fn read(work: &ManifestWork) -> Self {
        let hash = |name| work.annotation(name).filter(|hash| !hash.is_empty()).map(Hash::from);
        let time = |name| work.annotation(name)?.parse::<Timestamp>().ok();
        Self {
            template: hash(TEMPLATE_HASH_ANNOTATION),
            assigned_at: time(ASSIGNED_AT_ANNOTATION),
            succeeded_at: time(SUCCEEDED_AT_ANNOTATION),
            recovery: match work.annotation(RECOVERED_AT_ANNOTATION) {
                Some(PENDING) => Some(Recovery::Pending),
                _ => time(RECOVERED_AT_ANNOTATION).map(Recovery::At),
            },
            last_good: hash(LAST_GOOD_TEMPLATE_ANNOTATION),
        }
    }

    /// Returns the annotations, with `None` for those to remove.
    pub(super) fn annotations(&self) -> [(&'static str, Option<String>); 5] {
        let Self { template, assigned_at, succeeded_at, recovery, last_good } = self;
        let recovered_at = recovery.map(|recovery| match recovery {
            Recovery::Pending => PENDING.to_owned(),
            Recovery::At(time) => time.to_string(),
        });
        [
            (TEMPLATE_HASH_ANNOTATION, template.clone().map(|hash| hash.0)),
            (ASSIGNED_AT_ANNOTATION, assigned_at.map(|time| time.to_string())),
            (SUCCEEDED_AT_ANNOTATION, succeeded_at.map(|time| time.to_string())),
            (RECOVERED_AT_ANNOTATION, recovered_at),
            (LAST_GOOD_TEMPLATE_ANNOTATION, last_good.clone().map(|hash| hash.0)),
        ]
    }
}

/// A desired work of a set.
#[derive(Clone, Copy, Debug)]
pub struct DesiredWork<'a> {
    pub set: &'a ManifestWorkReplicaSet,
    /// The [`owner_label`] of the set.
    pub owner: &'a str,
    /// The placement that selects the cluster.
    pub placement: &'a str,
    /// The template that is assigned to the cluster.
    pub spec: &'a ManifestWorkSpec,
    pub record: &'a WorkRecord,
    /// The requirement for its success.
    pub needs: SuccessNeeds,
}

impl DesiredWork<'_> {
    fn labels(&self) -> BTreeMap<String, String> {
        let inherited = self.set.metadata.labels.iter().flatten().filter(|(label, _)| !is_tracking(label));
        let mut labels: BTreeMap<String, String> =
            inherited.map(|(label, value)| (label.clone(), value.clone())).collect();
        labels.insert(WORK_REPLICA_SET_LABEL.into(), self.owner.to_owned());
        labels.insert(WORK_PLACEMENT_LABEL.into(), self.placement.to_owned());
        labels
    }

    /// Returns true if a work has the template, with or without the added health rules.
    fn has_template(&self, live: &ManifestWork) -> bool {
        live.spec == *self.spec || content(&live.spec) == *self.spec
    }

    /// Returns true if a work is up to date. Ignores labels and annotations of other writers.
    pub fn is_met_by(&self, live: &ManifestWork) -> bool {
        let has = |(label, value): (&String, &String)| live.label(label) == Some(value);
        let is_going = live.annotation(REMOVAL_DECIDED_ANNOTATION).is_some();
        self.labels().iter().all(has)
            && WorkRecord::read(live) == *self.record
            && self.has_template(live)
            && !is_going
    }

    /// Returns the work on a cluster. It keeps metadata that other clients wrote to the live work.
    pub fn work(&self, cluster: &str, live: Option<&ManifestWork>) -> ManifestWork {
        let mut work = live.cloned().unwrap_or_else(|| {
            let metadata = ObjectMeta {
                namespace: Some(cluster.to_owned()),
                name: Some(name(&Key::of(self.set))),
                ..ObjectMeta::default()
            };
            ManifestWork { metadata, ..ManifestWork::default() }
        });
        work.metadata.labels.get_or_insert_default().extend(self.labels());
        let annotations = work.metadata.annotations.get_or_insert_default();
        // If the cluster is selected again, a decided removal is canceled.
        annotations.remove(REMOVAL_DECIDED_ANNOTATION);
        for (name, value) in self.record.annotations() {
            match value {
                Some(value) => annotations.insert(name.to_owned(), value),
                None => annotations.remove(name),
            };
        }
        // Health rules are added only with a new template, so that an upgrade of the hub writes no works.
        if !live.is_some_and(|live| self.has_template(live)) {
            work.spec = match self.needs {
                SuccessNeeds::Healthy => with_rules(self.spec),
                SuccessNeeds::Applied | SuccessNeeds::Available => self.spec.clone(),
            };
        }
        work
    }
}

fn is_tracking(label: &str) -> bool {
    TRACKING.iter().any(|mark| label == *mark || (mark.ends_with('/') && label.starts_with(mark)))
}

/// The rule for a template's success on a cluster.
#[derive(Clone, Copy, Debug)]
pub struct SuccessRule<'a> {
    /// The wanted template of the cluster.
    pub wants: &'a Hash,
    /// The template that succeeded on all clusters.
    pub good_everywhere: Option<&'a Hash>,
    /// The requirement for success.
    pub needs: SuccessNeeds,
    /// The time that a success must last.
    pub soak: SignedDuration,
    /// The current time.
    pub now: Timestamp,
}

/// Returns the state of a work with its current spec, only from conditions of its current generation.
///
/// If the template has rules for Progressing, the result matches OCM's. Without such rules, OCM's controller
/// never stops waiting. Here, a work succeeds once it is applied and, if required, available. Added health rules
/// count only if success requires health and the agent supports rules.
pub fn report(work: &ManifestWork, needs: SuccessNeeds) -> Report {
    let configs = &work.spec.manifest_configs;
    let is_judged_here = has_rules(configs);
    let current = |type_| {
        work.condition(type_).filter(|condition| condition.observed_generation == work.metadata.generation)
    };
    let counts =
        |type_| needs == SuccessNeeds::Healthy || !is_judged_here || has_authors_rule(configs, type_);
    let ruled = |type_| current(type_).filter(|_| counts(type_));
    let is_stale = |type_| counts(type_) && work.condition(type_).is_some() && current(type_).is_none();
    if rejection(work).is_some() {
        return Report::Failed;
    }
    if !current(APPLIED).is_some_and(Condition::is_true) || is_stale(DEGRADED) {
        return Report::ToApply;
    }
    // In OCM's agents, a healthy manifest can hide a degraded one.
    let is_degraded =
        counts(DEGRADED) && (current(DEGRADED).is_some_and(Condition::is_true) || any_is(work, DEGRADED));
    let suffices = needs == SuccessNeeds::Applied;
    let is_available = suffices || current(AVAILABLE).is_some_and(Condition::is_true);
    match ruled(PROGRESSING).map(|condition| &condition.status) {
        Some(ConditionStatus::True) if is_degraded => Report::Failed,
        // A deleted object was healthy when its rule was last evaluated.
        Some(ConditionStatus::False) if is_judged_here && !is_available => Report::Progressing,
        Some(ConditionStatus::False) => Report::Succeeded,
        Some(ConditionStatus::True | ConditionStatus::Unknown | ConditionStatus::Other(_)) => {
            Report::Progressing
        }
        None if is_judged_here && is_stale(PROGRESSING) => Report::ToApply,
        None if has_authors_rule(configs, PROGRESSING) => Report::ToApply,
        None if is_degraded => Report::Failed,
        None if is_available => Report::Succeeded,
        None => Report::Progressing,
    }
}

/// Returns true if a condition of a manifest is true for the current generation.
fn any_is(work: &ManifestWork, type_: &str) -> bool {
    let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
    let mut found = manifests.filter_map(|manifest| find_condition(&manifest.conditions, type_));
    found.any(|condition| condition.is_true() && condition.observed_generation == work.metadata.generation)
}

/// Returns the state of a cluster with `work` for the rollout engine; `runs` is the template in the work.
///
/// A template that succeeded for the required time and then stopped working has relapsed. During the rollout, a
/// relapse is a failure. A pod that restarts a month later does not undo a completed rollout.
pub fn cluster(work: &ManifestWork, runs: Hash, rule: &SuccessRule<'_>) -> Cluster {
    let SuccessRule { wants, good_everywhere, needs, soak, now } = *rule;
    let record = WorkRecord::read(work);
    let is_marked = record.template.as_ref() == Some(&runs);
    let succeeded_at = record.succeeded_at.filter(|_| is_marked);
    let soaked = succeeded_at.is_some_and(|at| at.saturating_add(soak).is_ok_and(|until| until <= now));
    let report = match report(work, needs) {
        // The agent has not reported on this generation of the work.
        Report::ToApply if soaked => Report::Succeeded,
        Report::Progressing if soaked => Report::Relapsed { failed: false },
        Report::Failed | Report::TimeOut if soaked => Report::Relapsed { failed: true },
        seen => seen,
    };
    let has_succeeded = matches!(report, Report::Succeeded | Report::Relapsed { .. });
    let health =
        Health { of: runs.clone(), report, since: has_succeeded.then(|| succeeded_at.unwrap_or(now)) };
    let is_complete = good_everywhere == Some(wants);
    let last_good = if is_complete {
        Some(wants.clone())
    } else if has_succeeded && runs != *wants {
        Some(runs.clone())
    } else {
        record.last_good.filter(|good| good != wants).or_else(|| good_everywhere.cloned())
    };
    let mut cluster = Cluster {
        name: work.namespace().to_owned(),
        wants: wants.clone(),
        runs_since: record.assigned_at.filter(|_| is_marked),
        health: Some(health),
        runs: Some(runs),
        last_good,
        ..Cluster::default()
    };
    match record.recovery.filter(|_| is_marked && !is_complete) {
        Some(Recovery::Pending) => cluster.restart_soak(now),
        Some(Recovery::At(time)) => cluster.restart_soak(time),
        None => {}
    }
    cluster
}

/// Returns true if a work already records the state of its cluster. Otherwise, a later read of the same work would
/// give a different state.
pub fn is_recorded(work: &ManifestWork, cluster: &Cluster) -> bool {
    unchanged(work, cluster) == WorkRecord::read(work)
}

/// Returns the annotations of a work that keeps its template, with the times of its first success and of its
/// recovery.
pub fn unchanged(work: &ManifestWork, cluster: &Cluster) -> WorkRecord {
    let mut record = WorkRecord::read(work);
    let is_marked = record.template == cluster.runs;
    let Some((health, since)) = cluster.health.as_ref().and_then(|health| Some((health, health.since?)))
    else {
        return WorkRecord { succeeded_at: None, recovery: None, ..record };
    };
    let recovery = record.recovery.filter(|_| is_marked);
    let is_complete = cluster.last_good.as_ref() == Some(&cluster.wants);
    record.template.clone_from(&cluster.runs);
    record.succeeded_at = record.succeeded_at.filter(|_| is_marked).or(Some(since));
    record.recovery = match (health.report, recovery) {
        (Report::Relapsed { .. }, _) if !is_complete => Some(Recovery::Pending),
        (Report::Succeeded, Some(Recovery::Pending)) => Some(Recovery::At(since)),
        (_, recovery) => recovery,
    };
    record
}

/// Returns the annotations of a work that is assigned a template now.
pub fn assigned(hash: &Hash, cluster: &Cluster, now: Timestamp) -> WorkRecord {
    WorkRecord {
        template: Some(hash.clone()),
        assigned_at: Some(now),
        succeeded_at: None,
        recovery: None,
        last_good: cluster.last_good.clone(),
    }
}
