use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use object::Random;
use object::tree::{Checkout, FileTree};
use serde_json::json;
use serde_json::value::RawValue;

use super::super::play::{ProposedCommit, preview, preview_of};
use super::super::{LeftOut, Preview, PreviewError};
use super::*;
use sim::{World, workload};

const ADDON_API: &str = "addon.open-cluster-management.io/v1alpha1";

fn repo() -> Key {
    Key::namespaced("config", "fleet")
}

fn put(world: &mut World, object: Value) {
    world.apply(Object::from_value(object).unwrap()).unwrap();
}

/// Returns a hub with three clusters, two of them in production.
fn hub(seed: u64) -> World {
    let mut world = World::new(seed, Timestamp::from_second(1_800_000_000).unwrap());
    let labels = json!({"gitops.wheelwright.dev/operator-identity": "allowed"});
    put(
        &mut world,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config", "labels": labels}}),
    );
    put(
        &mut world,
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"name": "fleet", "namespace": "config"}, "spec": {"url": "https://git.example/fleet", "takeover": "Always"}}),
    );
    for (name, prod) in [("c1", "true"), ("c2", "true"), ("c3", "false")] {
        let images = (0..4).map(|version| format!("app:{version}")).collect();
        let ready_after = SignedDuration::from_secs(3);
        world.join(name, &[("prod", prod)], workload::Environment { images, ready_after, nodes: 1 }).unwrap();
    }
    world.run_for(SignedDuration::from_mins(1)).unwrap();
    world
}

/// The content of a repository, by number.
struct Content {
    versions: [Option<u64>; 3],
    sets: [u64; 2],
    strategies: [bool; 2],
    prod: bool,
    config: u64,
    label: u64,
    map: u64,
    is_careful: bool,
}

impl Content {
    fn change(&mut self, random: &mut Random) {
        let at = |random: &mut Random, of: usize| usize::try_from(random.below(of as u64)).unwrap();
        match random.below(12) {
            0..4 => self.versions[at(random, 3)] = Some(random.below(4)),
            4 => self.versions[at(random, 3)] = None,
            5 => self.sets[at(random, 2)] += 1,
            6 => self.strategies[at(random, 2)] ^= true,
            7 => self.prod ^= true,
            8 => self.config += 1,
            9 => self.label += 1,
            10 => self.map += 1,
            _ => self.is_careful ^= true,
        }
    }

    fn files(&self) -> FileTree {
        let mut objects = vec![
            json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
                "metadata": {"name": "global"}, "spec": {"clusterSet": "global"}}),
            placement("all", json!([])),
            placement("some", if self.prod { selector("prod") } else { json!([]) }),
            json!({"apiVersion": ADDON_API, "kind": "AddOnDeploymentConfig", "metadata": {"name": "values"},
                "spec": {"agentInstallNamespace": "default", "customizedVariables": [{"name": "N", "value": self.config.to_string()}]}}),
            json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                "metadata": {"name": "c1", "labels": {"team": self.label.to_string()}}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"n": self.map.to_string()}}),
        ];
        let add_ons = self.versions.iter().enumerate();
        for (number, version) in add_ons.filter_map(|(number, version)| Some((number, (*version)?))) {
            objects.extend(add_on(number, version, self.strategies[number % 2]));
        }
        if self.versions[2].is_some() {
            let configs = json!([{"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
                "namespace": "config", "name": "values"}]);
            objects.push(json!({"apiVersion": ADDON_API, "kind": "ManagedClusterAddOn",
                "metadata": {"name": "app-2", "namespace": "c2"}, "spec": {"configs": configs}}));
        }
        objects.extend(self.sets.iter().enumerate().map(|(number, value)| set(number, *value)));
        let soak = if self.is_careful { "5s" } else { "0s" };
        objects.push(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {"name": "fleet"}, "spec": {"soak": soak, "removalBudget": "100%"}}));
        let files = objects.iter().enumerate();
        files.map(|(number, object)| (format!("{number}.yaml"), object.to_string().into_bytes())).collect()
    }
}

fn selector(label: &str) -> Value {
    json!([{"requiredClusterSelector": {"labelSelector": {"matchLabels": {label: "true"}}}}])
}

fn placement(name: &str, predicates: Value) -> Value {
    json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"name": name}, "spec": {"predicates": predicates}})
}

/// Returns an add-on with its template. The first add-on is on all clusters, the others are on some.
fn add_on(number: usize, version: u64, is_progressive: bool) -> [Value; 2] {
    let (group, name) = ("addon.open-cluster-management.io", format!("app-{number}"));
    let template = format!("template-{number}");
    let labels = json!({"app": name});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": format!("app:{version}")}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}});
    let strategy = if is_progressive {
        json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}})
    } else {
        json!({"type": "All"})
    };
    let placed = if number == 0 { "all" } else { "some" };
    let placed = json!({"namespace": "config", "name": placed, "rolloutStrategy": strategy});
    let configs = json!([
        {"group": group, "resource": "addontemplates", "defaultConfig": {"name": template}},
        {"group": group, "resource": "addondeploymentconfigs"},
    ]);
    let spec = json!({"addonName": name, "agentSpec": {"workload": {"manifests": [deployment]}}});
    [
        json!({"apiVersion": ADDON_API, "kind": "AddOnTemplate", "metadata": {"name": template}, "spec": spec}),
        json!({"apiVersion": ADDON_API, "kind": "ClusterManagementAddOn", "metadata": {"name": name},
            "spec": {"supportedConfigs": configs, "installStrategy": {"type": "Placements", "placements": [placed]}}}),
    ]
}

fn set(number: usize, value: u64) -> Value {
    let name = format!("set-{number}");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"n": value.to_string()}});
    let placed =
        json!({"name": if number == 0 { "all" } else { "some" }, "rolloutStrategy": {"type": "All"}});
    json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": name},
        "spec": {"manifestWorkTemplate": {"workload": {"manifests": [map]}}, "placementRefs": [placed]}})
}

/// Plans as for a large hub, leaving out everything that the plan does not ask for.
fn read_in_parts(hub: &HubSnapshot, commit: &ProposedCommit, now: Timestamp) -> Preview {
    let mut left_out = LeftOut::but(PreviewScope::default());
    loop {
        let mut read = |object: &Arc<Object>| {
            let json = RawValue::from_string(serde_json::to_string(&**object).unwrap()).unwrap();
            left_out.read(&json).unwrap()
        };
        let objects = hub.objects.iter().filter_map(&mut read).map(Arc::new).collect();
        let snapshot = HubSnapshot { objects, kinds: hub.kinds.clone(), left_out, ..HubSnapshot::default() };
        match preview(&snapshot, commit, now) {
            Err(PreviewError::LeftOut(scope)) => left_out = LeftOut::but(scope),
            planned => return planned.unwrap(),
        }
    }
}

#[test]
fn a_preview_of_touched_objects_equals_a_full_preview() {
    let (mut all, mut few, mut changes) = (0, 0, 0);
    for seed in 0..3 {
        let (mut world, mut random) = (hub(seed), Random::new(seed));
        let mut content = Content {
            versions: [Some(0); 3],
            sets: [0; 2],
            strategies: [false; 2],
            prod: true,
            config: 0,
            label: 0,
            map: 0,
            is_careful: false,
        };
        for number in 1..8 {
            let head = Arc::new(Checkout { revision: format!("{number:040x}"), tree: content.files() });
            let succeeds_after = SignedDuration::from_secs(4);
            let commit = ProposedCommit {
                repo: repo(),
                base: BTreeMap::new(),
                head,
                refused: BTreeMap::new(),
                seeds: BTreeMap::new(),
                keys: BTreeMap::new(),
                succeeds_after,
                meets_deadlines: true,
            };
            let snapshot = HubSnapshot::new(&world.hub);
            let (whole, touched) = preview_of(&PreviewScope::All, &snapshot, &commit, world.now).unwrap();
            assert_eq!(
                preview(&snapshot, &commit, world.now).unwrap(),
                whole,
                "seed {seed}, commit {number}"
            );
            assert_eq!(read_in_parts(&snapshot, &commit, world.now), whole, "seed {seed}, commit {number}");
            match touched {
                PreviewScope::All => all += 1,
                PreviewScope::Only(workloads) => few += usize::from(workloads.len() < 5),
            }
            changes += usize::from(!whole.works.is_empty());
            world.commit(&repo(), &commit.head.revision, commit.head.tree.clone());
            world.run_for(SignedDuration::from_mins(5)).unwrap();
            content.change(&mut random);
        }
    }
    assert!(all > 0 && few > 10 && changes > 10, "{all} touch all, {few} few; {changes} change works");
}

#[test]
fn an_add_on_is_left_out_with_its_objects_except_scores() {
    let add_on = || Some(PreviewWorkload::AddOn("a".into()));
    let owner = json!([{"kind": "Other", "name": "o"}, {"kind": "ManagedClusterAddOn", "name": "a"}]);
    let work = |metadata: Value| ("work.open-cluster-management.io/v1", "ManifestWork", metadata);
    let cases = [
        ((ADDON_API, "ManagedClusterAddOn", json!({"name": "a"})), add_on()),
        ((ADDON_API, "ClusterManagementAddOn", json!({"name": "a"})), None),
        (work(json!({"labels": {"open-cluster-management.io/addon-name": "a"}})), add_on()),
        (work(json!({"ownerReferences": owner})), add_on()),
        (
            work(json!({"labels": {"work.open-cluster-management.io/manifestworkreplicaset": "ns.set"}})),
            Some(PreviewWorkload::ReplicaSet("ns/set".into())),
        ),
        (work(json!({"name": "of-a-person"})), None),
        (("rbac.authorization.k8s.io/v1", "Role", json!({"ownerReferences": owner})), add_on()),
        (
            (
                "cluster.open-cluster-management.io/v1alpha1",
                "AddOnPlacementScore",
                json!({"ownerReferences": owner}),
            ),
            None,
        ),
    ];
    for ((api_version, kind, metadata), workload) in cases {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let object = Object::from_value(object).unwrap();
        assert_eq!(PreviewWorkload::on_cluster(&object), workload, "{object:?}");
        let loads = PreviewScope::default().loads(&object);
        assert_eq!(loads, workload.is_none(), "{object:?}");
    }
}
