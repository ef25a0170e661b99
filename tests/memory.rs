//! An operator within the memory of the chart, on a hub to which clients write as much as an API server takes. The
//! admission policies, which refuse most of it, are not installed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use api::cluster::v1::ManagedCluster;
use api::work::v1::ManifestWork;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use object::{Kind, Object};
use serde_json::{Value, json};

use crate::e2e::prepare_hub;
use crate::kube::{Cluster, Directory};
use crate::running::Running;
use crate::wait::eventually;

/// The limit of the chart.
const LIMIT: usize = 512 << 20;

/// A memory cgroup of this test.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes a cgroup with a limit below that of this process; `None` where that is not allowed.
    fn create(bytes: usize) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |name: &str| own.lines().find_map(|line| Some(line.split_once(name)?.1.to_owned()));
        let name = format!("wheelwright-test-{}", std::process::id());
        let places = [
            (
                path(":memory:").map(|path| format!("/sys/fs/cgroup/memory{path}/{name}")),
                "memory.limit_in_bytes",
            ),
            (path("0::").map(|path| format!("/sys/fs/cgroup{path}/{name}")), "memory.max"),
        ];
        places.into_iter().find_map(|(dir, file)| {
            let group = Self(PathBuf::from(dir?));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(file), bytes.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}

/// Starts the operator within the limit: in a cgroup, or with as much address space where no cgroup can be made.
fn start_operator(hub: &Cluster, dir: &Directory, group: Option<&Cgroup>) -> Running {
    let kubeconfig = hub.kubeconfig_for("operator", &["operators"]);
    let data = dir.path("git");
    let own =
        ["operator", "--kubeconfig", kubeconfig.to_str().unwrap(), "--cache-dir", data.to_str().unwrap()];
    let mut command = Command::new("sh");
    let script = match group {
        Some(Cgroup(path)) => format!("echo $$ > {}/cgroup.procs && exec \"$@\"", path.display()),
        None => format!("exec prlimit --as={} \"$@\"", 2 * LIMIT),
    };
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_wheelwright")]).args(own);
    Running::spawn(&mut command, "operator", &dir.path(""), &dir.path(""))
}

/// Creates objects, eight at one time.
async fn create<K: Kind>(api: &Api<K>, count: usize, object: impl Fn(usize) -> Value) {
    let create = async |index| {
        let object: K = Object::from_value(object(index)).unwrap().to_typed().unwrap();
        api.create(&PostParams::default(), &object).await.map(drop)
    };
    futures::stream::iter((0..count).map(create)).buffer_unordered(8).try_collect::<()>().await.unwrap();
}

/// Returns claims of 1.3 MB.
fn claims(letter: &str) -> Vec<Value> {
    (0..1300).map(|index| json!({"name": format!("{letter}{index}"), "value": letter.repeat(1000)})).collect()
}

/// Accepted clusters, each with a status of 1.3 MB and a work with as much.
async fn fill_statuses(client: &Client, large: &str) {
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let claims = json!({"status": {"clusterClaims": claims("a")}});
    let feedback = json!({"status": {"conditions": [{"type": "Applied", "status": "False", "reason": "R",
        "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
        "resourceStatus": {"manifests": [{"resourceMeta": {"ordinal": 0}, "conditions": [], "statusFeedback": {"values": [
            {"name": "a", "fieldValue": {"type": "String", "string": large}}]}}]}}});
    create(&clusters, FULL, |index| {
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": format!("full{index}")}, "spec": {"hubAcceptsClient": true}})
    })
    .await;
    create(&Api::<Namespace>::all(client.clone()), FULL, |index| {
        let name = format!("full{index}");
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"open-cluster-management.io/cluster-name": name}}})
    })
    .await;
    for index in 0..FULL {
        let name = format!("full{index}");
        clusters.patch_status(&name, &PatchParams::default(), &Patch::Merge(&claims)).await.unwrap();
        let works: Api<ManifestWork> = Api::namespaced(client.clone(), &name);
        create(&works, 1, |_| {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
            json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                "metadata": {"name": "w", "namespace": name}, "spec": {"workload": {"manifests": [map]}}})
        })
        .await;
        works.patch_status("w", &PatchParams::default(), &Patch::Merge(&feedback)).await.unwrap();
    }
}

/// How many clusters fill their status: more than the budget of a kind has room for.
const FULL: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_within_the_memory_of_the_chart_outlives_what_clients_write() {
    let dir = Directory::new("memory");
    let hub = Cluster::start("memory-hub").await;
    prepare_hub(&hub);
    let client = hub.client().await;
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    // A request counts up to the end of its PEM; what follows is of no meaning.
    let pem = include_str!("../crates/controllers/src/hub/tests/agent.csr");
    let long = k8s_openapi::ByteString([pem.as_bytes(), &vec![b'A'; 640 << 10]].concat());
    create(&requests, 520, |index| {
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": format!("r{index}")},
            "spec": {"request": long, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}})
    })
    .await;
    let bundle = "QUFB".repeat(320_000);
    create(&clusters, 326, |index| {
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": format!("new{index}")},
            "spec": {"managedClusterClientConfigs": [{"url": "https://a", "caBundle": bundle}]}})
    })
    .await;
    fill_statuses(&client, &"a".repeat(1_300_000)).await;

    let group = Cgroup::create(LIMIT);
    let mut operator = start_operator(&hub, &dir, group.as_ref());
    let good = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "good"}, "spec": {"hubAcceptsClient": true}});
    create(&clusters, 1, |_| good.clone()).await;
    eventually("a cluster is let in although others fill the memory", async || {
        assert!(operator.is_running(), "the operator ended");
        let good = clusters.get("good").await.unwrap();
        let mut conditions = good.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|one| one.type_ == "HubAcceptedManagedCluster" && one.is_true())
    })
    .await;
    let events: Api<Event> = Api::all(client.clone());
    eventually("what is not read is named", async || {
        assert!(operator.is_running(), "the operator ended");
        let unreadable = ListParams::default().fields("reason=Unreadable");
        let events = events.list(&unreadable).await.unwrap().items;
        events.iter().any(|event| event.message.as_deref().is_some_and(|text| text.contains("KiB of memory")))
    })
    .await;
    // What arrives by a watch counts as well.
    fill_again(&clusters).await;
    assert!(operator.is_running(), "the operator ended");
    let status = fs::read_to_string(format!("/proc/{}/status", operator.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: usize = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    println!("the operator took {} MiB at most", kib >> 10);
    assert!(kib < LIMIT >> 10, "{kib} KiB");
    operator.kill_9();
    drop(group);
}

/// Writes the status of some clusters again, with another value as large.
async fn fill_again(clusters: &Api<ManagedCluster>) {
    let claims = json!({"status": {"clusterClaims": claims("b")}});
    for index in 0..20 {
        let name = format!("full{index}");
        clusters.patch_status(&name, &PatchParams::default(), &Patch::Merge(&claims)).await.unwrap();
    }
}
