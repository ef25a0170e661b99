//! Operator and Argo CD are killed during a sync. After a restart they reach the state of a run without a crash.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::health::{rolls_out, write};
use super::{FLEET, Hub};
use crate::wait::eventually;

/// The kinds in the repository, and those that the operator creates for them.
const KINDS: [&str; 6] = [
    "Placement",
    "PlacementDecision",
    "ManifestWorkReplicaSet",
    "ManifestWork",
    "ClusterManagementAddOn",
    "ManagedClusterAddOn",
];
/// Fields that change with the number and time of writes.
const COUNTS: [&str; 4] = ["resourceVersion", "generation", "observedGeneration", "managedFields"];

/// The objects on the hub and the clusters, by cluster, kind, namespace and name.
type State = BTreeMap<[String; 4], Value>;

async fn state(hub: &Hub) -> State {
    let mut all = vec![("hub".to_owned(), "ConfigMap", hub.get("ConfigMap", FLEET, "after").await)];
    for kind in KINDS {
        all.extend(hub.list(kind).await.into_iter().map(|object| ("hub".to_owned(), kind, object)));
    }
    for (number, spoke) in hub.spokes.iter().enumerate() {
        let maps: Api<ConfigMap> = Api::namespaced(spoke.client(), "default");
        let maps = maps.list(&ListParams::default()).await.unwrap().items.into_iter();
        let maps = maps.map(|map| serde_json::to_value(map).unwrap());
        all.extend(maps.map(|map| (format!("cluster {number}"), "ConfigMap", map)));
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let keyed = all.into_iter().map(|(cluster, kind, object)| {
        let metadata = &object["metadata"];
        ([cluster, kind.to_owned(), text(&metadata["namespace"]), text(&metadata["name"])], object)
    });
    keyed.collect()
}

/// Returns an object without the fields and times that differ between two equal runs.
fn without_counts(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !COUNTS.contains(&name.as_str()));
            fields.map(|(name, value)| (name.clone(), without_counts(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_counts).collect(),
        Value::String(text) if text.parse::<Timestamp>().is_ok() => json!("a time"),
        other => other.clone(),
    }
}

/// Returns the version of each object.
fn versions(state: &State) -> Vec<(&[String; 4], &Value)> {
    state.iter().map(|(key, object)| (key, &object["metadata"]["resourceVersion"])).collect()
}

/// Returns the number of times that the spec of each object changed between two states.
fn changes<'a>(before: &State, after: &'a State) -> BTreeMap<&'a [String; 4], u64> {
    let generation = |object: Option<&Value>| {
        object.and_then(|object| object["metadata"]["generation"].as_u64()).unwrap_or_default()
    };
    let changes =
        after.iter().map(|(key, object)| (key, generation(Some(object)) - generation(before.get(key))));
    changes.collect()
}

/// Waits until Argo CD has compared the Application again, as it does every ten seconds.
async fn is_compared(hub: &Hub) {
    let reconciled = async || hub.app("rollout").await["status"]["reconciledAt"].clone();
    let before = reconciled().await;
    eventually("Argo CD compares again", async || reconciled().await != before).await;
}

/// Waits until a sync is running and only one of the two clusters has the version.
async fn is_halfway(hub: &Hub, version: &str) {
    eventually("only one cluster has the version", async || {
        let works = hub.list("ManifestWork").await.into_iter();
        let manifests = works.filter_map(|work| work.pointer("/spec/workload/manifests/0").cloned());
        let of_set = manifests.filter(|manifest| manifest["metadata"]["name"] == "m");
        let versions: Vec<bool> = of_set.map(|manifest| manifest["data"]["v"] == version).collect();
        let phase = hub.app("rollout").await["status"]["operationState"]["phase"].clone();
        phase == "Running" && versions.len() == 2 && versions[0] != versions[1]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn a_sync_that_kill_9_interrupts_ends_as_one_without_a_crash() {
    let mut hub = Hub::start("argo-crashes").await;
    for name in ["c1", "c2"] {
        hub.join(name).await;
    }
    let mut repository = hub.repository("rollout");
    let mut runs = Vec::new();
    for crashes in [false, true] {
        let first = write(&mut repository, "1", "m");
        if runs.is_empty() {
            hub.application("rollout", &repository, json!({"syncPolicy": {"retry": {"limit": 0}}})).await;
        }
        rolls_out(&hub, "1", &first).await;
        let before = state(&hub).await;
        let second = write(&mut repository, "2", "m");
        if crashes {
            hub.refresh("rollout").await;
            is_halfway(&hub, "2").await;
            hub.crash();
        }
        rolls_out(&hub, "2", &second).await;
        is_compared(&hub).await;
        runs.push((before, state(&hub).await));
    }
    let [without, with] = [0, 1].map(|run: usize| &runs[run]);
    for (key, object) in &without.1 {
        assert_eq!(with.1.get(key).map(without_counts), Some(without_counts(object)), "{key:?}");
    }
    assert_eq!(changes(&with.0, &with.1), changes(&without.0, &without.1), "nothing is applied twice");

    is_compared(&hub).await;
    is_compared(&hub).await;
    assert_eq!(versions(&state(&hub).await), versions(&with.1), "nobody writes at rest");
}
