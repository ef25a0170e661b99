//! Tests that reading an object and writing it back keeps everything that its schema allows or a later schema may
//! add.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use proptest::strategy::{BoxedStrategy, Just};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Crd, addon, cluster, crds, work};

mod admitted;
mod reference;

/// Calls a function for every version of every kind that has a definition.
macro_rules! each_kind {
    ($check:ident($argument:expr)) => {
        each_kind!(@ $check($argument)
            cluster::v1::ManagedCluster,
            cluster::v1beta2::ManagedClusterSet,
            cluster::v1beta2::ManagedClusterSetBinding,
            cluster::v1beta1::Placement,
            cluster::v1beta1::PlacementDecision,
            cluster::v1alpha1::AddOnPlacementScore,
            cluster::v1alpha1::ClusterClaim,
            work::v1::ManifestWork,
            work::v1::AppliedManifestWork,
            work::v1alpha1::ManifestWorkReplicaSet,
            addon::v1alpha1::ClusterManagementAddOn,
            addon::v1alpha1::ManagedClusterAddOn,
            addon::v1alpha1::AddOnDeploymentConfig,
            addon::v1alpha1::AddOnTemplate,
            addon::v1beta1::ClusterManagementAddOn,
            addon::v1beta1::ManagedClusterAddOn,
            addon::v1beta1::AddOnDeploymentConfig,
            addon::v1beta1::AddOnTemplate,
            gitops::v1alpha1::ClusterDecision,
            gitops::v1alpha1::ConfigRepo,
            gitops::v1alpha1::ConfigRepoInventory,
            gitops::v1alpha1::RolloutPolicy,
            multicluster::v1alpha1::ClusterProfile,
            operator::v1::ClusterManager,
            operator::v1::Klusterlet,
        );
    };
    (@ $check:ident($argument:expr) $($group:ident::$version:ident::$kind:ident,)+) => {
        $($check::<crate::$group::$version::$kind>($argument);)+
    };
}
use each_kind;

/// Paths of `k8s_openapi` types, which drop unknown fields.
const CLOSED: &[&str] = &[
    "/labelSelector",
    "/matchExpressions",
    "/nodePlacement/tolerations",
    "/resources",
    "/resourceRequirements",
];

/// Paths of quantities, which are written as strings although the schema also allows numbers.
const QUANTITIES: &[&str] = &["/capacity/*", "/allocatable/*", "/limits/*", "/requests/*"];

fn ends(path: &str, with: &[&str]) -> bool {
    with.iter().any(|end| path.ends_with(end))
}

/// Generates values that a schema allows, with fields and enumeration values that the type does not know.
fn values(schema: &Value, path: &str, open: bool) -> BoxedStrategy<Value> {
    let open = open && !ends(path, CLOSED);
    if schema["x-kubernetes-int-or-string"] == true {
        let percent = "[1-9][0-9]?%".prop_map(Value::from);
        return if ends(path, QUANTITIES) {
            Just(json!("100m")).boxed()
        } else {
            prop_oneof![percent, (1..100).prop_map(Value::from)].boxed()
        };
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return Just(
            json!({"kind": "ConfigMap", "data": {"a": null, "b": [1, -2.5, {"c": "d"}]}, "n": u64::MAX}),
        )
        .boxed();
    }
    if let Some(values) = schema["enum"].as_array() {
        let known = prop::sample::select(values.clone());
        return prop_oneof![4 => known, 1 => Just(json!("FutureValue"))].boxed();
    }
    match schema["type"].as_str().unwrap_or_else(|| panic!("{path} has no type")) {
        "object" => object(schema, path, open),
        "array" => {
            prop::collection::vec(values(&schema["items"], path, open), 1..3).prop_map(Value::from).boxed()
        }
        "string" => match schema["format"].as_str() {
            Some("date-time") => Just(json!("2026-01-02T03:04:05Z")).boxed(),
            Some(_) => Just(json!("YQ==")).boxed(),
            None => "[a-z]{1,8}".prop_map(Value::from).boxed(),
        },
        "integer" => (1..100).prop_map(Value::from).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        other => panic!("{path} is {other}"),
    }
}

fn object(schema: &Value, path: &str, open: bool) -> BoxedStrategy<Value> {
    if let values @ Value::Object(_) = &schema["additionalProperties"] {
        let values = self::values(values, &format!("{path}/*"), open);
        return prop::collection::btree_map("[a-z]{1,4}", values, 1..3)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
            .boxed();
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut fields: Vec<BoxedStrategy<Option<(String, Value)>>> = Vec::new();
    for (field, schema) in
        schema["properties"].as_object().unwrap_or_else(|| panic!("{path} has no properties"))
    {
        let name = field.clone();
        let value =
            values(schema, &format!("{path}/{field}"), open).prop_map(move |value| (name.clone(), value));
        let required = required.contains(&json!(field));
        fields.push(if required {
            value.prop_map(Some).boxed()
        } else {
            prop::option::weighted(0.7, value).boxed()
        });
    }
    if open {
        let future = json!({"some": ["thing", 1.5, null]});
        fields.push(prop::option::weighted(0.7, Just(("futureField".to_owned(), future))).boxed());
    }
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>())).boxed()
}

/// Returns true if a value is empty. Empty means absent, as for Go clients.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// Finds the values of `before` that are missing or different in `after`. Also finds the values that only `after`
/// has, unless they are empty or defaults of the schema.
fn differences(before: &Value, after: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for field in old.keys().chain(new.keys().filter(|field| !old.contains_key(*field))) {
                let path = format!("{path}/{field}");
                let schema = &schema["properties"][field];
                match (old.get(field), new.get(field)) {
                    (Some(old), Some(new)) => differences(old, new, schema, &path, found),
                    (Some(old), None) if !is_empty(old) => found.push(format!("{path} was lost: {old}")),
                    (None, Some(new)) if !is_empty(new) && !is_default(new, schema) => {
                        found.push(format!("{path} came from nowhere: {new}"))
                    }
                    _ => {}
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(old, new, &schema["items"], &format!("{path}/{index}"), found);
            }
        }
        (old, new) if old != new => found.push(format!("{path} was {old} and is {new}")),
        _ => {}
    }
}

/// Returns true if a value consists of defaults and empty values.
fn is_default(value: &Value, schema: &Value) -> bool {
    let of_fields = |fields: &Map<String, Value>| {
        fields.iter().all(|(field, value)| is_empty(value) || is_default(value, &schema["properties"][field]))
    };
    &schema["default"] == value || value.as_object().is_some_and(of_fields)
}

fn check<K: Crd + Serialize + DeserializeOwned + Default + PartialEq + std::fmt::Debug>(
    kinds: &mut Vec<String>,
) {
    let schema = K::schema();
    let name = format!("{}/{}", K::plural(&()), K::api_version(&()));
    let metadata = json!({
        "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["f"],
        "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}],
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "x", "controller": true, "blockOwnerDeletion": true}],
    });
    let mut parts: Vec<BoxedStrategy<(String, Value)>> = Vec::new();
    for part in ["spec", "status"] {
        if let schema @ Value::Object(_) = &schema["properties"][part] {
            parts.push(
                values(schema, &format!("/{part}"), true)
                    .prop_map(move |value| (part.to_owned(), value))
                    .boxed(),
            );
        }
    }
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&parts, |parts| {
        let mut object: Map<String, Value> = parts.into_iter().collect();
        object.insert("apiVersion".into(), K::api_version(&()).into());
        object.insert("kind".into(), K::kind(&()).into());
        object.insert("metadata".into(), metadata.clone());
        object.insert("futureRoot".into(), json!([1]));
        let before = Value::Object(object);
        let typed: K = serde_json::from_value(before.clone())
            .map_err(|e| TestCaseError::fail(format!("{name}: {e}")))?;
        let after = serde_json::to_value(&typed).unwrap();
        let mut found = Vec::new();
        differences(&before, &after, &schema, "", &mut found);
        prop_assert!(found.is_empty(), "{name}: {found:#?}");
        prop_assert_eq!(serde_json::from_value::<K>(after).unwrap(), typed);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    let empty = serde_json::to_value(K::default()).unwrap();
    assert_eq!((&empty["apiVersion"], &empty["kind"]), (&json!(K::api_version(&())), &json!(K::kind(&()))));
    kinds.push(name);
}

#[test]
fn nothing_is_lost_on_the_way_through_a_type() {
    let mut checked = Vec::new();
    let kinds = &mut checked;
    each_kind!(check(kinds));

    let mut defined: Vec<_> = crds::all()
        .into_iter()
        .chain([crds::cluster_profiles()])
        .flat_map(|crd| {
            crd.spec
                .versions
                .iter()
                .map(|v| format!("{}/{}/{}", crd.spec.names.plural, crd.spec.group, v.name))
                .collect::<Vec<_>>()
        })
        .collect();
    defined.sort();
    checked.sort();
    assert_eq!(checked, defined, "every version of every definition is checked");
}

/// Go clients write empty structs, and `null` for unset times and pointers.
#[test]
fn objects_are_read_as_go_clients_write_them() {
    fn read<K: Crd + DeserializeOwned>(mut object: Value) -> K {
        object["metadata"] = json!({"name": "n", "creationTimestamp": null});
        serde_json::from_value(object).unwrap()
    }
    let selector = json!({"labelSelector": {}, "claimSelector": {}, "celSelector": {}});
    let placement: cluster::v1beta1::Placement = read(json!({
        "spec": {
            "numberOfClusters": null, "prioritizerPolicy": {}, "spreadPolicy": {}, "predicates": [{"requiredClusterSelector": selector}],
            "decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 0}}, "tolerations": [{"tolerationSeconds": null}],
        },
        "status": {"numberOfSelectedClusters": 0},
    }));
    let group = placement.spec.decision_strategy.unwrap().group_strategy.unwrap().clusters_per_decision_group;
    assert_eq!(group, IntOrString::Int(0), "0 is not the default of 100%");
    assert_eq!(placement.spec.prioritizer_policy.unwrap().mode, cluster::v1beta1::PrioritizerMode::Additive);

    let cluster: cluster::v1::ManagedCluster = read(
        json!({"spec": {"hubAcceptsClient": false, "taints": [{"key": "k", "effect": "NoSelect", "timeAdded": null}]}, "status": {"version": {}}}),
    );
    assert_eq!(
        (cluster.spec.lease_duration_seconds, cluster.spec.taints[0].time_added.is_none()),
        (60, true)
    );

    let reference = json!({"group": "g", "resource": "r", "desiredConfig": null, "lastKnownGoodConfig": null, "lastAppliedConfig": null});
    let addon: addon::v1alpha1::ClusterManagementAddOn = read(
        json!({"spec": {}, "status": {"installProgressions": [{"namespace": "n", "name": "p", "configReferences": [reference]}]}}),
    );
    assert!(addon.status.unwrap().install_progressions[0].config_references[0].last_applied_config.is_none());

    let set: work::v1alpha1::ManifestWorkReplicaSet = read(json!({"spec": {
        "manifestWorkTemplate": {"workload": {}}, "placementRefs": [{"name": "p", "rolloutStrategy": {"progressive": {"minSuccessTime": "0s", "maxFailures": 0}}}],
    }}));
    let strategy = &set.spec.placement_refs[0].rollout_strategy;
    assert_eq!(
        (strategy.r#type.as_str(), strategy.progressive.as_ref().unwrap().progress_deadline.as_str()),
        ("All", "None")
    );
}
