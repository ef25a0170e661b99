//! Tests of the limits of one request.

use serde_json::json;

use super::{World, config_map, refusal};
use crate::{Patch, WriteOptions};
use object::Object;
use serde_json::Value;

fn patched(patch: Patch) -> Result<crate::Written, crate::ApiError> {
    let mut world = World::new();
    let target = world.target(&config_map("a", json!({})));
    world.create(config_map("a", json!({ "k": "x".repeat(1024) }))).unwrap();
    world.store.patch(&target, &patch, &WriteOptions::manager("test"), world.now)
}

#[test]
fn copies_of_a_json_patch_add_up_to_at_most_a_request() {
    // Each copy doubles the value that the next one copies. The last operation removes everything.
    let copies = (0..12).map(|i| json!({ "op": "copy", "from": "/data", "path": format!("/data/{i}") }));
    let last = json!({ "op": "replace", "path": "/data", "value": {} });
    assert_eq!(refusal(patched(Patch::Json(copies.chain([last.clone()]).collect()))).0, 422);
    let few = (0..3).map(|i| json!({ "op": "copy", "from": "/data", "path": format!("/data/{i}") }));
    patched(Patch::Json(few.chain([last]).collect())).unwrap();
}

#[test]
fn a_json_patch_has_at_most_ten_thousand_operations() {
    let tests = |count| {
        Patch::Json(vec![json!({ "op": "test", "path": "/kind", "value": "ConfigMap" }); count].into())
    };
    patched(tests(10_000)).unwrap();
    let (code, reason, message) = refusal(patched(tests(10_001)));
    assert_eq!((code, reason.as_str()), (413, "RequestEntityTooLarge"));
    assert_eq!(message, "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn a_json_patch_cannot_nest_deeper_than_what_can_be_read_back() {
    let last = json!({ "op": "replace", "path": "/data", "value": {} });
    let add = |path: String| json!({ "op": "add", "path": path, "value": nested(90) });
    let adds = vec![add("/data".into()), add(format!("/data{}", "/d".repeat(90))), last];
    assert_eq!(refusal(patched(Patch::Json(adds.into()))).0, 422);
}

#[test]
fn a_json_patch_walks_and_moves_a_bounded_number_of_values() {
    let patched = |operations: Vec<Value>| {
        let mut value = json!({ "data": { "list": vec![0; 20_000] } });
        crate::limits::json_patch(&mut value, serde_json::from_value(operations.into()).unwrap())
    };
    let add = |path: &str, count: usize| vec![json!({ "op": "add", "path": path, "value": 1 }); count];
    patched(add("/data/list/-", 10_000)).unwrap();
    patched(add("/data/list/0", 150)).unwrap();
    let moves = |count: usize| -> Vec<Value> {
        let there_and_back = [("/data/list", "/data/other"), ("/data/other", "/data/list")];
        let moves = there_and_back.into_iter().cycle().take(count);
        moves.map(|(from, path)| json!({ "op": "move", "from": from, "path": path })).collect()
    };
    patched(moves(100)).unwrap();
    for too_many in [add("/data/list/0", 1_000), moves(400)] {
        let (code, _, message) = refusal(patched(too_many));
        assert_eq!(code, 413);
        assert_eq!(message, "the operations of the JSON patch visit or move more than 4000000 values");
    }
}

#[test]
fn a_selector_has_a_bounded_number_of_requirements() {
    let world = World::new();
    let listed = |count: usize| {
        let labels = (0..count).map(|i| format!("!k{i}")).collect::<Vec<_>>().join(",");
        let options = crate::ListOptions { labels, ..crate::ListOptions::default() };
        world.store.list(&crate::ResourcePath::resource("", "v1", "namespaces"), &options)
    };
    assert_eq!(listed(64).unwrap().items.len(), 4);
    let (code, _, message) = refusal(listed(65));
    assert_eq!((code, message.as_str()), (400, "the selectors have more than 64 requirements"));
}

#[test]
fn an_object_is_no_deeper_than_what_can_be_read_back() {
    let mut world = World::new();
    let deep = |levels| json!({ "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": "a" }, "revision": 1, "data": nested(levels) });
    assert_eq!(refusal(world.create(deep(120))).0, 400);
    assert_eq!(refusal(world.create(deep(100))).0, 400);
    let written = world.create(deep(99)).unwrap();
    let event = json!({ "type": "ADDED", "object": { "items": [written.object.0] } }).to_string();
    serde_json::from_str::<Value>(&event).unwrap();
}

/// Returns a value with this many levels.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("x"), |below, _| json!({ "d": below }))
}

/// Creates an object with a list of `entries` items, in a kind with this rule for the list.
fn ruled(rule: &str, entries: usize) -> Result<crate::Written, crate::ApiError> {
    let mut world = World::new();
    let list = json!({
        "type": "array", "maxItems": entries, "items": { "type": "string", "maxLength": 10 },
        "x-kubernetes-validations": [{ "rule": rule }],
    });
    let schema = json!({ "type": "object", "properties": { "list": list } });
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    world.create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "rules.test.dev" },
            "spec": { "group": "test.dev", "scope": "Cluster", "names": { "plural": "rules", "kind": "Rule" }, "versions": [version] },
        }))?;
    let list: Vec<String> = (0..entries).map(|i| format!("entry {i}")).collect();
    let object = Object::from_value(
        json!({ "apiVersion": "test.dev/v1", "kind": "Rule", "metadata": { "name": "a" }, "list": list }),
    );
    let target = crate::ResourcePath::resource("test.dev", "v1", "rules");
    world.store.create(&target, object.unwrap(), &WriteOptions::manager("test"), world.now)
}

#[test]
fn a_rule_that_would_take_too_long_is_not_evaluated() {
    let cubic = "self.all(x, self.all(y, self.all(z, x + y != z)))";
    ruled(cubic, 10).unwrap();
    ruled("self.all(x, self.exists_one(y, x == y))", 100).unwrap();
    let doubling = format!("self{}.size() > 0", ".map(x, x + x)".repeat(40));
    let ranges = "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))";
    let square = format!("{}.distinct().size() > 0", ["lists.range(1000)"; 2].join(" + "));
    for (rule, entries) in [(cubic, 60), (doubling.as_str(), 2), (ranges, 1), (square.as_str(), 1)] {
        let (code, _, message) = refusal(ruled(rule, entries));
        assert!(code == 422 && message.contains("cost budget"), "{message}");
    }
}

#[test]
fn a_definition_with_a_rule_that_may_take_too_long_is_refused() {
    let cubic = "self.all(x, self.all(y, self.all(z, x + y != z)))";
    let (code, _, message) = refusal(ruled(cubic, 1000));
    assert!(code == 422 && message.contains("estimated rule cost exceeds budget"), "{message}");
}

#[test]
fn no_rule_of_a_definition_ends_the_process() {
    let refused = |rule: &str| {
        let (code, _, message) = refusal(ruled(rule, 1));
        assert!(
            code == 422 && message.contains("x-kubernetes-validations[0].rule: Invalid value"),
            "{message}"
        );
        message
    };
    let around =
        |open: &str, close: &str, times: usize| format!("{}true{}", open.repeat(times), close.repeat(times));
    assert!(refused(&around("(", ")", 30_000)).contains("bytes, but at most 8192 are allowed"));
    assert!(refused(&around("(", ")", 1_000)).contains("brackets are nested more than 96 levels deep"));
    let sum = |lists: usize| format!("self{} == self", " + []".repeat(lists));
    assert!(refused(&sum(100)).contains("nested more than 100 levels deep"));
    for rule in [around("(", ")", 90), around("[true].all(x, ", ")", 20), sum(90)] {
        ruled(&rule, 1).unwrap();
    }
}

#[test]
fn patterns_of_a_definition_share_a_limit() {
    let mut world = World::new();
    let mut definition = |patterns: usize, pattern: &str| {
        let property = |i| (format!("f{i}"), json!({ "type": "string", "pattern": pattern }));
        let properties: serde_json::Map<String, Value> = (0..patterns).map(property).collect();
        let schema = json!({ "type": "object", "properties": properties });
        let version =
            json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
        let names = json!({ "plural": "patterns", "kind": "Pattern" });
        world.create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "patterns.test.dev" },
            "spec": { "group": "test.dev", "scope": "Cluster", "names": names, "versions": [version] },
        }))
    };
    for (patterns, pattern) in [(140, "a{9000}"), (1, "a{90000}")] {
        let (code, _, message) = refusal(definition(patterns, pattern));
        assert!(code == 422 && message.contains("exceeds size limit"), "{message}");
    }
    definition(1_000, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").unwrap();
}

#[test]
fn replicas_nest_an_object_no_deeper_than_what_can_be_read_back() {
    let mut world = World::new();
    let spec = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let path = format!(".spec{}", ".r".repeat(130));
    let scale = json!({ "specReplicasPath": path, "statusReplicasPath": ".status.replicas" });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        "subresources": { "scale": scale },
    });
    let names = json!({ "plural": "deeps", "kind": "Deep" });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "deeps.test.dev" },
        "spec": { "group": "test.dev", "scope": "Cluster", "names": names, "versions": [version] },
    });
    world.create(definition).unwrap();
    world
        .create(json!({ "apiVersion": "test.dev/v1", "kind": "Deep", "metadata": { "name": "a" } }))
        .unwrap();
    let target = crate::ResourcePath::resource("test.dev", "v1", "deeps").named("a").sub("scale");
    let scaled = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a" }, "spec": { "replicas": 1 },
    });
    let scaled = Object::from_value(scaled).unwrap();
    let (code, _, message) =
        refusal(world.store.update(&target, scaled, &WriteOptions::manager("test"), world.now));
    assert!(code == 400 && message.contains("more than 100 levels"), "{message}");
}
