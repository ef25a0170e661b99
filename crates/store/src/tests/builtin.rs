//! Tests of built-in kinds: their defaults and checks, as observed on a real API server.

use serde_json::json;

use super::*;

fn deployment(image: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": image }] } },
    } })
}

#[test]
fn a_deployment_is_filled_in() {
    let mut world = World::new();
    let container = json!({ "name": "c", "image": "i", "resources": {}, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "imagePullPolicy": "Always" });
    let expected = json!({ "replicas": 1, "selector": { "matchLabels": { "a": "b" } }, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [container], "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler" } },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "25%", "maxSurge": "25%" } } });
    let object = world.create(deployment("i")).unwrap().object;
    assert_eq!(object.at(&["spec"]), Some(&expected));
}

#[test]
fn a_deployment_is_patched_strategically() {
    let mut world = World::new();
    let target = world.target(&deployment("i"));
    world.create(deployment("i:1")).unwrap();
    let patch = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i:2" }, { "name": "d", "image": "e:1" }] } } } });
    let object = world
        .store
        .patch(&target, &Patch::Strategic(patch), &WriteOptions::manager("t"), world.now)
        .unwrap()
        .object;
    let images: Vec<_> = object
        .at(&["spec", "template", "spec", "containers"])
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["image"].clone())
        .collect();
    assert_eq!((images, object.generation()), (vec![json!("i:2"), json!("e:1")], 2));
}

#[test]
fn a_deployment_is_checked() {
    let mut world = World::new();
    let mut wrong = deployment("i");
    wrong["spec"]["template"]["metadata"]["labels"]["a"] = "c".into();
    let message = "Deployment.apps \"d\" is invalid: spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`";
    refused(world.create(wrong), 422, "Invalid", message);
    let mut wrong = deployment("i");
    wrong["spec"]["replicas"] = "x".into();
    let message = "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field Deployment.spec.replicas of type int32";
    refused(world.create(wrong), 400, "BadRequest", message);
    world.create(deployment("i")).unwrap();
    let mut other = deployment("i");
    other["spec"]["selector"]["matchLabels"] = json!({ "a": "b", "c": "d" });
    other["spec"]["template"]["metadata"]["labels"] = json!({ "a": "b", "c": "d" });
    let (code, _, message) = refusal(world.update(other));
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.selector: Invalid value: ") && message.ends_with("field is immutable"),
        "{message}"
    );
}

fn filled(body: Value, path: &[&str]) -> Value {
    World::new().create(body).unwrap().object.at(path).cloned().unwrap_or_default()
}

#[test]
fn other_kinds_are_filled_in() {
    let meta = json!({ "name": "x" });
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": { "a": "b" } });
    assert_eq!(
        (filled(secret.clone(), &["data"]), filled(secret, &["type"])),
        (json!({ "a": "Yg==" }), json!("Opaque"))
    );
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": { "ports": [{ "port": 80 }] } });
    let ports = json!([{ "port": 80, "protocol": "TCP", "targetPort": 80 }]);
    assert_eq!(
        (filled(service.clone(), &["spec", "ports"]), filled(service, &["spec", "type"])),
        (ports, json!("ClusterIP"))
    );
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
        "subjects": [{ "kind": "User", "name": "u" }, { "kind": "ServiceAccount", "name": "s", "namespace": "default" }],
        "roleRef": { "kind": "Role", "name": "r" } });
    assert_eq!(filled(binding.clone(), &["roleRef", "apiGroup"]), json!("rbac.authorization.k8s.io"));
    assert_eq!(filled(binding, &["subjects"])[0]["apiGroup"], json!("rbac.authorization.k8s.io"));
}

#[test]
fn wrong_types_are_refused_when_they_are_read() {
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string";
    refused(World::new().create(config_map("a", json!({ "x": 1 }))), 400, "BadRequest", message);
}

#[test]
fn immutable_fields_cannot_change() {
    let mut world = World::new();
    let mut fixed = config_map("a", json!({ "x": "1" }));
    fixed["immutable"] = true.into();
    let target = world.target(&fixed);
    world.create(fixed).unwrap();
    let message = "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    refused(world.merge(&target, json!({ "data": { "x": "2" } })), 422, "Invalid", message);
}

#[test]
fn a_decision_on_a_signing_request_is_made_once_and_where_it_belongs() {
    let mut world = World::new();
    let request = json!({ "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": "r" }, "spec": {
        "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"] } });
    let target = world.target(&request);
    let created = world.create(request).unwrap().object;
    assert_eq!(created.at(&["spec", "username"]), Some(&json!("system:admin")));
    let decide = |type_: &str| json!({ "status": { "conditions": [{ "type": type_, "status": "True", "reason": "Because" }] } });
    let ignored = world.merge(&target.clone().sub("status"), decide("Approved")).unwrap().object;
    assert_eq!(ignored.at(&["status", "conditions"]), None);
    world.merge(&target.clone().sub("approval"), decide("Approved")).unwrap();
    let removed = world.merge(&target.clone().sub("approval"), decide("Denied"));
    assert_eq!(refusal(removed).0, 422);
    let signed = world
        .merge(&target.clone().sub("status"), json!({ "status": { "certificate": "eA==" } }))
        .unwrap()
        .object;
    assert_eq!(signed.at(&["status", "certificate"]), Some(&json!("eA==")));
    assert_eq!(signed.at(&["status", "conditions"]).unwrap()[0]["type"], "Approved");
}

#[test]
fn an_event_is_seen_in_both_groups() {
    let mut world = World::new();
    let event = json!({ "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" }, "note": "hello", "reason": "R", "type": "Normal",
        "regarding": { "kind": "Pod", "name": "x" }, "action": "A", "reportingController": "c", "eventTime": "2026-01-02T03:04:05.000000Z" });
    let written = world.create(event.clone()).unwrap();
    assert_eq!((written.object.api_version(), written.warnings.len()), ("events.k8s.io/v1", 0));
    let core =
        world.store.get(&ResourcePath::resource("", "v1", "events").within("default").named("e")).unwrap();
    assert_eq!(
        (core.at(&["message"]), core.at(&["involvedObject", "name"])),
        (Some(&json!("hello")), Some(&json!("x")))
    );
    let own = world.store.get(&world.target(&event)).unwrap();
    assert_eq!(own.at(&["note"]), Some(&json!("hello")));
    let options = ListOptions { fields: "involvedObject.name=x".into(), ..ListOptions::default() };
    assert_eq!(
        world.store.list(&ResourcePath::resource("", "v1", "events"), &options).unwrap().items.len(),
        1
    );
}
