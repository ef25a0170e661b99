//! Objects move from a team's Application to a ConfigRepo and back, using the Argo CD commands shown in
//! docs/argocd.md. Argo CD's server handles them, and the Application is outside Argo CD's namespace.

use serde_json::{Value, json};

use super::{FLEET, Hub, NAMESPACE, config_map, url};
use crate::kube::helm;
use crate::wait::eventually;

const TEAM: &str = "team-a";

/// Runs an Argo CD command, which must succeed.
fn argocd(hub: &Hub, args: &[&str]) -> String {
    let output = hub.argo_cd.command(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "argocd {args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Logs in as the administrator, whose password Argo CD generated.
async fn log_in(hub: &Hub, server: &str) {
    let mut password = String::new();
    eventually("Argo CD has an administrator", async || {
        let secret = hub.api("Secret", NAMESPACE).get_opt("argocd-initial-admin-secret").await.unwrap();
        let secret =
            secret.map(|secret| serde_json::from_value(serde_json::to_value(secret).unwrap()).unwrap());
        let data =
            secret.and_then(|secret: k8s_openapi::api::core::v1::Secret| secret.data).unwrap_or_default();
        password =
            data.get("password").map(|value| String::from_utf8(value.0.clone()).unwrap()).unwrap_or_default();
        !password.is_empty()
    })
    .await;
    let login = ["login", server, "--plaintext", "--username", "admin", "--password", &password];
    eventually("Argo CD's server answers", async || {
        hub.argo_cd.command(&login).output().unwrap().status.success()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn argo_cds_commands_hand_objects_over_from_an_application_of_a_team() {
    let mut hub = Hub::start("argo-commands").await;
    hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})).await;
    hub.patch("AppProject", NAMESPACE, "default", json!({"spec": {"sourceNamespaces": [TEAM]}})).await;
    let server = hub.argo_cd.serve(TEAM);
    log_in(&hub, &server).await;
    let mut repository = hub.repository("shop");
    repository.write("settings.yaml", &config_map("settings", "1", json!({})));
    repository.commit("one");
    let app = format!("{TEAM}/shop");
    let repo = url(&repository.path);
    let create = [
        ["app", "create", &app].as_slice(),
        &["--repo", &repo, "--revision", "main", "--path", "."],
        &["--dest-server", "https://kubernetes.default.svc", "--dest-namespace", FLEET],
    ]
    .concat();
    argocd(&hub, &create);
    argocd(&hub, &["app", "sync", &app, "--timeout", "120"]);
    argocd(&hub, &["app", "wait", &app, "--sync", "--health", "--timeout", "120"]);
    let first = hub.get("ConfigMap", FLEET, "settings").await;

    hub.follow("shop", &repository, "Apply").await;
    hub.becomes("shop", "is managed by the Argo CD application team-a/shop").await;
    assert_eq!(hub.get("ConfigMap", FLEET, "settings").await, first, "nothing is written");
    argocd(&hub, &["app", "delete", &app, "--cascade=false", "--yes"]);
    let gone = async || hub.get("Application", TEAM, "shop").await.is_null();
    eventually("the application is gone", gone).await;
    let takeover = |rule: &str| json!({"spec": {"takeover": rule}});
    hub.patch("ConfigRepo", helm::NAMESPACE, "shop", takeover("Always")).await;
    hub.becomes("shop", "True Applied").await;
    hub.patch("ConfigRepo", helm::NAMESPACE, "shop", takeover("IfNoDiff")).await;
    let ours = hub.get("ConfigMap", FLEET, "settings").await;
    assert_eq!(ours["metadata"]["uid"], first["metadata"]["uid"]);
    assert!(ours["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"].is_null(), "{ours:#}");

    hub.patch("ConfigRepo", helm::NAMESPACE, "shop", json!({"spec": {"mode": "Observe"}})).await;
    argocd(&hub, &create);
    argocd(&hub, &["app", "sync", &app, "--timeout", "120"]);
    eventually("the objects are handed over", async || {
        let repo = hub.get("ConfigRepo", helm::NAMESPACE, "shop").await;
        hub.ready("shop").await.contains("the hub matches") && repo["status"]["objects"] == 0
    })
    .await;
    let shown: Value = serde_json::from_str(&argocd(&hub, &["app", "get", &app, "-o", "json"])).unwrap();
    assert_eq!(
        (&shown["status"]["sync"]["status"], &shown["status"]["health"]["status"]),
        (&json!("Synced"), &json!("Healthy"))
    );
    let theirs = hub.get("ConfigMap", FLEET, "settings").await;
    assert_eq!(theirs["metadata"]["uid"], first["metadata"]["uid"]);
    assert!(!theirs["metadata"]["annotations"].to_string().contains("wheelwright"), "{theirs:#}");
}
