//! Whether an object already is what a manifest says, and which of its fields the manifest leaves to the cluster.

use serde_json::{Map, Value};

use object::Object;

/// Keys by which lists of maps are merged in the kinds there are; the first that all entries have counts.
const MERGE_KEYS: [&str; 5] = ["name", "uid", "mountPath", "containerPort", "type"];

/// Whether the live value has everything the wanted one says, whatever else it has.
///
/// Entries of lists are matched by their merge key where they have one, else by position. An API server may write a value differently
/// from how it was sent, a quantity for one; then the answer is no, and applying once more changes nothing.
pub fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (_, Value::Null) => true,
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(field, value)| match live.get(field) {
                Some(live) => covers(live, value),
                None => is_empty(value),
            })
        }
        (Value::Array(live), Value::Array(wanted)) => covers_list(live, wanted),
        (live, wanted) => live == wanted,
    }
}

/// What API servers drop instead of storing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn covers_list(live: &[Value], wanted: &[Value]) -> bool {
    let key = MERGE_KEYS.into_iter().find(|key| wanted.iter().all(|entry| entry.get(*key).is_some()));
    match key {
        Some(key) if !wanted.is_empty() => wanted
            .iter()
            .all(|entry| live.iter().any(|live| live.get(key) == entry.get(key) && covers(live, entry))),
        _ => live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted)),
    }
}

/// Steps from the root of an object to a field: names of fields and, in lists, indexes in decimal.
pub type Path = Vec<String>;

/// Makes a manifest leave fields to the cluster: it takes the live value, or drops the field where there is none.
///
/// Taking the live value keeps our ownership of what we set at creation; leaving it out would make server-side apply remove it.
pub fn strip_ignored(manifest: &mut Object, live: &Object, ignored: &[Path]) {
    for path in ignored {
        let (Some((last, parents)), live) = (path.split_last(), follow(&live.0, path)) else { continue };
        let Some(parent) = follow_mut(&mut manifest.0, parents) else { continue };
        match live {
            Some(live) => parent.insert(last.clone(), live.clone()),
            None => parent.remove(last),
        };
    }
}

fn step<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => value.get(name),
    }
}

fn follow<'a>(fields: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(fields.get(first)?, |value, name| step(value, name))
}

fn follow_mut<'a>(fields: &'a mut Map<String, Value>, path: &[String]) -> Option<&'a mut Map<String, Value>> {
    let Some((first, rest)) = path.split_first() else { return Some(fields) };
    let start = fields.get_mut(first)?;
    let end = rest.iter().try_fold(start, |value, name| match value {
        Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        other => other.get_mut(name),
    })?;
    end.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_covers_a_manifest_when_it_has_all_it_says() {
        let container = json!({"name": "a", "image": "i:1", "imagePullPolicy": "Always"});
        let live = json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "injected"}, container]}}}, "status": {}});
        let cases = [
            (json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i:1"}]}}}}), true),
            (json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i:2"}]}}}}), false),
            (json!({"spec": {"replicas": 2}}), false),
            (json!({"spec": {"paused": true}}), false),
            (json!({"spec": {"selector": {}, "args": [], "x": null}}), true),
        ];
        for (wanted, want) in cases {
            assert_eq!(covers(&live, &wanted), want, "{wanted}");
        }
        assert!(!covers(&json!([1, 2]), &json!([1])), "an atomic list is compared whole");
    }

    #[test]
    fn ignored_fields_keep_their_live_value() {
        let object = |value: Value| Object::from_value(value).unwrap();
        let live = object(json!({"spec": {"replicas": 7, "image": "live"}}));
        let mut manifest = object(json!({"spec": {"replicas": 1, "image": "new", "gone": 1}}));
        let path = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Path>();
        strip_ignored(
            &mut manifest,
            &live,
            &[path(&["spec", "replicas"]), path(&["spec", "gone"]), path(&["no", "such"])],
        );
        assert_eq!(manifest, object(json!({"spec": {"replicas": 7, "image": "new"}})));
    }
}
