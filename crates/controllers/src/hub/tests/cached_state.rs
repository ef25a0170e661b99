//! Tests that the state that controllers keep between plans does not affect any plan.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::memory_hub::MemoryHub;
use crate::hub::addon_config::AddOnConfigController;
use crate::hub::replica_set::ReplicaSetController;
use object::{Key, Object, Random};
use reconcile::{
    Command, Decoded, Dispatcher, DispatcherLimits, Failure, FailureKind, Register as _, WatcherEvent,
};

const CLUSTER: &str = "cluster.open-cluster-management.io";
const ADDON: &str = "addon.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";
const CLUSTERS: u64 = 8;
const PLACEMENTS: [&str; 3] = ["p", "q", "r"];

/// Runs and writes due plans, and compares each plan with one from the objects alone. Writes fail in `permille` of
/// 1,000 cases.
fn settle(hub: &mut MemoryHub, random: &mut Random, permille: u32) {
    loop {
        let (commands, now) = (hub.dispatcher.due(hub.now), hub.now);
        if commands.is_empty() {
            return;
        }
        for command in commands {
            match command {
                Command::Decide(decision) => {
                    let controller = decision.controller;
                    let decided = decision.run_inspected(&mut |planning| {
                        assert_eq!(planning.plan, &planning.with_new_indexes(), "{controller} at {now}");
                        assert_eq!(planning.plan, &planning.again(), "{controller} again, at {now}");
                    });
                    hub.dispatcher.decided(decided, now);
                }
                Command::Act(act) if random.chance(permille) => {
                    let failure = Failure { kind: FailureKind::Conflict, message: "it fails".into() };
                    hub.dispatcher.acted(act.done(Err(failure)), now);
                }
                command => {
                    hub.execute(command);
                }
            }
        }
    }
}

fn hub(objects: Vec<Value>) -> MemoryHub {
    let mut dispatcher =
        Dispatcher::new(DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 }, false);
    dispatcher.add::<AddOnConfigController>();
    dispatcher.add::<ReplicaSetController>();
    let mut hub = MemoryHub::new(dispatcher, Vec::new());
    settle(&mut hub, &mut Random::new(0), 0);
    objects.into_iter().for_each(|object| put(&mut hub, object));
    hub
}

fn put(hub: &mut MemoryHub, object: Value) {
    hub.put(Object::from_value(object).unwrap());
}

fn name(cluster: u64) -> String {
    format!("c{cluster}")
}

fn cluster(name: &str, available: &str, since: Timestamp) -> Value {
    json!({
        "apiVersion": format!("{CLUSTER}/v1"), "kind": "ManagedCluster",
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2023-01-01T00:00:00Z"},
        "spec": {"hubAcceptsClient": true},
        "status": {"conditions": [{
            "type": "ManagedClusterConditionAvailable", "status": available, "reason": "R", "message": "",
            "lastTransitionTime": since.to_string(),
        }]},
    })
}

/// Returns a placement that reports this number of selected clusters.
fn placement(name: &str, selected: usize) -> Value {
    json!({
        "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "Placement",
        "metadata": {"namespace": "ns", "name": name}, "spec": {},
        "status": {"numberOfSelectedClusters": selected, "conditions": [{
            "type": "PlacementSatisfied", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2023-01-01T00:00:00Z",
        }]},
    })
}

/// Returns the PlacementDecision of a decision group.
fn page(placement: &str, group: u64, clusters: &[String]) -> Value {
    let decisions: Vec<Value> =
        clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    json!({
        "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "PlacementDecision",
        "metadata": {
            "namespace": "ns", "name": format!("{placement}-{group}"),
            "labels": {
                (format!("{CLUSTER}/placement")): placement,
                (format!("{CLUSTER}/decision-group-index")): group.to_string(),
                (format!("{CLUSTER}/decision-group-name")): if group == 0 { "canary" } else { "" },
            },
        },
        "status": {"decisions": decisions},
    })
}

/// Returns a random set with our label.
fn set(random: &mut Random) -> Value {
    let progressive = json!({"type": "Progressive", "progressive": {
        "mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": "50%",
        "progressDeadline": "60s", "minSuccessTime": "20s", "maxFailures": 1,
    }});
    let strategies = [json!({"type": "All"}), progressive, json!({"type": "Unknown"})];
    let mut references = Vec::new();
    for _ in 0..=random.below(3) {
        let name = PLACEMENTS[random.below(3) as usize];
        let strategy = &strategies[random.below(3) as usize];
        references.push(json!({"name": name, "rolloutStrategy": strategy}));
    }
    json!({
        "apiVersion": format!("{WORK}/v1alpha1"), "kind": "ManifestWorkReplicaSet",
        "metadata": {
            "namespace": "ns", "name": "s", "uid": "s", "labels": {"team": random.below(2).to_string()},
            "finalizers": [api::names::WORK_REPLICA_SET_FINALIZER],
        },
        "spec": {"placementRefs": references, "manifestWorkTemplate": template(random.below(3))},
    })
}

fn template(version: u64) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"v": version.to_string()}});
    json!({"workload": {"manifests": [map]}})
}

fn policy(random: &mut Random) -> Value {
    let choose = |random: &mut Random, choices: &[&str]| {
        choices[random.below(choices.len() as u64) as usize].to_owned()
    };
    json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "p"},
        "spec": {
            "paused": random.chance(150), "onBreach": choose(random, &["Pause", "Rollback"]),
            "success": choose(random, &["Applied", "Available"]), "soak": choose(random, &["0s", "30s"]),
            "joining": choose(random, &["LastGood", "InTurn"]), "removalBudget": choose(random, &["0", "50%", "100%"]),
            "unreachableBudget": choose(random, &["0", "100%"]),
        },
    })
}

/// Returns a work as OCM's controller creates it.
fn foreign_work(cluster: String, random: &mut Random) -> Value {
    let labels = json!({
        (format!("{WORK}/manifestworkreplicaset")): "ns.s",
        (format!("{WORK}/placementname")): PLACEMENTS[random.below(3) as usize],
    });
    json!({
        "apiVersion": format!("{WORK}/v1"), "kind": "ManifestWork",
        "metadata": {
            "namespace": cluster, "name": format!("s-{}", random.below(2)), "generateName": "s", "labels": labels,
        },
        "spec": template(random.below(3)),
    })
}

/// Returns a random object of a kind.
fn any(hub: &MemoryHub, kind: &str, random: &mut Random) -> Option<Key> {
    let keys: Vec<&Key> = hub.objects.keys().filter(|(of, _)| of == kind).map(|(_, key)| key).collect();
    keys.get(random.below(keys.len() as u64) as usize).map(|key| (*key).clone())
}

/// Changes the conditions of a work.
fn report(hub: &mut MemoryHub, random: &mut Random) {
    let Some(key) = any(hub, "ManifestWork", random) else { return };
    let mut conditions = Vec::new();
    for (type_, permille) in [("Applied", 800), ("Available", 700), ("Degraded", 200), ("Progressing", 200)] {
        if random.chance(800) {
            let status = if random.chance(permille) { "True" } else { "False" };
            let mut condition = json!({
                "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": hub.now.to_string(),
            });
            if random.chance(100) {
                condition["observedGeneration"] = 7.into();
            }
            conditions.push(condition);
        }
    }
    hub.patch("ManifestWork", &key, &json!({"status": {"conditions": conditions}}));
}

/// Changes the clusters that a placement selects. Sometimes its decisions do not match its status.
fn decide(hub: &mut MemoryHub, random: &mut Random) {
    let of = PLACEMENTS[random.below(3) as usize];
    if random.chance(100) {
        return hub.delete("Placement", &Key::namespaced("ns", of));
    }
    let mut selected = 0;
    for group in 0..2 {
        let clusters: Vec<String> =
            (0..CLUSTERS).filter(|cluster| cluster % 2 == group && random.chance(700)).map(name).collect();
        selected += clusters.len();
        put(hub, page(of, group, &clusters));
    }
    put(hub, placement(of, selected + usize::from(random.chance(100))));
}

/// Makes a kind wait for its next list, which may leave objects out.
fn relist(hub: &mut MemoryHub, random: &mut Random) {
    let name = ["ManifestWork", "ManagedCluster", "PlacementDecision"][random.below(3) as usize];
    let kinds: Vec<_> = hub.kinds.iter().filter(|kind| kind.gvk.kind == name).cloned().collect();
    if random.chance(500) {
        kinds.iter().for_each(|kind| hub.dispatcher.watched(kind, WatcherEvent::Stale, hub.now));
        settle(hub, random, 0);
    }
    let permille = [0, 100, 1000][random.below(3) as usize];
    let objects: Vec<&Object> = hub.objects.values().filter(|object| object.kind() == name).collect();
    let listed: Vec<&Object> = objects.into_iter().filter(|_| !random.chance(permille)).collect();
    for kind in &kinds {
        let objects: Vec<Decoded> = listed.iter().map(|object| kind.convert(object)).collect();
        let resource_version = hub.version.to_string();
        hub.dispatcher.watched(kind, WatcherEvent::Listed { objects, resource_version }, hub.now);
    }
}

/// Deletes the set, or creates it again.
fn delete(hub: &mut MemoryHub, random: &mut Random) {
    let key = Key::namespaced("ns", "s");
    if let Some(set) = hub.objects.get(&("ManifestWorkReplicaSet".to_owned(), key.clone())) {
        if set.0["metadata"]["deletionTimestamp"].is_null() {
            let deleted = json!({"metadata": {"deletionTimestamp": hub.now.to_string()}});
            hub.patch("ManifestWorkReplicaSet", &key, &deleted);
        } else {
            hub.delete("ManifestWorkReplicaSet", &key);
        }
    } else {
        put(hub, set(random));
    }
}

fn event(hub: &mut MemoryHub, random: &mut Random) {
    let one = name(random.below(CLUSTERS));
    match random.below(20) {
        0..=6 => report(hub, random),
        7 | 8 => {
            let available = ["True", "False", "Unknown"][random.below(3) as usize];
            put(hub, cluster(&one, available, hub.now));
        }
        9 if random.chance(500) => hub.delete("ManagedCluster", &Key::cluster(one)),
        9 => {
            let mut leaving = cluster(&one, "True", hub.now);
            leaving["metadata"]["deletionTimestamp"] = hub.now.to_string().into();
            put(hub, leaving);
        }
        10 | 11 => decide(hub, random),
        12 | 13 => put(hub, set(random)),
        14 if random.chance(300) => hub.delete("RolloutPolicy", &Key::cluster("p")),
        14 => put(hub, policy(random)),
        15 => put(hub, foreign_work(one, random)),
        16 => {
            if let Some(key) = any(hub, "ManifestWork", random) {
                hub.delete("ManifestWork", &key);
            }
        }
        17 => {
            let kind = ["ManifestWork", "ManagedCluster"][random.below(2) as usize];
            if let Some(key) = any(hub, kind, random) {
                let is_readable = hub.objects[&(kind.to_owned(), key.clone())].0["spec"].is_object();
                let spec = if is_readable { json!("unreadable") } else { template(0) };
                hub.patch(kind, &key, &json!({ "spec": spec }));
            }
        }
        18 => relist(hub, random),
        _ => delete(hub, random),
    }
    let seconds = if random.chance(50) { -30 } else { random.below(25) as i64 };
    hub.now += SignedDuration::from_secs(seconds);
}

#[test]
fn the_plan_of_a_set_depends_only_on_its_objects() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut hub = hub((0..CLUSTERS).map(|i| cluster(&name(i), "True", Timestamp::UNIX_EPOCH)).collect());
        PLACEMENTS.iter().for_each(|of| put(&mut hub, page(of, 1, &[])));
        put(&mut hub, set(&mut random));
        for _ in 0..60 {
            event(&mut hub, &mut random);
            if random.chance(700) {
                settle(&mut hub, &mut random, 100);
            }
        }
    }
}

/// Reports whether an add-on on a cluster runs its assigned configurations.
fn report_add_on(hub: &mut MemoryHub, cluster: &str, has_arrived: bool) {
    let key = Key::namespaced(cluster, "a");
    let mut addon = hub.objects[&("ManagedClusterAddOn".to_owned(), key)].clone().into_value();
    for reference in addon["status"]["configReferences"].as_array_mut().unwrap() {
        reference["lastAppliedConfig"] =
            if has_arrived { reference["desiredConfig"].clone() } else { Value::Null };
    }
    addon["status"]["conditions"] = json!([{
        "type": "Progressing", "status": if has_arrived { "False" } else { "True" },
        "reason": if has_arrived { "Completed" } else { "Progressing" }, "message": "",
        "lastTransitionTime": hub.now.to_string(),
    }]);
    put(hub, addon);
}

#[test]
fn an_add_on_that_changes_while_nothing_is_decided_about_it_is_read_later() {
    let group = json!({"group": ADDON, "resource": "addontemplates", "defaultConfig": {"name": "t"}});
    let progressive = json!({"type": "Progressive", "progressive": {"progressDeadline": "1h"}});
    let install = json!({"type": "Placements", "placements": [{
        "namespace": "ns", "name": "p", "rolloutStrategy": progressive,
    }]});
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "d"}});
    let template = json!({
        "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": "t"},
        "spec": {"addonName": "a", "agentSpec": {"workload": {"manifests": [config_map]}}},
    });
    let addon = |cluster: u64| {
        json!({
            "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ManagedClusterAddOn",
            "metadata": {"namespace": name(cluster), "name": "a"}, "spec": {},
        })
    };
    let mut hub = hub(vec![
        template.clone(),
        cluster("c0", "True", Timestamp::UNIX_EPOCH),
        cluster("c1", "True", Timestamp::UNIX_EPOCH),
        cluster("c2", "True", Timestamp::UNIX_EPOCH),
        addon(0),
        addon(1),
        addon(2),
        page("p", 0, &[name(0), name(1)]),
        placement("p", 2),
        json!({
            "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ClusterManagementAddOn",
            "metadata": {"name": "a", "uid": "a"},
            "spec": {"supportedConfigs": [group], "installStrategy": install},
        }),
    ]);
    let mut random = Random::new(0);
    settle(&mut hub, &mut random, 0);
    report_add_on(&mut hub, "c0", false);
    settle(&mut hub, &mut random, 0);
    hub.delete("AddOnTemplate", &Key::cluster("t"));
    settle(&mut hub, &mut random, 0);
    report_add_on(&mut hub, "c0", true);
    settle(&mut hub, &mut random, 0);
    put(&mut hub, template);
    settle(&mut hub, &mut random, 0);
    // The same while another manager has the add-on.
    for manager in [json!("self"), Value::Null] {
        let annotations = json!({(api::names::ADDON_LIFECYCLE_ANNOTATION): manager});
        hub.patch(
            "ClusterManagementAddOn",
            &Key::cluster("a"),
            &json!({"metadata": {"annotations": annotations}}),
        );
        settle(&mut hub, &mut random, 0);
        for cluster in ["c1", "c2"] {
            report_add_on(&mut hub, cluster, manager.is_null());
            settle(&mut hub, &mut random, 0);
        }
    }
    let progressions = &hub.objects[&("ClusterManagementAddOn".to_owned(), Key::cluster("a"))].0["status"]["installProgressions"];
    assert!(progressions.to_string().contains("2/2 completed"), "{progressions}");
}
