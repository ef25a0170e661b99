//! Health by the condition rules of a template: what its author says about kinds that the hub does not know.

use api::condition::find_condition;
use api::names::work_conditions::{DEGRADED, PROGRESSING};
use api::work::v1::ManifestWork;

/// Returns why a work is not done by the rules of its author, which must have been evaluated for its present
/// generation; `None` if it is, or if no rule is about that.
pub(super) fn unfinished(work: &ManifestWork) -> Option<String> {
    let name = work.metadata.name.as_deref().unwrap_or_default();
    let has_rule = |type_: &&str| {
        let mut rules = work.spec.manifest_configs.iter().flat_map(|config| &config.condition_rules);
        rules.any(|rule| rule.condition == **type_)
    };
    [DEGRADED, PROGRESSING].into_iter().filter(has_rule).find_map(|type_| {
        let reported = work.status.as_ref().and_then(|status| find_condition(&status.conditions, type_));
        match reported.filter(|condition| condition.observed_generation == work.metadata.generation) {
            None => Some(format!("the agent has not reported {type_} for manifestWork {name}")),
            Some(condition) if condition.is_false() => None,
            Some(condition) => Some(format!("manifestWork {name} is {type_}: {}", condition.message)),
        }
    })
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
        assert_eq!(unfinished(&work.unwrap()).as_deref(), want, "{rules:?} {conditions:?}");
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
}
