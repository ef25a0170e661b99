//! What the hub derives clusters and objects from is empty, cut off, elsewhere or lost. Nothing is deleted
//! here. See docs/hazards.md#lost-labels and the rows below it.

use serde_json::json;

use crate::fixtures::{cluster, config_repo, repo, select};
use crate::incidents::{fleet_of, minutes, nothing_else_is_deleted, nothing_is_deleted, tenants};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::PlacementDecision;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory};
use object::Key;
use sim::{Setup, World};
use store::{Patch, ResourcePath, WriteOptions};

/// Sets a label of every cluster, or takes it away.
fn label(world: &mut World, is_set: bool) {
    let now = world.now;
    for i in 0..4 {
        let path = ResourcePath::of::<ManagedCluster>(&Key::cluster(cluster(i)));
        let value = is_set.then_some("here");
        let patch = Patch::Merge(json!({"metadata": {"labels": {"site": value}}}));
        world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
    }
}

fn connect(world: &mut World, connected: bool) {
    world.spokes.values_mut().for_each(|spoke| spoke.connected = connected);
}

/// Returns the number of clusters in the decisions of placements.
fn selected(world: &World) -> usize {
    let decisions = world.list::<PlacementDecision>().into_iter();
    decisions.map(|it| it.status.unwrap_or_default().decisions.len()).sum()
}

/// Asserts that the fleet keeps everything while its clusters lack what selects them, and afterwards.
fn keeps_everything(mut world: World, select: fn(&mut World, bool), incident: &str) {
    assert_eq!(selected(&world), 4, "{incident}");
    world.take_history();
    select(&mut world, false);
    minutes(&mut world, 90);
    assert_eq!(selected(&world), 0, "{incident}");
    world.restart_operator();
    minutes(&mut world, 15);
    nothing_else_is_deleted(&mut world, &["PlacementDecision"], incident);
    select(&mut world, true);
    minutes(&mut world, 15);
    assert_eq!(selected(&world), 4, "{incident}");
    nothing_else_is_deleted(&mut world, &["PlacementDecision"], incident);
}

#[test]
fn clusters_that_all_lose_the_label_of_their_placement_keep_what_they_have() {
    let mut world = fleet_of(Setup::default());
    label(&mut world, true);
    select(&mut world, json!({"site": "here"}));
    minutes(&mut world, 2);
    keeps_everything(world, label, "labels");
}

#[test]
fn clusters_that_all_fall_silent_keep_what_they_have() {
    keeps_everything(fleet_of(Setup::default()), connect, "silence");
}

#[test]
fn a_config_repo_that_follows_another_directory_by_mistake_deletes_nothing_by_itself() {
    let mut world = fleet_of(Setup::default());
    let mut files = tenants(0..20, "1");
    files.insert(
        "other/map.yaml",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: config}\n".to_vec(),
    );
    for path in ["other", "nowhere"] {
        config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet", "path": path}));
        world.commit(&repo(), &"2".repeat(40), files.clone());
        minutes(&mut world, 15);
        world.restart_operator();
        minutes(&mut world, 15);
        nothing_is_deleted(&mut world, path);
        let found = world.get::<ConfigRepo>(&repo()).unwrap();
        assert!(!found.holds("Ready"), "{path}: {:?}", found.conditions());
    }
}

/// Somebody deletes the lists of what the repository owns, and the next commit lacks most of it.
#[test]
fn a_config_repo_whose_inventory_is_lost_deletes_nothing_by_itself() {
    for minutes_between in [0, 5] {
        let mut world = fleet_of(Setup::default());
        let parts = world.list::<ConfigRepoInventory>();
        assert!(!parts.is_empty());
        for part in &parts {
            world.delete::<ConfigRepoInventory>(&Key::of(part)).unwrap();
        }
        world.restart_operator();
        minutes(&mut world, minutes_between);
        world.commit(&repo(), &"2".repeat(40), tenants(0..2, "1"));
        minutes(&mut world, 30);
        nothing_else_is_deleted(&mut world, &["ConfigRepoInventory"], "inventory");
        let found = world.get::<ConfigRepo>(&repo()).unwrap();
        // Objects that the next commit lacks are known again if the one before was read meanwhile.
        assert!(minutes_between == 0 || found.holds("Stalled"), "{:?}", found.conditions());
    }
}
