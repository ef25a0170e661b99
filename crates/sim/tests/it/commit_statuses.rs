//! A git provider receives the state of each commit once.

use serde_json::{Value, json};

use crate::fixtures::{
    ADDON, addon, config_repo, is_completed, progress, progressive, put, put_work, repo, seconds, select_all,
    template, world,
};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::{Observation, set_condition};
use api::gitops::v1alpha1::ConfigRepo;
use object::Key;
use object::tree::FileTree;
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

/// Observes a repository whose commits another tool applies.
fn follow(world: &mut World, report: Value) {
    let spec = json!({"url": "https://github.com/acme/fleet", "mode": "Observe", "report": report});
    config_repo(world, &repo(), spec);
    put(
        world,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "config"}}),
    );
}

fn statuses() -> Value {
    json!({"commitStatus": {"type": "github", "secretRef": {"name": "statuses"}}})
}

fn commit(world: &mut World, revision: char) {
    let file = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: config}\n".as_slice();
    let tree: FileTree = [("a.yaml", file)].into_iter().collect();
    world.commit(&repo(), &revision.to_string().repeat(40), tree);
}

/// Returns the first digit and the state of each commit, in sending order.
fn sent(world: &World) -> Vec<String> {
    let short = |commit: &str| commit.get(..1).unwrap_or_default().to_owned();
    world
        .commit_statuses
        .iter()
        .map(|sent| format!("{} {}", short(&sent.commit), sent.state.as_str()))
        .collect()
}

/// Returns four clusters that run an add-on, and a repository with commit statuses and a first commit.
fn followed() -> World {
    let mut world = world(4);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    follow(&mut world, statuses());
    commit(&mut world, '1');
    world
}

#[test]
fn a_commit_is_pending_until_every_cluster_runs_it_and_each_state_is_sent_once() {
    let mut world = followed();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(sent(&world).last().unwrap(), "1 success", "{:?}", world.commit_statuses);
    let before = sent(&world).len();

    template(&mut world, "msa", "msa:0.4.1");
    commit(&mut world, '2');
    world.run_for(seconds(300)).unwrap();
    assert_eq!(sent(&world)[before..], ["2 pending", "2 success"]);

    template(&mut world, "msa", "msa:0.4.9");
    commit(&mut world, '3');
    world.run_for(seconds(300)).unwrap();
    assert_eq!(sent(&world)[before + 2..], ["3 pending", "3 failure"]);
    let failure = world.commit_statuses.last().unwrap();
    assert_eq!(failure.description, "managed-serviceaccount failed on 1 of 4 clusters");
    let names = (failure.url.as_str(), failure.secret.to_string());
    assert_eq!(names, ("https://github.com/acme/fleet", "config/statuses".to_owned()));
    let context: Vec<_> = failure.context.split('/').collect();
    let ["wheelwright", hub, "config", "fleet"] = context.as_slice() else { panic!("{context:?}") };
    assert_eq!(hub.len(), 8, "{context:?}");

    world.spokes.get_mut("cluster2").unwrap().connected = false;
    world.run_for(seconds(600)).unwrap();
    world.restart_operator();
    world.run_for(seconds(600)).unwrap();
    world.spokes.get_mut("cluster2").unwrap().connected = true;
    world.run_for(seconds(600)).unwrap();
    assert_eq!(sent(&world).len(), before + 4, "clusters that come and go send nothing: {:?}", sent(&world));
    let status = world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap();
    let last = status.commit_status.unwrap();
    assert_eq!((last.sent, last.error.as_str()), (2, ""));
}

/// Changes a condition of the add-on on a cluster, as an agent does that has more to report.
fn tell_more(world: &mut World, holds: bool) {
    let key = Key::namespaced("cluster1", ADDON);
    let status = world.get::<ManagedClusterAddOn>(&key).unwrap().status.unwrap();
    let (mut conditions, now) = (status.conditions, world.now);
    set_condition(&mut conditions, Observation::new("Busy", holds.into(), "Busy"), now);
    let target = ResourcePath::of::<ManagedClusterAddOn>(&key).sub("status");
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    world.hub.patch(&target, &patch, &WriteOptions::manager("agent"), now).unwrap();
}

#[test]
fn a_commit_succeeds_on_a_fleet_that_always_has_more_to_report() {
    let mut world = followed();
    for round in 0..20 {
        tell_more(&mut world, round % 2 == 0);
        world.run_for(seconds(3)).unwrap();
    }
    assert_eq!(sent(&world).last().unwrap(), "1 success", "{:?}", world.commit_statuses);
}

#[test]
fn without_a_provider_there_is_neither_a_status_nor_its_condition() {
    let mut world = world(1);
    follow(&mut world, json!({}));
    commit(&mut world, '1');
    world.run_for(seconds(60)).unwrap();
    assert!(sent(&world).is_empty());
    follow(&mut world, statuses());
    world.run_for(seconds(60)).unwrap();
    assert_eq!(sent(&world), ["1 success"], "{:?}", world.commit_statuses);
    let reported = |world: &World| {
        let status = world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap();
        let conditions = status.conditions.into_iter();
        let condition = conditions.filter(|c| c.type_ == "CommitStatusReported").map(|c| c.reason).next();
        (status.commit_status.is_some(), condition)
    };
    assert_eq!(reported(&world), (true, Some("CommitStatusSet".into())));
    follow(&mut world, json!({}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(reported(&world), (false, None));
}

#[test]
fn a_work_that_fails_fails_the_commit() {
    let mut world = world(1);
    follow(&mut world, statuses());
    let manifest =
        json!({"apiVersion": "v1", "kind": "Bogus", "metadata": {"name": "a", "namespace": "default"}});
    let spec = json!({"workload": {"manifests": [manifest]}});
    put_work(&mut world, json!({"name": "settings", "namespace": "cluster1"}), spec);
    commit(&mut world, '1');
    world.run_for(seconds(60)).unwrap();
    assert_eq!(sent(&world).last().unwrap(), "1 failure", "{:?}", world.commit_statuses);
    let failure = world.commit_statuses.last().unwrap();
    assert_eq!(failure.description, "settings failed on 1 of 1 cluster");
}
