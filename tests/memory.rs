//! The operator, agent and dashboard within the memory limits of the charts, with the largest objects that clients
//! may store on the hub.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use api::crds;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client};
use object::Object;
use serde_json::{Value, json};
use store::{Patch, ResourcePath, WriteOptions};
use wheelwright::apiserver::Server;

use crate::cli::server;
use crate::dashboard::Dashboard;
use crate::running::{Running, program};
use crate::sources::{self, NAMESPACE};
use crate::wait::eventually_within;

/// Maximum time for a process to read all of these objects on a busy machine; an idle one takes half a minute.
const READING: Duration = Duration::from_secs(600);

/// A control group with a memory limit. Requires root.
pub(crate) struct MemoryGroup {
    path: PathBuf,
    /// The file that contains the peak usage in bytes.
    peak: &'static str,
}

impl MemoryGroup {
    /// Creates a group with the memory limit of a chart, in MiB.
    pub(crate) fn new(name: &str, limit: usize) -> Self {
        let first = Path::new("/sys/fs/cgroup/memory");
        let (root, limit_file, peak) = if first.is_dir() {
            (first, "memory.limit_in_bytes", "memory.max_usage_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max", "memory.peak")
        };
        let path = root.join(format!("wheelwright-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("this test makes a control group, as root");
        let bytes = (limit << 20).to_string();
        std::fs::write(path.join(limit_file), bytes).expect("the memory of control groups has limits");
        Self { path, peak }
    }

    /// Returns a command that runs a program in this group.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ >"$0/cgroup.procs" && exec "$@""#]).arg(&self.path);
        command.arg(program);
        command
    }

    /// Returns the peak usage in MiB, including page cache.
    pub(crate) fn peak(&self) -> u64 {
        let bytes = std::fs::read_to_string(self.path.join(self.peak)).unwrap();
        bytes.trim().parse::<u64>().unwrap() >> 20
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The group's directory can be removed once its processes have exited.
        drop(std::fs::remove_dir(&self.path));
    }
}

const CLUSTER: &str = "cluster.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";

/// Length of the long texts. With one, an object has almost the 1.5 MiB that API servers accept.
const LONG: usize = 1_450_000;

/// Stores objects of a resource, including their statuses if they have one.
fn store(server: &Server, target: &ResourcePath, objects: impl Iterator<Item = Value>) {
    let options = WriteOptions::manager("tenant");
    for object in objects {
        let (status, object) = (object.get("status").cloned(), Object::from_value(object).unwrap());
        server.with_store(|store, now| {
            let named = target.clone().named(object.name()).sub("status");
            store.create(target, object, &options, now).unwrap();
            if let Some(status) = status {
                let patch = Patch::Merge(json!({ "status": status }));
                store.patch(&named, &patch, &options, now).unwrap();
            }
        });
    }
}

/// Stores objects that agents, bootstrap tokens and tenants can write, more than any of the processes can hold.
fn fill(server: &Server) {
    let long = "x".repeat(LONG);
    let encoded = STANDARD.encode("x".repeat(LONG / 4 * 3));
    let requests = ResourcePath::resource("certificates.k8s.io", "v1", "certificatesigningrequests");
    store(
        server,
        &requests,
        (0..40).map(|i| {
            json!({
                "apiVersion": "certificates.k8s.io/v1",
                "kind": "CertificateSigningRequest",
                "metadata": {
                    "name": format!("large-{i}"),
                    "labels": { "open-cluster-management.io/cluster-name": "c1" },
                },
                "spec": {
                    "signerName": "kubernetes.io/kube-apiserver-client",
                    "usages": ["client auth"],
                    "request": STANDARD.encode(format!(
                        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
                        "A".repeat(LONG / 4 * 3),
                    )),
                },
            })
        }),
    );
    let clusters = ResourcePath::resource(CLUSTER, "v1", "managedclusters");
    let cluster = |name: String, spec: Value, status: Value| {
        let (api_version, metadata) = (format!("{CLUSTER}/v1"), json!({ "name": name }));
        json!({ "apiVersion": api_version, "kind": "ManagedCluster", "metadata": metadata, "spec": spec, "status": status })
    };
    store(
        server,
        &clusters,
        (0..40).map(|i| {
            let configs = json!([{ "url": "https://large.example", "caBundle": encoded }]);
            let spec = json!({ "hubAcceptsClient": false, "managedClusterClientConfigs": configs });
            cluster(format!("asking-{i}"), spec, json!({ "conditions": [], "version": {} }))
        }),
    );
    store(
        server,
        &clusters,
        (0..20).map(|i| {
            let claims: Vec<Value> = (0..LONG / 1_064)
                .map(|i| json!({ "name": format!("{i}.example"), "value": "x".repeat(1_024) }))
                .collect();
            let status = json!({ "conditions": [], "version": {}, "clusterClaims": claims });
            cluster(format!("claiming-{i}"), json!({ "hubAcceptsClient": true }), status)
        }),
    );
    let events = ResourcePath::resource("", "v1", "events").within("default");
    store(
        server,
        &events,
        (0..10).map(|i| {
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": { "name": format!("large-{i}") },
                "involvedObject": { "kind": "ConfigMap", "namespace": "default", "name": "a" },
                "related": { "kind": "ConfigMap", "name": long },
            })
        }),
    );
    let placements = ResourcePath::resource(CLUSTER, "v1beta1", "placements").within("default");
    store(
        server,
        &placements,
        (0..10).map(|i| {
            json!({
                "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "Placement",
                "metadata": { "name": format!("large-{i}") }, "spec": { "clusterSets": [long] },
            })
        }),
    );
    fill_works(server, "default");
    let sets = ResourcePath::resource(WORK, "v1alpha1", "manifestworkreplicasets").within("default");
    store(
        server,
        &sets,
        (0..20).map(|i| {
            json!({
                "apiVersion": format!("{WORK}/v1alpha1"), "kind": "ManifestWorkReplicaSet",
                "metadata": { "name": format!("dense-{i}") },
                "spec": {
                    "placementRefs": [{ "name": "absent" }],
                    "manifestWorkTemplate": { "workload": { "manifests": [dense(LONG / 1_000)] } },
                },
            })
        }),
    );
}

/// Returns a manifest that takes twenty times as much memory as its text. Its lists are short enough for policies
/// to compare within their budget.
fn dense(lists: usize) -> Value {
    let numbers = vec![vec![0; 400]; lists];
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "default" }, "data": { "a": numbers } })
}

/// Stores works with large manifests and large statuses.
fn fill_works(server: &Server, namespace: &str) {
    let long = "x".repeat(LONG);
    let works = ResourcePath::resource(WORK, "v1", "manifestworks").within(namespace);
    let work = |name: String, manifest: Value| {
        json!({
            "apiVersion": format!("{WORK}/v1"), "kind": "ManifestWork", "metadata": { "name": name },
            "spec": { "workload": { "manifests": [manifest] } },
        })
    };
    store(server, &works, (0..30).map(|i| work(format!("dense-{i}"), dense(250))));
    store(
        server,
        &works,
        (0..20).map(|i| {
            let mut work = work(format!("reporting-{i}"), config_map("reported"));
            let manifests = json!([{ "conditions": [], "resourceMeta": { "ordinal": 0, "name": long } }]);
            work["status"] = json!({ "conditions": [], "resourceStatus": { "manifests": manifests } });
            work
        }),
    );
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "default" } })
}

/// Creates an administrator; returns its token.
async fn administrator(hub: &Client) -> String {
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } })).unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "person" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }],
    }))
    .unwrap();
    let post = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    namespaces.create(&post, &namespace).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(hub.clone());
    bindings.create(&post, &binding).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.clone(), "default");
    let token: TokenRequest =
        accounts.create_token_request("default", &post, &TokenRequest::default()).await.unwrap();
    token.status.unwrap().token.unwrap()
}

/// A process in its own control group.
struct Limited {
    name: &'static str,
    process: Running,
    group: MemoryGroup,
}

impl Limited {
    /// Starts our program with arguments and a kubeconfig.
    fn start(name: &'static str, limit: usize, dir: &Path, arguments: &[&str]) -> Self {
        let group = MemoryGroup::new(name, limit);
        let process = Running::spawn(group.command(program(arguments)).args(arguments), name, dir, dir);
        Self { name, process, group }
    }

    /// Waits until a state is reached while the process runs.
    async fn eventually(&mut self, state: &str, mut holds: impl AsyncFnMut() -> bool) {
        let Self { name, process, group } = self;
        eventually_within(READING, state, async || {
            assert!(process.is_running(), "the {name} ended; it took {} MiB", group.peak());
            holds().await
        })
        .await;
        println!("{state}: the {name} took at most {} MiB", group.peak());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_agent_and_dashboard_stay_within_their_memory_limits_whatever_clients_stored() {
    let (hub, spoke) =
        (sources::Hub::start().await, server(crds::spoke().iter().map(Object::from_typed).collect()).await);
    let (dir, client) = (hub.dir.path(), hub.server.client());
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (on_hub, on_spoke, cache) = (file("kubeconfig"), file("spoke"), file("cache"));
    std::fs::write(&on_spoke, spoke.admin_kubeconfig_yaml().unwrap()).unwrap();
    let token = administrator(&client).await;
    fill(&hub.server);

    let arguments = ["operator", "--leader-elect=false", "--kubeconfig", &on_hub, "--cache-dir", &cache];
    let mut operator = Limited::start("operator", 512, dir, &arguments);
    let arguments =
        ["agent", "--hub-kubeconfig", &on_hub, "--spoke-kubeconfig", &on_spoke, "--spoke-cluster-name", "c1"];
    let mut agent = Limited::start("agent", 256, dir, &arguments);
    // The command must find the agent's request among large ones.
    let mut accept = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    accept.args(["accept", "--clusters", "c1", "--wait", "10m", "--kubeconfig", &on_hub]);
    let accepted = accept.output().unwrap();
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let is_there = async || namespaces.get_opt("c1").await.unwrap().is_some();
    operator.eventually("the operator serves the cluster", is_there).await;

    fill_works(&hub.server, "c1");
    let works = ResourcePath::resource(WORK, "v1", "manifestworks").within("c1");
    let work = json!({
        "apiVersion": format!("{WORK}/v1"), "kind": "ManifestWork", "metadata": { "name": "served" },
        "spec": { "workload": { "manifests": [config_map("served")] } },
    });
    store(&hub.server, &works, std::iter::once(work));
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client(), "default");
    let is_applied = async || maps.get_opt("served").await.unwrap().is_some();
    agent.eventually("the agent applies a work", is_applied).await;
    assert!(operator.process.is_running(), "the operator ended; it took {} MiB", operator.group.peak());

    let group = MemoryGroup::new("dashboard", 512);
    let dashboard = Dashboard::start_with(
        group.command(env!("CARGO_BIN_EXE_wheelwright")),
        &client,
        &dir.join("kubeconfig"),
    )
    .await;
    eventually_within(READING, "the dashboard shows the cluster", async || {
        dashboard.page(&token).await.has("claiming-1")
    })
    .await;
    println!("the dashboard took at most {} MiB", group.peak());
}
