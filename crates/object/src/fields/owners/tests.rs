use super::*;
use proptest::prelude::*;
use serde_json::json;

const NOW: &str = "2026-01-01T00:00:00Z";

fn applier(name: &str) -> Manager {
    Manager {
        operation: Operation::Apply,
        name: name.into(),
        api_version: "v1".into(),
        subresource: String::new(),
    }
}

fn updater(name: &str) -> Manager {
    Manager { operation: Operation::Update, ..applier(name) }
}

fn apply(
    owners: Owners,
    who: &str,
    live: &Value,
    config: &Value,
    force: bool,
) -> Result<(Value, Owners), Vec<Conflict>> {
    let applying = Applying { zero: &json!({}), live, config, named: config, force };
    owners.applied(&applier(who), applying, Position::Unknown, NOW)
}

#[test]
fn a_field_that_an_applier_drops_is_removed_unless_another_owns_it() {
    let (value, owners) = apply(Owners::default(), "a", &json!({}), &json!({"x": 1, "y": 1}), false).unwrap();
    let (value, owners) = apply(owners, "b", &value, &json!({"y": 1}), false).unwrap();
    let (value, owners) = apply(owners, "a", &value, &json!({}), false).unwrap();
    assert_eq!(value, json!({"y": 1}));
    assert_eq!(owners.fields_of(&applier("b")).paths(), [".y"]);
    assert!(owners.fields_of(&applier("a")).is_empty());
}

#[test]
fn another_value_of_an_owned_field_is_a_conflict() {
    let (value, owners) = apply(Owners::default(), "a", &json!({}), &json!({"x": 1}), false).unwrap();
    let conflicts = apply(owners.clone(), "b", &value, &json!({"x": 2}), false).unwrap_err();
    assert_eq!(
        (conflicts[0].manager.to_string(), conflicts[0].fields.paths()),
        ("\"a\"".into(), vec![".x".to_owned()])
    );
    let (value, owners) = apply(owners, "b", &value, &json!({"x": 2}), true).unwrap();
    assert_eq!((value, owners.fields_of(&applier("a")).is_empty()), (json!({"x": 2}), true));
}

#[test]
fn an_update_owns_what_it_changed() {
    let owners = Owners::default().updated(
        &updater("u"),
        (&json!({}), &json!({"a": {"b": 1}})),
        Position::Unknown,
        NOW,
    );
    assert_eq!(owners.to_values()[0]["fieldsV1"], json!({"f:a": {".": {}, "f:b": {}}}));
    let owners = owners.updated(
        &updater("v"),
        (&json!({"a": {"b": 1}}), &json!({"a": {"b": 2}})),
        Position::Unknown,
        NOW,
    );
    assert_eq!(owners.fields_of(&updater("u")).paths(), [".a"]);
    assert_eq!(owners.fields_of(&updater("v")).paths(), [".a.b"]);
}

#[test]
fn server_fields_have_no_owner() {
    let object =
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}}});
    let owners = Owners::default().updated(&updater("u"), (&json!({}), &object), Position::Unknown, NOW);
    assert_eq!(owners.fields_of(&updater("u")).paths(), [".metadata.labels", ".metadata.labels.a"]);
}

#[test]
fn fields_from_before_the_first_apply_are_not_taken_silently() {
    let live = json!({"metadata": {"name": "n"}, "x": 1});
    let conflicts =
        apply(Owners::default(), "a", &live, &json!({"metadata": {"name": "n"}, "x": 2}), false).unwrap_err();
    assert_eq!(conflicts[0].manager.name, "before-first-apply");
}

#[test]
fn old_updaters_are_merged() {
    let mut owners = Owners::default();
    let mut value = json!({});
    for i in 0..12 {
        let mut next = value.clone();
        next[format!("f{i:02}")] = i.into();
        owners = owners.updated(
            &updater(&format!("u{i:02}")),
            (&value, &next),
            Position::Unknown,
            &format!("2026-01-{:02}T00:00:00Z", i + 1),
        );
        value = next;
    }
    let names: Vec<_> =
        owners.to_values().iter().map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names.first().map(String::as_str), Some("ancient-changes"));
}

/// Generates documents in which each name is always a value or always a container, as with a schema.
fn document() -> impl Strategy<Value = Value> {
    let fields = || prop::collection::btree_map("[xyz]", 0..3i64, 0..3).prop_map(|m| json!(m));
    fields().prop_recursive(3, 12, 3, move |inner| {
        (fields(), prop::collection::btree_map("[abc]", inner, 0..3)).prop_map(|(mut values, containers)| {
            values.as_object_mut().unwrap().extend(containers);
            values
        })
    })
}

/// Replaces nulls with empty maps. An apply leaves null in place of a map that it empties.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value,
    }
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing_else(live in document(), config in document()) {
        let (once, owners) = apply(Owners::default(), "a", &live, &config, true).unwrap();
        let (twice, again) = apply(owners.clone(), "a", &once, &config, false).unwrap();
        prop_assert_eq!((once, owners), (twice, again));
    }

    #[test]
    fn two_owners_share_only_equal_values(first in document(), second in document()) {
        let (value, owners) = apply(Owners::default(), "a", &json!({}), &first, false).unwrap();
        match apply(owners.clone(), "b", &value, &second, false) {
            Ok((value, owners)) => {
                // Each owner of a field has set it to exactly this value.
                for (name, config) in [("a", &first), ("b", &second)] {
                    let owned = owners.fields_of(&applier(name));
                    let compared = compare(config, &value, Position::Unknown);
                    prop_assert!(owned.intersection(&compared.modified).is_empty(), "{} {:?}", name, owned.paths());
                }
            }
            Err(conflicts) => prop_assert!(!conflicts.iter().all(|c| c.fields.is_empty())),
        }
    }

    #[test]
    fn applying_nothing_removes_only_what_no_one_else_owned(mine in document(), theirs in document()) {
        let (value, owners) = apply(Owners::default(), "b", &json!({}), &theirs, false).unwrap();
        let Ok((value, owners)) = apply(owners, "a", &value, &mine, false) else { return Ok(()) };
        let (rest, owners) = apply(owners, "a", &value, &json!({}), false).unwrap();
        prop_assert_eq!(&without_nulls(rest), &theirs);
        prop_assert!(owners.fields_of(&applier("a")).is_empty());
    }
}
