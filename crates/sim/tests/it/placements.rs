//! Random changes to a hub: reconciling a placement after each change gives the same decisions as reconciling it
//! for the first time.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use object::{Key, Kind, Object};
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

const GROUP: &str = "cluster.open-cluster-management.io";

#[derive(Clone, Debug)]
enum Event {
    /// A cluster joins or changes; the second number determines its labels.
    Put(u8, u8),
    Lose(u8),
    Taint(u8),
    Score(u8, i8, Option<u8>),
    Unscore(u8),
    Place(usize),
    Bind(bool, bool),
    /// The set `team` changes to its nth form or is deleted.
    Team(u8),
    Meddle(u8),
    Wait(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![
        5 => (0..6_u8, 0..8_u8).prop_map(|(cluster, labels)| Event::Put(cluster, labels)),
        2 => (0..6_u8).prop_map(Event::Lose),
        1 => (0..6_u8).prop_map(Event::Taint),
        2 => (0..6_u8, -100..101_i8, proptest::option::of(1..60_u8))
            .prop_map(|(at, score, until)| Event::Score(at, score, until)),
        1 => (0..6_u8).prop_map(Event::Unscore),
        3 => (0..specs().len()).prop_map(Event::Place),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(team, bound)| Event::Bind(team, bound)),
        2 => (0..4_u8).prop_map(Event::Team),
        2 => (0..5_u8).prop_map(Event::Meddle),
        3 => (0..20_u8).prop_map(Event::Wait),
    ];
    proptest::collection::vec(one, 1..20)
}

fn specs() -> Vec<Value> {
    let prod =
        json!([{ "requiredClusterSelector": { "labelSelector": { "matchLabels": { "env": "prod" } } } }]);
    let rated = json!([{ "requiredClusterSelector": { "celSelector": { "celExpressions": ["managedCluster.scores('usage').exists(s, s.value > 0)"] } } }]);
    let score = json!({ "scoreCoordinate": { "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } } });
    let zones = json!({ "spreadConstraints": [{ "topologyKey": "zone", "topologyKeyType": "Label", "whenUnsatisfiable": "DoNotSchedule" }] });
    let canary = json!({ "groupName": "canary", "groupClusterSelector": { "labelSelector": { "matchLabels": { "zone": "a" } } } });
    vec![
        json!({}),
        json!({ "predicates": prod }),
        json!({ "predicates": prod, "clusterSets": ["team"] }),
        json!({ "numberOfClusters": 2, "predicates": prod }),
        json!({ "predicates": rated }),
        json!({ "numberOfClusters": 2, "prioritizerPolicy": { "mode": "Exact", "configurations": [score] } }),
        json!({ "sortBy": "Score", "scoreRateLimit": "5s", "prioritizerPolicy": { "mode": "Exact", "configurations": [score] } }),
        json!({ "numberOfClusters": 3, "spreadPolicy": zones }),
        json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": "50%", "decisionGroups": [canary] } } }),
        json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": "5" } } }),
        json!({ "numberOfClusters": 0 }),
    ]
}

struct Hub(World);

impl Hub {
    fn new() -> Self {
        Self(World::new(1, Timestamp::from_second(1_800_000_000).unwrap()))
    }

    fn put<K: Kind>(&mut self, metadata: Value, spec: Value) {
        let gvk = object::Gvk::of::<K>();
        let object =
            json!({ "apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": metadata, "spec": spec });
        self.0.apply(Object::from_value(object).unwrap()).unwrap();
    }

    fn patch<K: Kind>(&mut self, key: &Key, part: Option<&str>, patch: Value) {
        let target = ResourcePath::of::<K>(key);
        let target = part.into_iter().fold(target, ResourcePath::sub);
        let _ =
            self.0.hub.patch(&target, &Patch::Merge(patch), &WriteOptions::manager("somebody"), self.0.now);
    }

    #[expect(clippy::too_many_lines, reason = "one match over all events")]
    fn happen(&mut self, event: &Event) {
        let cluster = |number: u8| format!("c{number}");
        match event {
            Event::Put(number, labels) => {
                let env = if labels & 1 == 0 { "prod" } else { "dev" };
                let zone = if labels & 2 == 0 { "a" } else { "b" };
                let set = if labels & 4 == 0 { "team" } else { "default" };
                let labels = json!({ "env": env, "zone": zone, format!("{GROUP}/clusterset"): set });
                self.put::<ManagedCluster>(
                    json!({ "name": cluster(*number), "labels": labels }),
                    json!({ "hubAcceptsClient": true }),
                );
            }
            Event::Lose(number) => drop(self.0.delete::<ManagedCluster>(&Key::cluster(cluster(*number)))),
            Event::Taint(number) => {
                let taint = json!({ "key": "t", "effect": "NoSelect", "timeAdded": self.0.now.to_string() });
                self.patch::<ManagedCluster>(
                    &Key::cluster(cluster(*number)),
                    None,
                    json!({ "spec": { "taints": [taint] } }),
                );
            }
            Event::Score(number, score, valid_for) => {
                let key = Key::namespaced(cluster(*number), "usage");
                let until = valid_for
                    .map(|seconds| (self.0.now + SignedDuration::from_secs(seconds.into())).to_string());
                let object = json!({
                    "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "AddOnPlacementScore",
                    "metadata": { "namespace": key.namespace, "name": key.name },
                });
                // The namespace is created and deleted with the cluster.
                if self.0.apply(Object::from_value(object).unwrap()).is_ok() {
                    let status =
                        json!({ "scores": [{ "name": "cpu", "value": score }], "validUntil": until });
                    self.patch::<AddOnPlacementScore>(&key, Some("status"), json!({ "status": status }));
                }
            }
            Event::Unscore(number) => {
                drop(self.0.delete::<AddOnPlacementScore>(&Key::namespaced(cluster(*number), "usage")))
            }
            Event::Place(number) => {
                let mut spec = specs()[*number].clone();
                let patience = json!({ "key": "t", "operator": "Exists", "tolerationSeconds": 15 });
                spec["tolerations"] =
                    json!([{ "key": format!("{GROUP}/unreachable"), "operator": "Exists" }, patience]);
                self.put::<Placement>(json!({ "namespace": "default", "name": "p" }), spec);
            }
            Event::Bind(team, bound) => {
                let name = if *team { "team" } else { "global" };
                let key = Key::namespaced("default", name);
                match bound {
                    true => self.put::<ManagedClusterSetBinding>(
                        json!({ "namespace": "default", "name": name }),
                        json!({ "clusterSet": name }),
                    ),
                    false => drop(self.0.delete::<ManagedClusterSetBinding>(&key)),
                }
            }
            Event::Team(0) => drop(self.0.delete::<ManagedClusterSet>(&Key::cluster("team"))),
            Event::Team(form) => {
                let expression = json!({ "matchExpressions": [{ "key": "env", "operator": if *form == 2 { "In" } else { "Like" }, "values": ["dev"] }] });
                let selector = match form {
                    1 => json!({ "selectorType": "ExclusiveClusterSetLabel" }),
                    _ => json!({ "selectorType": "LabelSelector", "labelSelector": expression }),
                };
                self.put::<ManagedClusterSet>(
                    json!({ "name": "team" }),
                    json!({ "clusterSelector": selector }),
                );
            }
            Event::Meddle(how) => self.meddle(*how),
            Event::Wait(seconds) => self.0.run_for(SignedDuration::from_secs((*seconds).into())).unwrap(),
        }
    }

    fn meddle(&mut self, how: u8) {
        let key = Key::namespaced("default", "p-decision-1");
        let label = |name: &str, value: Value| json!({ "metadata": { "labels": { format!("{GROUP}/{name}"): value } } });
        match how {
            0 => drop(self.0.delete::<PlacementDecision>(&key)),
            1 => self.patch::<PlacementDecision>(&key, None, label("placement", Value::Null)),
            2 => self.patch::<PlacementDecision>(&key, None, label("decision-group-index", json!("7"))),
            3 => self.patch::<PlacementDecision>(
                &key,
                Some("status"),
                json!({ "status": { "decisions": [] } }),
            ),
            _ => drop(self.0.delete::<Placement>(&Key::namespaced("default", "p"))),
        }
    }

    /// Returns the status of the placements, and their decisions, with resource versions.
    fn reported(&self) -> Value {
        json!([
            self.0.list::<Placement>(),
            self.0.list::<PlacementDecision>(),
            self.0.list::<ManagedClusterSet>()
        ])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").map_or(24, |cases| cases.parse().unwrap()),
        failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_operator_that_restarts_changes_nothing(events in events()) {
        let mut hub = Hub::new();
        let clusters = [Event::Put(0, 0), Event::Put(1, 1), Event::Put(2, 2)];
        let first = [Event::Team(1), Event::Bind(true, true)].into_iter().chain(clusters);
        for event in first.chain([Event::Place(0), Event::Wait(1)]).chain(events) {
            hub.happen(&event);
        }
        hub.0.run_for(SignedDuration::from_secs(100)).unwrap();
        let before = hub.reported();
        hub.0.restart_operator();
        hub.0.run_for(SignedDuration::from_secs(1)).unwrap();
        prop_assert_eq!(hub.reported(), before);
        let decisions = hub.0.list::<PlacementDecision>();
        let mut labels = decisions.iter().map(|decision| decision.metadata.labels.as_ref());
        prop_assert!(labels.all(|labels| labels.is_some_and(|labels| labels.len() == 3)), "a decision without its labels: {:?}", decisions);
    }
}

#[test]
fn a_deleted_cluster_leaves_the_decisions_even_if_its_set_is_malformed() {
    let mut hub = Hub::new();
    let clusters = [Event::Put(0, 0), Event::Put(1, 1), Event::Put(2, 2)];
    let first = [Event::Team(1), Event::Bind(true, true)].into_iter().chain(clusters);
    let then = [Event::Place(0), Event::Wait(1), Event::Team(3), Event::Wait(0), Event::Lose(0)];
    for event in first.chain(then).chain([Event::Wait(10)]) {
        hub.happen(&event);
    }
    let decided = hub.0.list::<PlacementDecision>();
    let decided = decided.iter().flat_map(|decision| &decision.status.as_ref().unwrap().decisions);
    let decided: Vec<&str> = decided.map(|decided| decided.cluster_name.as_str()).collect();
    assert_eq!(decided, ["c1", "c2"]);
}

#[test]
fn scores_are_from_minus_100_to_100_and_part_of_the_status_only() {
    let mut world = fixtures::world(1);
    let key = Key::namespaced("cluster1", "usage");
    let status = |value: i32| {
        let valid_until = "2027-02-01T00:00:00Z";
        let scores = json!([{"name": "cpuAvailable", "value": value}]);
        let condition = json!({"type": "Computed", "status": "True", "reason": "Computed", "message": "",
            "lastTransitionTime": "2027-01-01T00:00:00Z"});
        json!({"status": {"conditions": [condition], "validUntil": valid_until, "scores": scores}})
    };
    let object = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "AddOnPlacementScore",
        "metadata": {"namespace": key.namespace, "name": key.name}});
    fixtures::put(&mut world, fixtures::merged(object, status(50)));
    let read = |world: &World| world.get::<AddOnPlacementScore>(&key).unwrap().status;
    assert_eq!(read(&world), None, "a write of the object leaves the status out");
    for value in [-100, 100] {
        world.patch_status::<AddOnPlacementScore>(&key, status(value)).unwrap();
        let stored = read(&world).unwrap();
        assert_eq!((stored.scores[0].value, stored.conditions.len()), (value, 1));
        assert!(stored.valid_until.is_some());
    }
    for (value, bound) in [(101, "less than or equal to 100"), (-101, "greater than or equal to -100")] {
        let refused = world.patch_status::<AddOnPlacementScore>(&key, status(value)).unwrap_err();
        assert!(refused.contains("status.scores[0].value") && refused.contains(bound), "{refused}");
    }
    assert_eq!(read(&world).unwrap().scores[0].value, 100);
}
