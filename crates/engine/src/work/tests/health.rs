//! Tests for rules in live works from hubs before 0.2.

use super::*;

/// The controller of the workload has seen the latest generation.
const OBSERVED: &str = "has(object.status) && has(object.status.observedGeneration) && \
    object.status.observedGeneration >= object.metadata.generation";
const REPLICAS: &str = "(has(object.spec.replicas) ? object.spec.replicas : 1)";
/// With the strategy OnDelete, people delete the old pods.
const ON_DELETE: &str = "has(object.spec.updateStrategy) && has(object.spec.updateStrategy.type) && \
    object.spec.updateStrategy.type == 'OnDelete'";

/// Returns the expressions for a resource: in progress, and degraded if that is known; `None` if it is not a
/// workload.
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
        // Existing pods do not change with the template.
        ("apps", "replicasets") => {
            (format!("!({OBSERVED}) || {} < {REPLICAS}", count("availableReplicas")), None)
        }
        ("", "pods") => {
            let is_ready = has_condition("c.type == 'Ready' && c.status == 'True'");
            (format!("!({is_ready}) && !({})", phase("Succeeded")), Some(phase("Failed")))
        }
        // A running Job does not block a rollout, because it may run longer than the deadline of a cluster.
        ("batch", "jobs") => {
            let failed = has_condition("c.type == 'Failed' && c.status == 'True'");
            (failed.clone(), Some(failed))
        }
        _ => return None,
    })
}

#[test]
fn the_rules_of_a_former_hub_are_known_by_their_text() {
    let resources = [
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("apps", "daemonsets"),
        ("apps", "replicasets"),
        ("", "pods"),
        ("batch", "jobs"),
    ];
    for (group, resource) in resources {
        let (progressing, degraded) = expressions(group, resource).unwrap();
        for expression in [Some(progressing), degraded].into_iter().flatten() {
            let rule = ConditionRule {
                condition: PROGRESSING.into(),
                r#type: ConditionRuleType::Cel,
                cel_expressions: vec![expression],
                ..ConditionRule::default()
            };
            assert!(is_ours(&rule), "{resource}");
            let said = ConditionRule { message: "said".into(), ..rule.clone() };
            assert!(!is_ours(&said), "the author's words");
        }
    }
    let authors = ConditionRule { cel_expressions: vec!["true".into()], ..ConditionRule::default() };
    assert!(!is_ours(&authors));
}

#[test]
fn a_work_with_the_rules_of_a_former_hub_is_up_to_date() {
    let manifest =
        serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    let manifest = Object::from_value(manifest).unwrap();
    let mut configs = Vec::new();
    add_rules(&mut configs, std::iter::once(&manifest));
    let (progressing, degraded) = expressions("apps", "deployments").unwrap();
    let mut former = configs.clone();
    for (rule, text) in former[0].condition_rules.iter_mut().zip([Some(progressing), degraded]) {
        rule.cel_expressions = text.into_iter().collect();
        rule.message.clear();
    }
    assert!(has_rules(&former) && former != configs);
    without_rules(&mut former);
    without_rules(&mut configs);
    assert_eq!((former, configs), (Vec::new(), Vec::new()));
}
