//! Objects move from Argo CD to a ConfigRepo and back, with each of Argo CD's three tracking methods.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use super::{FLEET, Hub, NAMESPACE, config_map, placement};
use crate::kube::helm;
use crate::wait::eventually;

const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MARK: &str = api::names::CONFIG_REPO_ANNOTATION;

/// Returns the repository's objects by kind.
async fn objects(hub: &Hub) -> BTreeMap<&'static str, Value> {
    let names = [("ConfigMap", "settings"), ("Placement", "all")];
    let mut found = BTreeMap::new();
    for (kind, name) in names {
        found.insert(kind, hub.get(kind, FLEET, name).await);
    }
    found
}

fn uids(objects: &BTreeMap<&'static str, Value>) -> Vec<Value> {
    objects.values().map(|object| object["metadata"]["uid"].clone()).collect()
}

/// Returns true if an object has one of Argo CD's annotations or labels.
fn is_tracked(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["annotations"][TRACKING_ID].is_string() || metadata["labels"][INSTANCE].is_string()
}

fn is_marked(object: &Value) -> bool {
    object["metadata"]["annotations"][MARK].is_string()
}

/// Returns doctor's findings about Argo CD.
fn doctor(hub: &Hub) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["doctor", "-o", "json", "--kubeconfig"]).arg(&hub.kubeconfig);
    let findings: Vec<Value> = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    findings.into_iter().find(|finding| finding["check"] == "argo cd").unwrap()
}

async fn set(hub: &Hub, repo: &str, spec: Value) {
    hub.patch("ConfigRepo", helm::NAMESPACE, repo, json!({"spec": spec})).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn objects_go_from_argo_cd_and_back_in_each_tracking_mode() {
    let mut hub = Hub::start("argo-hand-over").await;
    for (method, by_annotation, by_label) in
        [("annotation", true, false), ("annotation+label", true, true), ("label", false, true)]
    {
        let setting = json!({"data": {"application.resourceTrackingMethod": method}});
        hub.patch("ConfigMap", NAMESPACE, "argocd-cm", setting).await;
        hub.argo_cd.restart();
        goes_and_comes_back(&hub, method, by_annotation, by_label).await;
    }
}

async fn goes_and_comes_back(hub: &Hub, method: &str, by_annotation: bool, by_label: bool) {
    let name = method.replace('+', "-and-");
    let mut repository = hub.repository(&name);
    repository.write("settings.yaml", &config_map("settings", method, json!({})));
    repository.write("placement.yaml", &placement("all", json!({})));
    let commit = repository.commit("one");
    hub.application(&name, &repository, json!({})).await;
    hub.synced(&name, &commit).await;
    eventually("the placement is read", async || {
        !hub.get("Placement", FLEET, "all").await["status"].is_null()
    })
    .await;
    let first = objects(hub).await;
    for object in first.values() {
        let metadata = &object["metadata"];
        assert_eq!(metadata["annotations"][TRACKING_ID].is_string(), by_annotation, "{method}: {object:#}");
        assert_eq!(metadata["labels"][INSTANCE] == name, by_label, "{method}: {object:#}");
    }

    // A ConfigRepo leaves the objects to the application.
    hub.follow(&name, &repository, "Apply").await;
    hub.becomes(&name, &format!("is managed by the Argo CD application {name}")).await;
    assert!(hub.ready(&name).await.starts_with("False OwnedByArgo"));
    assert_eq!(objects(hub).await, first, "{method}: nothing is written");

    // From Argo CD to Wheelwright.
    hub.delete("Application", NAMESPACE, &name).await;
    eventually("the application is gone", async || hub.app(&name).await.is_null()).await;
    set(hub, &name, json!({"takeover": "Always"})).await;
    hub.becomes(&name, "True Applied").await;
    set(hub, &name, json!({"takeover": "IfNoDiff"})).await;
    let ours = objects(hub).await;
    assert_eq!(uids(&ours), uids(&first));
    for object in ours.values() {
        assert!(is_marked(object) && !is_tracked(object), "{method}: {object:#}");
    }
    let mut other = hub.repository(&format!("other-{name}"));
    other.write("other.yaml", &config_map("other", "1", json!({})));
    let commit = other.commit("one");
    hub.application(&name, &other, json!({})).await;
    let app = hub.synced(&name, &commit).await;
    let resources = app["status"]["resources"].as_array().unwrap();
    assert_eq!(
        resources.len(),
        1,
        "{method}: an application of the same name knows nothing of them: {resources:?}"
    );
    hub.delete("Application", NAMESPACE, &name).await;
    eventually("the other application is gone", async || hub.app(&name).await.is_null()).await;
    assert_eq!(uids(&objects(hub).await), uids(&first));

    // From Wheelwright to Argo CD.
    set(hub, &name, json!({"mode": "Observe"})).await;
    let back = format!("back-{name}");
    hub.application(&back, &repository, json!({})).await;
    eventually("the objects are handed over", async || {
        let repo = hub.get("ConfigRepo", helm::NAMESPACE, &name).await;
        hub.ready(&name).await.contains("the hub matches") && repo["status"]["objects"] == 0
    })
    .await;
    let theirs = objects(hub).await;
    assert_eq!(uids(&theirs), uids(&first));
    for object in theirs.values() {
        assert!(!is_marked(object) && is_tracked(object), "{method}: {object:#}");
        let annotations = object["metadata"]["annotations"].to_string();
        assert!(!annotations.contains("wheelwright"), "{method}: nothing is left behind: {annotations}");
    }
    assert_eq!(doctor(hub)["health"], "Good", "{method}");
    set(hub, &name, json!({"mode": "Apply"})).await;
    hub.becomes(&name, "False OwnedByArgo").await;
    hub.delete("ConfigRepo", helm::NAMESPACE, &name).await;
    eventually("the ConfigRepo is gone", async || {
        hub.get("ConfigRepo", helm::NAMESPACE, &name).await.is_null()
    })
    .await;
    hub.follow(&name, &repository, "Apply").await;
    hub.becomes(&name, "False OwnedByArgo").await;
    assert_eq!(objects(hub).await, theirs, "{method}: a ConfigRepo of the same name takes nothing back");
    hub.delete("ConfigRepo", helm::NAMESPACE, &name).await;
    hub.delete("Application", NAMESPACE, &back).await;
    eventually("the last application is gone", async || hub.app(&back).await.is_null()).await;
    for (kind, name) in [("ConfigMap", "settings"), ("Placement", "all"), ("ConfigMap", "other")] {
        hub.delete(kind, FLEET, name).await;
    }
}
