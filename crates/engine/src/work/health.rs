//! The health of workloads, by condition rules that the hub puts into works and agents evaluate.
//!
//! OCM's agents know such rules too. A work gets them with its next content, so an upgrade of the hub writes
//! none. See docs/design/rollout-states.md.

use api::names::work_conditions::{DEGRADED, PROGRESSING};
use api::work::v1::{ConditionRule, ConditionRuleType, ManifestConfigOption, ResourceIdentifier};

/// The controller of the workload has seen the newest manifest.
const OBSERVED: &str = "has(object.status) && has(object.status.observedGeneration) && \
    object.status.observedGeneration >= object.metadata.generation";
const REPLICAS: &str = "(has(object.spec.replicas) ? object.spec.replicas : 1)";
/// People delete the old pods.
const ON_DELETE: &str = "has(object.spec.updateStrategy) && has(object.spec.updateStrategy.type) && \
    object.spec.updateStrategy.type == 'OnDelete'";

/// Returns the expressions for a resource: it is in progress, and degraded where something tells that; `None`
/// if it is no workload.
fn expressions(group: &str, resource: &str) -> Option<(String, Option<String>)> {
    let count = |field: &str| format!("(has(object.status.{field}) ? object.status.{field} : 0)");
    let has_condition = |test: &str| {
        format!(
            "has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, {test})"
        )
    };
    let phase = |phase: &str| {
        format!("has(object.status) && has(object.status.phase) && object.status.phase == '{phase}'")
    };
    Some(match (group, resource) {
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
        // The pods that are there stay as they are when the template changes.
        ("apps", "replicasets") => {
            (format!("!({OBSERVED}) || {} < {REPLICAS}", count("availableReplicas")), None)
        }
        ("", "pods") => {
            let is_ready = has_condition("c.type == 'Ready' && c.status == 'True'");
            (format!("!({is_ready}) && !({})", phase("Succeeded")), Some(phase("Failed")))
        }
        // A Job that runs holds up no rollout: it may run longer than the deadline of a cluster.
        ("batch", "jobs") => {
            let failed = has_condition("c.type == 'Failed' && c.status == 'True'");
            (failed.clone(), Some(failed))
        }
        _ => return None,
    })
}

/// Returns the rules for a resource; none if it is no workload.
///
/// The rules of live works are known by their text. Where a text changes, [`without_rules`] must know the old
/// one too, or every work with such a rule is written.
fn rules(group: &str, resource: &str) -> Vec<ConditionRule> {
    let Some((progressing, degraded)) = expressions(group, resource) else { return Vec::new() };
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

/// Returns the entry with the rules for an object.
fn entry(resource_identifier: ResourceIdentifier) -> ManifestConfigOption {
    let condition_rules = rules(&resource_identifier.group, &resource_identifier.resource);
    ManifestConfigOption { resource_identifier, condition_rules, ..ManifestConfigOption::default() }
}

/// Adds rules for the workloads among these objects, where the author of the work has none.
///
/// The entries come first: agents take rules from the first entry that has some, and OCM's take the kind of
/// scrape from the last one that matches, which stays that of the author.
pub(crate) fn add_rules(
    configs: &mut Vec<ManifestConfigOption>,
    objects: impl Iterator<Item = ResourceIdentifier>,
) {
    if configs.iter().all(|config| config.condition_rules.is_empty()) {
        let entries: Vec<_> = objects.map(entry).filter(|entry| !entry.condition_rules.is_empty()).collect();
        configs.splice(0..0, entries);
    }
}

/// Removes the rules of [`add_rules`].
pub(crate) fn without_rules(configs: &mut Vec<ManifestConfigOption>) {
    if has_rules(configs) {
        configs.retain(|config| config.condition_rules.is_empty());
    }
}

/// Returns whether the rules of a work are those of [`add_rules`].
pub(crate) fn has_rules(configs: &[ManifestConfigOption]) -> bool {
    let mut judging = configs.iter().filter(|one| !one.condition_rules.is_empty()).peekable();
    judging.peek().is_some() && judging.all(|config| *config == entry(config.resource_identifier.clone()))
}
