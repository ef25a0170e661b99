//! An executor may do only what its service account may do on the cluster. The API server authorizes each write,
//! regardless of the contents of the manifest and the live object.

use api::work::v1::ManifestWork;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::DeleteParams;
use kube::{Api, Client};
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};

use crate::klusterlet::embedded_hub;
use crate::kube::{Cluster, Directory};
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

const RBAC: &str = "rbac.authorization.k8s.io";

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

fn role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "default"}],
    })
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

/// Lets the executor write roles, bindings and ConfigMaps, without `bind` and `escalate`. A policy on the cluster
/// rejects two of its writes.
async fn prepare(spoke: &Client) {
    let verbs = ["get", "list", "create", "update", "patch", "delete"];
    let rules = json!([
        {"apiGroups": [RBAC], "resources": ["clusterroles", "clusterrolebindings"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs},
    ]);
    let expression = "!(request.name == 'guarded' && request.operation != 'DELETE' \
        || request.name == 'kept' && request.operation == 'DELETE')";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "guard"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]}]},
            "matchConditions": [{"name": "is-the-executor", "expression": "request.userInfo.username == 'system:serviceaccount:default:installer'"}],
            "validations": [{"expression": expression, "message": "not for installers"}],
        },
    });
    let bound = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "guard"},
        "spec": {"policyName": "guard", "validationActions": ["Deny"]},
    });
    let harmless = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let objects = [
        role("installer", rules),
        binding("installer", "installer"),
        role("harmless", harmless),
        policy,
        bound,
    ];
    for one in objects {
        apply(spoke, &object(one)).await;
    }
    // A policy takes effect a moment after it is written.
    let maps: Api<ConfigMap> = Api::namespaced(spoke.clone(), "default");
    let mut as_executor: ConfigMap = serde_json::from_value(config_map("guarded")).unwrap();
    as_executor.metadata.name = Some("guarded".into());
    eventually("the policy is in force", async || is_refused(&maps, &as_executor).await).await;
}

/// Tries to create an object as the executor, in a dry run.
async fn is_refused(maps: &Api<ConfigMap>, map: &ConfigMap) -> bool {
    let body = serde_json::to_vec(map).unwrap();
    let request = http::Request::post("/api/v1/namespaces/default/configmaps?dryRun=All")
        .header("impersonate-user", "system:serviceaccount:default:installer")
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    match maps.clone().into_client().request_text(request).await {
        Ok(_) => false,
        Err(error) => error.to_string().contains("not for installers"),
    }
}

/// A manifest, the work's options for it, and the text of the rejection; `None` if it is applied.
struct Row(&'static str, Value, Value, Option<&'static str>);

/// Returns the manifests, each compared to the live object of the same name.
fn rows() -> Vec<Row> {
    let mut aggregated = role("cluster-admin", json!([]));
    aggregated["metadata"]["labels"] = json!({format!("{RBAC}/aggregate-to-view"): "true"});
    aggregated.as_object_mut().unwrap().remove("rules");
    let keep_role = json!([{
        "resourceIdentifier": {"group": RBAC, "resource": "clusterrolebindings", "name": "cluster-admin"},
        "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {
            "force": true, "ignoreFields": [{"condition": "OnSpokePresent", "jsonPaths": [".roleRef"]}]}},
    }]);
    let every = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let (grants, none) = (Some("attempting to grant RBAC permissions not currently held"), json!([]));
    vec![
        Row("a label on a role of others", aggregated, none.clone(), grants),
        Row("the role of a binding of others", binding("cluster-admin", "harmless"), keep_role, grants),
        Row("a role with more", role("more", every.clone()), none.clone(), grants),
        Row("more rules of a role", role("harmless", every), none.clone(), grants),
        Row("a binding of more", binding("more", "cluster-admin"), none.clone(), grants),
        Row("a binding of less", binding("less", "harmless"), none.clone(), None),
        Row(
            "an object that a policy guards",
            config_map("guarded"),
            none.clone(),
            Some("not for installers"),
        ),
        Row("an object that it may not delete", config_map("kept"), none, None),
    ]
}

fn work(cluster: &str, index: usize, Row(_, manifest, configs, _): &Row) -> Object {
    let account = json!({"namespace": "default", "name": "installer"});
    object(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": format!("w{index}"), "namespace": cluster},
        "spec": {
            "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": account}},
            "manifestConfigs": configs, "workload": {"manifests": [manifest]},
        },
    }))
}

/// Returns the message of the only manifest's Applied condition; empty if it is applied, `None` if that is not
/// known yet.
fn refusal(work: &ManifestWork) -> Option<String> {
    let manifest = work.status.as_ref()?.resource_status.manifests.first()?;
    let applied = manifest.conditions.iter().find(|condition| condition.type_ == "Applied")?;
    Some(if applied.is_true() { String::new() } else { applied.message.clone() })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_writes_and_deletes_only_what_its_account_may() {
    let (dir, stop) = (Directory::new("executor"), CancellationToken::new());
    let cluster = Cluster::start("executor-spoke").await;
    let hub = embedded_hub(&dir, &stop).await;
    let admin = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let on_hub = client(&admin).await;
    // A real API server, and the embedded hub acting as its own spoke.
    for (name, spoke) in [("real", cluster.client().await), ("embedded", on_hub.clone())] {
        prepare(&spoke).await;
        let options = AgentOptions::new(Bootstrap::Given(Box::new(admin.clone())), spoke.clone(), name);
        let agent = tokio::spawn(agent::run(options, stop.child_token()));
        accept(&on_hub, name).await;
        let namespaces: Api<Namespace> = Api::all(on_hub.clone());
        let exists = async || namespaces.get_opt(name).await.unwrap().is_some();
        eventually("the cluster has its namespace", exists).await;
        let works: Api<ManifestWork> = Api::namespaced(on_hub.clone(), name);
        let rows = rows();
        for (index, row) in rows.iter().enumerate() {
            apply(&on_hub, &work(name, index, row)).await;
        }
        for (index, Row(what, _, _, expected)) in rows.iter().enumerate() {
            let mut message = String::new();
            eventually(&format!("{what} on the {name} cluster is judged"), async || {
                let known = refusal(&works.get(&format!("w{index}")).await.unwrap());
                known.map(|known| message = known).is_some()
            })
            .await;
            assert_eq!(message.is_empty(), expected.is_none(), "{what} on the {name} cluster: {message}");
            assert!(
                message.contains(expected.unwrap_or_default()),
                "{what} on the {name} cluster: {message}"
            );
        }
        let admin_role = Api::<ClusterRole>::all(spoke.clone()).get("cluster-admin").await.unwrap();
        let label = format!("{RBAC}/aggregate-to-view");
        assert!(!admin_role.metadata.labels.unwrap_or_default().contains_key(&label), "{name}");
        let admins = Api::<ClusterRoleBinding>::all(spoke.clone()).get("cluster-admin").await.unwrap();
        assert_eq!(admins.subjects.unwrap()[0].name, "system:masters", "{name}");

        // Deletions are authorized as the executor too, and the message names what rejected them.
        let maps: Api<ConfigMap> = Api::namespaced(spoke.clone(), "default");
        let (kept, work) = ("kept", format!("w{}", rows.len() - 1));
        works.delete(&work, &DeleteParams::default()).await.unwrap();
        eventually(&format!("the {name} cluster refuses the deletion"), async || {
            let work = works.get(&work).await.unwrap();
            let mut conditions = work.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|one| one.type_ == "Deleting" && one.message.contains("not for installers"))
        })
        .await;
        assert!(maps.get_opt(kept).await.unwrap().is_some(), "{name}");
        let bindings = "validatingadmissionpolicybindings";
        let path = format!("/apis/admissionregistration.k8s.io/v1/{bindings}/guard");
        spoke.request_text(http::Request::delete(path).body(Vec::new()).unwrap()).await.unwrap();
        let is_gone = async || works.get_opt(&work).await.unwrap().is_none();
        eventually(&format!("the {name} cluster lets it go"), is_gone).await;
        assert!(maps.get_opt(kept).await.unwrap().is_none(), "{name}");
        agent.abort();
    }
    stop.cancel();
}
