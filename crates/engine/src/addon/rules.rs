//! Health by condition rules: the template author's rules, and default rules for all other objects.

use super::works_status::WorksStatus;
use crate::work::health::is_ours;
use crate::work::{applies, cause, culprit};
use api::Condition;
use api::condition::find_condition;
use api::names::work_conditions::{DEGRADED, PROGRESSING};
use api::work::v1::{ManifestConfigOption, ManifestWork};

/// Returns the state of an add-on's works by their condition rules, evaluated for the current generation; `None`
/// if they are done, or no rule applies.
pub(super) fn unfinished(works: &[&ManifestWork]) -> Option<WorksStatus> {
    works.iter().find_map(|work| unfinished_of(work, works))
}

fn unfinished_of(work: &ManifestWork, works: &[&ManifestWork]) -> Option<WorksStatus> {
    let name = work.metadata.name.as_deref().unwrap_or_default();
    // All works of an add-on have all rules, but an agent evaluates only rules for objects in the same work.
    let is_elsewhere = |config: &ManifestConfigOption| {
        !is_about(config, work) && works.iter().any(|other| is_about(config, other))
    };
    let configs = work.spec.manifest_configs.iter().filter(|config| !is_elsewhere(config));
    let rules: Vec<_> = configs.flat_map(|config| &config.condition_rules).collect();
    [DEGRADED, PROGRESSING].into_iter().find_map(|type_| {
        let mut about = rules.iter().filter(|rule| rule.condition == type_).peekable();
        about.peek()?;
        let is_current = |condition: &Condition| condition.observed_generation == work.metadata.generation;
        // In OCM's agents, a healthy manifest can hide a degraded one.
        let degraded = culprit(work, DEGRADED, |condition| condition.is_true() && is_current(condition));
        if let (DEGRADED, Some((object, condition))) = (type_, degraded) {
            return Some(WorksStatus::Failed(format!("{object} is {type_}: {}", condition.message)));
        }
        let reported = work.status.as_ref().and_then(|status| find_condition(&status.conditions, type_));
        match reported.filter(|condition| is_current(condition)) {
            // An agent that predates condition rules never reports.
            None if reported.is_none() && about.all(|rule| is_ours(rule)) => None,
            None => {
                let reason = format!("the agent has not reported {type_} for manifestWork {name}");
                Some(WorksStatus::Unreported(reason))
            }
            Some(condition) if condition.is_false() => None,
            Some(condition) => {
                let reason = format!("manifestWork {name} is {type_}: {}", cause(work, condition));
                let has_failed = type_ == DEGRADED && condition.is_true();
                Some(if has_failed { WorksStatus::Failed(reason) } else { WorksStatus::NotHealthy(reason) })
            }
        }
    })
}

/// Returns true if a configuration names an object that the agent reported for a work.
fn is_about(config: &ManifestConfigOption, work: &ManifestWork) -> bool {
    let mut reported = work.status.iter().flat_map(|status| &status.resource_status.manifests);
    reported.any(|manifest| applies(&config.resource_identifier, &manifest.resource_meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn words(works: &[&ManifestWork]) -> Option<String> {
        unfinished(works).map(|status| match status {
            WorksStatus::Unreported(reason) | WorksStatus::NotHealthy(reason) => reason,
            WorksStatus::Failed(reason) => format!("failed: {reason}"),
            other => format!("{other:?}"),
        })
    }

    /// Checks a work of generation 2 with rules for the given conditions.
    fn check(rules: &[&str], conditions: &[(&str, &str, i64)], want: Option<&str>) {
        let rule = |condition: &&str| json!({"type": "CEL", "condition": condition, "celExpressions": []});
        let condition = |(type_, status, generation): &(&str, &str, i64)| json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation});
        let identifier = json!({"group": "apps", "resource": "statefulsets", "name": "s", "namespace": "n"});
        let rules: Vec<Value> = rules.iter().map(rule).collect();
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        let work = serde_json::from_value(json!({
            "metadata": {"name": "w", "generation": 2},
            "spec": {"workload": {"manifests": []}, "manifestConfigs": [{"resourceIdentifier": identifier, "conditionRules": rules}]},
            "status": {"conditions": conditions},
        }));
        assert_eq!(words(&[&work.unwrap()]).as_deref(), want, "{rules:?} {conditions:?}");
    }

    #[test]
    fn a_work_is_done_when_the_rules_of_its_template_say_so() {
        check(&["Progressing"], &[("Progressing", "False", 2)], None);
        check(&["Progressing"], &[("Progressing", "True", 2)], Some("manifestWork w is Progressing: m"));
        check(&["Progressing"], &[("Progressing", "Unknown", 2)], Some("manifestWork w is Progressing: m"));
        check(&["Degraded"], &[("Degraded", "True", 2)], Some("failed: manifestWork w is Degraded: m"));
        let silent = Some("the agent has not reported Progressing for manifestWork w");
        check(&["Progressing"], &[], silent);
        check(&["Progressing"], &[("Progressing", "False", 1)], silent);
        check(&["Ready"], &[("Progressing", "True", 2)], None);
    }

    /// Returns a work with a rule for `s` and the condition `Progressing`, whose only object is `object`.
    fn work(rule: &Value, object: &str, progressing: &[&str]) -> ManifestWork {
        let condition = |status: &&str| json!({"type": "Progressing", "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions: Vec<Value> = progressing.iter().map(condition).collect();
        let identifier = json!({"group": "apps", "resource": "statefulsets", "name": "s", "namespace": "n"});
        let meta = json!({"ordinal": 0, "group": "apps", "resource": "statefulsets", "name": object, "namespace": "n"});
        let manifests = json!([{"resourceMeta": meta, "conditions": []}]);
        let config = json!({"resourceIdentifier": identifier, "conditionRules": [rule]});
        let work = json!({
            "metadata": {"name": object}, "spec": {"workload": {"manifests": []}, "manifestConfigs": [config]},
            "status": {"conditions": conditions, "resourceStatus": {"manifests": manifests}},
        });
        serde_json::from_value(work).unwrap()
    }

    #[test]
    fn a_rule_is_about_the_works_with_its_object_and_one_without_an_object_holds_all() {
        let rule = json!({"type": "CEL", "condition": "Progressing", "celExpressions": []});
        let (ruled, other) = (work(&rule, "s", &["False"]), work(&rule, "o", &[]));
        assert_eq!(words(&[&ruled, &other]), None);
        let busy = work(&rule, "s", &["True"]);
        assert_eq!(words(&[&other, &busy]).as_deref(), Some("manifestWork s is Progressing: m"));
        let silent = "the agent has not reported Progressing for manifestWork o";
        assert_eq!(words(&[&other]).as_deref(), Some(silent));
    }

    #[test]
    fn an_agent_without_rules_does_not_block_the_rules_of_the_hub() {
        let mut silent = work(&json!({"type": "CEL", "condition": "Progressing"}), "s", &[]);
        assert!(unfinished(&[&silent]).is_some(), "the author asks for an agent that knows them");
        let configs = &mut silent.spec.manifest_configs;
        configs.clear();
        let manifest = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "n"}});
        crate::work::health::add_rules(
            configs,
            std::iter::once(object::Object::from_value(manifest).unwrap()),
        );
        assert_eq!((configs.len(), unfinished(&[&silent])), (1, None));
    }
}
