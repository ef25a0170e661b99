//! `wheelwright migrate`: an add-on and a ManifestWorkReplicaSet move from one cluster to another, with real
//! agents.

use std::collections::BTreeMap;

use api::cluster::v1::ManagedCluster;
use api::crds;
use api::names::MIGRATE_TAINT;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::Server;
use wheelwright::operator::{self, OperatorOptions};

use crate::cli::{Cli, server};
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

fn objects() -> Vec<Object> {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let addon = "addon.open-cluster-management.io";
    let values: [Value; 6] = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "team"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "one", "namespace": "team"}, "spec": {"numberOfClusters": 1}}),
        json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": "settings", "namespace": "team"}, "spec": {
                "placementRefs": [{"name": "one", "rolloutStrategy": {"type": "All"}}],
                "manifestWorkTemplate": {"workload": {"manifests": [map("of-set")]}}}}),
        json!({"apiVersion": format!("{addon}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": "maps"},
            "spec": {"addonName": "maps", "agentSpec": {"workload": {"manifests": [map("of-add-on")]}}}}),
        json!({"apiVersion": format!("{addon}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": "maps"}, "spec": {
            "supportedConfigs": [{"group": addon, "resource": "addontemplates", "defaultConfig": {"name": "maps"}}],
            "installStrategy": {"type": "Placements", "placements": [{"namespace": "team", "name": "one", "rolloutStrategy": {"type": "All"}}]}}}),
    ];
    values.map(|value| Object::from_value(value).unwrap()).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workloads_of_a_cluster_move_by_one_command_and_nothing_moves_without_yes() {
    let dir = tempfile::tempdir().unwrap();
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let bootstrap = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let (cli, on_hub) = (Cli::new(dir.path(), "hub", &hub), client(&bootstrap).await);
    let stop = CancellationToken::new();
    let options = OperatorOptions::new(on_hub.clone(), dir.path().join("cache"));
    tokio::spawn(operator::run(options, stop.clone()));
    let mut spokes: BTreeMap<&str, (Server, Api<ConfigMap>)> = BTreeMap::new();
    for name in ["c1", "c2"] {
        let spoke = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
        let on_spoke = client(&spoke.kubeconfig("admin", &["system:masters"]).unwrap()).await;
        let bootstrap = Bootstrap::Given(Box::new(bootstrap.clone()));
        let options = AgentOptions::new(bootstrap, on_spoke.clone(), name);
        tokio::spawn(agent::run(options, stop.clone()));
        accept(&on_hub, name).await;
        eventually("the cluster joins", async || {
            cli.run(&format!("get clusters {name}")).contains("Joined: True")
        })
        .await;
        spokes.insert(name, (spoke, Api::namespaced(on_spoke, "default")));
    }
    let exist = async |cluster: &str| {
        let (_, maps) = &spokes[cluster];
        let mut found = Vec::new();
        for name in ["of-add-on", "of-set"] {
            found.push(maps.get_opt(name).await.unwrap().is_some());
        }
        found
    };
    for object in objects() {
        apply(&on_hub, &object).await;
    }
    eventually("both are on c1", async || exist("c1").await == [true, true]).await;

    assert!(cli.refused("migrate nowhere").contains("there is no ManagedCluster nowhere"));
    assert!(cli.refused("migrate c1 --undo").contains(&format!("there is no taint {MIGRATE_TAINT}")));
    for line in ["migrate c1", "migrate c1 --dry-run --yes"] {
        let plan = cli.run(line);
        assert!(plan.contains("team/one  moves to c2\n"), "{line}: {plan}");
    }
    let clusters: Api<ManagedCluster> = Api::all(on_hub.clone());
    let taints = async || clusters.get("c1").await.unwrap().spec.taints;
    assert!(taints().await.is_empty(), "a plan changes nothing");

    let moves = cli.run("migrate c1 --yes");
    assert_eq!((exist("c1").await, exist("c2").await), (vec![false; 2], vec![true; 2]), "{moves}");
    assert!(moves.ends_with("every move off cluster c1 is complete\n"), "{moves}");
    let done: Value = serde_json::from_str(&cli.run("migrate c1 --yes -o json")).unwrap();
    assert_eq!(done, json!({"cluster": "c1", "taint": MIGRATE_TAINT, "done": true, "placements": []}));
    assert_eq!(taints().await.len(), 1, "the taint is set once");

    let undone = cli.run("migrate c1 --undo --dry-run");
    assert_eq!(
        (undone.as_str(), taints().await.len()),
        ("cluster c1 has no taint gitops.wheelwright.dev/migrate (dry run)\n", 1)
    );
    cli.run("migrate c1 --undo");
    assert!(taints().await.is_empty());
    assert!(cli.run("migrate c2").contains("team/one  moves to c1\n"), "c1 can be chosen again");
    let late = cli.refused("migrate c2 --yes --wait 0");
    assert!(late.contains("hint: the migration continues without this command"), "{late}");
    stop.cancel();
}
