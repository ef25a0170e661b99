//! Argo CD alongside a hub: what an ApplicationSet generator reads after every write, and what Argo CD would
//! prune.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::fixtures::{
    addon, cluster, is_completed, join, merged, progressive, put, seconds, select_all, template, world,
};
use crate::replica_sets;
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::ClusterDecision;
use object::{Key, Object};
use sim::{World, Write};
use store::{Patch, WriteOptions};

/// The output of the cluster decision resource generator (argo-cd `applicationset/generators/duck_type.go`).
#[derive(Debug, PartialEq)]
enum Generated {
    /// An error, after which the existing applications stay.
    Error,
    /// A failed Go type assertion.
    Panic,
    /// The parameters of the applications. Argo CD removes all other applications.
    Parameters(BTreeMap<String, BTreeMap<String, String>>),
}

fn generate<'a>(objects: impl Iterator<Item = &'a Object>, list_key: &str) -> Generated {
    let mut objects = objects.peekable();
    if objects.peek().is_none() {
        return Generated::Error;
    }
    let mut parameters = BTreeMap::new();
    for object in objects {
        let Some(status) = object.0.get("status") else { continue };
        let Some(list) = status.get(list_key).and_then(Value::as_array) else { return Generated::Panic };
        for entry in list {
            let Some(entry) = entry.as_object() else { return Generated::Panic };
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let entry: BTreeMap<_, _> = entry.iter().map(|(key, value)| (key.clone(), text(value))).collect();
            parameters.insert(entry["clusterName"].clone(), entry);
        }
    }
    Generated::Parameters(parameters)
}

/// Returns the generator's answer after each write to objects of a kind.
fn answers(history: &[Write], kind: &str) -> Vec<Generated> {
    let mut objects: BTreeMap<String, Object> = BTreeMap::new();
    let mut answers = Vec::new();
    for write in history.iter().filter(|write| write.spoke.is_none() && write.id.kind == kind) {
        let name = write.id.key.to_string();
        match &write.after {
            Some(after) => {
                objects.insert(name, Object::clone(after));
            }
            None => {
                objects.remove(&name);
            }
        }
        answers.push(generate(objects.values(), "decisions"));
    }
    answers
}

const CANARY: &str = "canary";

/// Creates the placement `fleet`, which requests a list and puts the canary into its own group.
fn placement(world: &mut World, labels: Value, annotations: Value) {
    let wanted = json!({"gitops.wheelwright.dev/cluster-decision": "canary, id.k8s.io"});
    let labels_of_canary = json!({"labelSelector": {"matchLabels": {CANARY: "true"}}});
    let canary = json!({"groupName": CANARY, "groupClusterSelector": labels_of_canary});
    let predicate = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}});
    let annotations = merged(wanted, annotations);
    put(
        world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "fleet", "namespace": "default", "annotations": annotations},
            "spec": {"predicates": [predicate], "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}},
        }),
    );
    world.run_for(seconds(20)).unwrap();
}

/// Returns four clusters selected by the placement, and records the history of their hub.
fn placed() -> World {
    let mut world = world(4);
    world.keep_history();
    select_all(&mut world);
    placement(&mut world, json!({}), json!({}));
    world
}

fn nobody() -> Value {
    json!({"nobody": "has"})
}

fn decision(world: &World) -> ClusterDecision {
    world.get(&Key::namespaced("default", "fleet")).unwrap()
}

fn clusters(world: &World) -> usize {
    decision(world).status.unwrap().decisions.len()
}

#[test]
fn a_list_has_the_labels_claims_and_groups_of_clusters() {
    let mut world = world(2);
    select_all(&mut world);
    for (name, value) in [("id.k8s.io", "u-1"), ("other", "x")] {
        let kind =
            json!({"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim"});
        let claim = merged(kind, json!({"metadata": {"name": name}, "spec": {"value": value}}));
        on_spoke(&mut world, &claim, Patch::Apply(claim.clone()));
    }
    placement(&mut world, json!({}), json!({}));
    let decisions = serde_json::to_value(decision(&world).status.unwrap().decisions).unwrap();
    let first = json!({"clusterName": "cluster1", "group": "canary", "wave": "0", "revision": "", "labels.canary": "true", "claims.id.k8s.io": "u-1"});
    let second = json!({"clusterName": "cluster2", "group": "", "wave": "1", "revision": "", "labels.canary": "false"});
    assert_eq!(decisions, json!([first, second]));
}

#[test]
fn the_application_sets_that_a_placement_names_are_refreshed_after_its_list_changed() {
    const REFRESH: &str = "argocd.argoproj.io/application-set-refresh";
    let mut world = world(2);
    let properties = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": schema});
    let names = json!({"kind": "ApplicationSet", "plural": "applicationsets", "singular": "applicationset"});
    put(
        &mut world,
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "applicationsets.argoproj.io"},
            "spec": {"group": "argoproj.io", "scope": "Namespaced", "names": names, "versions": [version]},
        }),
    );
    for (namespace, name) in [("default", "shop"), ("default", "other"), ("kube-public", "shop")] {
        let metadata = json!({"namespace": namespace, "name": name});
        put(
            &mut world,
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": metadata, "spec": {}}),
        );
    }
    world.keep_history();
    select_all(&mut world);
    placement(
        &mut world,
        json!({}),
        json!({"gitops.wheelwright.dev/refresh-application-sets": "absent, shop"}),
    );
    join(&mut world, 2, false, seconds(3));
    world.run_for(seconds(20)).unwrap();
    assert_eq!(clusters(&world), 3);
    world.run_for(seconds(3600)).unwrap();

    let mut written = Vec::new();
    for write in world.take_history().iter().filter(|write| write.spoke.is_none()) {
        let is_refreshed =
            write.after.as_ref().is_some_and(|after| after.annotations().get(REFRESH) == Some(&"true"));
        match write.id.kind.as_str() {
            "ClusterDecision" => written.push("list".to_owned()),
            "ApplicationSet" if is_refreshed => written.push(write.id.key.to_string()),
            _ => {}
        }
    }
    assert_eq!(written, ["list", "default/shop", "list"], "a refresh that stands already is no write");
}

#[test]
fn the_generator_never_reads_a_partial_or_an_empty_list() {
    let mut world = placed();
    assert_eq!(clusters(&world), 4);
    join(&mut world, 4, false, seconds(3));
    world.run_for(seconds(20)).unwrap();
    assert_eq!(clusters(&world), 5);
    world.delete::<ManagedCluster>(&Key::cluster(cluster(3))).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(clusters(&world), 4);
    // Select by a label that no cluster has: the decisions become empty, but the list stays.
    placement(&mut world, nobody(), json!({}));
    world.run_for(seconds(40)).unwrap();
    let status = decision(&world).status.unwrap();
    assert_eq!((status.decisions.len(), status.held.as_ref().map(|held| held.total)), (4, Some(4)));
    world.restart_operator();
    world.run_for(seconds(60)).unwrap();
    let history = world.take_history();
    for kind in ["ClusterDecision", "PlacementDecision"] {
        let answers = answers(&history, kind);
        assert!(!answers.contains(&Generated::Panic), "{kind}: {answers:?}");
    }
    let answers = answers(&history, "ClusterDecision");
    let lists: Vec<BTreeSet<String>> = answers
        .into_iter()
        .map(|answer| match answer {
            Generated::Parameters(parameters) => parameters.into_keys().collect(),
            Generated::Error | Generated::Panic => BTreeSet::new(),
        })
        .collect();
    assert!(lists.len() >= 3, "{lists:?}");
    let stays = ["cluster1", "cluster2", "cluster3"];
    for list in &lists {
        assert!(stays.iter().all(|name| list.contains(*name)), "{lists:?}");
    }
}

#[test]
fn placement_decisions_keep_a_cluster_that_changes_its_group() {
    let mut world = placed();
    join(&mut world, 4, false, seconds(3));
    world.run_for(seconds(20)).unwrap();
    world.delete::<ManagedCluster>(&Key::cluster(cluster(3))).unwrap();
    world.run_for(seconds(60)).unwrap();
    let kind = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"});
    for (name, canary) in [("cluster2", "true"), ("cluster1", "false")] {
        let metadata = json!({"metadata": {"name": name, "labels": {CANARY: canary}}});
        put(&mut world, merged(kind.clone(), metadata));
        world.run_for(seconds(20)).unwrap();
    }
    let answers = answers(&world.take_history(), "PlacementDecision");
    let lists = answers.into_iter().map(|answer| match answer {
        Generated::Parameters(parameters) => parameters.into_keys().collect(),
        Generated::Error | Generated::Panic => BTreeSet::new(),
    });
    let stays = ["cluster1", "cluster2", "cluster3"];
    let has_all = |list: &BTreeSet<String>| stays.iter().all(|name| list.contains(*name));
    let lists: Vec<BTreeSet<String>> = lists.skip_while(|list| !has_all(list)).collect();
    assert!(lists.len() >= 4 && lists.iter().all(has_all), "{lists:?}");
}

#[test]
fn an_approval_of_exactly_these_clusters_empties_the_list() {
    let mut world = world(2);
    select_all(&mut world);
    placement(&mut world, json!({}), json!({}));
    placement(&mut world, nobody(), json!({}));
    world.run_for(seconds(40)).unwrap();
    let held = decision(&world).status.unwrap().held.unwrap();
    placement(&mut world, nobody(), json!({"gitops.wheelwright.dev/approve-deletions": held.approval}));
    assert_eq!(clusters(&world), 0);
    assert_eq!(decision(&world).status.unwrap().held, None);
}

/// The ways in which Argo CD identifies the objects of an application.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Label,
    Annotation,
}

/// Returns true if Argo CD treats a live object as part of the application `shop` and would prune it if it is
/// missing from git.
fn is_managed(object: &Object, mode: Mode) -> bool {
    let has_owner = object.at(&["metadata", "ownerReferences"]).is_some();
    match mode {
        Mode::Label => {
            object.at(&["metadata", "labels", "app.kubernetes.io/instance"]).is_some() && !has_owner
        }
        Mode::Annotation => {
            let (gvk, key) = (object.gvk(), object.key());
            let id = format!("shop:{}/{}:{}/{}", gvk.group, gvk.kind, key.namespace, key.name);
            object.annotations().get("argocd.argoproj.io/tracking-id") == Some(&id.as_str())
        }
    }
}

/// Marks an object as part of an application, as Argo CD does in annotation+label mode with client-side apply.
fn mark(world: &mut World, mut object: Value) {
    let found = Object::from_value(object.clone()).unwrap();
    let (gvk, key) = (found.gvk(), found.key());
    let id = format!("shop:{}/{}:{}/{}", gvk.group, gvk.kind, key.namespace, key.name);
    let annotations = json!({"argocd.argoproj.io/tracking-id": id, "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let metadata =
        json!({"metadata": {"labels": {"app.kubernetes.io/instance": "shop"}, "annotations": annotations}});
    json_patch::merge(&mut object, &metadata);
    put(world, object);
}

#[test]
fn argo_cd_would_prune_none_of_our_objects_in_any_tracking_mode() {
    let mut world = world(3);
    world.keep_history();
    select_all(&mut world);
    template(&mut world, "v1", "msa:0.4.0");
    addon(&mut world, "v1", progressive());
    replica_sets::set(&mut world, "1", progressive());
    placement(&mut world, json!({}), json!({}));
    let mut history = world.take_history();
    let marked: Vec<Object> = history
        .iter()
        .cloned()
        .filter_map(|write| write.after.filter(|_| write.spoke.is_none() && write.by == "others"))
        .map(|after| Object::clone(&after))
        .filter(|after| {
            ["AddOnTemplate", "ClusterManagementAddOn", "ManifestWorkReplicaSet", "Placement"]
                .contains(&after.kind())
        })
        .collect();
    let git: BTreeSet<String> = marked.iter().map(|object| object.reference().to_string()).collect();
    assert_eq!(git.len(), 4, "{git:?}");
    world.keep_history();
    for object in marked {
        let metadata = object.at(&["metadata"]).unwrap();
        let (namespace, name, annotations) =
            (metadata.get("namespace"), &metadata["name"], metadata.get("annotations"));
        let own = json!({"metadata": {"name": name, "namespace": namespace, "annotations": annotations}});
        let head =
            json!({"apiVersion": object.api_version(), "kind": object.kind(), "spec": object.at(&["spec"])});
        mark(&mut world, merged(head, own));
    }
    assert!(world.run_until(seconds(300), is_completed).unwrap());
    replica_sets::settle(&mut world);
    world.restart_operator();
    world.run_for(seconds(60)).unwrap();
    let mut live: BTreeMap<String, Object> = BTreeMap::new();
    history.extend(world.take_history());
    for write in history.into_iter().filter(|write| write.spoke.is_none()) {
        match write.after {
            Some(after) => {
                live.insert(write.id.to_string(), Object::clone(&after));
            }
            None => {
                live.remove(&write.id.to_string());
            }
        }
    }
    assert!(live.values().any(|object| object.kind() == "ManifestWork"), "{:?}", live.keys());
    for mode in [Mode::Label, Mode::Annotation] {
        let managed: BTreeSet<String> = live
            .values()
            .filter(|object| is_managed(object, mode))
            .map(|object| object.reference().to_string())
            .collect();
        assert_eq!(managed, git, "{mode:?}");
    }
    for object in live.values().filter(|object| !git.contains(&object.reference().to_string())) {
        let marks = ["argocd.argoproj.io/tracking-id", "kubectl.kubernetes.io/last-applied-configuration"];
        assert!(marks.iter().all(|mark| !object.annotations().contains_key(*mark)), "{}", object.reference());
    }
}

fn on_spoke(world: &mut World, object: &Value, patch: Patch) {
    let reference = Object::from_value(object.clone()).unwrap().reference();
    let now = world.now;
    let store = &mut world.spokes.get_mut("cluster1").unwrap().store;
    let target = store.target(&reference).unwrap();
    store.patch(&target, &patch, &WriteOptions::manager("argocd-controller"), now).unwrap();
}
