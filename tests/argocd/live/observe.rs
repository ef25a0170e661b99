//! A ConfigRepo in Observe mode reports what Argo CD applies.

use serde_json::json;

use super::{FLEET, Hub, NAMESPACE, config_map};
use crate::argocd::observe::OBJECTS;
use crate::wait::eventually;

/// Argo CD hooks: one that runs at each sync under a new name, one that runs only if a sync fails, and one that is
/// never applied.
fn hooks() -> String {
    let hook = |name: serde_json::Value, hook: &str| {
        let mut metadata = json!({"namespace": FLEET, "annotations": {
            "argocd.argoproj.io/hook": hook, "argocd.argoproj.io/hook-delete-policy": "HookSucceeded"}});
        json_patch::merge(&mut metadata, &name);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
    };
    [
        hook(json!({"generateName": "before-"}), "PreSync"),
        hook(json!({"name": "failed"}), "SyncFail"),
        hook(json!({"name": "skipped"}), "Skip"),
    ]
    .join("\n---\n")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn a_config_repo_observes_what_argo_cd_applies() {
    let hub = Hub::start("argo-observe").await;
    let mut repository = hub.repository("observed");
    repository.write("objects.yaml", OBJECTS);
    repository.write("hooks.yaml", &hooks());
    repository.write("settings.yaml", &config_map("settings", "1", json!({})));
    let first = repository.commit("one");
    hub.follow("fleet", &repository, "Observe").await;
    let of_the_application = json!({"spec": {"defaultNamespace": FLEET}});
    hub.patch("ConfigRepo", crate::kube::helm::NAMESPACE, "fleet", of_the_application).await;
    hub.becomes("fleet", "False NotApplied 3 of 3 objects do not match").await;

    // Nothing reverts changes made by people.
    hub.application("fleet", &repository, json!({})).await;
    let app = hub.synced("fleet", &first).await;
    let results = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let ran = results.iter().filter(|one| one["hookType"] == "PreSync");
    let ran: Vec<_> = ran.map(|one| one["hookPhase"].as_str().unwrap()).collect();
    assert_eq!(ran, ["Succeeded"], "{results:?}");
    hub.becomes("fleet", &format!("the hub matches {} (3 objects)", &first[..12])).await;

    repository.write("settings.yaml", &config_map("settings", "2", json!({})));
    let second = repository.commit("two");
    hub.refresh("fleet").await;
    hub.synced("fleet", &second).await;
    hub.becomes("fleet", &format!("the hub matches {} (3 objects)", &second[..12])).await;
    let repo = hub.get("ConfigRepo", crate::kube::helm::NAMESPACE, "fleet").await;
    assert!(repo["metadata"]["annotations"].is_null(), "nobody asked for it: {repo}");

    let limits = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "web", "image": "example.com/web", "resources": {"limits": {"cpu": "2"}}}]}}}});
    hub.patch("Deployment", FLEET, "web", limits).await;
    hub.becomes("fleet", "such as Deployment.apps fleet/web: it differs at spec.template.spec.containers")
        .await;
    let sync = json!({"operation": {"sync": {"revision": second}}});
    hub.patch("Application", NAMESPACE, "fleet", sync).await;
    hub.becomes("fleet", "the hub matches").await;

    hub.delete("Application", NAMESPACE, "fleet").await;
    eventually("the application is gone", async || hub.app("fleet").await.is_null()).await;
    hub.delete("ConfigMap", FLEET, "settings").await;
    hub.becomes("fleet", "such as ConfigMap fleet/settings: it does not exist").await;
    for (kind, name) in [("Deployment", "web"), ("Secret", "secret")] {
        let object = hub.get(kind, FLEET, name).await;
        let managers = object["metadata"]["managedFields"].to_string();
        assert!(managers.contains("argocd-controller") && !managers.contains("wheelwright"), "{managers}");
    }
}
