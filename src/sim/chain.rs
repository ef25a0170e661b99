//! The chain from an add-on to the workloads of its clusters, through every controller and API server between.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::{Value, json};

use super::{World, workload};
use crate::api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use crate::api::cluster::v1::ManagedCluster;
use crate::api::gitops::v1alpha1::RolloutPolicy;
use crate::api::work::v1::ManifestWork;
use crate::object::condition::find_condition;
use crate::object::{Key, Object};
use crate::store::{ListOptions, Patch, Target, WriteOptions};

const ADDON: &str = "managed-serviceaccount";

fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

fn world(clusters: usize) -> World {
    seeded(7, clusters)
}

fn seeded(seed: u64, clusters: usize) -> World {
    let mut world = World::new(seed, Timestamp::from_second(1_800_000_000).unwrap());
    for i in 0..clusters {
        let images = ["msa:0.4.0", "msa:0.4.1"].map(str::to_owned).into();
        let workloads = workload::World { images, ready_after: seconds(3), nodes: 1 };
        world.join(&cluster(i), &[("canary", if i == 0 { "true" } else { "false" })], workloads).unwrap();
    }
    let joined = |world: &World| world.list::<ManagedCluster>().iter().all(|c| c.spec.taints.is_empty() && c.status.is_some());
    assert!(world.run_until(seconds(10), joined).unwrap(), "{:?}", world.list::<ManagedCluster>());
    world
}

fn cluster(i: usize) -> String {
    format!("cluster{}", i + 1)
}

fn put(world: &mut World, object: Value) {
    world.apply(Object::from_value(object).unwrap()).unwrap();
}

fn template(world: &mut World, name: &str, image: &str) {
    let container = json!({"name": "agent", "image": image});
    let pod = json!({"metadata": {"labels": {"app": "msa"}}, "spec": {"containers": [container]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "msa", "namespace": "open-cluster-management-agent-addon"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "msa"}}, "template": pod},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "open-cluster-management-agent-addon"}});
    put(
        world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": name},
            "spec": {"addonName": ADDON, "agentSpec": {"workload": {"manifests": [namespace, deployment]}}, "registration": [{"type": "KubeClient"}]},
        }),
    );
}

fn addon(world: &mut World, template: &str, strategy: Value) {
    put(
        world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON},
            "spec": {
                "supportedConfigs": [{"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": template}}],
                "installStrategy": {"type": "Placements", "placements": [{"namespace": "default", "name": "fleet", "rolloutStrategy": strategy}]},
            },
        }),
    );
}

/// Selects every cluster; the first is the canary.
fn select_all(world: &mut World) {
    let binding = json!({"metadata": {"name": "global", "namespace": "default"}, "spec": {"clusterSet": "global"}});
    let kind = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding"});
    put(world, merged(kind, binding));
    select(world, json!({}));
}

fn select(world: &mut World, labels: Value) {
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let predicate = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}});
    put(
        world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "fleet", "namespace": "default"},
            "spec": {
                "predicates": [predicate],
                "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}},
            },
        }),
    );
}

fn merged(mut one: Value, other: Value) -> Value {
    json_patch::merge(&mut one, &other);
    one
}

fn progressive() -> Value {
    json!({
        "type": "Progressive",
        "progressive": {"mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": 2, "progressDeadline": "20s", "maxFailures": 0},
    })
}

/// The image each cluster's work carries, in the order of clusters.
fn images(world: &World) -> Vec<String> {
    let works = world.list::<ManifestWork>();
    works.iter().map(|work| serde_json::to_string(&work.spec).unwrap().split("msa:").nth(1).unwrap_or("?")[..5].to_owned()).collect()
}

fn progress(world: &World) -> (String, String) {
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let status = cma.status.unwrap_or_default();
    let condition = status.install_progressions.first().and_then(|p| find_condition(&p.conditions, "Progressing").cloned());
    condition.map(|c| (c.reason, c.message)).unwrap_or_default()
}

fn is_completed(world: &World) -> bool {
    progress(world).0 == "Completed"
}

#[test]
fn an_addon_reaches_every_cluster_and_works_there() {
    let mut world = world(3);
    template(&mut world, "msa-0.4.0", "msa:0.4.0");
    addon(&mut world, "msa-0.4.0", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(progress(&world).1, "selected clusters 3. configured addons 3/3 completed with no errors, 0 failed 0 timeout.");
    assert_eq!(images(&world), ["0.4.0", "0.4.0", "0.4.0"]);
    for addon in world.list::<ManagedClusterAddOn>() {
        let status = addon.status.unwrap();
        assert_eq!(status.config_references[0].desired_config, status.config_references[0].last_applied_config);
        let available = find_condition(&status.conditions, "Available").map(|c| (c.status.clone(), c.message.clone()));
        assert_eq!(available, Some(("True".into(), "managed-serviceaccount add-on is available.".into())));
    }
}

#[test]
fn r1_an_edit_in_place_reaches_only_the_clusters_whose_turn_it_is() {
    let mut world = world(4);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.1");
    world.restart_operator();
    world.run_for(seconds(2)).unwrap();
    assert_eq!(images(&world), ["0.4.1", "0.4.0", "0.4.0", "0.4.0"], "the canary first");
    let mut most = 0;
    let done = world.run_until(seconds(120), |world| {
        let moved = images(world).iter().filter(|image| *image == "0.4.1").count();
        let addons = world.list::<ManagedClusterAddOn>();
        let finished = addons.iter().filter(|addon| {
            let references = &addon.status.as_ref().unwrap().config_references;
            references.iter().all(|r| r.desired_config == r.last_applied_config) && references[0].desired_config.is_some()
        });
        let in_flight = 4 - finished.count();
        most = most.max(in_flight);
        is_completed(world) && moved == 4
    });
    assert!(done.unwrap(), "{:?}", progress(&world));
    assert!(most <= 2, "{most} clusters in flight");
}

#[test]
fn r2_a_version_that_never_becomes_ready_stops_at_the_canary() {
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
    addon(&mut world, "msa-0.4.0", progressive());
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(images(&world), ["0.4.0", "0.4.0", "0.4.0", "0.4.0"]);
}

#[test]
fn a_rollout_writes_each_work_once_and_each_status_at_most_twice() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world.run_for(seconds(60)).unwrap();
    let generations = |world: &World| world.list::<ManifestWork>().iter().map(|w| w.metadata.generation.unwrap()).collect::<Vec<_>>();
    let before = generations(&world);
    world.hub.keep_journal();
    world.hub.take_journal();
    world.run_for(seconds(300)).unwrap();
    let written = world.hub.take_journal();
    assert!(written.iter().all(|entry| entry.resource.resource == "leases"), "a steady fleet writes nothing but leases");
    template(&mut world, "msa", "msa:0.4.1");
    world.hub.keep_journal();
    world.hub.take_journal();
    world.run_for(seconds(60)).unwrap();
    assert!(is_completed(&world));
    assert_eq!(generations(&world), before.iter().map(|g| g + 1).collect::<Vec<_>>());
    let journal = world.hub.take_journal();
    let writes = journal.iter().filter(|entry| entry.resource.resource == "managedclusteraddons").count();
    assert!(writes <= 6, "{writes} writes of 3 add-ons");
}

#[test]
fn u1_a_missing_placement_uninstalls_nothing() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world.delete::<crate::api::cluster::v1beta1::Placement>(&Key::namespaced("default", "fleet")).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 3);
}

fn config_maps(world: &World) -> Vec<String> {
    let all = Target::resource("", "v1", "configmaps");
    let list = world.spokes["cluster1"].store.list(&all, &ListOptions::default()).unwrap();
    list.items.iter().map(|item| format!("{}={}", item.name(), item.at(&["data", "v"]).unwrap())).collect()
}

fn work(world: &mut World, maps: &[(&str, &str)]) {
    let manifest = |(name, value): &(&str, &str)| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"v": value}});
    put(
        world,
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w", "namespace": "cluster1"},
            "spec": {"workload": {"manifests": maps.iter().map(manifest).collect::<Vec<_>>()}},
        }),
    );
    world.run_for(seconds(10)).unwrap();
}

#[test]
fn a_work_puts_on_its_cluster_what_it_says_and_takes_off_the_rest() {
    let mut world = world(1);
    work(&mut world, &[("a", "1"), ("b", "1")]);
    assert_eq!(config_maps(&world), ["a=\"1\"", "b=\"1\""]);
    work(&mut world, &[("b", "2"), ("c", "1")]);
    assert_eq!(config_maps(&world), ["b=\"2\"", "c=\"1\""]);
    let key = Key::namespaced("default", "b");
    let drift = Patch::Merge(json!({"data": {"v": "drifted"}}));
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    let target = Target::resource("", "v1", "configmaps").at(&key);
    spoke.store.patch(&target, &drift, &WriteOptions::manager("somebody"), now).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(config_maps(&world), ["b=\"2\"", "c=\"1\""], "drift is corrected");
    let revisions = |world: &World| (world.hub.revision(), world.spokes["cluster1"].store.revision());
    let before = revisions(&world);
    world.restart_agent("cluster1");
    world.run_for(seconds(1)).unwrap();
    assert_eq!(revisions(&world), before, "a restart writes nothing");
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!((config_maps(&world).len(), world.list::<ManifestWork>().len()), (0, 0));
}

#[test]
fn a_manifest_that_cannot_be_applied_is_named_and_holds_back_no_other() {
    let mut world = world(1);
    let map = |name: &str, namespace: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"v": "1"}});
    put(
        &mut world,
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w", "namespace": "cluster1"},
            "spec": {"workload": {"manifests": [map("a", "nowhere"), map("b", "default")]}},
        }),
    );
    world.run_for(seconds(5)).unwrap();
    assert_eq!(config_maps(&world), ["b=\"1\""]);
    let work: ManifestWork = world.get(&Key::namespaced("cluster1", "w")).unwrap();
    let status = work.status.unwrap();
    let applied =
        |conditions: &[crate::api::Condition]| find_condition(conditions, "Applied").map(|c| (c.status.clone(), c.message.clone()));
    let manifests: Vec<_> = status.resource_status.manifests.iter().map(|m| applied(&m.conditions).unwrap()).collect();
    assert_eq!(manifests[1], ("True".into(), "Apply manifest complete".into()));
    assert!(manifests[0].1.starts_with("Failed to apply manifest: ") && manifests[0].1.contains("nowhere"), "{manifests:?}");
    assert_eq!(applied(&status.conditions).unwrap().0, "False");
}

#[test]
fn a_cluster_that_falls_silent_is_unknown_and_comes_back() {
    let mut world = world(2);
    let available = |world: &World, name: &str| {
        let cluster: ManagedCluster = world.get(&Key::cluster(name)).unwrap();
        let taints: Vec<_> = cluster.spec.taints.iter().map(|taint| taint.key.rsplit('/').next().unwrap().to_owned()).collect();
        let condition = find_condition(&cluster.status.unwrap().conditions, "ManagedClusterConditionAvailable").cloned();
        (condition.unwrap().status, taints.join(","))
    };
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    world.run_for(seconds(290)).unwrap();
    assert_eq!(available(&world, "cluster1"), ("True".into(), String::new()), "five renewals may be missed");
    world.run_for(seconds(70)).unwrap();
    assert_eq!(available(&world, "cluster1"), ("Unknown".into(), "unreachable".into()));
    assert_eq!(available(&world, "cluster2"), ("True".into(), String::new()));
    world.spokes.get_mut("cluster1").unwrap().connected = true;
    world.run_for(seconds(90)).unwrap();
    assert_eq!(available(&world, "cluster1"), ("True".into(), String::new()));
}

#[test]
fn a_cluster_that_leaves_takes_its_permissions_with_it_and_its_namespace_stays() {
    let mut world = world(1);
    work(&mut world, &[("a", "1")]);
    world.delete::<ManagedCluster>(&Key::cluster("cluster1")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!((world.list::<ManagedCluster>().len(), world.list::<ManifestWork>().len(), config_maps(&world).len()), (0, 0, 0));
    let roles = world.list::<ClusterRole>();
    assert!(!roles.iter().any(|role| role.metadata.name.as_deref() == Some("open-cluster-management:managedcluster:cluster1")));
    assert!(world.get::<Namespace>(&Key::cluster("cluster1")).is_some());
}

fn deployments(world: &World, cluster: &str) -> usize {
    let all = Target::resource("apps", "v1", "deployments");
    world.spokes[cluster].store.list(&all, &ListOptions::default()).unwrap().items.len()
}

fn installed(world: &World) -> Vec<String> {
    world.list::<ManagedClusterAddOn>().into_iter().map(|addon| addon.metadata.namespace.unwrap()).collect()
}

#[test]
fn u1_a_removal_is_within_the_budget_or_waits() {
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
    assert_eq!((deployments(&world, "cluster2"), deployments(&world, "cluster3")), (1, 1), "an empty placement empties no fleet");
}

#[test]
fn r5_a_breach_returns_clusters_to_what_worked() {
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
    assert!(!policy.status.unwrap().rollouts[0].quarantined.is_empty());
    template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(120), |world| is_completed(world) && images(world)[3] == "0.4.1").unwrap(), "{:?}", progress(&world));
}

#[test]
fn a_rollout_survives_faults_and_restarts_and_never_moves_too_many() {
    for seed in 0..3 {
        let mut world = seeded(seed, 4);
        template(&mut world, "msa", "msa:0.4.0");
        addon(&mut world, "msa", progressive());
        select_all(&mut world);
        assert!(world.run_until(seconds(200), is_completed).unwrap(), "{:?}", progress(&world));
        world.faults = super::Faults { refused: 30, answer_lost: 30, stale: 100 };
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
