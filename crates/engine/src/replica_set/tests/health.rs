use serde_json::{Value, json};

use crate::placement::filter::cel::Expressions;
use crate::replica_set::health::with_rules;
use crate::replica_set::{DesiredWork, SuccessNeeds, WorkRecord, content, hash, report};
use crate::rollout::cluster::Report;
use crate::work::health::has_rules;
use api::work::v1::{ConditionRuleType, ManifestConfigOption, ManifestWork, ManifestWorkSpec};
use api::work::v1alpha1::ManifestWorkReplicaSet;

fn manifest(version: &str, kind: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}})
}

fn template(configs: Value) -> ManifestWorkSpec {
    let manifests = [manifest("apps/v1", "Deployment"), manifest("v1", "ConfigMap")];
    serde_json::from_value(json!({"workload": {"manifests": manifests}, "manifestConfigs": configs})).unwrap()
}

/// Evaluates a live object with the rules added to its work. Returns if it is in progress, and if it is
/// degraded.
fn judged(version: &str, kind: &str, more: Value) -> (bool, bool) {
    let spec = json!({"workload": {"manifests": [manifest(version, kind)]}});
    let spec = with_rules(&serde_json::from_value(spec).unwrap());
    let mut live = manifest(version, kind);
    live["metadata"]["generation"] = json!(2);
    for (field, value) in more.as_object().unwrap().iter().filter(|(_, value)| !value.is_null()) {
        live[field] = value.clone();
    }
    let rules = &spec.manifest_configs[0].condition_rules;
    let holds = |condition: &str| {
        let rule = rules.iter().find(|rule| rule.condition == condition);
        rule.is_some_and(|rule| {
            let expressions = Expressions::compile(&rule.cel_expressions, &["object"]).unwrap();
            expressions.hold(&[("object", &live)]).unwrap()
        })
    };
    (holds("Progressing"), holds("Degraded"))
}

const BUSY: (bool, bool) = (true, false);
const HEALTHY: (bool, bool) = (false, false);
const FAILED: (bool, bool) = (true, true);

#[test]
fn a_deployment_is_healthy_when_its_newest_pods_are_available() {
    let check = |spec: Value, status: Value, want: (bool, bool)| {
        let found = judged("apps/v1", "Deployment", json!({"spec": spec, "status": status}));
        assert_eq!(found, want, "{spec} {status}");
    };
    let status = |observed: i64, updated: i64, available: i64| json!({"observedGeneration": observed, "updatedReplicas": updated, "availableReplicas": available});
    check(json!({"replicas": 2}), Value::Null, BUSY);
    check(json!({"replicas": 2}), json!({"observedGeneration": 2}), BUSY);
    check(json!({"replicas": 2}), status(1, 2, 2), BUSY);
    check(json!({"replicas": 2}), status(2, 1, 2), BUSY);
    check(json!({"replicas": 2}), status(2, 2, 1), BUSY);
    check(json!({"replicas": 2}), status(2, 2, 2), HEALTHY);
    check(json!({}), status(2, 1, 1), HEALTHY);
    check(json!({"replicas": 0}), json!({"observedGeneration": 2}), HEALTHY);
    check(json!({"replicas": 2, "paused": true}), status(2, 0, 2), BUSY);
    // The only new pod crashes, while the old one is available.
    let surge = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1,
        "unavailableReplicas": 1});
    check(json!({"replicas": 1}), surge, BUSY);
    let mut stuck = status(2, 1, 2);
    stuck["conditions"] =
        json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    check(json!({"replicas": 2}), stuck.clone(), FAILED);
    stuck["observedGeneration"] = json!(1);
    check(json!({"replicas": 2}), stuck, BUSY);
}

#[test]
fn other_workloads_are_healthy_as_kubectl_waits_for_them() {
    let check = |kind: &str, spec: Value, status: Value, want: (bool, bool)| {
        let version = match kind {
            "Job" => "batch/v1",
            "Pod" | "PersistentVolumeClaim" => "v1",
            "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
            "Widget" => "x.io/v1",
            _ => "apps/v1",
        };
        let found = judged(version, kind, json!({"spec": spec, "status": status}));
        assert_eq!(found, want, "{kind} {spec} {status}");
    };
    let set = |updated: i64, available: i64| json!({"observedGeneration": 2, "updatedReplicas": updated, "availableReplicas": available});
    let rolling = |partition: i64| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}});
    check("StatefulSet", json!({"replicas": 3}), set(2, 3), BUSY);
    check("StatefulSet", json!({"replicas": 3}), set(3, 3), HEALTHY);
    check("StatefulSet", rolling(1), set(2, 3), HEALTHY);
    check("StatefulSet", rolling(1), set(1, 3), BUSY);
    check("StatefulSet", json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}), set(0, 3), HEALTHY);
    let daemons = |updated: i64, available: i64| {
        json!({"observedGeneration": 2, "desiredNumberScheduled": 3,
        "updatedNumberScheduled": updated, "numberAvailable": available})
    };
    check("DaemonSet", json!({}), Value::Null, BUSY);
    check("DaemonSet", json!({}), daemons(2, 3), BUSY);
    check("DaemonSet", json!({}), daemons(3, 2), BUSY);
    check("DaemonSet", json!({}), daemons(3, 3), HEALTHY);
    check("ReplicaSet", json!({"replicas": 3}), Value::Null, BUSY);
    check("ReplicaSet", json!({"replicas": 3}), set(3, 2), BUSY);
    check("ReplicaSet", json!({"replicas": 3}), set(0, 3), HEALTHY);
    let pod = |phase: &str, ready: &str| json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
    check("Pod", json!({}), Value::Null, BUSY);
    check("Pod", json!({}), pod("Running", "False"), BUSY);
    check("Pod", json!({}), pod("Running", "True"), HEALTHY);
    check("Pod", json!({}), pod("Succeeded", "False"), HEALTHY);
    check("Pod", json!({}), pod("Failed", "False"), FAILED);
    let ended = |type_: &str| json!({"conditions": [{"type": type_, "status": "True"}]});
    check("Job", json!({}), Value::Null, BUSY);
    check("Job", json!({}), ended("Complete"), HEALTHY);
    check("Job", json!({}), ended("Failed"), FAILED);
    check("PersistentVolumeClaim", json!({}), Value::Null, BUSY);
    check("PersistentVolumeClaim", json!({}), json!({"phase": "Bound"}), HEALTHY);
    check("CustomResourceDefinition", json!({}), Value::Null, BUSY);
    check("CustomResourceDefinition", json!({}), ended("Established"), HEALTHY);
    check("Widget", json!({}), Value::Null, HEALTHY);
    check("Widget", json!({}), json!({"conditions": [{"type": "Ready", "status": "False"}]}), BUSY);
    check("Widget", json!({}), ended("Stalled"), FAILED);
}

#[test]
fn a_set_judges_workloads_that_its_author_does_not_and_its_template_stays_the_same() {
    let plain = template(json!([]));
    let with = with_rules(&plain);
    let named: Vec<_> =
        with.manifest_configs.iter().map(|one| one.resource_identifier.resource.as_str()).collect();
    assert_eq!(named, ["deployments"]);
    let rules = &with.manifest_configs[0].condition_rules;
    assert!(rules.iter().all(|rule| rule.r#type == ConditionRuleType::Cel));
    assert_eq!((hash(&content(&with)), content(&with)), (hash(&content(&plain)), plain));
    // A copied work has the template of the original, including the rules.
    assert_eq!(with_rules(&content(&with)), with);

    let identifier = json!({"group": "apps", "resource": "deployments", "name": "web", "namespace": "shop"});
    let feedback =
        json!([{"resourceIdentifier": identifier, "feedbackRules": [{"type": "WellKnownStatus"}]}]);
    let with = with_rules(&template(feedback.clone()));
    assert_eq!(with.manifest_configs.len(), 2);
    assert_eq!(
        with.manifest_configs[1..],
        template(feedback.clone()).manifest_configs,
        "the author's is last"
    );
    assert_eq!(content(&with), template(feedback));
}

#[test]
fn rules_of_the_author_apply_to_one_object_and_rules_of_the_hub_to_the_others() {
    let judged = |rule: Value, resource: &str, name: &str| {
        let group = if resource == "deployments" { "apps" } else { "" };
        let identifier = json!({"group": group, "resource": resource, "name": name, "namespace": "shop"});
        let plain = template(json!([{"resourceIdentifier": identifier, "conditionRules": [rule]}]));
        let with = with_rules(&plain);
        assert_eq!((content(&with), with_rules(&content(&with))), (plain.clone(), with.clone()));
        assert!(with.manifest_configs.ends_with(&plain.manifest_configs), "the author's is last");
        with.manifest_configs
    };
    let rule = |type_: &str| json!({"condition": type_, "type": "CEL", "celExpressions": ["true"]});
    let of_the_hub = |configs: &[ManifestConfigOption]| {
        let named: Vec<_> = configs[0].condition_rules.iter().map(|one| one.condition.clone()).collect();
        (configs.len(), configs[0].resource_identifier.resource.clone(), named)
    };
    let both = vec!["Progressing".to_owned(), "Degraded".to_owned()];
    let found = judged(rule("Progressing"), "configmaps", "web");
    assert_eq!(of_the_hub(&found), (2, "deployments".into(), both));
    // The author defines when the Deployment is done.
    for name in ["web", "w*"] {
        assert_eq!(judged(rule("Progressing"), "deployments", name).len(), 1);
    }
    // The author has another rule for it, and agents read both from the same entry.
    let found = judged(rule("Complete"), "deployments", "web");
    let all = ["Complete", "Progressing", "Degraded"].map(str::to_owned).to_vec();
    assert_eq!(of_the_hub(&found), (2, "deployments".into(), all));
}

/// Returns a work of generation 2 with conditions `(type, status, observedGeneration)`.
fn work(spec: &ManifestWorkSpec, conditions: &[(&str, &str, i64)]) -> ManifestWork {
    let condition = |(type_, status, generation): &(&str, &str, i64)| {
        json!({"type": type_, "status": status, "reason": "R", "message": "",
            "observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:00:01Z"})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "w", "namespace": "c", "generation": 2}, "spec": spec,
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

#[test]
fn the_health_of_workloads_counts_unless_it_is_switched_off_or_the_agent_knows_no_rules() {
    use SuccessNeeds::{Applied, Available, Healthy};
    let judged = with_rules(&template(json!([])));
    let there = [("Applied", "True", 2), ("Available", "True", 2)];
    let check = |more: &[(&str, &str, i64)], needs: SuccessNeeds, want: Report| {
        let conditions = [&there[..], more].concat();
        assert_eq!(report(&work(&judged, &conditions), needs), want, "{more:?} {needs:?}");
    };
    let (busy, failed) = (("Progressing", "True", 2), ("Degraded", "True", 2));
    check(&[busy], Healthy, Report::Progressing);
    check(&[busy, failed], Healthy, Report::Failed);
    check(&[("Progressing", "False", 2)], Healthy, Report::Succeeded);
    check(&[("Progressing", "False", 1)], Healthy, Report::ToApply);
    // An agent without support for rules reports that the objects exist, and the rollout continues as before.
    check(&[], Healthy, Report::Succeeded);
    // A deleted object was healthy while it existed.
    let gone = work(&judged, &[there[0], ("Available", "False", 2), ("Progressing", "False", 2)]);
    assert_eq!(report(&gone, Healthy), Report::Progressing);
    // OCM's agents report that a work is not degraded as long as one of its manifests is not.
    let mut hidden = work(&judged, &[there[0], there[1], busy, ("Degraded", "False", 2)]);
    let conditions = json!([{"type": "Degraded", "status": "True", "reason": "R", "message": "",
        "observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:00:01Z"}]);
    let manifest = json!({"resourceMeta": {"ordinal": 0}, "conditions": conditions});
    let status = hidden.status.as_mut().unwrap();
    status.resource_status.manifests = vec![serde_json::from_value(manifest).unwrap()];
    assert_eq!(report(&hidden, Healthy), Report::Failed);
    // A rejected object fails at once; other failures may be temporary.
    for (reason, want) in
        [("AppliedManifestRejected", Report::Failed), ("AppliedManifestFailed", Report::ToApply)]
    {
        let mut refused = work(&judged, &[("Applied", "False", 2)]);
        let conditions = json!([{"type": "Applied", "status": "False", "reason": reason, "message": "no",
            "observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:00:01Z"}]);
        let manifest = json!({"resourceMeta": {"ordinal": 0}, "conditions": conditions});
        refused.status.as_mut().unwrap().resource_status.manifests =
            vec![serde_json::from_value(manifest).unwrap()];
        for needs in [Healthy, Available, Applied] {
            assert_eq!(report(&refused, needs), want, "{reason}");
        }
    }
    for needs in [Applied, Available] {
        check(&[busy, failed], needs, Report::Succeeded);
    }
}

#[test]
fn a_set_says_whether_its_workloads_are_judged() {
    let set = |annotations: Value| -> ManifestWorkReplicaSet {
        let metadata = json!({"name": "s", "namespace": "n", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"placementRefs": [], "manifestWorkTemplate": {"workload": {}}}}))
            .unwrap()
    };
    let off = set(json!({"gitops.wheelwright.dev/workload-health": "ignore"}));
    assert_eq!(SuccessNeeds::new(&off, false), SuccessNeeds::Available);
    assert_eq!(SuccessNeeds::new(&off, true), SuccessNeeds::Applied);
    assert_eq!(SuccessNeeds::new(&set(json!({})), false), SuccessNeeds::Healthy);
}

#[test]
fn rules_come_with_a_new_template_and_not_with_an_upgrade_of_the_hub() {
    let set: ManifestWorkReplicaSet = serde_json::from_value(
        json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"placementRefs": [], "manifestWorkTemplate": {"workload": {}}}}),
    )
    .unwrap();
    let (spec, record) = (template(json!([])), WorkRecord::default());
    let wanted =
        |needs| DesiredWork { set: &set, owner: "n.s", placement: "p", spec: &spec, record: &record, needs };
    let (healthy, available) = (wanted(SuccessNeeds::Healthy), wanted(SuccessNeeds::Available));
    let without = available.work("c", None);
    assert_eq!(without.spec, spec);
    assert!(healthy.is_met_by(&without), "no work is written for the rules alone");
    assert_eq!(healthy.work("c", Some(&without)).spec, spec, "nor when its annotations change");
    let with = healthy.work("c", None);
    assert!(has_rules(&with.spec.manifest_configs) && healthy.is_met_by(&with) && available.is_met_by(&with));
    let mut other = with.clone();
    other.spec.workload.manifests.pop();
    assert!(!healthy.is_met_by(&other));
    assert_eq!(healthy.work("c", Some(&other)).spec, with.spec);
}
