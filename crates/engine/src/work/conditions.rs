//! Conditions derived from an object by rules.

use serde_json::Value;

use super::health::is_ours;
use crate::health::ObjectHealth;
use crate::placement::filter::cel::Expressions;
use api::Condition;
use api::condition::ConditionStatus::{self, False, True, Unknown};
use api::condition::{Observation, find_condition};
use api::names::work_conditions::{COMPLETE, DEGRADED, PROGRESSING};
use api::work::v1::{ConditionRule, ConditionRuleType};
use object::Object;

/// The prefix of the reasons of rule conditions.
pub(super) const RULE: &str = "ConditionRule";
const EVALUATED: &str = "ConditionRuleEvaluated";
const AGGREGATED: &str = "ConditionRulesAggregated";

/// Returns the condition that a rule derives; `None` if the rule does not apply to the object.
pub(super) fn evaluate(rule: &ConditionRule, live: &Object) -> Option<Observation> {
    let ConditionRule { condition, r#type, cel_expressions, message, message_expression, unknown: _ } = rule;
    let set = |status: ConditionStatus, reason: &str, message: String| {
        Observation::new(condition, status, reason).message(message)
    };
    match r#type {
        ConditionRuleType::WellKnownConditions if condition == COMPLETE => {
            let (is, words) = completed(live)?;
            let message = if message.is_empty() { words } else { message.clone() };
            Some(set(is.into(), EVALUATED, message))
        }
        ConditionRuleType::WellKnownConditions => None,
        ConditionRuleType::Cel => {
            let object = Value::Object(live.0.clone());
            let words = |is: bool| -> Result<String, String> {
                let computed = match message_expression.as_str() {
                    "" if is && is_ours(rule) => words_of(live),
                    "" => String::new(),
                    expression => {
                        let result = Value::Bool(is);
                        let variables = [("object", &object), ("result", &result)];
                        Expressions::compile(&[expression.to_owned()], &["object", "result"])?
                            .text(&variables)?
                    }
                };
                Ok([computed, message.clone()]
                    .into_iter()
                    .find(|text| !text.is_empty())
                    .unwrap_or_else(|| format!("Manifest is {}{condition}", if is { "" } else { "not " })))
            };
            let evaluated = Expressions::compile(cel_expressions, &["object"])
                .and_then(|expressions| expressions.hold(&[("object", &object)]))
                .and_then(|is| Ok((is, words(is)?)));
            Some(match evaluated {
                Ok((is, message)) => set(is.into(), EVALUATED, message),
                Err(error) => set(False, "ConditionRuleExpressionError", error),
            })
        }
        ConditionRuleType::Other(other) => {
            Some(set(Unknown, "ConditionRuleInvalid", format!("the rule type {other} is not known")))
        }
    }
}

/// Returns a description of the health of an object; empty if it is healthy.
fn words_of(live: &Object) -> String {
    match ObjectHealth::of(live) {
        ObjectHealth::Current => String::new(),
        ObjectHealth::InProgress(reason)
        | ObjectHealth::RollingOut(reason)
        | ObjectHealth::Failed(reason) => reason,
    }
}

/// Returns true if a Job or Pod is complete, with a message; `None` for other kinds.
fn completed(live: &Object) -> Option<(bool, String)> {
    match (live.api_version(), live.kind()) {
        ("batch/v1", "Job") => {
            let conditions =
                live.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
            let text =
                |c: &Value, field: &str| c.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let mut finished = conditions.filter(|c| {
                matches!(text(c, "type").as_str(), "Complete" | "Failed") && text(c, "status") == "True"
            });
            let is = finished.next().is_some();
            Some((is, if is { "Job is finished".into() } else { "Job is not finished".into() }))
        }
        ("v1", "Pod") => {
            let phase = live.at(&["status", "phase"]).and_then(Value::as_str).unwrap_or_default();
            Some((matches!(phase, "Succeeded" | "Failed"), format!("Pod is in phase {phase}")))
        }
        _ => None,
    }
}

/// Aggregates a condition of a work from its manifests; `None` if no manifest has it.
///
/// A work is in progress or degraded as soon as one manifest is. In OCM, a healthy manifest can hide a degraded
/// one.
pub(super) fn aggregate(type_: &str, manifests: &[&[Condition]]) -> Option<Observation> {
    let rules: Vec<&Condition> = manifests
        .iter()
        .filter_map(|conditions| find_condition(conditions, type_))
        .filter(|condition| condition.reason.starts_with(RULE))
        .collect();
    let message = match rules.as_slice() {
        [] => return None,
        [only] => only.message.clone(),
        several => format!("Aggregated from {} manifest conditions", several.len()),
    };
    let any = |is: fn(&Condition) -> bool| rules.iter().any(|c| is(c));
    let is_unknown: fn(&Condition) -> bool = |c| !c.is_true() && !c.is_false();
    let status = match type_ {
        PROGRESSING | DEGRADED if any(Condition::is_true) => True,
        PROGRESSING | DEGRADED if any(is_unknown) => Unknown,
        PROGRESSING | DEGRADED => False,
        _ if any(Condition::is_false) => False,
        _ if any(is_unknown) => Unknown,
        _ => True,
    };
    Some(Observation::new(type_, status, AGGREGATED).message(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(rule: Value, want: Option<(ConditionStatus, &str, &str)>) {
        let live = json!({"apiVersion": "x.io/v1", "kind": "Custom", "metadata": {"name": "c", "generation": 2},
            "status": {"ready": 2, "conditions": [{"type": "Ready", "status": "True"}]}});
        check_on(live, rule, want);
    }

    fn check_on(live: Value, rule: Value, want: Option<(ConditionStatus, &str, &str)>) {
        let rule: ConditionRule = serde_json::from_value(rule).unwrap();
        let found = evaluate(&rule, &Object::from_value(live.clone()).unwrap());
        let found = found.as_ref().map(|found| (found.status.clone(), &*found.reason, &*found.message));
        assert_eq!(found, want, "{rule:?} {live}");
    }

    #[test]
    fn expressions_over_the_object_set_a_condition() {
        let cel = |more: Value| {
            let mut rule = json!({"type": "CEL", "condition": "Ready"});
            json_patch_merge(&mut rule, more);
            rule
        };
        let ready = "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')";
        check(cel(json!({"celExpressions": [ready]})), Some((True, EVALUATED, "Manifest is Ready")));
        let two = cel(json!({"celExpressions": [ready, "object.status.ready > 2"]}));
        check(two, Some((False, EVALUATED, "Manifest is not Ready")));
        let has = cel(json!({"celExpressions": ["hasConditions(object.status)"], "message": "said"}));
        check(has, Some((True, EVALUATED, "said")));
        let words = cel(json!({"celExpressions": ["object.status.ready == 2"], "message": "said",
            "messageExpression": "result ? 'ready: ' + string(object.status.ready) : 'no'"}));
        check(words, Some((True, EVALUATED, "ready: 2")));
        let unknown = json!({"type": "Guess", "condition": "Ready"});
        check(unknown, Some((Unknown, "ConditionRuleInvalid", "the rule type Guess is not known")));
        check(json!({"type": "WellKnownConditions", "condition": "Complete"}), None);
    }

    #[test]
    fn an_expression_that_fails_is_a_condition_that_says_so() {
        for expressions in
            [json!(["object.status.nothing == 1"]), json!(["1 +"]), json!(["object.status.ready"])]
        {
            let rule = json!({"type": "CEL", "condition": "Ready", "celExpressions": expressions});
            let rule: ConditionRule = serde_json::from_value(rule).unwrap();
            let live = Object::from_value(json!({"kind": "C", "status": {"ready": 1}})).unwrap();
            let found = evaluate(&rule, &live).unwrap();
            assert_eq!(
                (found.status, &*found.reason),
                (False, "ConditionRuleExpressionError"),
                "{expressions}"
            );
            assert!(!found.message.is_empty());
        }
    }

    #[test]
    fn a_job_and_a_pod_are_complete_when_they_ended() {
        let rule = |more: Value| {
            let mut rule = json!({"type": "WellKnownConditions", "condition": "Complete"});
            json_patch_merge(&mut rule, more);
            rule
        };
        let job = |api_version: &str, type_: &str, status: &str| {
            json!({"apiVersion": api_version, "kind": "Job", "status": {"conditions": [
                {"type": "Suspended", "status": "True"}, {"type": type_, "status": status}]}})
        };
        let (yes, no) =
            (Some((True, EVALUATED, "Job is finished")), Some((False, EVALUATED, "Job is not finished")));
        check_on(job("batch/v1", "Complete", "True"), rule(json!({})), yes.clone());
        check_on(job("batch/v1", "Failed", "True"), rule(json!({})), yes);
        check_on(job("batch/v1", "Complete", "False"), rule(json!({})), no.clone());
        check_on(job("batch/v1", "Other", "True"), rule(json!({})), no);
        check_on(job("x.io/v1", "Complete", "True"), rule(json!({})), None);
        check_on(job("batch/v1", "Complete", "True"), rule(json!({"condition": "Degraded"})), None);
        let pod = |phase: &str| json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase}});
        let in_phase = |status, message| Some((status, EVALUATED, message));
        check_on(pod("Succeeded"), rule(json!({})), in_phase(True, "Pod is in phase Succeeded"));
        check_on(pod("Failed"), rule(json!({})), in_phase(True, "Pod is in phase Failed"));
        check_on(pod("Running"), rule(json!({})), in_phase(False, "Pod is in phase Running"));
        check_on(pod("Running"), rule(json!({"message": "said"})), in_phase(False, "said"));
    }

    #[test]
    fn one_degraded_manifest_degrades_the_work_and_one_that_is_not_complete_keeps_it_open() {
        let condition = |type_: &str, status: &str| -> Condition {
            serde_json::from_value(
                json!({"type": type_, "status": status, "reason": EVALUATED, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            )
            .unwrap()
        };
        let check = |type_: &str, statuses: [&str; 2], want: ConditionStatus| {
            let manifests = statuses.map(|status| vec![condition(type_, status)]);
            let manifests: Vec<&[Condition]> = manifests.iter().map(Vec::as_slice).collect();
            let both = aggregate(type_, &manifests).unwrap();
            assert_eq!(both.status, want, "{type_} {statuses:?}");
            assert_eq!(
                (&*both.reason, &*both.message),
                (AGGREGATED, "Aggregated from 2 manifest conditions")
            );
        };
        for type_ in ["Degraded", "Progressing"] {
            check(type_, ["True", "False"], True);
            check(type_, ["Unknown", "True"], True);
            check(type_, ["Unknown", "False"], Unknown);
            check(type_, ["False", "False"], False);
        }
        for type_ in ["Complete", "Custom"] {
            check(type_, ["True", "False"], False);
            check(type_, ["Unknown", "False"], False);
            check(type_, ["True", "Unknown"], Unknown);
            check(type_, ["True", "True"], True);
        }
        let of_a_rule = [condition("Complete", "True")];
        let of_others = [Condition { reason: "Other".into(), ..condition("Complete", "False") }];
        let only = aggregate("Complete", &[&of_a_rule, &of_others]).unwrap();
        assert_eq!((only.status, &*only.message), (True, "m"));
        assert_eq!(aggregate("Complete", &[&of_others, &[]]), None);
    }

    fn json_patch_merge(into: &mut Value, more: Value) {
        let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) else { return };
        into.extend(more);
    }
}
