//! Clusters that stop working after they succeeded, with a set and with an add-on.

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::fixtures::{addon, images, is_completed, seconds, select_all, template, world};
use crate::replica_set_health::{deployment, images as images_of_set};
use crate::replica_sets::{get, policy, refs, set_with};
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use object::Key;
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

fn strategy() -> Value {
    let limits =
        json!({"maxConcurrency": 1, "minSuccessTime": "2s", "progressDeadline": "2m", "maxFailures": 0});
    json!({"type": "Progressive", "progressive": limits})
}

/// Accessors for the rollout under test.
struct Subject {
    /// Assigns the version to every cluster.
    put: fn(&mut World, &str),
    /// Returns the version on each cluster.
    versions: fn(&World) -> Vec<String>,
    is_complete: fn(&World) -> bool,
    /// Returns the key of the Deployment on a cluster.
    deployment: fn() -> Key,
}

const SET: Subject = Subject {
    put: |world, version| {
        let placements = refs("fleet", strategy());
        let template = deployment(&format!("msa:{version}"));
        set_with(world, json!({"manifestWorkTemplate": template, "placementRefs": placements}));
    },
    versions: |world| {
        images_of_set(world).iter().map(|image| image.trim_start_matches("msa:").to_owned()).collect()
    },
    is_complete: |world| get(world).holds("PlacementRolledOut"),
    deployment: || Key::namespaced("default", "web"),
};

const ADD_ON: Subject = Subject {
    put: |world, version| {
        template(world, "msa", &format!("msa:{version}"));
        addon(world, "msa", strategy());
    },
    versions: images,
    is_complete: is_completed,
    deployment: || Key::namespaced("open-cluster-management-agent-addon", "msa"),
};

impl Subject {
    /// Returns three clusters that run a version under a policy.
    fn world(&self, on_breach: &str) -> World {
        let mut world = world(3);
        select_all(&mut world);
        policy(&mut world, json!({"onBreach": on_breach}));
        (self.put)(&mut world, "0.4.0");
        assert!(
            world.run_until(seconds(180), |world| self.has(world, "0.4.0")).unwrap(),
            "{:?}",
            record(&world)
        );
        world
    }

    fn has(&self, world: &World, version: &str) -> bool {
        (self.is_complete)(world) && (self.versions)(world) == [version; 3]
    }

    /// Runs until the first cluster succeeded with another version and the second started it.
    fn begin(&self, world: &mut World) {
        (self.put)(world, "0.4.1");
        let is_second = |world: &World| (self.versions)(world) == ["0.4.1", "0.4.1", "0.4.0"];
        assert!(world.run_until(seconds(120), is_second).unwrap(), "{:?}", record(world));
    }

    /// Stops or starts the first cluster's pods.
    fn pods(&self, world: &mut World, run: bool) {
        let images = world.spokes["cluster2"].workloads.images.clone();
        let now = world.now;
        let spoke = world.spokes.get_mut("cluster1").unwrap();
        spoke.workloads.images = if run { images } else { std::collections::BTreeSet::new() };
        let touch = Patch::Merge(json!({"metadata": {"annotations": {"pods": run.to_string()}}}));
        let path = ResourcePath::of::<Deployment>(&(self.deployment)());
        spoke.store.patch(&path, &touch, &WriteOptions::manager("user"), now).unwrap();
    }
}

/// Returns the record of the rollout.
fn record(world: &World) -> RolloutStatus {
    let policy: RolloutPolicy = world.get(&Key::cluster("p")).unwrap();
    policy.status.unwrap_or_default().rollouts.pop().unwrap_or_default()
}

fn failed(world: &World) -> (i64, i64) {
    let counts = record(world).counts;
    (counts.failed.into(), counts.timed_out.into())
}

#[test]
fn a_canary_that_stops_working_stops_the_rollout_until_it_works_again() {
    for subject in [SET, ADD_ON] {
        let mut world = subject.world("Pause");
        subject.begin(&mut world);
        subject.pods(&mut world, false);
        assert!(
            world.run_until(seconds(60), |world| failed(world) == (1, 0)).unwrap(),
            "{:?}",
            record(&world)
        );
        world.run_for(SignedDuration::from_mins(30)).unwrap();
        assert_eq!((subject.versions)(&world), ["0.4.1", "0.4.1", "0.4.0"], "{:?}", record(&world));
        assert_eq!(failed(&world), (1, 0));
        subject.pods(&mut world, true);
        assert!(
            world.run_until(seconds(180), |world| subject.has(world, "0.4.1")).unwrap(),
            "{:?}",
            record(&world)
        );
        // The rollout has ended, so nothing can fail it.
        subject.pods(&mut world, false);
        world.run_for(SignedDuration::from_mins(30)).unwrap();
        assert!(subject.has(&world, "0.4.1"), "{:?}", record(&world));
        assert_eq!(failed(&world), (0, 0));
    }
}

#[test]
fn a_canary_that_restarts_undoes_nothing_and_one_that_stays_down_does() {
    for subject in [SET, ADD_ON] {
        let mut world = subject.world("Rollback");
        subject.begin(&mut world);
        subject.pods(&mut world, false);
        assert!(
            world.run_until(seconds(60), |world| failed(world) == (1, 0)).unwrap(),
            "{:?}",
            record(&world)
        );
        assert!(record(&world).quarantined.is_empty());
        subject.pods(&mut world, true);
        assert!(
            world.run_until(seconds(180), |world| subject.has(world, "0.4.1")).unwrap(),
            "{:?}",
            record(&world)
        );
        (subject.put)(&mut world, "0.4.0");
        assert!(
            world.run_until(seconds(180), |world| subject.has(world, "0.4.0")).unwrap(),
            "{:?}",
            record(&world)
        );
        subject.begin(&mut world);
        subject.pods(&mut world, false);
        let is_undone = |world: &World| (subject.versions)(world) == ["0.4.0"; 3];
        assert!(world.run_until(SignedDuration::from_mins(10), is_undone).unwrap(), "{:?}", record(&world));
        assert!(!record(&world).quarantined.is_empty());
    }
}

#[test]
fn a_canary_that_works_only_for_moments_lets_no_other_cluster_start() {
    for subject in [SET, ADD_ON] {
        let mut world = subject.world("Pause");
        subject.begin(&mut world);
        subject.pods(&mut world, false);
        for _ in 0..5 {
            world.run_for(seconds(10)).unwrap();
            assert_eq!((subject.versions)(&world), ["0.4.1", "0.4.1", "0.4.0"], "{:?}", record(&world));
            subject.pods(&mut world, true);
            world.run_for(seconds(1)).unwrap();
            subject.pods(&mut world, false);
        }
    }
}

#[test]
fn a_canary_that_crashes_again_and_again_is_late_from_its_first_crash() {
    for subject in [SET, ADD_ON] {
        let mut world = subject.world("Rollback");
        subject.begin(&mut world);
        for _ in 0..6 {
            subject.pods(&mut world, false);
            world.run_for(seconds(30)).unwrap();
            subject.pods(&mut world, true);
            world.run_for(seconds(1)).unwrap();
        }
        assert!(!record(&world).quarantined.is_empty(), "{:?}", record(&world));
        assert_eq!((subject.versions)(&world), ["0.4.0"; 3], "{:?}", record(&world));
    }
}
