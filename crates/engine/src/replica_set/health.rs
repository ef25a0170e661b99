//! The health of the workloads of a set, by condition rules that their agents evaluate.
//!
//! That an object exists says nothing about its pods. So the works of a set whose author has no condition
//! rules get rules for their workloads, which OCM's agents know too. They are no part of the template: its
//! hash, its snapshots and the comparison with live works leave them out. See docs/design/rollout-states.md.

use crate::addon::works::identifier;
use api::Manifest;
use api::names::WORKLOAD_HEALTH_ANNOTATION;
use api::names::work_conditions::{DEGRADED, PROGRESSING};
use api::work::v1::{
    ConditionRule, ConditionRuleType, ManifestConfigOption, ManifestWorkSpec, ResourceIdentifier,
};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Metadata as _, Object};

/// What a success of a work needs, where its author has no rules for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessNeeds {
    /// The objects are applied.
    Applied,
    /// The objects exist.
    Available,
    /// The workloads among them are healthy.
    Healthy,
}

impl SuccessNeeds {
    /// Returns what the works of a set need, where a policy lets applied objects suffice or not.
    pub fn of(set: &ManifestWorkReplicaSet, applied_suffices: bool) -> Self {
        match (applied_suffices, set.annotation(WORKLOAD_HEALTH_ANNOTATION)) {
            (true, _) => Self::Applied,
            (false, Some("ignore")) => Self::Available,
            (false, _) => Self::Healthy,
        }
    }
}

/// The controller of the workload has seen the newest manifest.
const OBSERVED: &str = "has(object.status) && has(object.status.observedGeneration) && \
    object.status.observedGeneration >= object.metadata.generation";
const REPLICAS: &str = "(has(object.spec.replicas) ? object.spec.replicas : 1)";
/// People delete the old pods.
const ON_DELETE: &str = "has(object.spec.updateStrategy) && has(object.spec.updateStrategy.type) && \
    object.spec.updateStrategy.type == 'OnDelete'";

/// Returns the rules for a resource; none if it is no workload.
///
/// The rules of live works are known by their text. Where a text changes, [`without_rules`] must know the old
/// one too, or every work of every set is written.
fn rules(group: &str, resource: &str) -> Vec<ConditionRule> {
    let count = |field: &str| format!("(has(object.status.{field}) ? object.status.{field} : 0)");
    let has_condition = |test: &str| {
        format!(
            "has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, {test})"
        )
    };
    let (progressing, degraded) = match (group, resource) {
        ("apps", "deployments") => {
            let (updated, available) = (count("updatedReplicas"), count("availableReplicas"));
            let exceeded = "c.type == 'Progressing' && c.status == 'False' && has(c.reason) && \
                c.reason == 'ProgressDeadlineExceeded'";
            (
                format!(
                    "!(has(object.spec.paused) && object.spec.paused) && \
                     (!({OBSERVED}) || {updated} < {REPLICAS} || {available} < {REPLICAS})"
                ),
                Some(format!("{OBSERVED} && {}", has_condition(exceeded))),
            )
        }
        ("apps", "statefulsets") => {
            let (updated, available) = (count("updatedReplicas"), count("availableReplicas"));
            let partition = "(has(object.spec.updateStrategy) && has(object.spec.updateStrategy.rollingUpdate) && \
                has(object.spec.updateStrategy.rollingUpdate.partition) ? \
                object.spec.updateStrategy.rollingUpdate.partition : 0)";
            (
                format!(
                    "!({OBSERVED}) || {available} < {REPLICAS} || \
                     (!({ON_DELETE}) && {updated} < {REPLICAS} - {partition})"
                ),
                None,
            )
        }
        ("apps", "daemonsets") => {
            let (updated, available) = (count("updatedNumberScheduled"), count("numberAvailable"));
            let wanted = count("desiredNumberScheduled");
            (
                format!(
                    "!({OBSERVED}) || {available} < {wanted} || (!({ON_DELETE}) && {updated} < {wanted})"
                ),
                None,
            )
        }
        // A Job that runs holds up no rollout: it may run longer than the deadline of a cluster.
        ("batch", "jobs") => {
            let failed = has_condition("c.type == 'Failed' && c.status == 'True'");
            (failed.clone(), Some(failed))
        }
        _ => return Vec::new(),
    };
    let rule = |(condition, expression): (&str, Option<String>)| {
        Some(ConditionRule {
            condition: condition.to_owned(),
            r#type: ConditionRuleType::Cel,
            cel_expressions: vec![expression?],
            ..ConditionRule::default()
        })
    };
    [(PROGRESSING, Some(progressing)), (DEGRADED, degraded)].into_iter().filter_map(rule).collect()
}

/// Returns the entry with the rules for a manifest; `None` if it is no workload.
fn entry(manifest: &Manifest) -> Option<ManifestConfigOption> {
    let resource_identifier = identifier(&Object(manifest.clone()));
    let condition_rules = rules(&resource_identifier.group, &resource_identifier.resource);
    let config = ManifestConfigOption { resource_identifier, condition_rules, ..Default::default() };
    (!config.condition_rules.is_empty()).then_some(config)
}

/// Returns a template with rules for its workloads. One with rules of its author stays as it is.
///
/// The entries come first: agents take rules from the first entry that has some, and OCM's take the kind of
/// scrape from the last one that matches, which stays that of the author.
pub(super) fn with_rules(spec: &ManifestWorkSpec) -> ManifestWorkSpec {
    let mut spec = spec.clone();
    if spec.manifest_configs.iter().all(|config| config.condition_rules.is_empty()) {
        let entries: Vec<_> = spec.workload.manifests.iter().filter_map(entry).collect();
        spec.manifest_configs.splice(0..0, entries);
    }
    spec
}

/// Removes the rules of [`with_rules`] from the content of a work.
pub(super) fn without_rules(spec: &mut ManifestWorkSpec) {
    if has_rules(spec) {
        spec.manifest_configs.retain(|config| config.condition_rules.is_empty());
    }
}

/// Returns whether the rules of a work are those of [`with_rules`].
pub(super) fn has_rules(spec: &ManifestWorkSpec) -> bool {
    let mut judging = spec.manifest_configs.iter().filter(|one| !one.condition_rules.is_empty()).peekable();
    judging.peek().is_some() && judging.all(is_entry)
}

fn is_entry(config: &ManifestConfigOption) -> bool {
    let ResourceIdentifier { group, resource, .. } = &config.resource_identifier;
    let bare = ManifestConfigOption {
        resource_identifier: config.resource_identifier.clone(),
        condition_rules: rules(group, resource),
        ..ManifestConfigOption::default()
    };
    *config == bare
}
