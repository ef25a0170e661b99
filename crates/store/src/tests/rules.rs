//! Tests of the places in a schema that may have rules.

use serde_json::{Value, json};

use super::World;

/// Returns a kind with rules at its root, in list items, in map values, and in a branch of `allOf`, each below
/// fields without rules.
fn definition() -> Value {
    let text = |rule: &str| {
        let rules = json!([{ "rule": rule }]);
        json!({ "type": "string", "maxLength": 9, "x-kubernetes-validations": rules })
    };
    let name = text("self == oldSelf");
    let item = json!({ "type": "object", "properties": { "name": name, "other": { "type": "string" } } });
    let list = json!({ "type": "array", "maxItems": 9, "items": item });
    let map = json!({ "type": "object", "maxProperties": 9, "additionalProperties": text("self != 'bad'") });
    let branch =
        json!({ "properties": { "a": { "x-kubernetes-validations": [{ "rule": "self != 'bad'" }] } } });
    let a = json!({ "type": "string", "maxLength": 9 });
    let both = json!({ "type": "object", "allOf": [branch], "properties": { "a": a } });
    let plain = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let spec = json!({ "type": "object",
        "properties": { "list": list, "map": map, "both": both, "plain": plain } });
    let root = json!([{ "rule": "!has(self.spec.plain) || self.metadata.name != self.spec.plain.a" }]);
    let version = |root: Value| {
        let schema =
            json!({ "type": "object", "x-kubernetes-validations": root, "properties": { "spec": spec } });
        json!([{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }])
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "rules.test.dev" },
        "spec": { "group": "test.dev", "scope": "Cluster", "names": { "plural": "rules", "kind": "Rule" },
            "versions": version(root) },
    })
}

/// Returns the invalid fields of a change of the spec, with and without the rule at the root.
fn refused(before: Value, after: Value) -> [Vec<String>; 2] {
    let object = |spec: Value| {
        let metadata = json!({ "name": "a" });
        json!({ "apiVersion": "test.dev/v1", "kind": "Rule", "metadata": metadata, "spec": spec })
    };
    let without = |definition: &Value| {
        let mut definition = definition.clone();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            .as_object_mut()
            .unwrap()
            .remove("x-kubernetes-validations");
        definition
    };
    [definition(), without(&definition())].map(|definition| {
        let mut world = World::new();
        world.create(definition).unwrap();
        world.create(object(before.clone())).unwrap();
        let target = world.target(&object(json!({})));
        let Err(error) = world.merge(&target, json!({ "spec": after })) else { return Vec::new() };
        error.causes().iter().filter_map(|cause| cause.field.clone()).collect()
    })
}

#[test]
fn a_rule_is_evaluated_at_every_level() {
    let list = |second: &str| json!({ "list": [{ "name": "x" }, { "name": second, "other": "o" }] });
    for (before, after, fields) in [
        (list("y"), list("y"), vec![]),
        (list("y"), list("z"), vec!["spec.list[1].name"]),
        (json!({ "map": { "k": "a" } }), json!({ "map": { "k": "bad", "l": "good" } }), vec!["spec.map.k"]),
        (json!({ "both": { "a": "a" } }), json!({ "both": { "a": "bad" } }), vec!["spec.both.a"]),
        (json!({}), json!({ "plain": { "a": "b" } }), vec![]),
    ] {
        for refused in refused(before.clone(), after.clone()) {
            assert_eq!(refused, fields, "{after}");
        }
    }
    assert_eq!(refused(json!({}), json!({ "plain": { "a": "a" } })), [vec!["<nil>".to_owned()], vec![]]);
}
