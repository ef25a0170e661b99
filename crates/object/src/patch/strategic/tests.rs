use super::*;
use crate::builtin_lists::BUILTIN;
use serde_json::json;

fn apply(original: &Value, patch: &Value) -> Result<Value> {
    let (Value::Object(original), Value::Object(patch)) = (original.clone(), patch.clone()) else {
        panic!("objects")
    };
    strategic_merge(original, patch, BUILTIN.root("v1", "Pod")).map(Value::Object)
}

fn check(original: Value, patch: Value, expected: Value) {
    assert_eq!(apply(&original, &patch), Ok(expected), "{patch} on {original}");
}

fn refused(original: Value, patch: Value, message: &str) {
    assert_eq!(apply(&original, &patch).unwrap_err().to_string(), message);
}

#[test]
fn keyed_lists_merge_and_others_are_replaced() {
    check(
        json!({"spec": {"containers": [{"name": "a", "image": "x", "args": ["1", "2"]}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "a", "args": ["3"]}, {"name": "c"}]}}),
        json!({"spec": {"containers": [{"name": "a", "image": "x", "args": ["3"]}, {"name": "c"}, {"name": "b"}]}}),
    );
    check(
        json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}}}),
        json!({"metadata": {"finalizers": ["c", "a"], "labels": {"y": "2"}}}),
        json!({"metadata": {"finalizers": ["c", "a", "b"], "labels": {"x": "1", "y": "2"}}}),
    );
}

#[test]
fn null_deletes_and_leaves_no_trace() {
    check(
        json!({"a": 1, "b": 2}),
        json!({"a": null, "c": null, "d": {"e": null, "f": 1}}),
        json!({"b": 2, "d": {"f": 1}}),
    );
}

#[test]
fn directives_replace_and_delete() {
    check(
        json!({"spec": {"a": 1, "b": 2}}),
        json!({"spec": {"$patch": "replace", "c": 3}}),
        json!({"spec": {"c": 3}}),
    );
    check(json!({"spec": {"a": 1}}), json!({"spec": {"$patch": "delete"}}), json!({"spec": {}}));
    check(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}, {"name": "z", "$patch": "delete"}]}}),
        json!({"spec": {"containers": [{"name": "b"}]}}),
    );
    check(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}),
        json!({"spec": {"containers": [{"name": "c"}]}}),
    );
    check(
        json!({}),
        json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
        json!({"spec": {"containers": []}}),
    );
}

#[test]
fn retain_keys_clears_the_other_members_of_a_union() {
    let before = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let patch = json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}});
    check(before.clone(), patch, json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}));
    refused(
        before,
        json!({"spec": {"volumes": [{"name": "v", "hostPath": {}, "$retainKeys": ["name"]}]}}),
        "spec.volumes[name=\"v\"].$retainKeys: must name every other field that the patch sets",
    );
}

#[test]
fn set_element_order_orders_and_keeps_what_the_patch_does_not_know() {
    let before = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}});
    check(
        before.clone(),
        json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}}),
        json!({"spec": {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}}),
    );
    check(
        before.clone(),
        json!({"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "a"}], "containers": [{"name": "d"}]}}),
        json!({"spec": {"containers": [{"name": "d"}, {"name": "a"}, {"name": "b"}, {"name": "c"}]}}),
    );
    refused(
        before,
        json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "d"}]}}),
        "spec.containers: the order of its items does not match $setElementOrder",
    );
}

#[test]
fn primitive_items_are_deleted_by_value() {
    check(
        json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "$setElementOrder/finalizers": ["c", "a"]}}),
        json!({"metadata": {"finalizers": ["c", "a"]}}),
    );
}

#[test]
fn mistakes_are_named() {
    let before = json!({"spec": {"containers": [{"name": "a"}]}});
    refused(
        before.clone(),
        json!({"spec": {"containers": [{"image": "x"}]}}),
        "spec.containers: an item lacks \"name\", which identifies the items of this list",
    );
    refused(
        before,
        json!({"spec": {"$patch": "destroy"}}),
        "spec.$patch: $patch does not support \"destroy\" here",
    );
}

#[test]
fn an_unknown_kind_merges_like_json() {
    let (Value::Object(a), Value::Object(b)) =
        (json!({"l": [1], "m": {"x": 1}}), json!({"l": [2], "m": {"y": 2}}))
    else {
        panic!()
    };
    assert_eq!(
        Value::Object(strategic_merge(a, b, Position::Unknown).unwrap()),
        json!({"l": [2], "m": {"x": 1, "y": 2}})
    );
}
