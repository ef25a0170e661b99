//! A fleet on a hub: what people write and see, and our operator, which runs as its Deployment specifies.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::klusterlet::pod::{account_kubeconfig, start_operator};
use crate::kube::{Cluster, Directory, Kubectl, free_port, helm};
use crate::offline::probe;
use crate::running::Running;
use crate::wait::eventually;

/// Our controllers that have no counterpart in OCM.
pub(super) const BASE: &str =
    "config-repo,report,commit-status,notification,policy-status,cluster-decision,cluster-secret,argo-pull";
const WORKS: &str = "work.open-cluster-management.io/v1";
const CLUSTERS: &str = "cluster.open-cluster-management.io";
const ADD_ONS: &str = "addon.open-cluster-management.io";
/// The kinds that a hand-over leaves unchanged.
const KINDS: &str = "managedclusters,managedclustersets,managedclustersetbindings,placements,placementdecisions,\
    clustermanagementaddons,managedclusteraddons,manifestworks,manifestworkreplicasets";

/// Returns a work with a ConfigMap whose text is reported as feedback.
fn work(cluster: &str, name: &str, text: &str) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"text": text}});
    let identifier = json!({"group": "", "resource": "configmaps", "name": name, "namespace": "default"});
    let rule = json!({"type": "JSONPaths", "jsonPaths": [{"name": "text", "path": ".data.text"}]});
    let config = json!({"resourceIdentifier": identifier, "feedbackRules": [rule]});
    json!({"apiVersion": WORKS, "kind": "ManifestWork", "metadata": {"name": name, "namespace": cluster},
        "spec": {"workload": {"manifests": [map]}, "manifestConfigs": [config]}})
    .to_string()
}

/// Returns a version of an add-on for every cluster, with a Placement that has a canary group.
pub(super) fn addon(version: &str, strategy: Value) -> String {
    let kind = |api: &str, kind: &str, name: &str, namespace: &str, spec: Value| {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}).to_string()
    };
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let view = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let permission =
        json!({"type": "SingleNamespace", "singleNamespace": {"namespace": "fleet", "roleRef": view}});
    let registration = json!([{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}, "data": {"version": version}});
    let pod = json!({"metadata": {"labels": {"app": "hello"}}, "spec": {"containers": [{"name": "hello", "image": format!("hello:{version}")}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "hello"}}, "template": pod}});
    let name = format!("hello-{version}");
    let agent = json!({"workload": {"manifests": [map, deployment]}});
    let template = json!({"addonName": "hello", "registration": registration, "agentSpec": agent});
    let supported = json!({"group": ADD_ONS, "resource": "addontemplates", "defaultConfig": {"name": name}});
    let placement = json!({"name": "all", "namespace": "fleet", "rolloutStrategy": strategy});
    let spec = json!({"supportedConfigs": [supported], "installStrategy": {"type": "Placements", "placements": [placement]}});
    let placement = json!({"tolerations": [{"operator": "Exists"}], "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}).to_string(),
        kind(
            &format!("{CLUSTERS}/v1beta2"),
            "ManagedClusterSetBinding",
            "global",
            "fleet",
            json!({"clusterSet": "global"}),
        ),
        kind(&format!("{CLUSTERS}/v1beta1"), "Placement", "all", "fleet", placement),
        kind(&format!("{ADD_ONS}/v1alpha1"), "AddOnTemplate", &name, "", template),
        kind(&format!("{ADD_ONS}/v1alpha1"), "ClusterManagementAddOn", "hello", "", spec),
    ]
    .join("\n")
}

/// Writes the bootstrap kubeconfig of a hub as in the README.
pub(super) fn bootstrap(fleet: &Fleet, dir: &Directory) -> PathBuf {
    let file = dir.path("bootstrap.kubeconfig");
    fs::write(&file, fleet.wheelwright("get token --output kubeconfig")).unwrap();
    file
}

/// The objects of a hub by kind, namespace and name, with their uid and resource version.
pub(super) type Versions = BTreeMap<String, (String, String)>;

/// Returns the identities of objects.
pub(super) fn uids(versions: &Versions) -> BTreeMap<String, String> {
    versions.iter().map(|(key, (uid, _))| (key.clone(), uid.clone())).collect()
}

/// A hub as its users see it.
pub(super) struct Fleet {
    pub(super) kubectl: Kubectl,
    kubeconfig: PathBuf,
}

impl Fleet {
    pub(super) fn new(hub: &Cluster) -> Self {
        Self { kubectl: hub.kubectl(), kubeconfig: hub.kubeconfig.clone() }
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(line.split(' ')).arg("--kubeconfig").arg(&self.kubeconfig).output().unwrap()
    }

    /// Returns the output of one of our commands, whether it succeeds or not.
    pub(super) fn output(&self, line: &str) -> String {
        let Output { stdout, stderr, status: _ } = self.run(line);
        String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap()
    }

    /// Returns the output of one of our commands, which must succeed.
    pub(super) fn wheelwright(&self, line: &str) -> String {
        let Output { stdout, stderr, status } = self.run(line);
        assert!(status.success(), "{line}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    pub(super) fn accept(&self, cluster: &str) {
        self.wheelwright(&format!("accept --clusters {cluster} --wait 2m"));
    }

    pub(super) fn apply(&self, documents: &str) {
        self.kubectl.run_with(&["apply", "-f", "-"], documents);
    }

    pub(super) fn get(&self, object: &str, namespace: &str) -> Value {
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let printed = self.kubectl.run(&["get", object, "-n", namespace, "--ignore-not-found", "-o", "json"]);
        serde_json::from_str(&printed).unwrap_or_default()
    }

    /// Lets both add-on managers grant the add-on's role to its agents.
    pub(super) fn allow_templates(&self) {
        let bind = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: bind-view}\n\
            rules: [{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [view], verbs: [bind]}]\n---\n\
            apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: bind-view}\n\
            roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bind-view}\nsubjects:\n\
            - {kind: ServiceAccount, name: addon-manager-controller-sa, namespace: open-cluster-management-hub}\n\
            - {kind: ServiceAccount, name: wheelwright-operator, namespace: wheelwright-system}\n";
        self.apply(bind);
    }

    /// Waits until a condition has a reason. For a ClusterManagementAddOn, checks its first placement.
    pub(super) async fn becomes(&self, object: &str, namespace: &str, type_: &str, reason: &str) {
        eventually(&format!("{namespace} {object} {type_} {reason}"), async || {
            let status = &self.get(object, namespace)["status"];
            let progress = &status["installProgressions"][0];
            let conditions = if progress.is_null() { &status["conditions"] } else { &progress["conditions"] };
            let mut conditions = conditions.as_array().into_iter().flatten();
            conditions.any(|one| one["type"] == type_ && one["reason"] == reason)
        })
        .await;
    }

    /// Writes a work and waits until its agent reports its values as feedback.
    pub(super) async fn works(&self, cluster: &str, name: &str, text: &str) {
        self.apply(&work(cluster, name, text));
        eventually(&format!("work {name} feeds back {text}"), async || {
            let work = self.get(&format!("manifestwork/{name}"), cluster);
            let manifest = &work["status"]["resourceStatus"]["manifests"][0];
            manifest["statusFeedback"]["values"][0]["fieldValue"]["string"] == text
        })
        .await;
    }

    /// Rolls out a version of the add-on to all clusters at once, and waits until `c1` runs it.
    pub(super) async fn rolls_out(&self, version: &str) {
        self.apply(&addon(version, json!({"type": "All"})));
        self.runs("c1", version).await;
    }

    /// Returns the template from which the add-on's work on a cluster is rendered.
    pub(super) fn version(&self, cluster: &str) -> String {
        let addon = self.get("managedclusteraddon/hello", cluster);
        let applied = &addon["status"]["configReferences"][0]["lastAppliedConfig"]["name"];
        applied.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the rollout of a version on a cluster is complete.
    pub(super) async fn runs(&self, cluster: &str, version: &str) {
        eventually(&format!("{cluster} runs {version}"), async || {
            let addon = self.get("managedclusteraddon/hello", cluster);
            let conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
            self.version(cluster) == format!("hello-{version}")
                && conditions.iter().any(|one| one["type"] == "Progressing" && one["reason"] == "Completed")
        })
        .await;
    }

    /// Returns true if the agent's feedback includes the configuration used by the add-on's Deployment.
    pub(super) fn reports_address(&self) -> bool {
        let work = self.get("manifestwork/addon-hello-deploy-0", "c1");
        work["status"].to_string().contains("ConfigAddress")
    }

    /// Returns the objects of the fleet.
    pub(super) fn versions(&self) -> Versions {
        let list: Value =
            serde_json::from_str(&self.kubectl.run(&["get", KINDS, "-A", "-o", "json"])).unwrap();
        let object = |object: &Value| {
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            let key = format!("{} {}/{}", object["kind"].as_str().unwrap(), text("namespace"), text("name"));
            (key, (text("uid"), text("resourceVersion")))
        };
        let probes = |(key, _): &(String, _)| !key.contains("probe");
        list["items"].as_array().unwrap().iter().map(object).filter(probes).collect()
    }

    /// Waits until every certificate request is answered and nobody writes for some seconds.
    pub(super) async fn settles(&self) {
        let (mut before, mut unchanged) = (Versions::new(), 0);
        eventually("nobody writes any more", async || {
            let requests = [
                "get",
                "csr",
                "-o",
                "jsonpath={range .items[*]}{.metadata.name} {.status.certificate}{'\\n'}{end}",
            ];
            let is_answered =
                |line: &str| line.split(' ').nth(1).is_some_and(|certificate| !certificate.is_empty());
            let now = self.versions();
            let is_same = now == before && self.kubectl.run(&requests).lines().all(is_answered);
            (before, unchanged) = (now, if is_same { unchanged + 1 } else { 0 });
            unchanged > 15
        })
        .await;
    }

    /// Returns the objects that were written, deleted or created since.
    pub(super) fn changed(&self, before: &Versions) -> Vec<String> {
        let now = self.versions();
        let keys = before.keys().chain(now.keys());
        keys.filter(|key| before.get(*key) != now.get(*key)).cloned().collect()
    }

    /// Waits until one side handles a new object as an OCM controller would.
    pub(super) async fn decides(&self, controller: &str, number: usize) {
        let name = format!("probe-{number}");
        let object = |api: &str, kind: &str, spec: Value| {
            let metadata = json!({"name": name, "namespace": "fleet"});
            self.apply(
                &json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}).to_string(),
            );
        };
        // The object to check, and the field that must be set.
        let (decided, field) = match controller.trim_start_matches("cluster-manager-") {
            "placement-controller" => {
                object(&format!("{CLUSTERS}/v1beta1"), "Placement", json!({}));
                (format!("placementdecision/{name}-decision-1"), "/metadata")
            }
            // The caller checks the add-on.
            "addon-manager-controller" => return,
            "work-controller" => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
                let template = json!({"workload": {"manifests": [map]}});
                let spec = json!({"manifestWorkTemplate": template, "placementRefs": [{"name": "none"}]});
                object("work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet", spec);
                (format!("manifestworkreplicaset/{name}"), "/status/conditions")
            }
            "registration-controller" => {
                let spec = json!({"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}});
                object(&format!("{CLUSTERS}/v1beta2"), "ManagedClusterSet", spec);
                (format!("managedclusterset/{name}"), "/status/conditions")
            }
            other => panic!("{other}"),
        };
        eventually(&format!("{controller} or ours decides"), async || {
            self.get(&decided, "fleet").pointer(field).is_some_and(|value| !value.is_null())
        })
        .await;
    }
}

/// Our operator, installed with our command and started as its Deployment specifies.
pub(super) struct OurOperator {
    fleet: Fleet,
    kubeconfig: PathBuf,
    dir: PathBuf,
    port: u16,
    running: Running,
}

impl OurOperator {
    pub(super) async fn install(hub: &Cluster, dir: &Directory, controllers: &str) -> Self {
        let (fleet, kubeconfig) = (Fleet::new(hub), dir.path("ours.kubeconfig"));
        fleet.wheelwright(&format!("install --wait 0 --controllers={controllers}"));
        fs::write(&kubeconfig, account_kubeconfig(hub, "wheelwright-operator", helm::NAMESPACE)).unwrap();
        let (dir, port) = (dir.path(""), free_port());
        let running = start_operator(&fleet.kubectl, &kubeconfig, &dir, port, &[]);
        let operator = Self { fleet, kubeconfig, dir, port, running };
        operator.ready().await;
        operator
    }

    /// Selects the running controllers as people do.
    pub(super) async fn select(&mut self, controllers: &str) {
        self.fleet.wheelwright(&format!("upgrade --wait 0 --controllers={controllers}"));
        let next = free_port();
        let started = start_operator(&self.fleet.kubectl, &self.kubeconfig, &self.dir, next, &[]);
        let before = std::mem::replace(&mut self.running, started);
        assert!(before.terminate(Duration::from_secs(20)), "the operator ends when it is asked to");
        self.port = next;
        self.ready().await;
    }

    pub(super) fn terminate(self, within: Duration) -> bool {
        self.running.terminate(within)
    }

    async fn ready(&self) {
        let url = format!("http://127.0.0.1:{}", self.port);
        eventually("our operator is ready", async || probe(&url, "/readyz").await == "ok").await;
    }
}
