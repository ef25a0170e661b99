//! Health by condition rules: what the author of a template says about kinds that the hub does not know, and
//! what the hub says about workloads that ask for it.

use crate::work::applies;
use crate::work::health::has_rules;
use api::condition::find_condition;
use api::names::work_conditions::{DEGRADED, PROGRESSING};
use api::work::v1::{ManifestConfigOption, ManifestWork};

/// Returns why the works of an add-on are not done by the rules in them, which must have been evaluated for
/// the present generation; `None` if they are, or if no rule is about that.
pub(super) fn unfinished(works: &[&ManifestWork]) -> Option<String> {
    works.iter().find_map(|work| unfinished_of(work, works))
}

fn unfinished_of(work: &ManifestWork, works: &[&ManifestWork]) -> Option<String> {
    let name = work.metadata.name.as_deref().unwrap_or_default();
    // All works of an add-on have all rules, and an agent evaluates those about objects of the work.
    let is_elsewhere = |config: &ManifestConfigOption| {
        !is_about(config, work) && works.iter().any(|other| is_about(config, other))
    };
    let has_rule = |type_: &&str| {
        let configs = work.spec.manifest_configs.iter().filter(|config| !is_elsewhere(config));
        configs.flat_map(|config| &config.condition_rules).any(|rule| rule.condition == **type_)
    };
    let is_ours = has_rules(&work.spec.manifest_configs);
    [DEGRADED, PROGRESSING].into_iter().filter(has_rule).find_map(|type_| {
        let reported = work.status.as_ref().and_then(|status| find_condition(&status.conditions, type_));
        match reported.filter(|condition| condition.observed_generation == work.metadata.generation) {
            // An agent older than condition rules never reports.
            None if is_ours && reported.is_none() => None,
            None => Some(format!("the agent has not reported {type_} for manifestWork {name}")),
            Some(condition) if condition.is_false() => None,
            Some(condition) => Some(format!("manifestWork {name} is {type_}: {}", condition.message)),
        }
    })
}

/// Returns whether a configuration names an object that the agent has reported for a work.
fn is_about(config: &ManifestConfigOption, work: &ManifestWork) -> bool {
    let mut reported = work.status.iter().flat_map(|status| &status.resource_status.manifests);
    reported.any(|manifest| applies(&config.resource_identifier, &manifest.resource_meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Checks a work of generation 2 with rules for these conditions.
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
        assert_eq!(unfinished(&[&work.unwrap()]).as_deref(), want, "{rules:?} {conditions:?}");
    }

    #[test]
    fn a_work_is_done_when_the_rules_of_its_template_say_so() {
        check(&["Progressing"], &[("Progressing", "False", 2)], None);
        check(&["Progressing"], &[("Progressing", "True", 2)], Some("manifestWork w is Progressing: m"));
        check(&["Progressing"], &[("Progressing", "Unknown", 2)], Some("manifestWork w is Progressing: m"));
        check(&["Degraded"], &[("Degraded", "True", 2)], Some("manifestWork w is Degraded: m"));
        let silent = Some("the agent has not reported Progressing for manifestWork w");
        check(&["Progressing"], &[], silent);
        check(&["Progressing"], &[("Progressing", "False", 1)], silent);
        check(&["Ready"], &[("Progressing", "True", 2)], None);
    }

    /// Returns a work with a rule about `s` and the condition `Progressing`; its object is `object`.
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
        assert_eq!(unfinished(&[&ruled, &other]), None);
        let busy = work(&rule, "s", &["True"]);
        assert_eq!(unfinished(&[&other, &busy]).as_deref(), Some("manifestWork s is Progressing: m"));
        let silent = "the agent has not reported Progressing for manifestWork o";
        assert_eq!(unfinished(&[&other]).as_deref(), Some(silent));
    }

    #[test]
    fn an_agent_that_knows_no_rules_does_not_hold_up_those_of_the_hub() {
        let mut silent = work(&json!({"type": "CEL", "condition": "Progressing"}), "s", &[]);
        assert!(unfinished(&[&silent]).is_some(), "the author asks for an agent that knows them");
        let configs = &mut silent.spec.manifest_configs;
        let named = configs.remove(0).resource_identifier;
        crate::work::health::add_rules(configs, std::iter::once(named));
        assert_eq!((configs.len(), unfinished(&[&silent])), (1, None));
    }
}
