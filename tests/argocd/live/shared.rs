//! An Application and a ConfigRepo apply different fields of one object.

use serde_json::{Value, json};

use super::{FLEET, Hub};
use crate::argocd::recipes::shown;
use crate::e2e::Repository;
use crate::kube::helm;
use crate::wait::eventually;

fn write(repository: &mut Repository, field: &str, value: &str) -> String {
    let metadata = json!({"name": "settings", "namespace": FLEET});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {field: value}});
    repository.write("settings.yaml", &map.to_string());
    repository.commit(value)
}

async fn settings(hub: &Hub) -> Value {
    hub.get("ConfigMap", FLEET, "settings").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn an_application_and_a_config_repo_apply_their_fields_of_one_object() {
    let hub = Hub::start("argo-shared").await;
    let (mut theirs, mut ours) = (hub.repository("theirs"), hub.repository("ours"));
    let commit = write(&mut theirs, "theirs", "1");
    let mut spec = shown("Application", "/spec/ignoreDifferences/0/managedFieldsManagers")["spec"].take();
    spec["syncPolicy"]["automated"] = json!({"selfHeal": true});
    hub.application("shop", &theirs, spec).await;
    hub.synced("shop", &commit).await;
    let uid = settings(&hub).await["metadata"]["uid"].clone();

    write(&mut ours, "ours", "1");
    hub.follow("ours", &ours, "Apply").await;
    hub.becomes("ours", "False OwnedByArgo").await;
    hub.patch("ConfigRepo", helm::NAMESPACE, "ours", json!({"spec": {"takeover": "Always"}})).await;
    hub.becomes("ours", "True Applied").await;
    for value in ["2", "3"] {
        let commit = write(&mut theirs, "theirs", value);
        write(&mut ours, "ours", value);
        hub.refresh("shop").await;
        hub.synced("shop", &commit).await;
        eventually("each has its field", async || {
            settings(&hub).await["data"] == json!({"theirs": value, "ours": value})
        })
        .await;
    }
    let live = settings(&hub).await;
    assert_eq!(live["metadata"]["uid"], uid);
    assert!(live["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"].is_string(), "{live:#}");
    let app = hub.app("shop").await;
    assert_eq!(app["status"]["sync"]["status"], "Synced", "{app:#}");
    let repo = hub.get("ConfigRepo", helm::NAMESPACE, "ours").await;
    assert!(repo["status"]["drift"].is_null(), "neither corrects the other: {repo:#}");
}
