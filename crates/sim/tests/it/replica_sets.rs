//! ManifestWorkReplicaSets: the template reaches the clusters of placements; a rollout stops and is rolled back.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};

use crate::fixtures::{cluster, join, merged, progressive, put, seconds, select_all, world};
use api::condition::Conditions as _;
use api::gitops::v1alpha1::RolloutPolicy;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Key, Metadata as _};
use sim::World;

pub(crate) const SET: &str = "settings";

/// Creates a set with one ConfigMap that contains the value.
pub(crate) fn set(world: &mut World, value: &str, strategy: Value) {
    set_with(
        world,
        json!({"manifestWorkTemplate": template(value), "placementRefs": refs("fleet", strategy)}),
    );
}

pub(crate) fn refs(placement: &str, strategy: Value) -> Value {
    json!([{"name": placement, "rolloutStrategy": strategy}])
}

pub(crate) fn template(value: &str) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"v": value}});
    json!({"workload": {"manifests": [map]}})
}

/// Returns a manifest of a kind that no cluster serves, so that it is never applied.
pub(crate) fn bad() -> Value {
    json!({"workload": {"manifests": [{"apiVersion": "example.com/v1", "kind": "Bogus", "metadata": {"name": "x"}}]}})
}

pub(crate) fn set_with(world: &mut World, spec: Value) {
    let head = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": SET, "namespace": "default"},
    });
    put(world, merged(head, json!({ "spec": spec })));
}

pub(crate) fn policy(world: &mut World, spec: Value) {
    put(
        world,
        json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "p"}, "spec": spec,
        }),
    );
}

pub(crate) fn get(world: &World) -> ManifestWorkReplicaSet {
    world.get(&Key::namespaced("default", SET)).unwrap()
}

/// Returns the status and reason of one of the set's conditions.
pub(crate) fn condition(world: &World, type_: &str) -> String {
    let set = get(world);
    set.condition(type_).map(|c| format!("{} {}", c.status, c.reason)).unwrap_or_default()
}

fn is_complete(world: &World) -> bool {
    get(world).holds("PlacementRolledOut") && get(world).holds("ManifestworkApplied")
}

pub(crate) fn settle(world: &mut World) {
    assert!(world.run_until(seconds(120), is_complete).unwrap(), "{:#?}", get(world).status);
}

/// Returns the value in each cluster's work.
pub(crate) fn values(world: &World) -> Vec<String> {
    let value = |work: &ManifestWork| {
        let manifest = &work.spec.workload.manifests[0];
        manifest.get("data").map_or("bad".into(), |data| data["v"].as_str().unwrap().to_owned())
    };
    world.list::<ManifestWork>().iter().map(value).collect()
}

#[test]
fn a_template_reaches_every_cluster_and_the_status_says_so_in_the_words_of_ocm() {
    let mut world = world(3);
    set(&mut world, "1", json!({"type": "All"}));
    world.run_for(seconds(5)).unwrap();
    assert_eq!(condition(&world, "PlacementVerified"), "False PlacementDecisionNotFound");
    select_all(&mut world);
    settle(&mut world);
    assert_eq!(condition(&world, "PlacementVerified"), "True AsExpected");
    assert_eq!(condition(&world, "PlacementRolledOut"), "True Complete");
    assert_eq!(condition(&world, "ManifestworkApplied"), "True AsExpected");
    let status = get(&world).status.unwrap();
    let counts = json!({"total": 3, "progressing": 0, "available": 3, "degraded": 0, "applied": 3, "desiredTotal": 3, "updated": 3});
    assert_eq!(serde_json::to_value(&status.summary).unwrap(), counts);
    assert_eq!(status.placement_summary[0].available_decision_groups, "2 (3 / 3 clusters applied)");
    for work in world.list::<ManifestWork>() {
        assert_eq!(
            work.label("work.open-cluster-management.io/manifestworkreplicaset"),
            Some("default.settings")
        );
        assert_eq!(work.label("work.open-cluster-management.io/placementname"), Some("fleet"));
    }
}

#[test]
fn a_set_at_rest_writes_nothing() {
    let mut world = world(3);
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    world.run_for(seconds(60)).unwrap();
    world.keep_history();
    world.run_for(seconds(300)).unwrap();
    let written = world.take_history();
    assert!(written.iter().all(|write| write.id.kind == "Lease"), "{written:?}");
}

#[test]
fn a_new_template_goes_to_the_canary_first_and_stops_there_when_it_never_arrives() {
    let mut world = world(4);
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", progressive())}),
    );
    world.run_for(seconds(300)).unwrap();
    assert_eq!(values(&world), ["bad", "1", "1", "1"]);
    let set_now = get(&world);
    let condition = set_now.condition("PlacementRolledOut").unwrap();
    assert!(condition.is_false() && condition.message.contains("canary"), "{condition:?}");
    assert_eq!(set_now.status.as_ref().unwrap().summary.updated, Some(1));
    set(&mut world, "2", progressive());
    settle(&mut world);
    assert_eq!(values(&world), ["2", "2", "2", "2"]);
}

#[test]
fn a_breach_returns_the_clusters_of_a_set_to_the_template_before() {
    let mut world = world(4);
    select_all(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/settings"], "onBreach": "Rollback"}));
    set(&mut world, "1", progressive());
    settle(&mut world);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", progressive())}),
    );
    assert!(world.run_until(seconds(30), |world| values(world)[0] == "bad").unwrap());
    world.restart_operator();
    world.run_for(seconds(300)).unwrap();
    assert_eq!(values(&world), ["1", "1", "1", "1"]);
    let rollouts = world.get::<RolloutPolicy>(&Key::cluster("p")).unwrap().status.unwrap().rollouts;
    assert_eq!(rollouts[0].replica_set, "default/settings");
    assert_eq!(rollouts[0].quarantined, rollouts[0].revision);
    assert!(!rollouts[0].last_good.is_empty());
    assert!(rollouts[0].failure.starts_with("cluster1: "), "{:?}", rollouts[0].failure);
    set(&mut world, "2", progressive());
    settle(&mut world);
    assert_eq!(values(&world), ["2", "2", "2", "2"]);
}

#[test]
fn a_deleted_snapshot_is_recreated_so_that_a_set_can_return_to_it() {
    let mut world = world(2);
    select_all(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/settings"], "onBreach": "Rollback"}));
    set(&mut world, "1", progressive());
    settle(&mut world);
    world.run_for(seconds(60)).unwrap();
    for revision in world.list::<ControllerRevision>() {
        world.delete::<ControllerRevision>(&Key::of(&revision)).unwrap();
    }
    world.run_for(seconds(5)).unwrap();
    assert_eq!(world.list::<ControllerRevision>().len(), 1);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", progressive())}),
    );
    world.run_for(seconds(900)).unwrap();
    assert_eq!(values(&world), ["1", "1"]);
}

#[test]
fn snapshots_that_are_deleted_during_a_rollout_are_restored_from_the_works() {
    let mut world = world(4);
    select_all(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/settings"], "onBreach": "Rollback"}));
    set(&mut world, "1", progressive());
    settle(&mut world);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", progressive())}),
    );
    assert!(world.run_until(seconds(30), |world| values(world)[0] == "bad").unwrap());
    for revision in world.list::<ControllerRevision>() {
        world.delete::<ControllerRevision>(&Key::of(&revision)).unwrap();
    }
    world.run_for(seconds(5)).unwrap();
    assert_eq!(world.list::<ControllerRevision>().len(), 2);
    world.run_for(seconds(300)).unwrap();
    assert_eq!(values(&world), ["1", "1", "1", "1"]);
}

#[test]
fn a_policy_holds_a_set_until_a_person_approves() {
    let mut world = world(3);
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/other"], "paused": true}));
    set(&mut world, "0", progressive());
    settle(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/settings"], "paused": true}));
    set(&mut world, "2", progressive());
    world.run_for(seconds(60)).unwrap();
    assert_eq!(values(&world), ["0", "0", "0"], "paused by the policy that names it");
    policy(&mut world, json!({"replicaSets": ["default/settings"], "approval": {"mode": "BetweenGroups"}}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(values(&world), ["2", "0", "0"], "between groups");
    let waits = |world: &World| {
        let status = world.get::<RolloutPolicy>(&Key::cluster("p")).unwrap().status.unwrap();
        status.rollouts[0].waiting_approvals.clone()
    };
    let approved = waits(&world);
    assert_eq!(approved.len(), 1);
    let spec = json!({"replicaSets": ["default/settings"], "approval": {"mode": "BetweenGroups"}, "approved": approved});
    policy(&mut world, spec);
    settle(&mut world);
    assert_eq!(values(&world), ["2", "2", "2"]);
}

#[test]
fn a_freeze_window_holds_a_set_until_it_ends() {
    let mut world = world(2);
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    let frozen = |windows: Value| json!({"replicaSets": ["default/settings"], "freezeWindows": windows});
    policy(&mut world, frozen(json!([{"name": "always", "schedule": "* * * * *", "duration": "2m"}])));
    world.take_events();
    set(&mut world, "2", progressive());
    world.run_for(seconds(120)).unwrap();
    assert_eq!(values(&world), ["1", "1"]);
    let set_now = get(&world);
    let rolled_out = set_now.condition("PlacementRolledOut").unwrap();
    assert!(rolled_out.is_false() && rolled_out.message.contains("the freeze always"), "{rolled_out:?}");
    let events = world.take_events();
    assert!(events.iter().any(|event| event.reason == "RolloutFrozen"), "{events:?}");
    policy(&mut world, frozen(json!([])));
    settle(&mut world);
    assert_eq!(values(&world), ["2", "2"]);
}

#[test]
fn a_newcomer_gets_the_work_and_a_work_that_a_person_changed_is_mended() {
    let mut world = world(2);
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    join(&mut world, 2, false, seconds(3));
    assert!(world.run_until(seconds(60), |world| values(world).len() == 3 && is_complete(world)).unwrap());
    let name = world.list::<ManifestWork>()[0].name().to_owned();
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": cluster(0)}, "spec": template("mine"),
    });
    put(&mut world, work);
    world.run_for(seconds(30)).unwrap();
    assert_eq!(values(&world), ["1", "1", "1"]);
    world.delete::<ManifestWork>(&Key::namespaced(cluster(1), name)).unwrap();
    world.run_for(seconds(30)).unwrap();
    assert_eq!(values(&world), ["1", "1", "1"]);
}

/// OCM's controller ignores changes of labels, and it copies labels that tools use to find their own objects.
#[test]
fn labels_of_the_set_reach_its_works_without_labels_of_tools() {
    let mut world = world(1);
    select_all(&mut world);
    set(&mut world, "1", json!({"type": "All"}));
    settle(&mut world);
    put(
        &mut world,
        json!({
            "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": SET, "namespace": "default", "labels": {"team": "a", "app.kubernetes.io/instance": "argo"}},
            "spec": {"manifestWorkTemplate": template("1"), "placementRefs": refs("fleet", json!({"type": "All"}))},
        }),
    );
    world.run_for(seconds(10)).unwrap();
    let work = &world.list::<ManifestWork>()[0];
    assert_eq!(work.label("team"), Some("a"));
    assert_eq!(work.label("app.kubernetes.io/instance"), None);
}

#[test]
fn works_that_ocm_made_are_taken_over_without_another_apply() {
    let mut world = world(2);
    for (i, name) in [(0, "settings7xk2p"), (1, "settingsabcde"), (1, "settingszzzzz")] {
        put(
            &mut world,
            json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                "metadata": {"name": name, "generateName": SET, "namespace": cluster(i), "labels": {
                    "work.open-cluster-management.io/manifestworkreplicaset": "default.settings",
                    "work.open-cluster-management.io/placementname": "fleet",
                }},
                "spec": template("1"),
            }),
        );
    }
    world.run_for(seconds(30)).unwrap();
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    world.run_for(seconds(30)).unwrap();
    let works = world.list::<ManifestWork>();
    let names: Vec<_> = works.iter().map(|work| (work.name(), work.metadata.generation)).collect();
    let left = [("settings7xk2p", Some(1)), ("settingsabcde", Some(1))];
    assert_eq!(names, left, "a second work of a cluster goes");
}

/// People copy objects with their labels.
#[test]
fn a_work_with_the_labels_of_a_set_that_the_set_did_not_make_is_left_alone() {
    let mut world = world(1);
    select_all(&mut world);
    set(&mut world, "1", json!({"type": "All"}));
    settle(&mut world);
    let labels = world.list::<ManifestWork>()[0].metadata.labels.clone();
    put(
        &mut world,
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "copy", "namespace": cluster(0), "labels": labels}, "spec": template("copy"),
        }),
    );
    world.run_for(seconds(10)).unwrap();
    assert_eq!(values(&world), ["copy", "1"]);
    world.delete::<ManifestWorkReplicaSet>(&Key::namespaced("default", SET)).unwrap();
    world.run_for(seconds(30)).unwrap();
    assert_eq!(values(&world), ["copy"]);
}

#[test]
fn the_works_are_deleted_with_their_set() {
    for cascade in ["Background", "Foreground"] {
        let mut world = world(2);
        select_all(&mut world);
        let refs = refs("fleet", json!({"type": "All"}));
        let spec = json!({"manifestWorkTemplate": template("1"), "placementRefs": refs, "cascadeDeletionPolicy": cascade});
        set_with(&mut world, spec);
        settle(&mut world);
        world.delete::<ManifestWorkReplicaSet>(&Key::namespaced("default", SET)).unwrap();
        let gone = |world: &World| world.list::<ManifestWorkReplicaSet>().is_empty();
        assert!(world.run_until(seconds(60), gone).unwrap(), "{cascade}");
        assert!(cascade == "Background" || world.list::<ManifestWork>().is_empty(), "the set waits");
        let works_gone = |world: &World| world.list::<ManifestWork>().is_empty();
        assert!(world.run_until(seconds(60), works_gone).unwrap(), "{cascade}");
    }
}

/// OCM's controller ignores works of a set whose name contains a dot.
#[test]
fn a_set_may_have_a_dot_in_its_name_and_reports_a_name_that_is_not_a_valid_label() {
    let mut world = world(1);
    select_all(&mut world);
    let long = "l".repeat(60);
    for name in ["with.dot", &long] {
        put(
            &mut world,
            json!({
                "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"manifestWorkTemplate": template("1"), "placementRefs": refs("fleet", json!({"type": "All"}))},
            }),
        );
    }
    world.run_for(seconds(60)).unwrap();
    let get = |name: &str| world.get::<ManifestWorkReplicaSet>(&Key::namespaced("default", name)).unwrap();
    assert!(get("with.dot").holds("PlacementRolledOut"), "{:?}", get("with.dot").status);
    assert_eq!(get(&long).condition("ManifestworkApplied").unwrap().reason, "InvalidManifestWorkName");
}
