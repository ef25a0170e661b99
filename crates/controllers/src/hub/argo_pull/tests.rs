use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::cluster::MAX_WORK_NAME;
use super::*;
use api::names::WORK_FINALIZER;
use api::names::argo as names;
use api::names::argo::{APPLICATION_UID_LABEL, RESOURCES_FINALIZERS, SKIP_RECONCILE_ANNOTATION};
use object::Kind;
use reconcile::{Caches, Site};

mod again;

const UID: &str = "1a2b3c4d-0000-0000-0000-000000000000";
const WORK: &str = "shop-1a2b3";

fn typed<K: Kind>(mut object: Value) -> K {
    object["metadata"]["resourceVersion"] = json!("7");
    serde_json::from_value(object).unwrap()
}

/// Returns an Application with its finalizer, merged with a patch.
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

/// Returns a hub with the Application, two accepted clusters, an unaccepted one, and the hub itself.
fn caches(application: &Application, works: Vec<ManifestWork>) -> Caches {
    let mut caches = Caches::default();
    let cluster = |name: &str, accepted: bool| {
        typed(json!({"metadata": {"name": name, "uid": name}, "spec": {"hubAcceptsClient": accepted}}))
    };
    let hub = typed(json!({
        "metadata": {"name": "hub", "uid": "hub", "labels": {"local-cluster": "true"}},
        "spec": {"hubAcceptsClient": true},
    }));
    let clusters = vec![cluster("c1", true), cluster("c2", true), cluster("c3", false), hub];
    caches.replace::<ManagedCluster>(Site::Hub, clusters, "7");
    caches.replace::<ManifestWork>(Site::Hub, works, "7");
    caches.replace::<Application>(Site::Hub, vec![application.clone()], "7");
    caches
}

fn planned(application: &Application, caches: &Caches) -> Plan {
    ArgoPullController::plan(&Key::of(application), caches, Timestamp::UNIX_EPOCH).unwrap()
}

fn plan(application: &Application, works: Vec<ManifestWork>) -> Plan {
    planned(application, &caches(application, works))
}

/// Returns the work that is created for an Application, as stored on the hub.
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

/// Returns a status with conditions that the agent reports for the first generation.
fn conditions(conditions: &[(&str, &str)]) -> Value {
    let condition = |(type_, status): &(&str, &str)| {
        json!({
            "type": type_, "status": status, "reason": "", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        })
    };
    json!({"conditions": conditions.iter().map(condition).collect::<Vec<_>>()})
}

/// Returns the work after the agent has applied it.
fn applied(work: ManifestWork) -> ManifestWork {
    reported(work, conditions(&[("Applied", "True")]))
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
        "metadata": {
            "labels": {"app.kubernetes.io/instance": "root", "argocd.argoproj.io/application-set-name": "s"},
            "annotations": {
                "argocd.argoproj.io/refresh": "hard", "apps.open-cluster-management.io/x": "y",
                "gitops.wheelwright.dev/config-repo": "config/fleet",
                "gitops.wheelwright.dev/applied-digest": "d",
            },
        },
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
fn a_null_in_the_values_of_a_chart_reaches_the_cluster() {
    let mut asking = json!(application(&json!({})));
    let values = json!({"limits": {"cpu": null}});
    asking["spec"]["source"] = json!({"helm": {"valuesObject": values}});
    let asking = typed(asking);
    let mut live = json!(work(&application(&json!({}))));
    let others = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
    json_patch::merge(&mut live, &json!({"metadata": others}));
    let planned = json_of(&plan(&asking, vec![typed(live)]));
    let replace = &planned["steps"][0][0];
    assert_eq!((&replace["action"], &replace["site"]), (&json!("replace"), &json!("Hub")));
    let (metadata, spec) = (&replace["object"]["metadata"], &replace["object"]["spec"]);
    assert_eq!((&metadata["uid"], &metadata["resourceVersion"]), (&json!("w"), &json!("7")));
    assert_eq!((&metadata["labels"]["a"], &metadata["annotations"]["c"]), (&json!("b"), &json!("d")));
    let source = &spec["workload"]["manifests"][0]["spec"]["source"];
    assert_eq!(source["helm"]["valuesObject"].to_string(), values.to_string());
    let written = applied(typed(replace["object"].clone()));
    assert_eq!(plan(&asking, vec![written]), Plan::nothing(), "it is written once");
}

#[test]
fn an_application_that_no_cluster_can_run_keeps_what_it_has_and_says_why() {
    let annotation = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    let live = work(&application(&json!({})));
    for (patch, reason) in [
        (json!({"metadata": {"labels": {PULL_LABEL: null}}}), "it no longer has the label"),
        (annotation(SKIP_RECONCILE_ANNOTATION, Value::Null), "would run it too"),
        (annotation(PULL_CLUSTER_ANNOTATION, Value::Null), "no cluster is named"),
        (annotation(PULL_CLUSTER_ANNOTATION, json!("")), "\"\" does not exist"),
        (annotation(PULL_CLUSTER_ANNOTATION, json!("c3")), "is not accepted"),
        (annotation(PULL_CLUSTER_ANNOTATION, json!("hub")), "would overwrite itself; name another namespace"),
        (json!({"metadata": {"name": "a".repeat(183)}}), "has 189 characters, but at most 188 are allowed"),
    ] {
        let plan = plan(&application(&patch), vec![live.clone()]);
        assert!(plan.steps.is_empty(), "{patch}: {plan:?}");
        assert!(plan.events[0].message.contains(reason), "{patch}: {plan:?}");
        assert_eq!(plan.events[0].reason, "ApplicationNotPulled");
    }
    let fits = application(&json!({"metadata": {"name": "a".repeat(182)}}));
    assert_eq!(work(&fits).name().len(), MAX_WORK_NAME);
    let elsewhere = json!({"metadata": {"annotations": {
        PULL_CLUSTER_ANNOTATION: "hub", names::PULL_NAMESPACE_ANNOTATION: "apps",
    }}});
    assert_eq!(work(&application(&elsewhere)).namespace(), "hub");
}

#[test]
fn a_work_of_another_owner_stays() {
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
        assert!(
            plan.events[0].message.contains("the work c1/shop-1a2b3 does not belong to this Application"),
            "{plan:?}"
        );
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
    let removed = json_of(&plan(&asking, vec![applied(live.clone())]));
    assert_eq!(removed["steps"][0][0]["patch"], json!({"operation": null}), "the hub's one goes last");
    let idle = plan(&application(&json!({})), vec![applied(live.clone())]);
    assert_eq!(idle, Plan::nothing(), "it stays in the work");

    let changed = application(&json!({"spec": {"project": "other"}}));
    let manifests = |live: ManifestWork| {
        let planned = json_of(&plan(&changed, vec![live]));
        planned["steps"][0][0]["object"]["spec"]["workload"]["manifests"][0].clone()
    };
    assert!(manifests(live.clone())["operation"].is_object(), "the agent may not have seen it");
    let next = manifests(applied(live));
    assert_eq!((&next["spec"]["project"], next.get("operation")), (&json!("other"), None));
}

#[test]
fn the_status_shows_the_report_of_the_agent_and_is_written_if_it_differs() {
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
        let mut status = conditions(&[("Applied", "True")]);
        status["resourceStatus"] = json!({"manifests": [{
            "resourceMeta": {"ordinal": 0}, "conditions": [], "statusFeedback": {"values": values},
        }]});
        status
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

#[test]
fn the_status_is_unknown_until_the_agent_has_applied_the_work() {
    let status = |health: &str, sync: &str| json!({"health": {"status": health}, "sync": {"status": sync}});
    let with = |status: Value| application(&json!({"status": status, "operation": {"sync": {}}}));
    let (old, unknown) = (with(status("Healthy", "Synced")), with(status("Progressing", "Unknown")));
    let live = work(&old);
    let mut terminating = applied(live.clone());
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let mut changed = applied(live.clone());
    changed.metadata.generation = Some(2);
    let patch = |application: &Application, works: Vec<ManifestWork>| {
        let planned = json_of(&plan(application, works));
        let last = planned["steps"].as_array().and_then(|steps| steps.last());
        last.map(|step| step[0]["patch"].clone())
    };
    let whole = json!({"status": status("Progressing", "Unknown"), "operation": null});
    for works in [vec![], vec![live], vec![changed]] {
        assert_eq!(patch(&old, works.clone()), Some(whole.clone()), "{works:?}");
        assert_eq!(patch(&unknown, works), Some(json!({"operation": null})), "it is written once");
    }
    let expected = json!({"status": status("Progressing", "Unknown")});
    assert_eq!(patch(&old, vec![terminating.clone()]), Some(expected), "the next work has the operation");
    assert_eq!(patch(&unknown, vec![terminating]), None);
}

/// Returns an Application that is being deleted, with our finalizer and the given ones.
fn deleted(finalizers: &[&str]) -> Application {
    let finalizers: Vec<&str> = [PULL_FINALIZER].iter().chain(finalizers).copied().collect();
    let at = "1970-01-01T00:00:00Z";
    application(&json!({"metadata": {"deletionTimestamp": at, "finalizers": finalizers}}))
}

/// Returns the work of an Application after an agent has seen it.
fn seen() -> ManifestWork {
    let mut work = work(&application(&json!({})));
    work.metadata.finalizers = Some(vec![WORK_FINALIZER.to_owned()]);
    work
}

#[test]
fn the_cluster_gets_the_finalizers_of_a_deletion_before_the_work_goes() {
    for (finalizers, wanted) in [
        (vec![], Value::Null),
        (vec![RESOURCES_FINALIZERS[1]], json!([RESOURCES_FINALIZERS[1]])),
        (vec!["foregroundDeletion"], Value::Null),
    ] {
        let deleted = deleted(&finalizers);
        let planned = json_of(&plan(&deleted, vec![applied(seen())]));
        assert_eq!(planned["steps"].as_array().unwrap().len(), 1, "{planned}");
        let replace = &planned["steps"][0][0];
        assert_eq!(replace["action"], "replace", "{planned}");
        let payload = &replace["object"]["spec"]["workload"]["manifests"][0];
        assert_eq!(payload["metadata"]["finalizers"], wanted, "{planned}");
        assert_eq!(payload["metadata"]["labels"], json!({"team": "a"}), "nothing else changes");

        let mut written: ManifestWork = typed(replace["object"].clone());
        written.metadata.generation = Some(2);
        assert_eq!(plan(&deleted, vec![written.clone()]), Plan::nothing(), "the agent has the old ones");
        written.metadata.generation = Some(1);
        let planned = json_of(&plan(&deleted, vec![written.clone()]));
        assert_eq!(planned["steps"][0][0]["action"], "delete", "{planned}");
        let refused = plan(&deleted, vec![reported(written, conditions(&[("Applied", "False")]))]);
        assert!(refused.steps.is_empty(), "{refused:?}");
        assert!(refused.events[0].message.contains("delete the work c1/shop-1a2b3"), "{refused:?}");
    }
}

#[test]
fn a_deletion_waits_for_no_cluster_that_cannot_have_the_application() {
    let absent = conditions(&[("Applied", "False"), ("Available", "False")]);
    let on = |cluster: &str| {
        let mut work = seen();
        work.metadata.namespace = Some(cluster.to_owned());
        work
    };
    let unseen = work(&application(&json!({})));
    for work in [on("c3"), on("gone"), unseen, reported(seen(), absent)] {
        let planned = json_of(&plan(&deleted(&[]), vec![work]));
        assert_eq!(planned["steps"][0][0]["action"], "delete", "{planned}");
    }
}
