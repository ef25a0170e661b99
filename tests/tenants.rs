//! Tenants of a hub: a ConfigRepo acts as the service account that it names, on a real API server with the chart's
//! rules.

use std::path::Path;

use crate::e2e::{Repository, prepare_hub};
use crate::kube::{Cluster, Kubectl};
use crate::running::Running;
use crate::wait::eventually;

/// The objects that the hub's administrator and the namespace's owner create for a tenant.
const TENANT: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: powerless, namespace: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: private, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: team}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects:
- {kind: ServiceAccount, name: deployer, namespace: team}
- {kind: ServiceAccount, name: private, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: wheelwright-impersonate, namespace: team}
rules:
- {apiGroups: [""], resources: [serviceaccounts], resourceNames: [deployer, powerless], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wheelwright-impersonate, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: wheelwright-impersonate}
subjects: [{kind: User, name: operator, apiGroup: rbac.authorization.k8s.io}]
"#;

fn config_repo(repository: &Repository, namespace: &str, account: &str) -> String {
    serde_json::json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": {"name": "app", "namespace": namespace},
        "spec": {"url": repository.path, "path": "app", "serviceAccountName": account, "interval": "1s"},
    })
    .to_string()
}

/// Returns the reason and message of the Ready condition.
fn ready_message(kubectl: &Kubectl, namespace: &str) -> String {
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")]['reason','message']}";
    kubectl.run(&["get", "configrepo", "app", "-n", namespace, "-o", ready])
}

fn set_account(kubectl: &Kubectl, account: &str) {
    let patch = serde_json::json!({"spec": {"serviceAccountName": account}}).to_string();
    kubectl.run(&["patch", "configrepo", "app", "-n", "team", "--type=merge", "-p", &patch]);
}

fn start_operator(hub: &Cluster, dir: &Path) -> Running {
    let kubeconfig = hub.kubeconfig_for("operator", &[]);
    Running::start(
        "operator",
        dir,
        &["operator", "--kubeconfig", kubeconfig.to_str().unwrap(), "--local-repositories"],
    )
}

#[tokio::test]
async fn a_config_repo_writes_what_its_service_account_may_write() {
    let hub = Cluster::start("hub").await;
    let dir = tempfile::tempdir().unwrap();
    let kubectl = hub.kubectl();
    prepare_hub(&hub);
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], TENANT);
    let mut repository = Repository::create(dir.path());
    repository.write(
        "app/settings.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {k: one}}",
    );
    repository.commit("one");
    let operator = start_operator(&hub, dir.path());

    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &config_repo(&repository, "team", "powerless"));
    eventually("the account without rights is refused", async || {
        let ready_message = ready_message(&kubectl, "team");
        ready_message.starts_with("Forbidden")
            && ready_message.contains("system:serviceaccount:team:powerless")
    })
    .await;
    set_account(&kubectl, "private");
    eventually("an account that the operator may not impersonate is refused", async || {
        ready_message(&kubectl, "team").contains("cannot impersonate resource \"serviceaccounts\"")
    })
    .await;
    set_account(&kubectl, "");
    eventually("the tenant cannot act as the operator", async || {
        ready_message(&kubectl, "team").starts_with("NotAllowed")
    })
    .await;
    assert!(kubectl.fails(&["get", "configmap", "settings", "-n", "team"]).contains("NotFound"));

    set_account(&kubectl, "deployer");
    eventually("the account that may write it applies it", async || {
        ready_message(&kubectl, "team").starts_with("Applied")
    })
    .await;
    assert!(kubectl.run(&["get", "configmap", "settings", "-n", "team", "-o", "yaml"]).contains("k: one"));
    repository.write(
        "app/role.yaml",
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: more}, \
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, \
        subjects: [{kind: User, name: tenant, apiGroup: rbac.authorization.k8s.io}]}",
    );
    repository.commit("escalate");
    eventually("the account gives itself no more rights", async || {
        ready_message(&kubectl, "team").starts_with("Forbidden")
    })
    .await;
    drop(operator);
}

/// kube-apiserver uses the namespace `default` for objects that name none.
#[tokio::test]
async fn a_cluster_scoped_kind_that_nobody_knows_is_not_written_from_the_namespace_default() {
    const THINGS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: things}
rules:
- {apiGroups: [example.com], resources: [things], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: things}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: things}
subjects: [{kind: User, name: operator, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: things, namespace: default}
rules:
- {apiGroups: [example.com], resources: [things], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: things, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: things}
subjects:
- {kind: ServiceAccount, name: deployer, namespace: default}
"#;
    let hub = Cluster::start("scopes").await;
    let dir = tempfile::tempdir().unwrap();
    let kubectl = hub.kubectl();
    prepare_hub(&hub);
    let tenant = TENANT.replace("team", "default") + "---" + THINGS;
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &tenant);
    kubectl.finds(&["things.example.com".to_owned()]);
    let mut repository = Repository::create(dir.path());
    let thing = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: all, namespace: default}}";
    repository.write("app/thing.yaml", thing);
    repository.commit("one");
    let operator = start_operator(&hub, dir.path());
    let deployer = config_repo(&repository, "default", "deployer");
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &deployer);
    eventually("the account may write it in its namespace only", async || {
        let message = ready_message(&kubectl, "default");
        message.starts_with("Forbidden") && message.contains("at the cluster scope")
    })
    .await;
    assert_eq!(kubectl.run(&["get", "things", "-o", "name"]), "");
    drop(operator);
}

/// One API server covers what only a real one shows: its dry run and its field ownership.
#[tokio::test]
async fn a_refused_stage_is_not_written_and_fields_of_kubectl_and_ignored_ones_are_distinguished() {
    let hub = Cluster::start("fields").await;
    let dir = tempfile::tempdir().unwrap();
    let kubectl = hub.kubectl();
    prepare_hub(&hub);
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], TENANT);
    let map = |name: &str, annotations: &str, data: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, annotations: {{{annotations}}}}}, data: {{{data}}}}}"
        )
    };
    kubectl.run_with(&["apply", "-n", "team", "-f", "-"], &map("legacy", "", "k: one, dropped: old"));
    kubectl.run(&["patch", "configmap", "legacy", "-n", "team", "-p", r#"{"data":{"edited":"mine"}}"#]);
    let data = |name: &str| kubectl.run(&["get", "configmap", name, "-n", "team", "-o", "jsonpath={.data}"]);

    let ignores = "gitops.wheelwright.dev/ignore-fields: /data/size";
    let mut repository = Repository::create(dir.path());
    repository.write("app/settings.yaml", &map("settings", "", "k: one"));
    repository.write("app/legacy.yaml", &map("legacy", "", "k: one"));
    repository.write("app/tuned.yaml", &map("tuned", ignores, "k: one, size: '1'"));
    repository.write("app/ignored.yaml", &map("ignored", "gitops.wheelwright.dev/apply: Ignore", "k: one"));
    repository.commit("one");
    let operator = start_operator(&hub, dir.path());
    let deployer = config_repo(&repository, "team", "deployer");
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &deployer);
    eventually("the first commit is applied", async || {
        ready_message(&kubectl, "team").starts_with("Applied")
    })
    .await;
    assert_eq!(data("legacy"), r#"{"edited":"mine","k":"one"}"#, "kubectl apply owned the dropped field");
    assert_eq!(data("tuned"), r#"{"k":"one","size":"1"}"#);

    kubectl.run(&["patch", "configmap", "tuned", "-n", "team", "-p", r#"{"data":{"size":"9"}}"#]);
    repository.write("app/settings.yaml", &map("settings", "", "k: two"));
    repository.write("app/tuned.yaml", &map("tuned", ignores, "k: two, size: '1'"));
    repository.write("app/wrong.yaml", &map("wrong", "", "not a key: one"));
    repository.commit("two");
    eventually("the API server refuses an object of the second commit", async || {
        let message = ready_message(&kubectl, "team");
        !message.starts_with("Applied") && message.contains("wrong") && message.contains("not a key")
    })
    .await;
    assert_eq!(data("settings"), r#"{"k":"one"}"#, "the objects before it are not written either");
    assert_eq!(data("tuned"), r#"{"k":"one","size":"9"}"#);
    assert!(kubectl.fails(&["get", "configmap", "wrong", "-n", "team"]).contains("NotFound"));

    repository.write("app/wrong.yaml", &map("wrong", "", "a-key: one"));
    repository.commit("three");
    eventually("the third commit is applied", async || {
        ready_message(&kubectl, "team").starts_with("Applied")
    })
    .await;
    let applied = ["settings", "tuned", "wrong", "legacy"].map(data);
    let expected = [
        r#"{"k":"two"}"#,
        r#"{"k":"two","size":"9"}"#,
        r#"{"a-key":"one"}"#,
        r#"{"edited":"mine","k":"one"}"#,
    ];
    assert_eq!(applied, expected);
    assert!(kubectl.fails(&["get", "configmap", "ignored", "-n", "team"]).contains("NotFound"));
    drop(operator);
}
