//! A ManifestWorkReplicaSet, from the hub to the objects on two clusters with real agents, on the embedded hub and
//! on a real API server.

use std::collections::BTreeMap;

use api::condition::Conditions as _;
use api::crds;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::config::Kubeconfig;
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::now;

use crate::kube as real;
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

const CLUSTERS: [&str; 2] = ["c1", "c2"];

fn admin(server: &Server) -> Kubeconfig {
    server.kubeconfig("admin", &["system:masters"]).unwrap()
}

async fn server(definitions: Vec<Object>) -> Server {
    Server::start(ServerOptions { objects: definitions, ..ServerOptions::new(now) }).await.unwrap()
}

fn objects(value: &str, cascade: &str) -> Vec<Object> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}, "data": {"v": value}});
    let objects: [Value; 4] = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "team"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "all", "namespace": "team"}, "spec": {"tolerations": [{"operator": "Exists"}]}}),
        json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": "settings", "namespace": "team"}, "spec": {
                "placementRefs": [{"name": "all", "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}}}],
                "manifestWorkTemplate": {"workload": {"manifests": [map]}}, "cascadeDeletionPolicy": cascade}}),
    ];
    objects.map(|value| Object::from_value(value).unwrap()).to_vec()
}

/// Runs the operator and two agents, changes the template, and deletes the set.
async fn check(hub: ::kube::Client, bootstrap: Kubeconfig) {
    let (stop, cache) = (CancellationToken::new(), tempfile::tempdir().unwrap());
    let options = OperatorOptions::new(hub.clone(), cache.path());
    let mut tasks = vec![tokio::spawn(operator::run(options, stop.clone()))];
    let (mut servers, mut spokes) = (Vec::new(), BTreeMap::new());
    for name in CLUSTERS {
        let server = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
        let spoke = client(&admin(&server)).await;
        let bootstrap = Bootstrap::Given(Box::new(bootstrap.clone()));
        let options = AgentOptions::new(bootstrap, spoke.clone(), name);
        tasks.push(tokio::spawn(agent::run(options, stop.clone())));
        accept(&hub, name).await;
        servers.push(server);
        spokes.insert(name, Api::<ConfigMap>::namespaced(spoke, "default"));
    }
    let sets: Api<ManifestWorkReplicaSet> = Api::namespaced(hub.clone(), "team");
    let works: Api<ManifestWork> = Api::all(hub.clone());
    for value in ["1", "2"] {
        for object in objects(value, "Foreground") {
            apply(&hub, &object).await;
        }
        eventually("every cluster has the template, and the set says so", async || {
            let set = sets.get("settings").await.unwrap();
            let current = set.conditions().iter().all(|c| c.observed_generation == set.metadata.generation);
            let summary = set.status.as_ref().map(|status| status.summary.clone()).unwrap_or_default();
            current
                && set.holds("PlacementRolledOut")
                && set.holds("ManifestworkApplied")
                && summary.updated == Some(2)
        })
        .await;
        for maps in spokes.values() {
            assert_eq!(maps.get("m").await.unwrap().data.unwrap()["v"], value);
        }
    }
    let kubeconfig = cache.path().join("kubeconfig");
    std::fs::write(&kubeconfig, serde_json::to_string(&bootstrap).unwrap()).unwrap();
    for arguments in [&["rollout", "status", "team/settings", "--watch"][..], &["status"]] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let shown = command.args(arguments).arg("--kubeconfig").arg(&kubeconfig).output().await.unwrap();
        let printed = String::from_utf8(shown.stdout).unwrap();
        let is_done = printed.contains("team/settings  2 of 2 clusters done") && printed.contains("✓ c2");
        assert!(shown.status.success() && is_done, "{arguments:?}: {printed}");
    }
    let mut set = objects("3", "Foreground").pop().unwrap().into_value();
    // The API servers of the clusters reject the name.
    set["spec"]["manifestWorkTemplate"]["workload"]["manifests"][0]["metadata"]["name"] = json!("Not_Valid");
    apply(&hub, &Object::from_value(set).unwrap()).await;
    let kubectl = real::Kubectl::new(&kubeconfig, cache.path().join("home"));
    let wait = [
        "wait",
        "--namespace=team",
        "--for=condition=Stalled",
        "manifestworkreplicaset/settings",
        "--timeout=60s",
    ];
    let output = tokio::task::spawn_blocking(move || kubectl.run(&wait)).await.unwrap();
    assert!(output.contains("condition met"), "{output}");
    sets.delete("settings", &DeleteParams::default()).await.unwrap();
    eventually("the set goes", async || sets.get_opt("settings").await.unwrap().is_none()).await;
    assert!(works.list(&ListParams::default()).await.unwrap().items.is_empty(), "after its works");
    for maps in spokes.values() {
        assert!(maps.get_opt("m").await.unwrap().is_none(), "and after their objects");
    }
    stop.cancel();
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_reaches_the_clusters_of_an_embedded_hub_and_goes_with_its_objects() {
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    check(client(&admin(&hub)).await, admin(&hub)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_reaches_the_clusters_of_a_real_hub_and_goes_with_its_objects() {
    let hub = real::Cluster::start("hub").await;
    let definitions: String = crds::hub()
        .iter()
        .map(|crd| format!("---\n{}\n", serde_json::to_string(&Object::from_typed(crd)).unwrap()))
        .collect();
    hub.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &definitions);
    check(hub.client().await, Kubeconfig::read_from(&hub.kubeconfig).unwrap()).await;
}
