//! The hub's sources of clusters and objects are empty, unreachable, moved or lost. Nothing may be deleted. See
//! docs/hazards-hub.md#lost-labels and the rows below it.

use serde_json::json;

use crate::deletions;
use crate::fixtures::{cluster, config_repo, repo, select, tenants};
use crate::incidents::{fleet_of, minutes, nothing_else_is_deleted, nothing_is_deleted};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::PlacementDecision;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory};
use api::names::WORK_REPLICA_SET_LABEL;
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _};
use sim::{Setup, World};
use store::{Patch, ResourcePath, WriteOptions};

/// Sets or removes a label of every cluster.
fn label(world: &mut World, is_set: bool) {
    (0..4).for_each(|i| label_one(world, i, is_set));
}

fn label_one(world: &mut World, number: usize, is_set: bool) {
    let path = ResourcePath::of::<ManagedCluster>(&Key::cluster(cluster(number)));
    let value = is_set.then_some("here");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"site": value}}}));
    let now = world.now;
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
}

fn connect(world: &mut World, connected: bool) {
    world.spokes.values_mut().for_each(|spoke| spoke.connected = connected);
}

/// Returns the number of clusters in all placement decisions.
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
    let mut world = fleet_of(Setup::default());
    // By default, the first silent cluster within an hour loses its add-on.
    deletions::policy(&mut world, json!({"removalBudget": 0}));
    keeps_everything(world, connect, "silence");
}

#[test]
fn clusters_that_leave_one_after_the_other_lose_no_more_than_the_budget_in_its_window() {
    let mut world = fleet_of(Setup::default());
    label(&mut world, true);
    select(&mut world, json!({"site": "here"}));
    minutes(&mut world, 2);
    let has = |world: &World| -> [usize; 2] {
        let works = world.list::<ManifestWork>();
        let of_set = works.iter().filter(|work| work.label(WORK_REPLICA_SET_LABEL).is_some()).count();
        [of_set, world.list::<ManagedClusterAddOn>().len()]
    };
    assert_eq!(has(&world), [4, 4]);
    for number in 0..4 {
        label_one(&mut world, number, false);
        minutes(&mut world, 5);
        world.restart_operator();
    }
    minutes(&mut world, 20);
    assert_eq!((selected(&world), has(&world)), (0, [3, 3]));
    minutes(&mut world, 60);
    assert_eq!(has(&world), [3, 3], "three are more than the budget of any window");
}

#[test]
fn a_wrong_directory_deletes_nothing_without_an_approval() {
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

/// A person deletes the repository's inventories, and the next commit lacks most of its objects.
#[test]
fn a_lost_inventory_deletes_nothing_without_an_approval() {
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
        // If the previous commit was applied in the meantime, the objects missing from the next commit are known
        // again.
        assert!(minutes_between == 0 || found.holds("Stalled"), "{:?}", found.conditions());
    }
}
