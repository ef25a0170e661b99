//! A ConfigRepo in Observe mode on a real API server. In place of Argo CD, kubectl applies the observed objects.

use serde_json::json;

use crate::e2e::{Repository, prepare_hub};
use crate::kube::{Cluster, Kubectl};
use crate::running::Running;
use crate::wait::eventually;

/// Objects without a namespace. kube-apiserver stores each of these values in another form: `1`, `500m`, `512Mi`,
/// `data`, a variable without a value.
pub(super) const OBJECTS: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.com/web
        env: [{name: A, value: ""}]
        resources: {requests: {cpu: 1000m, memory: 0.5Gi}, limits: {cpu: "1.5"}}
"#;

/// Argo CD creates a Job with a new name at each sync.
const HOOK: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  generateName: migrate-
  namespace: shop
  annotations: {argocd.argoproj.io/hook: PreSync}
"#;

/// Returns the reason and message of the Ready condition.
fn ready_message(kubectl: &Kubectl) -> String {
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")]['reason','message']}";
    kubectl.run(&["get", "configrepo", "shop", "-n", "wheelwright-system", "-o", ready])
}

async fn becomes(kubectl: &Kubectl, state: &str) {
    eventually(state, async || ready_message(kubectl).contains(state)).await;
}

#[tokio::test]
async fn a_config_repo_observes_what_kubectl_applies() {
    let hub = Cluster::start("hub").await;
    let dir = tempfile::tempdir().unwrap();
    let kubectl = hub.kubectl();
    prepare_hub(&hub);
    kubectl.run(&["create", "namespace", "shop"]);
    kubectl.run(&[
        "label",
        "namespace",
        "wheelwright-system",
        "gitops.wheelwright.dev/operator-identity=allowed",
    ]);
    // The chart's `extraRules`. Dry runs need the patch permission.
    let verbs = "--verb=get,list,watch,patch,create,delete";
    kubectl.run(&["create", "clusterrole", "observed", verbs, "--resource=secrets,deployments.apps"]);
    kubectl.run(&["create", "clusterrolebinding", "observed", "--clusterrole=observed", "--user=operator"]);
    let mut repository = Repository::empty(dir.path());
    repository.write("objects.yaml", OBJECTS);
    repository.write("hook.yaml", HOOK);
    repository.commit("one");
    // Nothing runs the Deployment, so it never becomes healthy.
    let spec = |mode: &str| json!({"url": repository.path, "mode": mode, "defaultNamespace": "shop", "interval": "1h", "healthTimeout": "0s"});
    let follow = |spec: &serde_json::Value| {
        let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "spec": spec,
            "metadata": {"name": "shop", "namespace": "wheelwright-system"}});
        kubectl.run_with(&["apply", "--server-side", "-f", "-"], &repo.to_string());
    };
    follow(&spec("Observe"));
    let kubeconfig = hub.kubeconfig_for("operator", &[]);
    let args = ["operator", "--kubeconfig", kubeconfig.to_str().unwrap(), "--local-repositories"];
    let operator = Running::start("operator", dir.path(), &args);

    becomes(&kubectl, "2 of 2 objects do not match").await;
    kubectl.run_with(&["apply", "-n", "shop", "-f", "-"], OBJECTS);
    becomes(&kubectl, "the hub matches").await;
    let limits = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/cpu", "value": "2"}]);
    kubectl.run(&["patch", "deployment", "web", "-n", "shop", "--type=json", "-p", &limits.to_string()]);
    becomes(&kubectl, "such as Deployment.apps shop/web: it differs at spec.template.spec.containers").await;
    kubectl.run_with(&["apply", "-n", "shop", "-f", "-"], OBJECTS);
    becomes(&kubectl, "the hub matches").await;
    kubectl.run(&["delete", "secret", "secret", "-n", "shop"]);
    becomes(&kubectl, "such as Secret shop/secret: it does not exist").await;
    kubectl.run_with(&["apply", "-n", "shop", "-f", "-"], OBJECTS);
    becomes(&kubectl, "the hub matches").await;
    let managers = "jsonpath={.metadata.managedFields[*].manager}";
    let managers = kubectl.run(&["get", "deployment", "web", "-n", "shop", "-o", managers]);
    assert!(!managers.contains("wheelwright"), "a dry run writes nothing: {managers}");

    // By default, `takeover` takes over objects that do not differ.
    follow(&spec("Apply"));
    becomes(&kubectl, "ArgoHook Job.batch shop/migrate- is a PreSync hook of Argo CD").await;
    repository.edit("hook.yaml", "{argocd", "{gitops.wheelwright.dev/apply: Ignore, argocd");
    repository.commit("two");
    let reconcile = "gitops.wheelwright.dev/reconcile-at=two";
    kubectl.run(&["annotate", "configrepo", "shop", "-n", "wheelwright-system", reconcile]);
    becomes(&kubectl, "Applied 2 objects").await;
    drop(operator);
}
