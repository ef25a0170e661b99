use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::replica_set::{
    DesiredWork, Recovery, SuccessNeeds, SuccessRule, WorkRecord, assigned, cluster, content, hash, is_owned,
    is_recorded, name, owner_label, snapshot, snapshot_spec, unchanged,
};
use crate::rollout::cluster::{Cluster, Hash, Report};
use api::names::{
    ASSIGNED_AT_ANNOTATION, LAST_GOOD_TEMPLATE_ANNOTATION, REMOVAL_DECIDED_ANNOTATION,
    SUCCEEDED_AT_ANNOTATION, TEMPLATE_HASH_ANNOTATION, WORK_PLACEMENT_LABEL, WORK_REPLICA_SET_LABEL,
};
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Key, Metadata as _};

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

/// OCM waits forever for a condition that no controller sets.
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

/// In OCM, a condition of the previous template may release the next cluster.
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
    let record = unchanged(&good, &first);
    let annotations = good.metadata.annotations.get_or_insert_default();
    annotations.insert(TEMPLATE_HASH_ANNOTATION.into(), record.template.clone().unwrap().0);
    annotations.insert(SUCCEEDED_AT_ANNOTATION.into(), record.succeeded_at.unwrap().to_string());
    assert_eq!(state(&good, 60, 130).health.unwrap().since, Some(at(100)));
    assert_eq!(unchanged(&good, &state(&good, 60, 130)), record, "nothing to write");

    good.status = None;
    assert_eq!(state(&good, 60, 130).health.unwrap().report, Report::ToApply, "it did not last");
    assert_eq!(state(&good, 60, 160).health.unwrap().report, Report::Succeeded, "it did");
}

#[test]
fn the_last_good_template_survives_a_move_until_the_new_one_is_good_everywhere() {
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
fn null_times_of_go_do_not_change_the_template() {
    let spec = |metadata: Value| -> ManifestWorkSpec {
        let pod = json!({"metadata": metadata});
        let manifest = json!({"kind": "Deployment", "metadata": metadata, "spec": {"template": pod}});
        serde_json::from_value(json!({"workload": {"manifests": [manifest]}})).unwrap()
    };
    let go = content(&spec(json!({"name": "a", "creationTimestamp": null})));
    assert_eq!(hash(&go), hash(&content(&spec(json!({"name": "a"})))));
    assert_ne!(hash(&go), hash(&content(&spec(json!({"name": "b"})))));
}

fn set(labels: Value) -> ManifestWorkReplicaSet {
    let metadata = json!({"name": "set", "namespace": "ns", "uid": "u", "labels": labels});
    let spec = json!({"placementRefs": [], "manifestWorkTemplate": {"workload": {}}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn a_snapshot_is_named_by_its_template_and_read_only_as_that() {
    let spec: ManifestWorkSpec =
        serde_json::from_value(json!({"workload": {"manifests": [{"kind": "ConfigMap"}]}})).unwrap();
    let (set, hash) = (set(json!({})), hash(&spec));
    let key = Key::namespaced("ns", "set");
    let revision = snapshot(&set, &hash, &spec, "ns.set");
    assert_eq!(Key::of(&revision), Key::namespaced("ns", format!("set.{}", hash.0)));
    assert_eq!(revision.label(WORK_REPLICA_SET_LABEL), Some("ns.set"));
    let owner = &revision.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.name.as_str(), owner.uid.as_str(), owner.controller), ("set", "u", Some(true)));
    assert_eq!(snapshot_spec(&key, &revision), Some((hash, spec)));
    let renamed = |name: &str| {
        let mut renamed = revision.clone();
        renamed.metadata.name = Some(name.into());
        renamed
    };
    assert_eq!(snapshot_spec(&key, &renamed("set.0123")), None, "the content is that of another template");
    assert_eq!(snapshot_spec(&key, &renamed(&revision.name().replace("set", "other"))), None);
}

#[test]
fn a_work_has_the_labels_of_its_set_without_labels_of_tools() {
    let tools = [
        "app.kubernetes.io/instance",
        "app.kubernetes.io/managed-by",
        "argocd.argoproj.io/x",
        "helm.sh/chart",
    ];
    let mut labels = json!({"team": "a", "app.kubernetes.io/instance-of": "b", "helm.sh": "c"});
    labels.as_object_mut().unwrap().extend(tools.map(|tool| (tool.to_owned(), json!("x"))));
    let (set, record) = (set(labels), WorkRecord::default());
    let spec = ManifestWorkSpec::default();
    let needs = SuccessNeeds::Available;
    let wanted =
        DesiredWork { set: &set, owner: "ns.set", placement: "p", spec: &spec, record: &record, needs };
    let work = wanted.work("c1", None);
    assert_eq!(Key::of(&work), Key::namespaced("c1", name(&Key::namespaced("ns", "set"))));
    assert!(work.name().starts_with("set-") && work.name().len() == "set-".len() + 10, "{}", work.name());
    assert_ne!(work.name(), name(&Key::namespaced("other", "set")), "two sets may have one name");
    let labels: Vec<(&str, &str)> =
        work.metadata.labels.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("app.kubernetes.io/instance-of", "b"),
            ("helm.sh", "c"),
            ("team", "a"),
            (WORK_REPLICA_SET_LABEL, "ns.set"),
            (WORK_PLACEMENT_LABEL, "p"),
        ]
    );
    assert!(is_owned(&Key::namespaced("ns", "set"), &work) && wanted.is_met_by(&work));
    let mut moved = work.clone();
    moved.metadata.labels.as_mut().unwrap().insert("team".into(), "b".into());
    assert!(!wanted.is_met_by(&moved));
    let mut leaving = work.clone();
    leaving
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(REMOVAL_DECIDED_ANNOTATION.into(), "true".into());
    assert!(!wanted.is_met_by(&leaving), "a cluster that is selected keeps its work");
    assert_eq!(wanted.work("c1", Some(&leaving)).annotation(REMOVAL_DECIDED_ANNOTATION), None);
}

#[test]
fn a_work_records_since_when_its_template_succeeds_or_that_it_does_not() {
    let mut good = work(false, &[("Applied", "True", 2), ("Available", "True", 2)]);
    let seen = state(&good, 60, 100);
    assert_eq!((seen.name.as_str(), seen.wants.0.as_str(), seen.runs_since), ("c", "new", None));
    assert!(!is_recorded(&good, &seen));
    let mark = |work: &mut ManifestWork, template: &str, since: i64| {
        let annotations = work.metadata.annotations.get_or_insert_default();
        annotations.insert(TEMPLATE_HASH_ANNOTATION.into(), template.into());
        annotations.insert(ASSIGNED_AT_ANNOTATION.into(), at(50).to_string());
        annotations.insert(SUCCEEDED_AT_ANNOTATION.into(), at(since).to_string());
    };
    mark(&mut good, "new", 100);
    assert!(is_recorded(&good, &seen));
    assert_eq!(state(&good, 60, 130).runs_since, Some(at(50)));
    mark(&mut good, "old", 100);
    assert!(!is_recorded(&good, &seen), "the record is about another template");
    assert_eq!(state(&good, 60, 130).runs_since, None);
}

#[test]
fn a_work_that_recovers_soaks_again_and_a_second_relapse_still_counts_from_its_first_success() {
    let mark = |work: &mut ManifestWork, record: &WorkRecord| {
        let annotations = work.metadata.annotations.get_or_insert_default();
        for (name, value) in record.annotations() {
            match value {
                Some(value) => annotations.insert(name.into(), value),
                None => annotations.remove(name),
            };
        }
    };
    let record = WorkRecord {
        template: Some(Hash("new".into())),
        assigned_at: Some(at(50)),
        succeeded_at: Some(at(100)),
        ..WorkRecord::default()
    };
    let (mut good, mut down) = (
        work(false, &[("Applied", "True", 2), ("Available", "True", 2)]),
        work(false, &[("Applied", "True", 2), ("Available", "False", 2)]),
    );
    let since = |cluster: &Cluster| cluster.health.as_ref().unwrap().since;
    mark(&mut down, &record);
    let relapsed = state(&down, 60, 170);
    assert!(matches!(relapsed.health.as_ref().unwrap().report, Report::Relapsed { .. }), "{relapsed:?}");
    assert!(!is_recorded(&down, &relapsed));
    let pending = unchanged(&down, &relapsed);
    assert_eq!((pending.recovery, pending.succeeded_at), (Some(Recovery::Pending), Some(at(100))));
    mark(&mut good, &pending);
    let recovered = state(&good, 60, 180);
    assert_eq!(since(&recovered), Some(at(180)));
    assert!(!is_recorded(&good, &recovered));
    let record = unchanged(&good, &recovered);
    assert_eq!((record.recovery, record.succeeded_at), (Some(Recovery::At(at(180))), Some(at(100))));
    mark(&mut good, &record);
    let later = state(&good, 60, 190);
    assert_eq!(since(&later), Some(at(180)));
    assert!(is_recorded(&good, &later));
    mark(&mut down, &record);
    let again = state(&down, 60, 200);
    assert_eq!(since(&again), Some(at(100)), "{again:?}");
    assert_eq!(unchanged(&down, &again).recovery, Some(Recovery::Pending));
}

#[test]
fn a_success_of_what_a_cluster_ran_before_is_its_last_good_template() {
    let failing = work(false, &[("Applied", "True", 2)]);
    let good = work(false, &[("Applied", "True", 2), ("Available", "True", 2)]);
    let last_good = |work: &ManifestWork, runs: &str| {
        let (wants, soak) = (Hash::from("new"), SignedDuration::ZERO);
        let needs = SuccessNeeds::Healthy;
        let rule = SuccessRule { wants: &wants, good_everywhere: None, needs, soak, now: at(9) };
        cluster(work, Hash::from(runs), &rule).last_good.map(|hash| hash.0)
    };
    assert_eq!(last_good(&good, "old").as_deref(), Some("old"));
    assert_eq!(last_good(&failing, "old"), None);
    assert_eq!(last_good(&good, "new"), None, "it is what is wanted now");
    let recorded = |template: &str| {
        let mut work = failing.clone();
        let annotations = work.metadata.annotations.get_or_insert_default();
        annotations.insert(LAST_GOOD_TEMPLATE_ANNOTATION.into(), template.into());
        last_good(&work, "old")
    };
    assert_eq!(recorded("before").as_deref(), Some("before"));
    assert_eq!(recorded("new"), None, "it is what is wanted now");
}

#[test]
fn a_label_alone_does_not_mark_ownership() {
    let set = Key::namespaced("ns", "set");
    assert_eq!(owner_label(&set), Ok("ns.set".into()));
    assert!(owner_label(&Key::namespaced("ns", "s".repeat(61))).is_err());
    let mut copy = work(false, &[]);
    assert!(!is_owned(&set, &copy));
    copy.metadata.generate_name = Some("set".into());
    assert!(is_owned(&set, &copy));
}
