//! A hub with an operator and two clusters, on which published add-ons are installed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use api::crds;
use object::Object;
use serde_json::{Value, json};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use crate::e2e::{accept, prepare_hub};
use crate::kube::{Cluster, Kubectl, client_of, free_port, install_crypto};
use crate::running::Running;
use crate::wait::eventually;

/// The namespace that the published files name.
pub(crate) const NAMESPACE: &str = "open-cluster-management-addon";
pub(crate) const CLUSTERS: [&str; 2] = ["c1", "c2"];

/// The API server, kept alive until the test ends.
enum Serves {
    Embedded { _server: Server },
    Kubernetes { _cluster: Box<Cluster> },
}

pub(crate) struct Hub {
    pub(crate) kubectl: Kubectl,
    /// The kubeconfig of the administrator.
    admin: PathBuf,
    url: String,
    ca: String,
    operator: Option<Running>,
    /// The arguments of the operator.
    args: Vec<String>,
    /// Clusters with one of our agents.
    spokes: BTreeMap<String, (Running, Server)>,
    dir: tempfile::TempDir,
    // The last field, so that the operator stops before the API server.
    _serves: Serves,
}

impl Hub {
    /// Starts `wheelwright hub`, which converts between versions without a webhook.
    pub(crate) async fn embedded() -> Self {
        install_crypto();
        let mut definitions = crds::hub();
        definitions.iter_mut().for_each(crds::serve_all);
        let objects = definitions.iter().map(Object::from_typed).collect();
        let server = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let admin = dir.path().join("admin.kubeconfig");
        std::fs::write(&admin, server.admin_kubeconfig_yaml().unwrap()).unwrap();
        let kubectl = Kubectl::new(&admin, dir.path().join("kubectl-home"));
        let args = ["operator", "--kubeconfig", path(&admin)].map(str::to_owned).into();
        let (url, ca) = (server.url.clone(), server.ca_pem.clone());
        let serves = Serves::Embedded { _server: server };
        let mut hub = Self {
            kubectl,
            admin,
            url,
            ca,
            operator: None,
            args,
            spokes: BTreeMap::new(),
            dir,
            _serves: serves,
        };
        hub.start_operator(&[]);
        hub.join().await;
        hub
    }

    /// Starts kube-apiserver with our CRDs, our role and our webhook.
    pub(crate) async fn kubernetes() -> Self {
        let cluster = Cluster::start("published").await;
        let dir = tempfile::tempdir().unwrap();
        let kubectl = cluster.kubectl();
        prepare_hub(&cluster);
        let role = ["role", "webhook", "-n", "wheelwright-system"];
        let rules = ["--verb=get,create,update", "--resource=secrets"];
        kubectl.run(&[&["create"][..], &role, &rules].concat());
        let binding =
            ["rolebinding", "webhook", "-n", "wheelwright-system", "--role=webhook", "--user=operator"];
        kubectl.run(&[&["create"][..], &binding].concat());
        // The chart's `customSigners`.
        kubectl.run_with(&["create", "-f", "-"], SIGNERS);
        let kubeconfig = cluster.kubeconfig_for("operator", &[]);
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("https://{address}");
        let webhook = ["--webhook-listen", &address, "--webhook-url", &url];
        let args = [&["operator", "--kubeconfig", path(&kubeconfig)][..], &webhook].concat();
        let args = args.into_iter().map(str::to_owned).collect();
        let (url, ca) = (cluster.url.clone(), cluster.ca_pem());
        let admin = cluster.kubeconfig.clone();
        let serves = Serves::Kubernetes { _cluster: Box::new(cluster) };
        let mut hub = Self {
            kubectl,
            admin,
            url,
            ca,
            operator: None,
            args,
            spokes: BTreeMap::new(),
            dir,
            _serves: serves,
        };
        hub.start_operator(&[]);
        hub.join().await;
        hub
    }

    async fn join(&self) {
        let cluster = |name: &str| {
            let spec = json!({"hubAcceptsClient": true});
            json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": name}, "spec": spec})
        };
        self.apply(&CLUSTERS.map(|name| cluster(name).to_string()).join("\n---\n"));
        let ready = [
            &["get", "managedclusterset", "global"][..],
            &["get", "namespace", "c1"],
            &["get", "namespace", "c2"],
        ];
        eventually("the clusters have their namespaces", async || {
            ready.iter().all(|args| self.kubectl.command(args).output().unwrap().status.success())
        })
        .await;
        // In reality, the add-on's agents report this.
        let available = json!({"status": {"conditions": [{
            "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable",
            "message": "", "lastTransitionTime": now().strftime("%FT%TZ").to_string(),
        }]}});
        for cluster in CLUSTERS {
            let patch = ["--subresource=status", "--type=merge", "-p", &available.to_string()];
            self.kubectl.run(&[&["patch", "managedcluster", cluster][..], &patch].concat());
        }
        eventually("both versions of add-ons are served", async || {
            self.kubectl.run(&["api-versions"]).contains("addon.open-cluster-management.io/v1beta1")
                && self.kubectl.command(&["get", "--raw", V1BETA1]).output().unwrap().status.success()
        })
        .await;
        self.kubectl.run(&["create", "namespace", NAMESPACE]);
    }

    /// Joins a cluster on an embedded API server with our agent; returns its administrator's client.
    pub(crate) async fn join_with_agent(&mut self, name: &str, more: &[&str]) -> kube::Client {
        let objects = crds::spoke().iter().map(Object::from_typed).collect();
        let server = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
        let spoke = self.dir.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&spoke, server.admin_kubeconfig_yaml().unwrap()).unwrap();
        self.spokes.insert(name.to_owned(), (self.start_agent(name, more), server));
        accept(&self.kubectl, name).await;
        client_of(&spoke).await
    }

    fn start_agent(&self, name: &str, more: &[&str]) -> Running {
        let spoke = self.dir.path().join(format!("{name}.kubeconfig"));
        let hub = ["--hub-kubeconfig", path(&self.admin), "--spoke-kubeconfig", path(&spoke)];
        let args = [&["agent", "--spoke-cluster-name", name][..], &hub, more].concat();
        Running::start(name, self.dir.path(), &args)
    }

    /// Kills a cluster's agent, runs `meanwhile`, and restarts the agent.
    pub(crate) async fn restart_agent(&mut self, name: &str, more: &[&str], meanwhile: impl AsyncFnOnce()) {
        let (agent, server) = self.spokes.remove(name).expect("it runs");
        agent.kill_9();
        meanwhile().await;
        self.spokes.insert(name.to_owned(), (self.start_agent(name, more), server));
    }

    pub(crate) fn start_operator(&mut self, more: &[&str]) {
        let args: Vec<&str> = self.args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.operator = Some(Running::start("operator", self.dir.path(), &args));
    }

    pub(crate) fn stop_operator(&mut self) {
        self.operator.take().expect("it runs").kill_9();
    }

    pub(crate) fn apply(&self, documents: &str) {
        self.kubectl.run_with(&["apply", "-f", "-"], documents);
    }

    /// Installs a published file in its order; its CRDs are applied first and must be served before the rest. As
    /// with helm, unknown fields only cause warnings: the chart of cluster-proxy sets one.
    pub(crate) fn install(&self, file: &str) {
        let is_definition = |document: &&str| document.contains("\nkind: CustomResourceDefinition");
        let (definitions, rest): (Vec<&str>, Vec<&str>) = file.split("\n---\n").partition(is_definition);
        if !definitions.is_empty() {
            self.apply(&definitions.join("\n---\n"));
        }
        self.kubectl.establishes();
        self.kubectl.run_with(&["apply", "--validate=warn", "-f", "-"], &rest.join("\n---\n"));
    }

    /// Returns an object as JSON; `Null` if it does not exist.
    pub(crate) fn get(&self, args: &[&str]) -> Value {
        let args = [&["get", "--ignore-not-found", "-o", "json"][..], args].concat();
        let text = self.kubectl.run(&args);
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// Deletes a ClusterManagementAddOn. A policy lets every cluster lose the add-on at once, as in OCM.
    pub(crate) fn uninstall(&self, addon: &str) {
        self.apply(&format!(
            "apiVersion: gitops.wheelwright.dev/v1alpha1\n\
             kind: RolloutPolicy\n\
             metadata: {{name: {addon}}}\n\
             spec: {{addOns: [{addon}], removalBudget: 100%}}\n"
        ));
        self.kubectl.run(&["delete", "clustermanagementaddon", addon, "--timeout=60s"]);
    }

    /// Returns a kubectl that acts as a service account in the add-ons' namespace.
    pub(crate) fn kubectl_of(&self, account: &str) -> Kubectl {
        let file = self.kubeconfig_of(NAMESPACE, account);
        Kubectl::new(&file, self.path("kubectl-home"))
    }

    /// Writes a kubeconfig for a service account.
    pub(crate) fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.kubectl.run(&["create", "token", account, "-n", namespace]);
        let credential = wheelwright::apiserver::Credential::Token(token.trim().to_owned());
        let text = wheelwright::apiserver::kubeconfig_yaml(&self.url, &self.ca, &credential);
        let file = self.path(&format!("{namespace}-{account}.kubeconfig"));
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Returns a path in the test's directory. The kubeconfig of a cluster with an agent has the cluster's name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

const SIGNERS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: signers}
rules:
- {apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [example.com/foo], verbs: [approve, sign]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: signers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: signers}
subjects: [{kind: User, name: operator, apiGroup: rbac.authorization.k8s.io}]
"#;

const V1BETA1: &str = "/apis/addon.open-cluster-management.io/v1beta1/clustermanagementaddons";

fn path(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}
