//! The secrets through which Argo CD knows the clusters of a placement.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::fixtures::{merged, put, seconds, select_all, with};
use api::cluster::v1::ManagedCluster;
use api::names::LEFT_SINCE_ANNOTATION;
use object::{Key, Metadata as _};
use sim::{Setup, World};

/// Returns two clusters selected by a placement.
pub(crate) fn clusters(setup: Setup) -> World {
    let mut world = with(setup, 1, 2);
    select_all(&mut world);
    world
}

/// Returns two clusters of a placement that requests secrets with the token of an account; an empty name requests
/// none.
fn fleet(account: &str) -> World {
    let mut world = clusters(Setup::with_argo_cd());
    ask(&mut world, Some(account));
    world
}

/// Requests the list, and secrets with or without the token of an account.
pub(crate) fn ask(world: &mut World, account: Option<&str>) {
    let mut annotations = json!({"gitops.wheelwright.dev/cluster-decision": ""});
    if let Some(account) = account {
        annotations["gitops.wheelwright.dev/cluster-secrets"] = json!(account);
    }
    put(
        world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "fleet", "namespace": "default", "annotations": annotations}, "spec": {},
        }),
    );
    world.run_for(seconds(20)).unwrap();
}

fn secret(world: &mut World, namespace: &str, name: &str, metadata: Value, data: Value) {
    let kind =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}});
    put(world, merged(kind, json!({"metadata": metadata, "stringData": data})));
    world.run_for(seconds(20)).unwrap();
}

/// Writes the Secret of the account `argocd` on the first cluster, as its add-on does.
fn account(world: &mut World, token: &str) {
    let labels =
        json!({"labels": {"authentication.open-cluster-management.io/is-managed-serviceaccount": "true"}});
    secret(world, "cluster1", "argocd", labels, json!({"token": token, "ca.crt": "PEM"}));
}

/// Returns the values of each secret in the placement's namespace, by name.
fn secrets(world: &World) -> BTreeMap<String, BTreeMap<String, String>> {
    let of = |secret: &Secret| {
        let data = secret.data.clone().unwrap_or_default().into_iter();
        let data = data.map(|(name, value)| (name, String::from_utf8(value.0).unwrap())).collect();
        (secret.name().to_owned(), data)
    };
    world.list::<Secret>().iter().filter(|it| it.namespace() == "default").map(of).collect()
}

fn names(world: &World) -> Vec<String> {
    secrets(world).into_keys().collect()
}

const BOTH: [&str; 2] = ["cluster1-cluster-secret", "cluster2-cluster-secret"];

#[test]
fn a_clusters_secret_stays_an_hour_after_it_leaves_the_list() {
    let mut world = fleet("");
    assert_eq!(names(&world), BOTH);
    let first = &secrets(&world)[BOTH[0]];
    let values = [("name", "cluster1"), ("server", "https://cluster1-control-plane:6443")];
    assert_eq!(*first, values.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    world.keep_history();
    world.restart_operator();
    world.run_for(seconds(600)).unwrap();
    assert!(world.take_history().iter().all(|write| write.id.kind != "Secret"), "nothing is written at rest");
    world.delete::<Secret>(&Key::namespaced("default", BOTH[0])).unwrap();
    world.run_for(seconds(20)).unwrap();
    assert_eq!(names(&world), BOTH, "a secret that somebody deletes is written again");

    world.delete::<ManagedCluster>(&Key::cluster("cluster2")).unwrap();
    world.run_for(seconds(1800)).unwrap();
    assert_eq!(names(&world), BOTH, "Argo CD needs it to delete the application");
    world.run_for(seconds(2400)).unwrap();
    assert_eq!(names(&world), BOTH[..1]);
    ask(&mut world, None);
    world.run_for(seconds(600)).unwrap();
    let left = |world: &World| {
        let live: Secret = world.get(&Key::namespaced("default", BOTH[0])).unwrap();
        live.annotation(LEFT_SINCE_ANNOTATION).is_some()
    };
    assert!(left(&world), "nobody asks for it any more");
    ask(&mut world, Some(""));
    assert!(!left(&world), "the hour ends when the cluster comes back");
    world.run_for(seconds(7200)).unwrap();
    assert_eq!(names(&world), BOTH[..1]);
}

#[test]
fn a_secret_has_the_token_of_its_account_and_follows_it() {
    let mut world = fleet("argocd");
    assert!(names(&world).is_empty(), "there is no token yet");
    account(&mut world, "t1");
    assert!(names(&world).is_empty(), "the cluster has told no address");
    address(&mut world, "https://kubernetes.default.svc");
    assert!(names(&world).is_empty(), "that is the address of the hub");
    address(&mut world, "https://c1.example.com:6443");
    assert_eq!(names(&world), BOTH[..1]);
    let config =
        |world: &World| -> Value { serde_json::from_str(&secrets(world)[BOTH[0]]["config"]).unwrap() };
    assert_eq!(config(&world)["bearerToken"], "t1");
    assert_eq!(secrets(&world)[BOTH[0]]["server"], "https://c1.example.com:6443");
    account(&mut world, "t2");
    assert_eq!(config(&world)["bearerToken"], "t2");
    world.delete::<Secret>(&Key::namespaced("cluster1", "argocd")).unwrap();
    world.run_for(seconds(20)).unwrap();
    assert_eq!(config(&world)["bearerToken"], "t2", "a cluster does not vanish with its token");
}

/// Writes the address that the first cluster's agent reports.
fn address(world: &mut World, url: &str) {
    put(
        world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "cluster1", "labels": {"canary": "true"}},
            "spec": {
                "hubAcceptsClient": true, "leaseDurationSeconds": 60,
                "managedClusterClientConfigs": [{"url": url}],
            },
        }),
    );
    world.run_for(seconds(20)).unwrap();
}

#[test]
fn a_foreign_secret_stays_and_has_no_rival() {
    let labels = json!({"labels": {"argocd.argoproj.io/secret-type": "cluster"}});
    for (name, server) in [("cluster1", "https://a"), ("other", "https://cluster1-control-plane:6443")] {
        let mut world = clusters(Setup::with_argo_cd());
        let manual = json!({"name": name, "server": server});
        secret(&mut world, "default", "manual", labels.clone(), manual.clone());
        let taken = json!({"name": "cluster2", "server": "https://b"});
        secret(&mut world, "default", BOTH[1], labels.clone(), taken);
        secret(
            &mut world,
            "kube-system",
            "manual",
            labels.clone(),
            json!({"name": "cluster2", "server": "https://c"}),
        );
        ask(&mut world, Some(""));
        assert_eq!(names(&world), [BOTH[1], "manual"], "{manual}");
        assert_eq!(secrets(&world)[BOTH[1]]["server"], "https://b");
        ask(&mut world, None);
        world.run_for(seconds(7200)).unwrap();
        assert_eq!(names(&world), [BOTH[1], "manual"]);
    }
}
