//! Tests for the changes that affect a placement and therefore wake it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::SeenCluster;
use super::super::filter::ClusterAttributes;
use super::super::prioritizer::BUILT_IN;
use super::harness::{Hub, hub, selector};

impl Hub {
    /// Replaces a cluster. Returns true if the change affects the placement.
    fn change(&mut self, cluster: Value, differs: bool) -> bool {
        let name = cluster["metadata"]["name"].as_str().unwrap().to_owned();
        let attributes =
            |hub: &Self| -> Option<ClusterAttributes> { hub.fleet.attributes(hub.fleet.id(&name)?).cloned() };
        let before = attributes(self);
        self.put(cluster);
        let after = attributes(self);
        let concerns =
            |attributes: &ClusterAttributes| self.incremental.concerns(&self.fleet, attributes, differs);
        before.iter().chain(&after).any(concerns)
    }
}

fn cluster(name: &str, env: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "env": env } } })
}

/// Returns a settled hub with three clusters, of which the placement selects one.
fn settled(spec: Value) -> Hub {
    let mut hub = Hub::new(spec);
    for (name, env) in [("a", "prod"), ("b", "dev"), ("c", "dev")] {
        hub.put(cluster(name, env));
    }
    hub.settle();
    hub
}

#[test]
fn a_cluster_that_matches_before_or_after_concerns_the_placement_and_no_other_does() {
    let prod = || settled(json!({ "predicates": selector("env", "prod") }));
    assert!(prod().change(cluster("a", "prod"), true));
    assert!(prod().change(cluster("a", "dev"), true));
    assert!(prod().change(cluster("b", "prod"), true));
    assert!(!prod().change(cluster("b", "dev"), true));
    assert!(!prod().change(cluster("b", "test"), true));
    assert!(settled(json!({})).change(cluster("b", "test"), true));
}

#[test]
fn a_cluster_outside_of_the_sets_concerns_no_placement() {
    let mut hub = settled(json!({}));
    hub.bind(1);
    hub.settle();
    assert!(!hub.change(cluster("b", "prod"), true));
}

/// Compares the explanations of a placement with each prioritizer before and after a change to each field that
/// an agent reports.
#[test]
fn a_change_of_a_score_is_noticed() {
    let reported = |cpu: &str, memory: &str, version: &str, available: &str| {
        let amount = json!({ "cpu": cpu, "memory": memory });
        json!({ "metadata": { "name": "a" }, "status": {
            "allocatable": amount, "capacity": { "cpu": "64", "memory": "256Gi" },
            "version": { "kubernetes": version },
            "conditions": [{ "type": "ManagedClusterConditionAvailable", "status": available, "reason": "R",
                "message": "", "lastTransitionTime": "2023-01-01T00:00:00Z" }],
        } })
    };
    let before = reported("4", "16Gi", "1.35", "True");
    let changes = [
        reported("8", "16Gi", "1.35", "True"),
        reported("4", "64Gi", "1.35", "True"),
        reported("4", "16Gi", "1.36", "True"),
        reported("4", "16Gi", "1.35", "False"),
    ];
    let other = json!({ "metadata": { "name": "b" }, "status": {
        "allocatable": { "cpu": "6", "memory": "32Gi" }, "capacity": { "cpu": "6", "memory": "32Gi" },
    } });
    let mut changed = Vec::new();
    for prioritizer in BUILT_IN {
        let weight = json!([{ "scoreCoordinate": { "builtIn": prioritizer.name } }]);
        let spec = json!({ "prioritizerPolicy": { "mode": "Exact", "configurations": weight } });
        let explained = |cluster: &Value| {
            let mut hub = Hub::new(spec.clone());
            [cluster, &other].into_iter().for_each(|cluster| hub.put(cluster.clone()));
            format!("{:?}", hub.explain())
        };
        for change in &changes {
            let [old, new] = [&before, change].map(|it| serde_json::from_value(it.clone()).unwrap());
            if explained(&before) != explained(change) {
                changed.push(prioritizer.name);
                assert!(SeenCluster(&old) != SeenCluster(&new), "{}: {change}", prioritizer.name);
            }
        }
    }
    assert_eq!(changed, ["ResourceAllocatableCPU", "ResourceAllocatableMemory"]);
}

#[test]
fn fields_that_only_expressions_read_concern_only_placements_with_expressions() {
    assert!(!settled(json!({})).change(cluster("a", "prod"), false));
    let cel = json!([{ "requiredClusterSelector": { "celSelector": { "celExpressions": ["true"] } } }]);
    assert!(settled(json!({ "predicates": cel })).change(cluster("a", "prod"), false));
}

#[test]
fn the_first_cluster_of_the_sets_concerns_a_placement_that_it_does_not_match() {
    let mut hub = hub(json!({ "predicates": selector("env", "prod") }), &[]);
    hub.settle();
    assert!(hub.change(cluster("a", "dev"), true));
    hub.schedule();
    assert!(hub.change(cluster("b", "dev"), true), "as many clusters changed as the sets have");
    hub.schedule();
    assert!(!hub.change(cluster("b", "test"), true));
}

#[test]
fn every_change_concerns_an_unscheduled_placement_and_none_a_misconfigured_one() {
    assert!(Hub::new(json!({})).change(cluster("a", "prod"), false));
    let mut misconfigured = Hub::new(json!({ "numberOfClusters": -1 }));
    misconfigured.schedule();
    assert!(!misconfigured.change(cluster("a", "prod"), true));
    assert!(!misconfigured.incremental.reads_score("usage"));
}

#[test]
fn scores_concern_placements_that_name_them_and_those_with_expressions() {
    let coordinate = json!({ "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } });
    let policy = json!({ "configurations": [{ "scoreCoordinate": coordinate }] });
    let cel = json!([{ "requiredClusterSelector": { "celSelector": { "celExpressions": ["true"] } } }]);
    let reads = |spec: Value| settled(spec).incremental.reads_score("usage");
    assert!(reads(json!({ "prioritizerPolicy": policy })));
    assert!(reads(json!({ "predicates": cel })));
    assert!(!reads(json!({})));
    assert!(!settled(json!({ "prioritizerPolicy": policy })).incremental.reads_score("other"));
    assert!(Hub::new(json!({})).incremental.reads_score("usage"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_that_does_not_concern_a_placement_changes_nothing(
        clusters in proptest::collection::vec(0..4_usize, 0..5),
        limit in proptest::option::of(0..3_u32),
        changes in proptest::collection::vec((0..6_usize, 0..5_usize), 1..4),
    ) {
        let env = |env: usize| ["prod", "dev", "test", "stage"][env];
        let mut hub = Hub::new(json!({ "numberOfClusters": limit, "predicates": selector("env", "prod") }));
        for (number, label) in clusters.iter().enumerate() {
            hub.put(cluster(&format!("c{number}"), env(*label)));
        }
        hub.settle();
        let status = hub.placement.status.clone();
        let mut concerned = false;
        for (number, label) in changes {
            let name = format!("c{number}");
            if label < 4 {
                concerned |= hub.change(cluster(&name, env(label)), true);
            } else if let Some(before) = hub.fleet.id(&name).and_then(|id| hub.fleet.attributes(id)).cloned() {
                hub.fleet.remove_cluster(&name);
                concerned |= hub.incremental.concerns(&hub.fleet, &before, true);
            }
        }
        let schedule = hub.schedule();
        prop_assert!(concerned || schedule.steps.is_empty() && Some(schedule.status) == status);
    }
}
