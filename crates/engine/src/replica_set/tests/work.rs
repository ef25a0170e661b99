use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::replica_set::{
    SuccessNeeds, SuccessRule, assigned, cluster, content, hash, is_owned, kept, owner_label,
};
use crate::rollout::input::{Cluster, Hash, Report};
use api::names::{SUCCEEDED_AT_ANNOTATION, TEMPLATE_HASH_ANNOTATION};
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use object::Key;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns a work of generation 2 with conditions `(type, status, observedGeneration)`.
fn work(rules: bool, conditions: &[(&str, &str, i64)]) -> ManifestWork {
    let condition = |(type_, status, generation): &(&str, &str, i64)| {
        json!({
            "type": type_, "status": status, "reason": "R", "message": "",
            "observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:00:01Z",
        })
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let rule = json!({"condition": "Progressing", "type": "CEL", "celExpressions": ["true"]});
    let identifier = json!({"group": "", "resource": "configmaps", "name": "a", "namespace": "b"});
    let configs = json!([{"resourceIdentifier": identifier, "conditionRules": [rule]}]);
    serde_json::from_value(json!({
        "metadata": {"name": "w", "namespace": "c", "generation": 2},
        "spec": {"workload": {}, "manifestConfigs": if rules { configs } else { json!([]) }},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn state(work: &ManifestWork, soak: i64, now: i64) -> Cluster {
    let wants = Hash::from("new");
    let soak = SignedDuration::from_secs(soak);
    let rule = SuccessRule {
        wants: &wants,
        good_everywhere: None,
        needs: SuccessNeeds::Healthy,
        soak,
        now: at(now),
    };
    cluster(work, wants.clone(), &rule)
}

fn report(work: &ManifestWork) -> Report {
    state(work, 0, 100).health.unwrap().report
}

#[test]
fn a_work_reports_as_ocm_reads_its_conditions() {
    let applied = ("Applied", "True", 2);
    let check = |conditions: &[(&str, &str, i64)], expected| {
        assert_eq!(report(&work(true, conditions)), expected, "{conditions:?}");
    };
    check(&[], Report::ToApply);
    check(&[("Applied", "False", 2)], Report::ToApply);
    check(&[applied], Report::ToApply);
    check(&[applied, ("Progressing", "True", 2), ("Degraded", "False", 1)], Report::ToApply);
    check(&[applied, ("Progressing", "True", 2), ("Degraded", "True", 2)], Report::Failed);
    check(&[applied, ("Progressing", "True", 2)], Report::Progressing);
    check(&[applied, ("Progressing", "Unknown", 2)], Report::Progressing);
    check(&[applied, ("Progressing", "False", 2), ("Degraded", "True", 2)], Report::Succeeded);
}

/// OCM waits for ever for a condition that no controller sets.
#[test]
fn a_work_without_a_rule_for_progressing_succeeds_once_it_is_available() {
    let check = |conditions: &[(&str, &str, i64)], expected| {
        assert_eq!(report(&work(false, conditions)), expected, "{conditions:?}");
    };
    check(&[("Applied", "True", 2)], Report::Progressing);
    check(&[("Applied", "True", 2), ("Available", "True", 2)], Report::Succeeded);
    check(&[("Applied", "True", 2), ("Available", "False", 2)], Report::Progressing);
    check(&[("Applied", "True", 2), ("Available", "True", 2), ("Degraded", "True", 2)], Report::Failed);
}

/// In OCM a condition of the template before may release the next cluster.
#[test]
fn a_condition_of_another_generation_counts_for_nothing() {
    for type_ in ["Applied", "Available"] {
        let mut conditions = [("Applied", "True", 2), ("Available", "True", 2)];
        conditions.iter_mut().filter(|c| c.0 == type_).for_each(|c| c.2 = 1);
        assert_ne!(report(&work(false, &conditions)), Report::Succeeded, "{type_}");
    }
    assert_eq!(report(&work(true, &[("Applied", "True", 2), ("Progressing", "False", 1)])), Report::ToApply);
}

#[test]
fn a_soak_begins_on_the_clock_of_the_hub_and_a_template_that_soaked_has_arrived() {
    let mut good = work(false, &[("Applied", "True", 2), ("Available", "True", 2)]);
    let first = state(&good, 60, 100);
    assert_eq!(first.health.as_ref().unwrap().since, Some(at(100)), "not that of the condition");
    let record = kept(&good, &first);
    let annotations = good.metadata.annotations.get_or_insert_default();
    annotations.insert(TEMPLATE_HASH_ANNOTATION.into(), record.template.clone().unwrap().0);
    annotations.insert(SUCCEEDED_AT_ANNOTATION.into(), record.succeeded_at.unwrap().to_string());
    assert_eq!(state(&good, 60, 130).health.unwrap().since, Some(at(100)));
    assert_eq!(kept(&good, &state(&good, 60, 130)), record, "nothing to write");

    good.status = None;
    assert_eq!(state(&good, 60, 130).health.unwrap().report, Report::ToApply, "it did not last");
    assert_eq!(state(&good, 60, 160).health.unwrap().report, Report::Succeeded, "it did");
}

#[test]
fn what_was_good_is_remembered_when_a_cluster_moves_and_is_the_template_itself_once_it_is_good_everywhere() {
    let good = work(false, &[("Applied", "True", 2), ("Available", "True", 2)]);
    let (old, new) = (Hash::from("old"), Hash::from("new"));
    let of = |good_everywhere: Option<&Hash>, runs: &Hash| {
        let soak = SignedDuration::ZERO;
        let rule =
            SuccessRule { wants: &new, good_everywhere, needs: SuccessNeeds::Healthy, soak, now: at(9) };
        cluster(&good, runs.clone(), &rule)
    };
    assert_eq!(of(None, &old).last_good, Some(old.clone()));
    assert_eq!(assigned(&new, &of(None, &old), at(9)).last_good, Some(old.clone()));
    assert_eq!(of(None, &new).last_good, None);
    assert_eq!(of(Some(&old), &new).last_good, Some(old.clone()));
    assert_eq!(of(Some(&new), &new).last_good, Some(new.clone()));
}

#[test]
fn the_null_times_of_go_make_no_other_template() {
    let spec = |metadata: Value| -> ManifestWorkSpec {
        let pod = json!({"metadata": metadata});
        let manifest = json!({"kind": "Deployment", "metadata": metadata, "spec": {"template": pod}});
        serde_json::from_value(json!({"workload": {"manifests": [manifest]}})).unwrap()
    };
    let go = content(&spec(json!({"name": "a", "creationTimestamp": null})));
    assert_eq!(hash(&go), hash(&content(&spec(json!({"name": "a"})))));
}

#[test]
fn a_label_alone_is_no_mark_of_ownership() {
    let set = Key::namespaced("ns", "set");
    assert_eq!(owner_label(&set), Ok("ns.set".into()));
    assert!(owner_label(&Key::namespaced("ns", "s".repeat(61))).is_err());
    let mut copy = work(false, &[]);
    assert!(!is_owned(&set, &copy));
    copy.metadata.generate_name = Some("set".into());
    assert!(is_owned(&set, &copy));
}
