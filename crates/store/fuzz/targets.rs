//! Fuzz targets for the parts of the store that parse external bytes. No input may cause a panic, or excessive
//! time or memory (`tests/fuzz/run`).
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::let_underscore_must_use,
    reason = "a finding is a panic, an error is none"
)]

#[path = "../../../tests/fuzz/driver.rs"]
mod driver;
#[path = "../../../src/apiserver/protobuf/mod.rs"]
mod protobuf;

use std::cell::OnceCell;

use jiff::Timestamp;
use object::steps::{MAX_STEPS, StepsLeft};
use object::{Object, Selector};
use serde_json::{Value, json};
use store::{Patch, ResourcePath, Store, WriteOptions};

/// Words that are meaningful to the targets.
const WORDS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    ",",
    ":",
    ".",
    "null",
    "-1",
    "1e309",
    "true",
    "\n",
    "self",
    ".map(x, x + x)",
    ".all(y, y == self)",
    "/-",
    "~1",
    "\\u0000",
    "$patch",
    "99999999999999999999",
    "\u{e4}",
];

/// Runs a target with the inputs in `seeds/` and its corpus.
fn fuzz(name: &str, run: fn(&[u8])) {
    let path = format!("{}/fuzz/seeds/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a file of seeds");
    let seeds: Vec<Vec<u8>> = text.split("\n----\n").map(|seed| seed.as_bytes().to_vec()).collect();
    driver::Target { name, run: &run, seeds: &seeds, words: &WORDS }.fuzz();
}

#[test]
fn any_bytes_are_an_admission_policy_or_refused() {
    fuzz("admission_policy", admission);
}

#[test]
fn any_bytes_are_configurations_to_apply_or_refused() {
    fuzz("configurations_to_apply", apply);
}

#[test]
fn any_bytes_are_a_json_path_or_refused() {
    fuzz("json_path", jsonpath);
}

#[test]
fn any_bytes_are_a_patch_or_refused() {
    fuzz("patch", patch);
}

#[test]
fn any_bytes_are_a_protobuf_body_or_refused() {
    fuzz("protobuf_body", protobufs);
}

#[test]
fn any_bytes_are_a_rule_or_refused() {
    fuzz("rule", rule);
}

#[test]
fn any_bytes_are_a_schema_or_refused() {
    fuzz("schema", schema);
}

#[test]
fn any_bytes_are_a_selector_or_refused() {
    fuzz("selector", selector);
}

#[test]
fn any_bytes_are_durations_quantities_names_and_times_or_refused() {
    fuzz("durations_quantities_names_and_times", text);
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

thread_local! {
    static STORE: OnceCell<Store> = const { OnceCell::new() };
}

/// Returns a new store with a kind whose schema has most keywords.
fn store() -> Store {
    let made = || {
        let mut store = Store::new(1, now());
        let definition = definition(json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "list": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" } } } },
                "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
                "size": { "type": "integer", "minimum": 1, "default": 3 },
                "map": { "type": "object", "additionalProperties": { "type": "string", "maxLength": 9 } },
            },
        }));
        create(&mut store, "apiextensions.k8s.io", "v1", "customresourcedefinitions", definition)
            .expect("a good definition");
        store
    };
    STORE.with(|store| store.get_or_init(made).clone())
}

fn definition(spec: Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true } } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "things.fuzz.dev" },
        "spec": {
            "group": "fuzz.dev", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {}, "scale": { "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size" } },
            }],
        },
    })
}

fn create(store: &mut Store, group: &str, version: &str, resource: &str, object: Value) -> Option<()> {
    let mut target = ResourcePath::resource(group, version, resource);
    if ["configmaps", "things", "services"].contains(&resource) {
        target = target.within("default");
    }
    let object = Object::from_value(object).ok()?;
    store.create(&target, object, &WriteOptions::manager("fuzz"), now()).ok()?;
    Some(())
}

fn thing(spec: Value) -> Value {
    json!({ "apiVersion": "fuzz.dev/v1", "kind": "Thing", "metadata": { "name": "a" }, "spec": spec })
}

fn things() -> ResourcePath {
    ResourcePath::resource("fuzz.dev", "v1", "things").within("default").named("a")
}

/// Checks that the objects of a store can be read back.
fn check(store: &mut Store) {
    for entry in store.snapshot() {
        let Some(object) = entry.object else { continue };
        let line = json!({ "type": "ADDED", "object": { "items": [object.0] } }).to_string();
        if let Err(error) = serde_json::from_str::<Value>(&line) {
            panic!("what is kept cannot be read: {error}");
        }
    }
}

/// Splits an input at its first newline.
fn halves(data: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(data).ok()?.split_once('\n')
}

/// Looks up a path in a value.
fn jsonpath(data: &[u8]) {
    let Some((path, value)) = halves(data) else { return };
    let value = serde_json::from_str(value)
        .unwrap_or_else(|_| json!({ "a": [{ "b": "c" }, 1], "d": { "e": [2, 3] } }));
    let _ = object::jsonpath::find(&value, path, &mut StepsLeft(MAX_STEPS));
    if let Ok(places) = object::jsonpath::locate(&value, path, &mut StepsLeft(MAX_STEPS)) {
        assert!(places.len() <= MAX_STEPS, "a place is a step at least");
    }
}

/// Parses label selectors, and field selectors through a list.
fn selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(selector) = text.parse::<Selector>() {
        let _ = selector.matches_with(|key| (key.len() % 2 == 0).then_some("v"));
    }
    let target = ResourcePath::resource("", "v1", "events").within("default");
    let options =
        store::ListOptions { fields: text.into(), labels: text.into(), ..store::ListOptions::default() };
    let _ = store().list(&target, &options);
    let pages = store::ListOptions { continue_token: text.into(), ..store::ListOptions::default() };
    let _ = store().list(&target, &pages);
}

/// Parses durations, quantities, names, labels and times.
fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(duration) = object::duration::parse(text) {
        let printed = object::duration::format(duration);
        assert!(object::duration::parse(&printed).is_some(), "{text} prints as {printed}");
    }
    let _ = object::quantity::nanos(text);
    let _ = object::names::label_value_fault(text);
    let _ = object::names::qualified_name_fault(text);
    let _ = (object::names::is_dns_label(text), object::names::is_dns_subdomain(text));
    assert!(!object::date_time::is_date_time(text) || object::date_time::timestamp(text).is_some());
}

fn protobufs(data: &[u8]) {
    let _ = protobuf::decode(data);
    let mut body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".to_vec();
    body.extend(u8::try_from(data.len()).into_iter().filter(|length| *length < 128));
    body.extend(data);
    let _ = protobuf::decode(&body);
}

/// Evaluates a CEL rule on the values of a kind.
fn rule(data: &[u8]) {
    let Some((rule, value)) = halves(data) else { return };
    let value = serde_json::from_str(value).unwrap_or_else(|_| {
        json!({ "l": ["a", "b", "cc"], "m": { "x": 1, "y": 2 }, "n": 3, "t": "2020-01-01T00:00:00Z", "s": "text" })
    });
    let mut store = Store::new(1, now());
    let text = json!({ "type": "string", "maxLength": 50 });
    let spec = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{ "rule": rule, "messageExpression": rule }],
        "properties": {
            "l": { "type": "array", "maxItems": 20, "items": text }, "n": { "type": "integer" }, "s": text,
            "m": { "type": "object", "maxProperties": 20, "additionalProperties": { "type": "integer" } },
            "t": { "type": "string", "format": "date-time" },
        },
    });
    if create(&mut store, "apiextensions.k8s.io", "v1", "customresourcedefinitions", definition(spec))
        .is_none()
    {
        return;
    }
    let _ = create(&mut store, "fuzz.dev", "v1", "things", thing(value));
    let merge = Patch::Merge(json!({ "spec": { "n": 4 } }));
    let _ = store.patch(&things(), &merge, &WriteOptions::manager("fuzz"), now());
}

/// Evaluates an expression of an admission policy.
fn admission(data: &[u8]) {
    let Some((first, second)) = halves(data) else { return };
    let mut store = store();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "p" },
        "spec": {
            "matchConstraints": { "resourceRules": [{ "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"] }] },
            "variables": [{ "name": "v", "expression": first }],
            "validations": [{ "expression": second, "messageExpression": first }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": "b" },
        "spec": { "policyName": "p", "validationActions": ["Deny"] },
    });
    let group = "admissionregistration.k8s.io";
    if create(&mut store, group, "v1", "validatingadmissionpolicies", policy).is_none() {
        return;
    }
    create(&mut store, group, "v1", "validatingadmissionpolicybindings", binding).expect("a good binding");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" },
        "data": { "a": "1", "b": "text", "c": "2020-01-01T00:00:00Z", "d": "10Mi", "e": "10.0.0.1", "f": "https://a/b?c=d" },
    });
    let _ = create(&mut store, "", "v1", "configmaps", map);
}

/// Parses the schema of a definition and an object of the kind.
fn schema(data: &[u8]) {
    let Some((schema, value)) = halves(data) else { return };
    let Ok(schema) = serde_json::from_str(schema) else { return };
    let mut store = Store::new(1, now());
    create(&mut store, "apiextensions.k8s.io", "v1", "customresourcedefinitions", definition(schema));
    let value = serde_json::from_str(value).unwrap_or(Value::Null);
    create(&mut store, "fuzz.dev", "v1", "things", thing(value));
    check(&mut store);
}

/// Applies a patch of each type to a custom object and to a service.
fn patch(data: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Value>(data) else { return };
    let mut store = store();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a", "finalizers": ["a.b/c"] },
        "spec": { "selector": { "a": "b" }, "ports": [{ "port": 80, "name": "a" }, { "port": 81, "name": "b" }] },
    });
    create(&mut store, "", "v1", "services", service).expect("a good service");
    create(&mut store, "fuzz.dev", "v1", "things", thing(json!({ "list": [{ "k": "a" }], "set": ["b"] })))
        .expect("a good object");
    let services = ResourcePath::resource("", "v1", "services").within("default").named("a");
    for target in [services, things(), things().sub("status"), things().sub("scale")] {
        for patch in [Patch::Json, Patch::Merge, Patch::Strategic] {
            let _ = store.patch(&target, &patch(body.clone()), &WriteOptions::manager("fuzz"), now());
        }
    }
    check(&mut store);
}

/// Applies configurations, one per line, by two managers in turn.
fn apply(data: &[u8]) {
    let mut store = store();
    for (i, line) in data.split(|byte| *byte == b'\n').take(8).enumerate() {
        let Ok(spec) = serde_json::from_slice::<Value>(line) else { continue };
        let manager = if i % 2 == 0 { "one" } else { "two" };
        let config = Patch::Apply(thing(spec));
        let _ = store.patch(&things(), &config, &WriteOptions::manager(manager).forced(), now());
    }
    check(&mut store);
}
