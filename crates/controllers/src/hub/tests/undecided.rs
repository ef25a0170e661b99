//! Tests rollouts on placements with incomplete decisions.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};

use crate::hub::addon_config::AddOnConfigController;
use crate::hub::replica_set::ReplicaSetController;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{
    ADDON_REMOVAL_FINALIZER, DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL,
    ROLLOUT_POLICY_ANNOTATION, WORK_REPLICA_SET_FINALIZER,
};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Key, Kind, hex};
use reconcile::{Caches, Controller, Plan, Site};

/// Replaces all objects of a kind. A changed object gets a new resource version.
fn replace<K: Kind>(caches: &mut Caches, objects: impl IntoIterator<Item = Value>) {
    let typed = objects.into_iter().map(|mut object| {
        object["metadata"]["resourceVersion"] = json!(hex(object.to_string()));
        serde_json::from_value(object).unwrap()
    });
    caches.replace::<K>(Site::Hub, typed.collect(), "1");
}

fn placement(name: &str, status: Value) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name}, "spec": {}, "status": status})
}

/// Returns the status of a placement with complete decisions.
fn decided(clusters: usize) -> Value {
    let scheduled = json!({"type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
    json!({"numberOfSelectedClusters": clusters, "conditions": [scheduled]})
}

/// Returns the PlacementDecision of a group with one cluster.
fn page(placement: &str, index: usize, group: &str, cluster: &str) -> Value {
    let labels = json!({PLACEMENT_LABEL: placement, DECISION_GROUP_INDEX_LABEL: index.to_string(), DECISION_GROUP_NAME_LABEL: group});
    json!({
        "metadata": {"namespace": "ns", "name": format!("{placement}-{index}"), "labels": labels},
        "status": {"decisions": [{"clusterName": cluster, "reason": ""}]},
    })
}

fn strategy() -> Value {
    let canary = json!([{"groupName": "canary"}]);
    json!({"type": "Progressive", "progressive": {"mandatoryDecisionGroups": canary, "maxConcurrency": 1}})
}

/// Returns a hub with a set and an add-on on placements.
fn hub(placements: &[&str]) -> Caches {
    let mut caches = Caches::default();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let references = placements.iter().map(|name| json!({"name": name, "rolloutStrategy": strategy()}));
    let set = json!({
        "metadata": {"namespace": "ns", "name": "s", "uid": "s", "finalizers": [WORK_REPLICA_SET_FINALIZER],
            "annotations": {ROLLOUT_POLICY_ANNOTATION: "wheelwright-default"}},
        "spec": {
            "placementRefs": references.collect::<Vec<_>>(),
            "manifestWorkTemplate": {"workload": {"manifests": [map]}},
        },
    });
    replace::<ManifestWorkReplicaSet>(&mut caches, [set]);
    let installed =
        placements.iter().map(|name| json!({"namespace": "ns", "name": name, "rolloutStrategy": strategy()}));
    let cma = json!({
        "metadata": {"name": "a", "uid": "u", "finalizers": [ADDON_REMOVAL_FINALIZER],
            "annotations": {ROLLOUT_POLICY_ANNOTATION: "wheelwright-default"}},
        "spec": {"installStrategy": {"type": "Placements", "placements": installed.collect::<Vec<_>>()}},
    });
    replace::<ClusterManagementAddOn>(&mut caches, [cma]);
    let policy =
        json!({"metadata": {"name": "wheelwright-default"}, "spec": {"rollOut": "InstallAndContent"}});
    replace::<RolloutPolicy>(&mut caches, [policy]);
    let cluster = |name| json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}});
    replace::<ManagedCluster>(&mut caches, ["c0", "c1"].map(cluster));
    replace::<ManagedClusterAddOn>(&mut caches, []);
    replace::<ManifestWork>(&mut caches, []);
    replace::<ControllerRevision>(&mut caches, []);
    caches
}

/// Returns the clusters on which the set and the add-on start.
fn begins(caches: &Caches) -> Vec<String> {
    let now = Timestamp::UNIX_EPOCH;
    let set = ReplicaSetController::plan(&Key::namespaced("ns", "s"), caches, now).unwrap();
    let addon = AddOnConfigController::plan(&Key::cluster("a"), caches, now).unwrap();
    let created = |plan: &Plan| -> Vec<String> {
        let actions = plan.steps.iter().flatten().filter_map(|action| action.target());
        let on_clusters =
            actions.filter(|it| ["ManifestWork", "ManagedClusterAddOn"].contains(&it.gvk.kind.as_str()));
        on_clusters.map(|target| target.key.namespace.clone()).collect()
    };
    let [set, addon] = [&set, &addon].map(created);
    assert_eq!(set, addon, "they begin on the same clusters");
    set
}

#[test]
fn a_rollout_does_not_begin_before_all_pages_of_a_placement_exist() {
    let mut caches = hub(&["p"]);
    let (canary, rest) = (page("p", 0, "canary", "c0"), page("p", 1, "", "c1"));
    replace::<Placement>(&mut caches, [placement("p", json!({}))]);
    replace::<PlacementDecision>(&mut caches, [rest.clone()]);
    assert!(begins(&caches).is_empty(), "the placement has no status");
    replace::<Placement>(&mut caches, [placement("p", decided(2))]);
    assert!(begins(&caches).is_empty(), "the page of the canary is missing");
    replace::<PlacementDecision>(&mut caches, [canary, rest]);
    assert_eq!(begins(&caches), ["c0"]);
}

#[test]
fn a_rollout_begins_on_no_placement_while_another_may_still_select_its_clusters() {
    let mut caches = hub(&["p", "q"]);
    replace::<PlacementDecision>(&mut caches, [page("p", 0, "canary", "c0"), page("q", 0, "canary", "c1")]);
    let of = |p: Value, q: Value| [placement("p", p), placement("q", q)];
    for (p, q) in [(decided(1), decided(2)), (decided(2), decided(1))] {
        replace::<Placement>(&mut caches, of(p, q));
        assert!(begins(&caches).is_empty());
    }
    replace::<Placement>(&mut caches, of(decided(1), decided(1)));
    assert_eq!(begins(&caches), ["c0", "c1"]);
}

#[test]
fn the_record_of_a_rollout_outlasts_a_placement_that_is_missing_or_not_decided() {
    let mut caches = hub(&["p"]);
    let record = |add_on: &str, set: &str| {
        json!({"addOn": add_on, "replicaSet": set, "placementNamespace": "ns", "placementName": "p",
            "revision": "r", "quarantined": "bad", "lastGood": "good"})
    };
    let policy = json!({"metadata": {"name": "wheelwright-default"}, "spec": {},
        "status": {"rollouts": [record("", "ns/s"), record("a", "")]}});
    replace::<RolloutPolicy>(&mut caches, [policy]);
    replace::<PlacementDecision>(&mut caches, []);
    replace::<Placement>(&mut caches, [placement("p", json!({}))]);
    let writes_policy =
        |plan: Plan| plan.steps.iter().flatten().any(|it| it.gvk().unwrap().kind == "RolloutPolicy");
    let plans = |caches: &Caches| {
        let now = Timestamp::UNIX_EPOCH;
        let set = ReplicaSetController::plan(&Key::namespaced("ns", "s"), caches, now).unwrap();
        [set, AddOnConfigController::plan(&Key::cluster("a"), caches, now).unwrap()].map(writes_policy)
    };
    assert_eq!(plans(&caches), [false, false], "not decided");
    replace::<Placement>(&mut caches, []);
    assert!(!plans(&caches)[0], "missing");
}
