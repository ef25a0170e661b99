//! Rollouts of add-ons: a version reaches its clusters, stops, and is rolled back.

use serde_json::json;

use crate::fixtures::{
    ADDON, addon, images, is_completed, join, merged, progress, progressive, put, seconds, seeded, select,
    select_all, template, world,
};
use crate::reports::explanation;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::find_condition;
use api::gitops::v1alpha1::RolloutPolicy;
use api::work::v1::ManifestWork;
use object::Key;
use sim::{Faults, World};
use store::{ListOptions, ResourcePath};

#[test]
fn an_addon_reaches_every_cluster_and_works_there() {
    let mut world = world(3);
    template(&mut world, "msa-0.4.0", "msa:0.4.0");
    addon(&mut world, "msa-0.4.0", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(
        progress(&world).1,
        "selected clusters 3. configured addons 3/3 completed with no errors, 0 failed 0 timeout."
    );
    assert_eq!(images(&world), ["0.4.0", "0.4.0", "0.4.0"]);
    for addon in world.list::<ManagedClusterAddOn>() {
        let status = addon.status.unwrap();
        assert_eq!(
            status.config_references[0].desired_config,
            status.config_references[0].last_applied_config
        );
        let available = find_condition(&status.conditions, "Available")
            .map(|c| (c.status.to_string(), c.message.clone()));
        assert_eq!(available, Some(("True".into(), "managed-serviceaccount add-on is available.".into())));
    }
}

#[test]
fn an_edit_in_place_reaches_only_the_clusters_whose_turn_it_is() {
    let mut world = world(4);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.1");
    world.restart_operator();
    world.run_for(seconds(2)).unwrap();
    assert_eq!(images(&world), ["0.4.1", "0.4.0", "0.4.0", "0.4.0"], "the canary first");
    for addon in world.list::<ManagedClusterAddOn>() {
        let conditions = addon.status.unwrap().conditions;
        assert!(find_condition(&conditions, "Configured").unwrap().is_true(), "no write for those that wait");
    }
    let mut most = 0;
    let done = world.run_until(seconds(120), |world| {
        let moved = images(world).iter().filter(|image| *image == "0.4.1").count();
        let addons = world.list::<ManagedClusterAddOn>();
        let finished = addons.iter().filter(|addon| {
            let references = &addon.status.as_ref().unwrap().config_references;
            references.iter().all(|r| r.desired_config == r.last_applied_config)
                && references[0].desired_config.is_some()
        });
        let in_flight = 4 - finished.count();
        most = most.max(in_flight);
        is_completed(world) && moved == 4
    });
    assert!(done.unwrap(), "{:?}", progress(&world));
    assert!(most <= 2, "{most} clusters in flight");
}

#[test]
fn a_version_that_never_becomes_ready_stops_at_the_canary() {
    let mut world = world(4);
    template(&mut world, "msa-0.4.0", "msa:0.4.0");
    template(&mut world, "msa-0.4.9", "msa:0.4.9");
    addon(&mut world, "msa-0.4.0", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    addon(&mut world, "msa-0.4.9", progressive());
    world.run_for(seconds(300)).unwrap();
    assert_eq!(images(&world), ["0.4.9", "0.4.0", "0.4.0", "0.4.0"]);
    let (reason, message) = progress(&world);
    assert_eq!(reason, "Failed", "{message}");
    let workload = "deployments open-cluster-management-agent-addon/msa";
    assert!(message.contains("cluster1: ") && message.contains(workload), "{message}");
    let reported = explanation(&world).messages;
    assert!(reported.len() == 1 && reported["cluster1"].contains(workload), "{reported:?}");
    addon(&mut world, "msa-0.4.0", progressive());
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(images(&world), ["0.4.0", "0.4.0", "0.4.0", "0.4.0"]);
}

#[test]
fn a_rollout_writes_each_work_once_and_each_status_at_most_twice() {
    // The edit happens at a different fraction of a second for each seed.
    for seed in [1, 2, 3, 5, 7] {
        edit_in_place(seeded(seed, 3));
    }
}

fn edit_in_place(mut world: World) {
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world.run_for(seconds(60)).unwrap();
    let generations = |world: &World| {
        world.list::<ManifestWork>().iter().map(|w| w.metadata.generation.unwrap()).collect::<Vec<_>>()
    };
    let before = generations(&world);
    world.keep_history();
    world.run_for(seconds(300)).unwrap();
    let written = world.take_history();
    assert!(written.iter().all(|write| write.id.kind == "Lease"), "a steady fleet writes nothing but leases");
    template(&mut world, "msa", "msa:0.4.1");
    world.run_for(seconds(60)).unwrap();
    assert!(is_completed(&world));
    assert_eq!(generations(&world), before.iter().map(|g| g + 1).collect::<Vec<_>>());
    let writes = world.take_history().iter().filter(|write| write.id.kind == "ManagedClusterAddOn").count();
    assert!(writes <= 6, "{writes} writes of 3 add-ons");
}

#[test]
fn a_missing_placement_uninstalls_nothing() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world.delete::<api::cluster::v1beta1::Placement>(&Key::namespaced("default", "fleet")).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 3);
}

fn deployments(world: &World, cluster: &str) -> usize {
    let all = ResourcePath::resource("apps", "v1", "deployments");
    world.spokes[cluster].store.list(&all, &ListOptions::default()).unwrap().items.len()
}

fn installed(world: &World) -> Vec<String> {
    world.list::<ManagedClusterAddOn>().into_iter().map(|addon| addon.metadata.namespace.unwrap()).collect()
}

#[test]
fn a_removal_is_within_the_budget_or_waits() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    put(
        &mut world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": "managed-serviceaccount-by-hand", "namespace": "cluster1"}, "spec": {},
        }),
    );
    select(&mut world, json!({"canary": "false"}));
    world.run_for(seconds(30)).unwrap();
    assert_eq!(installed(&world), ["cluster1", "cluster2", "cluster3"], "what somebody made by hand stays");
    assert_eq!((deployments(&world, "cluster1"), deployments(&world, "cluster2")), (0, 1));
    select(&mut world, json!({"no": "such"}));
    world.run_for(seconds(30)).unwrap();
    assert_eq!(
        (deployments(&world, "cluster2"), deployments(&world, "cluster3")),
        (1, 1),
        "an empty placement empties no fleet"
    );
}

#[test]
fn a_breach_returns_clusters_to_what_worked() {
    let mut world = world(4);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    put(
        &mut world,
        json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "p"}, "spec": {"onBreach": "Rollback"},
        }),
    );
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.9");
    let moved = |world: &World| images(world)[0] == "0.4.9";
    assert!(world.run_until(seconds(30), moved).unwrap());
    world.run_for(seconds(300)).unwrap();
    assert_eq!(images(&world), ["0.4.0", "0.4.0", "0.4.0", "0.4.0"]);
    let policy: RolloutPolicy = world.get(&Key::cluster("p")).unwrap();
    let record = policy.status.unwrap().rollouts[0].clone();
    assert!(!record.quarantined.is_empty() && record.quarantined == record.revision);
    assert!(!record.last_good.is_empty() && record.last_good != record.revision, "{record:?}");
    assert!(record.failure.starts_with("cluster1: "), "{record:?}");
    let (reason, message) = progress(&world);
    assert_eq!(reason, "Failed");
    assert!(
        message.contains("rolled back; 4 clusters run the previous revision.")
            && message.contains(&record.quarantined),
        "{message}"
    );
    template(&mut world, "msa", "msa:0.4.1");
    assert!(
        world.run_until(seconds(120), |world| is_completed(world) && images(world)[3] == "0.4.1").unwrap(),
        "{:?}",
        progress(&world)
    );
}

#[test]
fn a_rollout_survives_faults_and_restarts_and_never_moves_too_many() {
    for seed in 0..3 {
        let mut world = seeded(seed, 4);
        template(&mut world, "msa", "msa:0.4.0");
        addon(&mut world, "msa", progressive());
        select_all(&mut world);
        assert!(world.run_until(seconds(200), is_completed).unwrap(), "{:?}", progress(&world));
        world.faults = Faults { refused: 30, answer_lost: 30, stale: 100, ..Faults::default() };
        template(&mut world, "msa", "msa:0.4.1");
        let mut round = 0;
        let done = world.run_until(seconds(900), |world| {
            round += 1;
            let addons = world.list::<ManagedClusterAddOn>();
            let arrived = |addon: &&ManagedClusterAddOn| {
                let references = &addon.status.as_ref().unwrap().config_references;
                references.iter().all(|r| r.desired_config == r.last_applied_config)
            };
            let in_flight = addons.len() - addons.iter().filter(arrived).count();
            assert!(in_flight <= 2, "seed {seed}, round {round}: {in_flight} in flight");
            is_completed(world) && images(world).iter().all(|image| image == "0.4.1")
        });
        assert!(done.unwrap(), "seed {seed}: {:?} {:?}", progress(&world), images(&world));
    }
}

/// Plays a rollout whose canary fails and is rolled back; the version is quarantined.
fn broken_canary() -> World {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "p"}, "spec": {"onBreach": "Rollback"}})));
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.9");
    world
}

/// The operator crashes before and after every write between the edit and the end of the rollback.
#[test]
fn an_operator_that_dies_after_any_write_returns_the_canary_once_and_moves_nobody_else() {
    let mut deaths = 0;
    loop {
        let mut world = broken_canary();
        world.kill_operator_after(deaths);
        let mut canary = vec![images(&world)[0].clone()];
        let mut changed = world.now;
        let end = world.now + seconds(80);
        world
            .run_until(seconds(80), |world| {
                let images = images(world);
                assert_eq!(images[1], "0.4.0", "death {deaths}: only the canary moves");
                if canary.last() != images.first() {
                    canary.push(images[0].clone());
                    assert!(
                        world.now < changed + seconds(50),
                        "death {deaths}: it returns twice its deadline later and is not sent out again"
                    );
                    changed = world.now;
                }
                world.now >= end
            })
            .unwrap();
        assert_eq!(canary, ["0.4.0", "0.4.9", "0.4.0"], "death {deaths}: {:?}", progress(&world));
        let policy: RolloutPolicy = world.get(&Key::cluster("p")).unwrap();
        assert!(!policy.status.unwrap().rollouts[0].quarantined.is_empty(), "death {deaths}");
        if world.crashes_operator() {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 10, "{deaths} writes");
}

/// When clusters are rolled back, a cluster with its own configuration keeps that configuration.
#[test]
fn a_rollback_keeps_what_a_cluster_asks_for_itself() {
    let mut world = world(2);
    world.spokes.get_mut("cluster2").unwrap().workloads.images = ["msa:0.4.0".to_owned()].into();
    let kind =
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig"});
    put(
        &mut world,
        merged(
            kind,
            json!({"metadata": {"name": "own", "namespace": "cluster1"}, "spec": {"agentInstallNamespace": "elsewhere"}}),
        ),
    );
    template(&mut world, "msa", "msa:0.4.0");
    let one_by_one =
        json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "progressDeadline": "20s"}});
    addon(&mut world, "msa", one_by_one);
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "p"}, "spec": {"onBreach": "Rollback"}})));
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    let own = json!({"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs", "name": "own", "namespace": "cluster1"});
    let kind =
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"});
    put(
        &mut world,
        merged(
            kind,
            json!({"metadata": {"name": ADDON, "namespace": "cluster1"}, "spec": {"configs": [own]}}),
        ),
    );
    let configurations = |world: &World| {
        let addon: ManagedClusterAddOn = world.get(&Key::namespaced("cluster1", ADDON)).unwrap();
        let references = addon.status.unwrap().config_references.into_iter();
        references.map(|r| (r.resource, r.desired_config.unwrap().spec_hash)).collect::<Vec<_>>()
    };
    world.run_for(seconds(60)).unwrap();
    assert!(is_completed(&world), "{:?}", progress(&world));
    let before = configurations(&world);
    assert_eq!(before.len(), 2, "{before:?}");
    template(&mut world, "msa", "msa:0.4.1");
    let moved = |world: &World| configurations(world) != before;
    assert!(world.run_until(seconds(30), moved).unwrap());
    world.run_for(seconds(120)).unwrap();
    assert_eq!(
        (images(&world), configurations(&world)),
        (vec!["0.4.0".to_owned(); 2], before),
        "{:?}",
        progress(&world)
    );
}

/// The new cluster starts with its group, and later groups do not wait for it.
#[test]
fn a_cluster_that_joins_a_rollout_is_not_waited_for() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    let slow = json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"progressDeadline": "5m"}});
    addon(&mut world, "msa", slow);
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(30), |world| images(world)[0] == "0.4.1").unwrap());
    // The start of the rollout is recorded after its first cluster starts, and API times are whole seconds.
    world.run_for(seconds(2)).unwrap();
    join(&mut world, 3, true, seconds(100));
    let joined = |world: &World| images(world).len() == 4;
    assert!(world.run_until(seconds(20), joined).unwrap(), "it starts at once: its group has the turn");
    assert_eq!(images(&world)[3], "0.4.1");
    assert!(
        world.run_until(seconds(30), |world| images(world) == ["0.4.1"; 4]).unwrap(),
        "{:?}",
        progress(&world)
    );
    assert!(!is_completed(&world), "the one that joined is still in flight");
    assert!(world.run_until(seconds(200), is_completed).unwrap(), "{:?}", progress(&world));
}

#[test]
fn without_a_policy_a_cluster_times_out_after_ten_minutes() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.9");
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    addon(&mut world, "msa", strategy);
    select_all(&mut world);
    world.run_for(seconds(590)).unwrap();
    assert_eq!(progress(&world).0, "Progressing", "{}", progress(&world).1);
    world.run_for(seconds(30)).unwrap();
    assert_eq!(progress(&world).0, "Failed", "{}", progress(&world).1);
}

#[test]
fn the_last_strategy_that_is_valid_stays_in_force() {
    let mut world = world(4);
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "p"}, "spec": {}})));
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    let mut misspelled = progressive();
    misspelled["progressive"]["maxConcurrency"] = "3".into();
    addon(&mut world, "msa", misspelled);
    template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(120), |world| images(world)[0] == "0.4.1").unwrap());
    assert_eq!(images(&world)[1..], ["0.4.0", "0.4.0", "0.4.0"], "the canary first, as before");
    assert!(progress(&world).1.contains("maxConcurrency"), "{}", progress(&world).1);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
}
