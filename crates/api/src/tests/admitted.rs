//! Tests that every value that a schema admits can be read. One unreadable field would make the whole object
//! unreadable.

use proptest::prelude::*;
use proptest::strategy::{BoxedStrategy, Just};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::each_kind;
use crate::Crd;

/// Generates values that kube-apiserver stores under a schema. It checks formats by pattern and integers by width,
/// and checks nothing inside a preserved field.
fn admitted(schema: &Value) -> BoxedStrategy<Value> {
    let values = if schema["x-kubernetes-int-or-string"] == true {
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from)
        ]
        .boxed()
    } else if schema["x-kubernetes-preserve-unknown-fields"] == true {
        Just(
            json!({"a": [null, -2.5, u64::MAX, 1e300, {"b": "\u{0}"}], "metadata": {"creationTimestamp": 7}}),
        )
        .boxed()
    } else if let Some(values) = schema["enum"].as_array() {
        prop::sample::select(values.clone()).boxed()
    } else {
        typed(schema)
    };
    if schema["nullable"] == true {
        return prop_oneof![values, Just(Value::Null)].boxed();
    }
    values
}

fn typed(schema: &Value) -> BoxedStrategy<Value> {
    match (schema["type"].as_str().unwrap(), schema["format"].as_str()) {
        ("object", _) => object(schema),
        ("array", _) => prop::collection::vec(admitted(&schema["items"]), 0..3).prop_map(Value::from).boxed(),
        ("string", Some("date-time")) => times(),
        ("string", _) => "\\PC{0,8}".prop_map(Value::from).boxed(),
        ("integer", Some("int32")) => any::<i32>().prop_map(Value::from).boxed(),
        ("integer", _) => any::<i64>().prop_map(Value::from).boxed(),
        ("boolean", _) => any::<bool>().prop_map(Value::from).boxed(),
        (other, format) => panic!("{other} {format:?}"),
    }
}

fn times() -> BoxedStrategy<Value> {
    let date =
        (0..=9999, 1..=12, 1..=28).prop_map(|(year, month, day)| format!("{year:04}-{month:02}-{day:02}"));
    let time =
        (0..24, 0..60, 0..60).prop_map(|(hour, minute, second)| format!("{hour:02}:{minute:02}:{second:02}"));
    let any = (date, "[Tt]", time, "([^tT\n][0-9]{1,20})?", "([zZ]|[+-][0-9]{2}:[0-9]{2})", "(T[a-z]{0,3})?")
        .prop_map(|(date, t, time, fraction, zone, rest)| format!("{date}{t}{time}{fraction}{zone}{rest}"));
    let last = Just("9999-12-31T23:59:59Z".to_owned());
    prop_oneof![1 => last, 4 => any].prop_map(Value::from).boxed()
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    if let values @ Value::Object(_) = &schema["additionalProperties"] {
        let values = prop::collection::btree_map("\\PC{0,4}", admitted(values), 0..3);
        return values.prop_map(|map| Value::Object(map.into_iter().collect())).boxed();
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut fields: Vec<BoxedStrategy<Option<(String, Value)>>> = Vec::new();
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        let name = field.clone();
        let value = admitted(schema).prop_map(move |value| (name.clone(), value));
        let is_required = required.contains(&json!(field));
        fields.push(if is_required {
            value.prop_map(Some).boxed()
        } else {
            prop::option::weighted(0.6, value).boxed()
        });
    }
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>())).boxed()
}

fn check<K: Crd + DeserializeOwned + std::fmt::Debug>(refused: &mut Vec<String>) {
    let schema = K::schema();
    let parts: Vec<_> = ["spec", "status"]
        .into_iter()
        .filter(|part| schema["properties"][part].is_object())
        .map(|part| admitted(&schema["properties"][part]).prop_map(move |value| (part.to_owned(), value)))
        .collect();
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&parts, |parts| {
        let mut object: Map<String, Value> = parts.into_iter().collect();
        object.insert("metadata".into(), json!({"name": "n"}));
        let text = Value::Object(object).to_string();
        serde_json::from_str::<K>(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        Ok(())
    });
    if let Err(error) = result {
        refused.push(format!("{}/{}: {error}", K::plural(&()), K::api_version(&())));
    }
}

#[test]
fn every_value_that_a_schema_admits_can_be_read() {
    let mut refused = Vec::new();
    each_kind!(check(&mut refused));
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
