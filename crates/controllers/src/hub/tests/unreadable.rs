//! Tests that an unreadable object does not count as absent, and delays no other object.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::hub::addon_config::{AddOnConfigController, explain};
use crate::hub::addon_install::AddOnInstallController;
use crate::hub::cluster_decision::ClusterDecisionController;
use crate::hub::clusterset::ClusterSetController;
use crate::hub::placement::PlacementController;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::gitops::v1alpha1::{ClusterDecision, ConfigRepo, RolloutPolicy};
use api::names::{
    ADDON_NAME_LABEL, ADDON_REMOVAL_FINALIZER, CLUSTER_DECISION_ANNOTATION, INSTALLED_BY_ANNOTATION,
    REFRESH_APPLICATION_SETS_ANNOTATION, REMOVAL_DECIDED_ANNOTATION,
};
use api::work::v1::ManifestWork;
use engine::rollout::ClusterState;
use k8s_openapi::api::apps::v1::ControllerRevision;
use object::{Key, Kind};
use reconcile::{Action, Caches, Controller, Delta, Plan, Site, Unreadable, View as _};

const CLUSTERS: [&str; 3] = ["c1", "c2", "c3"];

fn typed<K: Kind>(mut object: Value) -> K {
    object["metadata"]["resourceVersion"] = json!("1");
    serde_json::from_value(object).unwrap()
}

/// Makes an object unreadable, even if it was read before.
pub(super) fn refuse<K: Kind>(caches: &mut Caches, key: Key) {
    let refused = Unreadable { key, labels: Some([].into()), reason: "spec: not a map".into() };
    caches.apply::<K>(Site::Hub, Delta::Unreadable(refused));
}

/// Returns a fleet with a placement that selects every cluster. The cluster `c2` and the add-on on `c3` are
/// unreadable.
fn fleet() -> Caches {
    let strategy = json!({"type": "Placements", "placements": [{"namespace": "default", "name": "fleet", "rolloutStrategy": {"type": "Progressive", "progressive": {}}}]});
    let config = json!({"group": "g", "resource": "configs", "defaultConfig": {"name": "d"}});
    let cma = json!({
        "metadata": {"name": "a", "uid": "u", "finalizers": [ADDON_REMOVAL_FINALIZER]},
        "spec": {"supportedConfigs": [config], "installStrategy": strategy},
    });
    let decisions = CLUSTERS.map(|name| json!({"clusterName": name, "reason": ""}));
    let decision = json!({
        "metadata": {
            "namespace": "default", "name": "fleet-decision-1",
            "labels": {
                "cluster.open-cluster-management.io/placement": "fleet",
                "cluster.open-cluster-management.io/decision-group-index": "0",
                "cluster.open-cluster-management.io/decision-group-name": "",
            },
        },
        "status": {"decisions": decisions},
    });
    let group = json!({"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["fleet-decision-1"], "clusterCount": 3});
    let scheduled = json!({"type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
    let placement = json!({
        "metadata": {"namespace": "default", "name": "fleet", "generation": 1},
        "spec": {},
        "status": {"numberOfSelectedClusters": 3, "decisionGroups": [group], "conditions": [scheduled]},
    });
    let mut caches = Caches::default();
    caches.replace::<ClusterManagementAddOn>(Site::Hub, vec![typed(cma)], "1");
    caches.replace::<Placement>(Site::Hub, vec![typed(placement)], "1");
    caches.replace::<PlacementDecision>(Site::Hub, vec![typed(decision)], "1");
    let global = json!({
        "metadata": {"name": "global"}, "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
    });
    caches.replace::<ManagedClusterSet>(Site::Hub, vec![typed(global)], "1");
    let binding =
        json!({"metadata": {"namespace": "default", "name": "global"}, "spec": {"clusterSet": "global"}});
    caches.replace::<ManagedClusterSetBinding>(Site::Hub, vec![typed(binding)], "1");
    caches.replace::<AddOnPlacementScore>(Site::Hub, Vec::new(), "1");
    caches.replace::<RolloutPolicy>(Site::Hub, Vec::new(), "1");
    caches.replace::<ControllerRevision>(Site::Hub, Vec::new(), "1");
    let cluster = |name| {
        typed::<ManagedCluster>(json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}}))
    };
    caches.replace(Site::Hub, vec![cluster("c1"), cluster("c3")], "1");
    caches.replace::<ManagedClusterAddOn>(Site::Hub, Vec::new(), "1");
    refuse::<ManagedCluster>(&mut caches, Key::cluster("c2"));
    refuse::<ManagedClusterAddOn>(&mut caches, Key::namespaced("c3", "a"));
    caches
}

/// Returns the messages of all conditions of a type that a plan writes.
fn reported(plan: &Plan, condition: &str) -> Vec<String> {
    fn collect(value: &Value, condition: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if value["type"] == condition {
                    found.extend(value["message"].as_str().map(str::to_owned));
                }
                fields.values().for_each(|field| collect(field, condition, found));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, condition, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    collect(&serde_json::to_value(plan).unwrap(), condition, &mut found);
    found
}

#[test]
fn a_condition_names_the_clusters_that_cannot_be_read() {
    let now = Timestamp::UNIX_EPOCH;
    let mut caches = fleet();
    let fleet_placement = Key::namespaced("default", "fleet");
    let placement = |caches: &Caches| {
        let plan = PlacementController::plan(&fleet_placement, caches, now).unwrap();
        reported(&plan, "PlacementSatisfied")
    };
    assert_eq!(
        placement(&caches),
        ["All cluster decisions scheduled. 1 of the clusters cannot be read, such as c2."]
    );
    let set = ClusterSetController::plan(&Key::cluster("global"), &caches, now).unwrap();
    assert_eq!(
        reported(&set, "ClusterSetEmpty"),
        ["2 ManagedClusters selected. 1 of the clusters cannot be read, such as c2."]
    );
    let addon = AddOnConfigController::plan(&Key::cluster("a"), &caches, now).unwrap();
    let rollout = reported(&addon, "Progressing");
    assert!(
        rollout.iter().all(|message| message.ends_with(" 2 of the clusters cannot be read, such as c2."))
            && rollout.len() == 1,
        "{rollout:?}"
    );
    caches.replace::<ManagedClusterSetBinding>(Site::Hub, Vec::new(), "2");
    assert_eq!(
        placement(&caches),
        ["No valid ManagedClusterSetBindings found in placement namespace"],
        "the cluster is in no set of the placement"
    );
}

#[test]
fn an_addon_is_installed_elsewhere_and_removed_from_no_cluster_that_cannot_be_read() {
    let plan = AddOnInstallController::plan(&Key::cluster("a"), &fleet(), Timestamp::UNIX_EPOCH).unwrap();
    let actions: Vec<_> =
        plan.steps.iter().flatten().map(|action| serde_json::to_value(action).unwrap()).collect();
    assert_eq!(actions.len(), 1, "{actions:?}");
    assert!(actions[0].to_string().contains(r#""namespace":"c1""#), "{actions:?}");
}

#[test]
fn an_unreadable_cluster_counts_as_unreachable_in_a_rollout() {
    let explained = explain("a", &fleet(), Timestamp::UNIX_EPOCH).unwrap().unwrap();
    let silent =
        CLUSTERS.map(|name| matches!(explained.states.get(name), Some(ClusterState::Unreachable { .. })));
    assert_eq!(silent, [false, true, true], "{:?}", explained.states);
}

#[test]
fn a_placement_keeps_an_unreadable_cluster_and_selects_no_new_one() {
    let decided = |caches: &Caches| {
        let plan =
            PlacementController::plan(&Key::namespaced("default", "fleet"), caches, Timestamp::UNIX_EPOCH)
                .unwrap();
        plan.steps
            .iter()
            .flatten()
            .map(|action| serde_json::to_string(action).unwrap())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let mut caches = fleet();
    let actions = decided(&caches);
    assert!(!actions.contains("decisions") || actions.contains("c2"), "the decision stays: {actions}");
    refuse::<ManagedCluster>(&mut caches, Key::cluster("c4"));
    assert!(!decided(&caches).contains("c4"), "nothing is known of a cluster that was never selected");
}

#[test]
fn an_unreadable_add_on_or_placement_does_not_block_others() {
    let decided = |caches: &Caches| {
        let now = Timestamp::UNIX_EPOCH;
        let install = AddOnInstallController::plan(&Key::cluster("a"), caches, now).unwrap();
        let placement = PlacementController::plan(&Key::namespaced("default", "fleet"), caches, now).unwrap();
        let config = AddOnConfigController::plan(&Key::cluster("a"), caches, now).unwrap();
        let states = explain("a", caches, now).unwrap().unwrap().states;
        assert_eq!(states.len(), CLUSTERS.len());
        format!("{install:?} {placement:?} {config:?} {states:?}")
    };
    let mut caches = fleet();
    let before = decided(&caches);
    refuse::<ClusterManagementAddOn>(&mut caches, Key::cluster("other"));
    refuse::<Placement>(&mut caches, Key::namespaced("default", "other"));
    assert_eq!(decided(&caches), before);

    refuse::<ClusterManagementAddOn>(&mut caches, Key::cluster("a"));
    let own = AddOnInstallController::plan(&Key::cluster("a"), &caches, Timestamp::UNIX_EPOCH);
    assert!(own.unwrap_err().to_string().contains("not a map"), "it waits itself");
}

/// Requests the list of the placement's clusters.
fn ask_for_list(caches: &mut Caches) {
    let key = Key::namespaced("default", "fleet");
    let mut placement = Placement::clone(&caches.get::<Placement>(&key).unwrap().unwrap());
    placement.metadata.resource_version = Some("2".into());
    placement.metadata.annotations = Some([(CLUSTER_DECISION_ANNOTATION.to_owned(), String::new())].into());
    caches.replace(Site::Hub, vec![placement], "2");
}

#[test]
fn a_list_for_argo_cd_keeps_the_entry_of_a_cluster_that_cannot_be_read() {
    let mut caches = fleet();
    let key = Key::namespaced("default", "fleet");
    ask_for_list(&mut caches);
    let listed = json!({"clusterName": "c2", "group": "", "wave": "0", "revision": "held"});
    let list = json!({
        "metadata": {"namespace": "default", "name": "fleet"}, "status": {"decisions": [listed], "clusters": 1},
    });
    caches.replace::<ClusterDecision>(Site::Hub, vec![typed(list)], "1");
    caches.replace::<ConfigRepo>(Site::Hub, Vec::new(), "1");
    let plan = ClusterDecisionController::plan(&key, &caches, Timestamp::UNIX_EPOCH).unwrap();
    let written = serde_json::to_string(&plan).unwrap();
    for entry in [r#""clusterName":"c1""#, r#""revision":"held""#, r#""clusterName":"c3""#] {
        assert!(written.contains(entry), "{written}");
    }
}

#[test]
fn a_list_for_argo_cd_does_not_wait_for_application_sets_that_may_not_be_read() {
    let mut caches = fleet();
    let key = Key::namespaced("default", "fleet");
    ask_for_list(&mut caches);
    let mut placement = Placement::clone(&caches.get::<Placement>(&key).unwrap().unwrap());
    let named = [(REFRESH_APPLICATION_SETS_ANNOTATION.to_owned(), "shop".to_owned())];
    placement.metadata.annotations.as_mut().unwrap().extend(named);
    placement.metadata.resource_version = Some("3".into());
    caches.replace(Site::Hub, vec![placement], "3");
    caches.replace::<ClusterDecision>(Site::Hub, Vec::new(), "1");
    let plan = ClusterDecisionController::plan(&key, &caches, Timestamp::UNIX_EPOCH).unwrap();
    let kinds: Vec<_> = plan.steps.iter().flatten().map(|action| action.gvk().unwrap().kind).collect();
    assert_eq!(kinds, ["ClusterDecision", "ApplicationSet"]);
}

#[test]
fn removals_in_batches_continue_if_a_leaving_cluster_cannot_be_read() {
    let mut caches = fleet();
    let policy = json!({"metadata": {"name": "p"}, "spec": {"rollOut": "InstallAndContent"}});
    caches.replace::<RolloutPolicy>(Site::Hub, vec![typed(policy)], "2");
    caches.replace::<ManifestWork>(Site::Hub, Vec::new(), "1");
    let addon = |cluster: &str| {
        let annotations = json!({INSTALLED_BY_ANNOTATION: "default/fleet"});
        json!({"metadata": {"namespace": cluster, "name": "a", "annotations": annotations}})
    };
    let mut leaving = addon("c2");
    leaving["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    let addons = [addon("c1"), leaving, addon("c4")].map(typed::<ManagedClusterAddOn>);
    caches.replace(Site::Hub, addons.into(), "2");
    let cluster = |name| typed::<ManagedCluster>(json!({"metadata": {"name": name}}));
    caches.replace(Site::Hub, ["c1", "c4"].map(cluster).into(), "2");
    refuse::<ManagedCluster>(&mut caches, Key::cluster("c2"));
    let plan = AddOnInstallController::plan(&Key::cluster("a"), &caches, Timestamp::UNIX_EPOCH).unwrap();
    let written = serde_json::to_string(&plan).unwrap();
    assert!(written.contains(r#""cluster":"c4""#), "the removal is recorded: {written}");
}

#[test]
fn a_deletion_in_batches_continues_if_one_addon_is_unreadable() {
    let mut caches = fleet();
    let policy = json!({"metadata": {"name": "p"}, "spec": {"rollOut": "InstallAndContent"}});
    caches.replace::<RolloutPolicy>(Site::Hub, vec![typed(policy)], "2");
    let cma = caches.get::<ClusterManagementAddOn>(&Key::cluster("a")).unwrap().unwrap();
    let mut cma = json!(*cma);
    cma["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    cma["metadata"]["annotations"] = json!({REMOVAL_DECIDED_ANNOTATION: "u"});
    let mut cma: ClusterManagementAddOn = typed(cma);
    cma.metadata.resource_version = Some("2".into());
    caches.replace(Site::Hub, vec![cma], "2");
    let metadata = json!({"namespace": "c3", "name": "w", "labels": {ADDON_NAME_LABEL: "a"}});
    let work = json!({"metadata": metadata, "spec": {}});
    caches.replace::<ManifestWork>(Site::Hub, vec![typed(work)], "1");
    let addon = json!({"metadata": {"namespace": "c1", "name": "a"}});
    caches.replace::<ManagedClusterAddOn>(Site::Hub, vec![typed(addon)], "2");
    refuse::<ManagedClusterAddOn>(&mut caches, Key::namespaced("c3", "a"));
    let plan = AddOnInstallController::plan(&Key::cluster("a"), &caches, Timestamp::UNIX_EPOCH).unwrap();
    let is_deletion = |action: &&Action| matches!(action, Action::Delete { .. });
    let deleted = plan.steps.iter().flatten().filter(is_deletion).filter_map(Action::target);
    assert_eq!(deleted.map(|addon| addon.key).collect::<Vec<_>>(), [Key::namespaced("c1", "a")]);
}
