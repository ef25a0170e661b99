use jiff::Timestamp;
use serde_json::{Value, json};

use super::cluster::MAX_WORK_NAME;
use super::*;
use api::names::argo as names;
use api::names::argo::{APPLICATION_UID_LABEL, SKIP_RECONCILE_ANNOTATION};
use object::Kind;
use reconcile::{Caches, Site};

const UID: &str = "1a2b3c4d-0000-0000-0000-000000000000";
const WORK: &str = "shop-1a2b3";

fn typed<K: Kind>(mut object: Value) -> K {
    object["metadata"]["resourceVersion"] = json!("7");
    serde_json::from_value(object).unwrap()
}

/// Returns an Application that has its finalizer, merged with a patch.
fn application(patch: &Value) -> Application {
    let mut application = json!({
        "metadata": {
            "name": "shop", "namespace": "argocd", "uid": UID,
            "labels": {PULL_LABEL: "true", "team": "a"},
            "annotations": {PULL_CLUSTER_ANNOTATION: "c1", SKIP_RECONCILE_ANNOTATION: "true", "note": "n"},
            "finalizers": [PULL_FINALIZER, RESOURCES_FINALIZERS[0]],
        },
        "spec": {"project": "default", "destination": {"name": "c1", "namespace": "shop"}},
    });
    json_patch::merge(&mut application, patch);
    typed(application)
}

/// Returns what is planned for the Application, with two accepted clusters and one that is not.
fn plan(application: &Application, works: Vec<ManifestWork>) -> Plan {
    let mut caches = Caches::default();
    let cluster = |name: &str, accepted: bool| {
        typed(json!({"metadata": {"name": name, "uid": name}, "spec": {"hubAcceptsClient": accepted}}))
    };
    let clusters = vec![cluster("c1", true), cluster("c2", true), cluster("c3", false)];
    caches.replace::<ManagedCluster>(Site::Hub, clusters, "7");
    caches.replace::<ManifestWork>(Site::Hub, works, "7");
    caches.replace::<Application>(Site::Hub, vec![application.clone()], "7");
    ArgoPullController::plan(&Key::of(application), &caches, Timestamp::UNIX_EPOCH).unwrap()
}

/// Returns the work that is created for an Application, as the hub has it.
fn work(application: &Application) -> ManifestWork {
    let plan = plan(application, Vec::new());
    let Some(Action::Create { object, .. }) = plan.steps.first().and_then(|step| step.first()) else {
        panic!("{plan:?}");
    };
    let mut work = serde_json::to_value(object).unwrap();
    json_patch::merge(&mut work, &json!({"metadata": {"uid": "w", "generation": 1}}));
    typed(work)
}

/// Returns the work with a status that the agent reports.
fn reported(mut work: ManifestWork, status: Value) -> ManifestWork {
    work.status = Some(serde_json::from_value(status).unwrap());
    work
}

fn json_of(plan: &Plan) -> Value {
    serde_json::to_value(plan).unwrap()
}

#[test]
fn an_application_has_its_finalizer_before_it_has_a_work() {
    let new = application(&json!({"metadata": {"finalizers": null}}));
    let actions = json_of(&plan(&new, Vec::new()))["steps"].clone();
    assert_eq!(actions[0][0]["patch"], json!({"metadata": {"finalizers": [PULL_FINALIZER]}}));
    assert_eq!(actions.as_array().unwrap().len(), 1, "{actions}");
    let other = application(&json!({"metadata": {"finalizers": null, "labels": {PULL_LABEL: null}}}));
    assert!(plan(&other, Vec::new()).is_empty());
}

#[test]
fn the_cluster_gets_the_application_without_what_is_for_the_hub() {
    let patch = json!({
        "metadata": {"annotations": {
            "argocd.argoproj.io/refresh": "hard", "apps.open-cluster-management.io/x": "y",
        }},
    });
    let work = work(&application(&patch));
    assert_eq!((work.namespace(), work.name()), ("c1", WORK));
    let payload = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": "shop", "namespace": "argocd", "labels": {"team": "a"}, "annotations": {"note": "n"},
            "finalizers": [RESOURCES_FINALIZERS[0]],
        },
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
        },
    });
    assert_eq!(json!(work.spec.workload.manifests), json!([payload]));
    let annotated = |name: &str, value: &str| {
        let application = application(&json!({"metadata": {"annotations": {name: value}}}));
        let work = self::work(&application);
        let config = json!(work.spec.manifest_configs[0].resource_identifier.namespace);
        let payload = json!(work.spec.workload.manifests[0]);
        (config, payload["metadata"]["namespace"].clone(), payload["spec"]["destination"].clone())
    };
    let (config, namespace, _) = annotated(names::PULL_NAMESPACE_ANNOTATION, "apps");
    assert_eq!((config, namespace), (json!("apps"), json!("apps")));
    let (.., named) = annotated("apps.open-cluster-management.io/destination-name", "in-cluster");
    assert_eq!(named, json!({"name": "in-cluster", "namespace": "shop"}));
    let (.., served) = annotated("apps.open-cluster-management.io/destination-server", "https://a");
    assert_eq!(served, json!({"server": "https://a", "namespace": "shop"}));
}

#[test]
fn an_application_that_no_cluster_can_run_keeps_what_it_has_and_says_why() {
    let annotation = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    let live = work(&application(&json!({})));
    for (patch, why) in [
        (json!({"metadata": {"labels": {PULL_LABEL: null}}}), "it has no label"),
        (annotation(SKIP_RECONCILE_ANNOTATION, Value::Null), "would run it too"),
        (annotation(PULL_CLUSTER_ANNOTATION, Value::Null), "no cluster is named"),
        (annotation(PULL_CLUSTER_ANNOTATION, json!("")), "\"\" does not exist"),
        (annotation(PULL_CLUSTER_ANNOTATION, json!("c3")), "is not accepted"),
        (json!({"metadata": {"name": "a".repeat(183)}}), "has 189 characters, and 188 fit"),
    ] {
        let plan = plan(&application(&patch), vec![live.clone()]);
        assert!(plan.steps.is_empty(), "{patch}: {plan:?}");
        assert!(plan.events[0].message.contains(why), "{patch}: {plan:?}");
        assert_eq!(plan.events[0].reason, "ApplicationNotPulled");
    }
    let fits = application(&json!({"metadata": {"name": "a".repeat(182)}}));
    assert_eq!(work(&fits).name().len(), MAX_WORK_NAME);
}

#[test]
fn a_work_that_is_not_that_of_the_application_stays() {
    let application = application(&json!({}));
    for metadata in [
        json!({"labels": {APPLICATION_UID_LABEL: "1a2b3c4d-another"}}),
        json!({"annotations": {"apps.open-cluster-management.io/hub-application-namespace": "other"}}),
        json!({"annotations": null}),
    ] {
        let mut live = json!(work(&application));
        json_patch::merge(&mut live, &json!({"metadata": metadata}));
        let plan = plan(&application, vec![typed(live)]);
        assert!(plan.steps.is_empty(), "{plan:?}");
        assert!(plan.events[0].message.contains("the work c1/shop-1a2b3 is of another"), "{plan:?}");
    }
}

#[test]
fn an_application_that_moves_leaves_no_work_on_its_former_cluster() {
    let live = work(&application(&json!({})));
    let moved = application(&json!({"metadata": {"annotations": {PULL_CLUSTER_ANNOTATION: "c2"}}}));
    let planned = json_of(&plan(&moved, vec![live.clone()]));
    assert_eq!(planned["steps"][0][0]["object"]["metadata"]["namespace"], "c2");
    assert_eq!(planned["steps"][1][0]["action"], "delete");
    assert_eq!(planned["steps"][1][0]["target"]["key"], json!({"namespace": "c1", "name": WORK}));

    let at = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}});
    let deleted = json_of(&plan(&application(&at), vec![live]));
    assert_eq!(deleted["steps"][0][0]["action"], "delete", "the work goes first");
    assert_eq!(deleted["steps"].as_array().unwrap().len(), 1);
}

#[test]
fn a_deleted_application_with_a_name_of_no_cluster_waits_for_no_work() {
    for name in ["", "../secrets", "a/b"] {
        let deleted = json!({"metadata": {
            "deletionTimestamp": "1970-01-01T00:00:00Z", "annotations": {PULL_CLUSTER_ANNOTATION: name},
        }});
        let planned = json_of(&plan(&application(&deleted), Vec::new()));
        assert_eq!(planned["steps"][0][0]["patch"], json!({"metadata": {"finalizers": []}}), "{name}");
    }
}

#[test]
fn an_operation_moves_to_the_work_and_starts_once() {
    let asking = application(&json!({"operation": {"sync": {"revision": "v1"}}}));
    let live = work(&asking);
    let operation = |work: &ManifestWork| work.spec.workload.manifests[0].get("operation").cloned();
    let version = json!({"name": "hub-version", "value": "7"});
    assert_eq!(operation(&live), Some(json!({"sync": {"revision": "v1"}, "info": [version]})));
    let removed = json_of(&plan(&asking, vec![live.clone()]));
    assert_eq!(removed["steps"][0][0]["patch"], json!({"operation": null}), "the hub's one goes last");
    assert_eq!(plan(&application(&json!({})), vec![live.clone()]), Plan::nothing(), "it stays in the work");

    let changed = application(&json!({"spec": {"project": "other"}}));
    let manifests = |live: ManifestWork| {
        let planned = json_of(&plan(&changed, vec![live]));
        planned["steps"][0][0]["patch"]["spec"]["workload"]["manifests"][0].clone()
    };
    assert!(manifests(live.clone())["operation"].is_object(), "the agent may not have seen it");
    let applied = json!({"conditions": [{
        "type": "Applied", "status": "True", "reason": "", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }]});
    let next = manifests(reported(live, applied));
    assert_eq!((&next["spec"]["project"], next.get("operation")), (&json!("other"), None));
}

#[test]
fn the_status_has_what_the_agent_reports_and_is_written_where_it_differs() {
    let values = [
        ("healthStatus", "Healthy"),
        ("syncStatus", "Synced"),
        ("syncRevision", "v1"),
        ("operationStatePhase", "Succeeded"),
        ("operationStateStartedAt", "2026-01-02T03:04:05Z"),
    ];
    let status = |values: &[(&str, &str)]| {
        let value = |(name, value): &(&str, &str)| {
            let field = json!({"type": "String", "string": value});
            json!({"name": name, "fieldValue": field})
        };
        let values: Vec<_> = values.iter().map(value).collect();
        json!({"resourceStatus": {"manifests": [{
            "resourceMeta": {"ordinal": 0}, "conditions": [], "statusFeedback": {"values": values},
        }]}})
    };
    let idle = application(&json!({}));
    let patch = |live: &Value, values: &[(&str, &str)]| {
        let application = application(&json!({"status": live}));
        let planned = json_of(&plan(&application, vec![reported(work(&idle), status(values))]));
        planned["steps"].get(0).map(|step| step[0]["patch"]["status"].clone())
    };
    let whole = json!({
        "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "v1"},
        "operationState": {
            "operation": {}, "phase": "Succeeded", "startedAt": "2026-01-02T03:04:05Z",
        },
    });
    assert_eq!(patch(&Value::Null, &values), Some(whole.clone()));
    let mut live = whole.clone();
    live["health"]["message"] = json!("of another writer");
    assert_eq!(patch(&live, &values), None);
    live["sync"]["revision"] = json!("v0");
    assert_eq!(patch(&live, &values), Some(whole));
    assert_eq!(patch(&Value::Null, &[]), None);
    let partly = [("syncRevision", "v1"), ("operationStatePhase", "Running")];
    assert_eq!(patch(&Value::Null, &partly), None, "Argo CD's definition would refuse it");
}
