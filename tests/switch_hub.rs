//! `wheelwright switch-hub`: a real agent moves from one hub to another, and both hubs are left clean.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::cluster::v1::ManagedCluster;
use api::crds;
use api::names::AGENT_NAMESPACE;
use api::work::v1::{AppliedManifestWork, ManifestWork};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use object::{Key, Object};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::Server;
use wheelwright::operator::{self, OperatorOptions};

use crate::cli::{Cli, server};
use crate::drop_in::send_work;
use crate::kube::Cluster;
use crate::trace::client;
use crate::wait::eventually;

/// Replaces a file atomically, as the kubelet does.
pub(crate) fn replace(file: &Path, content: &[u8]) {
    let partial = file.with_extension("new");
    std::fs::write(&partial, content).unwrap();
    std::fs::rename(&partial, file).unwrap();
}

/// Keeps a file in sync with a secret, as the kubelet does for a pod.
async fn mount(secrets: Api<Secret>, file: PathBuf) {
    loop {
        if let Some(secret) = secrets.get_opt("bootstrap-hub-kubeconfig").await.unwrap() {
            replace(&file, &secret.data.unwrap()["kubeconfig"].0);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn hub(dir: &std::path::Path, name: &str, stop: &CancellationToken) -> (Server, Cli, ::kube::Client) {
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let (cli, on_hub) =
        (Cli::new(dir, name, &hub), client(&hub.kubeconfig("admin", &["system:masters"]).unwrap()).await);
    let options = OperatorOptions::new(on_hub.clone(), dir.join(format!("{name}-cache")));
    tokio::spawn(operator::run(options, stop.clone()));
    let bootstrap = cli.run("get token --output kubeconfig");
    std::fs::write(dir.join(format!("{name}-bootstrap")), bootstrap).unwrap();
    (hub, cli, on_hub)
}

/// Accepts the cluster and makes it renew its lease often.
async fn accept(cli: &Cli, hub: &::kube::Client) {
    cli.run("accept --clusters c1 --wait 2m");
    let clusters: Api<ManagedCluster> = Api::all(hub.clone());
    let often = Patch::Merge(json!({"spec": {"leaseDurationSeconds": 1}}));
    clusters.patch("c1", &PatchParams::default(), &often).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_handed_over_to_another_hub_with_its_objects() {
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let (_first, on_first, first) = hub(dir.path(), "first", &stop).await;
    let (second_server, on_second, second) = hub(dir.path(), "second", &stop).await;
    let spoke_server = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
    let on_spoke = Cli::new(dir.path(), "spoke", &spoke_server);
    let spoke = client(&spoke_server.kubeconfig("admin", &["system:masters"]).unwrap()).await;
    let bootstrap = |name: &str| format!("--hub-kubeconfig {}", dir.path().join(name).display());
    let switch = format!("switch-hub {}", bootstrap("second-bootstrap"));
    assert!(on_spoke.refused(&switch).contains("there is no bootstrap kubeconfig"));
    on_spoke.run(&format!("join --cluster-name c1 {}", bootstrap("first-bootstrap")));
    assert!(on_spoke.refused(&switch).contains("has not joined a hub yet"));

    let mounted = dir.path().join("mounted");
    let kubelet = tokio::spawn(mount(Api::namespaced(spoke.clone(), AGENT_NAMESPACE), mounted.clone()));
    eventually("the pod has its secret", async || mounted.exists()).await;
    tokio::spawn(agent::run(AgentOptions::new(Bootstrap::File(mounted), spoke.clone(), "c1"), stop.clone()));
    accept(&on_first, &first).await;
    let joins = async |hub: &Cli| {
        eventually("the cluster is available", async || {
            hub.run("get clusters c1").contains("Available: True")
        })
        .await;
    };
    joins(&on_first).await;
    send_work(&first, "m").await;
    let maps: Api<ConfigMap> = Api::namespaced(spoke.clone(), "default");
    eventually("the work is applied", async || maps.get_opt("m").await.unwrap().is_some()).await;
    let uid = maps.get("m").await.unwrap().metadata.uid;
    assert!(on_spoke.run(&format!("switch-hub {}", bootstrap("first-bootstrap"))).contains("already"));
    std::fs::write(dir.path().join("renewed"), on_first.run("get token --output kubeconfig")).unwrap();
    let renewed = on_spoke.run(&format!("switch-hub {}", bootstrap("renewed")));
    assert!(renewed.contains("its hub is still") && !renewed.contains("delete managedcluster"), "{renewed}");
    for (name, user, reason) in [
        ("nobody", json!({}), "cannot join a cluster"),
        ("plugin", json!({"exec": {"apiVersion": "v1", "command": "x"}}), "runs a plugin"),
        ("path", json!({"tokenFile": "/token"}), "names /token"),
    ] {
        let text = std::fs::read_to_string(dir.path().join("second-bootstrap")).unwrap();
        let mut config: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        config["users"][0]["user"] = user;
        std::fs::write(dir.path().join(name), config.to_string()).unwrap();
        let refused = on_spoke.refused(&format!("switch-hub {}", bootstrap(name)));
        assert!(refused.contains(reason), "{refused}");
    }
    let planned = on_spoke.run(&format!("{switch} --dry-run --wait {}", i64::MAX));
    assert!(planned.contains("(dry run)") && !planned.contains("has joined"), "{planned}");
    joins(&on_first).await;

    let command = tokio::task::spawn_blocking(move || on_spoke.output(&switch, ""));
    accept(&on_second, &second).await;
    let output = command.await.unwrap();
    let (printed, asked) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{printed}{asked}");
    assert!(asked.contains("On the new hub run: wheelwright accept --clusters c1"), "{asked}");
    let url = format!(" to {}", second_server.url);
    assert!(
        printed.starts_with("Switched cluster c1 from hub ")
            && printed.contains(&url)
            && printed.contains("renews its lease there"),
        "{printed}"
    );
    assert!(printed.contains("kubectl delete managedcluster c1"), "{printed}");
    joins(&on_second).await;

    send_work(&second, "m").await;
    let applied: Api<AppliedManifestWork> = Api::all(spoke.clone());
    eventually("the work of the new hub is applied beside the old one", async || {
        applied.list(&ListParams::default()).await.unwrap().items.len() == 2
            && on_second.run("get works -o tree").contains("configmaps default/m: True")
    })
    .await;
    assert_eq!(maps.get("m").await.unwrap().metadata.uid, uid, "the object was not made again");

    let clusters: Api<ManagedCluster> = Api::all(first.clone());
    clusters.delete("c1", &DeleteParams::default()).await.unwrap();
    let works: Api<ManifestWork> = Api::namespaced(first.clone(), "c1");
    eventually("the old hub deletes its work", async || {
        works.get("m").await.unwrap().metadata.deletion_timestamp.is_some()
    })
    .await;
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    works.patch("m", &PatchParams::default(), &released).await.unwrap();
    eventually("the old hub has no cluster", async || clusters.get_opt("c1").await.unwrap().is_none()).await;
    assert!(maps.get_opt("m").await.unwrap().is_some(), "the object stays");
    stop.cancel();
    kubelet.abort();
}

/// Runs the agents of two hubs on one cluster. Each hub has its own work, and a work for a shared object.
async fn share(spoke: Client) {
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let mut hubs = Vec::new();
    for name in ["first", "second"] {
        let (server, cli, on_hub) = hub(dir.path(), name, &stop).await;
        let bootstrap = Bootstrap::File(dir.path().join(format!("{name}-bootstrap")));
        let secret = Key::namespaced(format!("agent-of-{name}"), "identity");
        let options = AgentOptions { secret, ..AgentOptions::new(bootstrap, spoke.clone(), "c1") };
        tokio::spawn(agent::run(options, stop.clone()));
        accept(&cli, &on_hub).await;
        for work in ["m", name] {
            send_work(&on_hub, work).await;
        }
        hubs.push((name, server, cli, on_hub));
    }
    let maps: Api<ConfigMap> = Api::namespaced(spoke.clone(), "default");
    let uid = async |name: &str| maps.get_opt(name).await.unwrap().and_then(|map| map.metadata.uid);
    let owners = async || {
        let map = maps.get_opt("m").await.unwrap();
        map.map(|map| map.metadata.owner_references.unwrap_or_default().len())
    };
    eventually("both hubs own the object", async || owners().await == Some(2)).await;
    eventually("each has its own", async || uid("first").await.is_some() && uid("second").await.is_some())
        .await;
    let inventories =
        Api::<AppliedManifestWork>::all(spoke.clone()).list(&ListParams::default()).await.unwrap().items;
    let inventories: BTreeSet<String> = inventories.iter().map(ResourceExt::name_any).collect();
    let of_hub = |(name, server, ..): &(&str, Server, Cli, Client)| {
        let hash = object::hex(Sha256::digest(&server.url));
        ["m", *name].map(|work| format!("{hash}-{work}"))
    };
    assert_eq!(inventories, hubs.iter().flat_map(of_hub).collect());
    let before = [uid("m").await, uid("first").await, uid("second").await];
    for ((.., on_hub), left) in hubs.iter().zip([Some(1), None]) {
        let works: Api<ManifestWork> = Api::namespaced(on_hub.clone(), "c1");
        works.delete("m", &DeleteParams::default()).await.unwrap();
        eventually("the work is gone", async || works.get_opt("m").await.unwrap().is_none()).await;
        eventually("so is its hold on the object", async || owners().await == left).await;
        if left.is_some() {
            assert_eq!(uid("m").await, before[0], "it was not made again");
        }
    }
    assert_eq!([uid("first").await, uid("second").await], before[1..], "those of other works stay");
    for (_, _, cli, _) in &hubs {
        assert!(cli.run("get clusters c1").contains("Available: True"));
    }
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_two_hubs_share_a_cluster_and_its_objects() {
    let server = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
    share(client(&server.kubeconfig("admin", &["system:masters"]).unwrap()).await).await;
}

/// A real cluster has the Kubernetes garbage collector, which deletes an object with its last owner.
#[tokio::test(flavor = "multi_thread")]
async fn agents_of_two_hubs_share_a_real_cluster_and_its_objects() {
    let spoke = Cluster::start("two-hubs-spoke").await;
    spoke.kubectl().install(crds::spoke().into_iter());
    share(spoke.client().await).await;
}
