//! Fields whose values a manifest leaves to the cluster.

use serde_json::{Map, Value};

use object::Object;
use object::steps::{OutOfSteps, StepsLeft};

/// The path from the root of an object to a field: field names and, in lists, decimal indexes.
pub(crate) type Path = Vec<String>;

/// Replaces fields of a manifest with their live values, and removes those that the live object lacks. Fields
/// that the manifest lacks are not added.
///
/// Server-side apply removes a field that was set at creation and is later omitted, so the request contains the
/// live value. List items with names are matched by name, others by position. Each item that is compared in this
/// search costs a step.
///
/// # Errors
/// Fails if the copied values are larger than the live object, or if the search runs out of steps. Many items of
/// a manifest may have the name of the same live item.
pub(crate) fn keep_live_values(
    manifest: &mut Object,
    live: &Object,
    paths: &[Path],
    steps: &mut StepsLeft,
) -> Result<(), String> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut left: usize = live.0.values().map(size).sum();
    let mut values = Vec::new();
    for path in from_the_end(paths) {
        let live = live_value(&manifest.0, &live.0, path, steps).map_err(|error| error.to_string())?;
        let copied = live.map_or(0, size);
        left =
            left.checked_sub(copied).ok_or("their live values together are larger than the live object")?;
        values.push((path, live.cloned()));
    }
    for (path, live) in values {
        set(&mut manifest.0, path, live);
    }
    Ok(())
}

/// Returns the approximate memory size of a value.
fn size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size(value)).sum(),
        }
}

/// Removes fields from a manifest.
pub(crate) fn remove(manifest: &mut Object, paths: &[Path]) {
    for path in from_the_end(paths) {
        set(&mut manifest.0, path, None);
    }
}

/// Returns each path once, with the items of a list from last to first, so that removing one does not shift
/// another. Paths below another path are dropped.
fn from_the_end(paths: &[Path]) -> Vec<&[String]> {
    let key = |path: &&[String]| -> Vec<(Option<usize>, String)> {
        path.iter().map(|name| (index(name), name.clone())).collect()
    };
    let mut paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
    paths.sort_by_cached_key(key);
    paths.dedup_by(|path, parent| path.starts_with(parent));
    paths.reverse();
    paths
}

/// Parses a step of a path as a list index (RFC 6901, section 4).
fn index(name: &str) -> Option<usize> {
    let is_number = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
    name.parse().ok().filter(|_| is_number)
}

/// Sets or removes an existing field or item.
fn set(fields: &mut Map<String, Value>, path: &[String], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else { return };
    let Some((first, rest)) = parents.split_first() else { return set_field(fields, last, value) };
    let parent = rest.iter().try_fold(fields.get_mut(first), |parent, name| {
        Some(match parent? {
            Value::Array(items) => index(name).and_then(|at| items.get_mut(at)),
            other => other.get_mut(name),
        })
    });
    match (parent.flatten(), index(last)) {
        (Some(Value::Object(fields)), _) => set_field(fields, last, value),
        (Some(Value::Array(items)), Some(at)) if at < items.len() => match (value, items.get_mut(at)) {
            (Some(value), Some(item)) => *item = value,
            (_, _) => drop(items.remove(at)),
        },
        (Some(_) | None, _) => {}
    }
}

fn set_field(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match (value, fields.get_mut(name)) {
        (Some(value), Some(field)) => *field = value,
        (_, _) => drop(fields.remove(name)),
    }
}

fn step<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(index(name)?),
        _ => value.get(name),
    }
}

/// Returns the value of a manifest's field in the live object.
fn live_value<'a>(
    manifest: &Map<String, Value>,
    live: &'a Map<String, Value>,
    path: &[String],
    steps: &mut StepsLeft,
) -> Result<Option<&'a Value>, OutOfSteps> {
    let Some((first, rest)) = path.split_first() else { return Ok(None) };
    let (mut ours, mut theirs) = (manifest.get(first), live.get(first));
    for name in rest {
        let item = ours.and_then(|ours| step(ours, name));
        theirs = match (theirs, item.and_then(|item| item.get("name"))) {
            (Some(Value::Array(items)), Some(key)) => named(items, key, index(name), steps)?,
            (theirs, _) => theirs.and_then(|theirs| step(theirs, name)),
        };
        ours = item;
    }
    Ok(theirs)
}

/// Returns the item with a name: the one at `place` if it matches, otherwise the first match.
fn named<'a>(
    items: &'a [Value],
    name: &Value,
    place: Option<usize>,
    steps: &mut StepsLeft,
) -> Result<Option<&'a Value>, OutOfSteps> {
    let is = |item: &&Value| item.get("name") == Some(name);
    if let Some(item) = place.and_then(|at| items.get(at)).filter(is) {
        return Ok(Some(item));
    }
    let found = items.iter().position(|item| is(&item));
    steps.take(found.map_or(items.len(), |at| at + 1))?;
    Ok(found.and_then(|at| items.get(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::steps::MAX_STEPS;
    use serde_json::json;

    fn keep_live_values(manifest: &mut Object, live: &Object, paths: &[Path]) {
        super::keep_live_values(manifest, live, paths, &mut StepsLeft(MAX_STEPS)).unwrap();
    }

    fn path(names: &[&str]) -> Path {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn ignored_fields_keep_their_live_value() {
        let live = object(json!({"spec": {"replicas": 7, "image": "live"}}));
        let mut manifest = object(json!({"spec": {"replicas": 1, "image": "new", "gone": 1}}));
        let paths = [path(&["spec", "replicas"]), path(&["spec", "gone"]), path(&["no", "such"])];
        keep_live_values(&mut manifest, &live, &paths);
        assert_eq!(manifest, object(json!({"spec": {"replicas": 7, "image": "new"}})));
        remove(&mut manifest, &paths);
        assert_eq!(manifest, object(json!({"spec": {"image": "new"}})));
    }

    #[test]
    fn a_named_item_is_found_at_every_position() {
        let live = object(
            json!({"spec": {"c": [{"name": "injected", "image": "i"}, {"name": "a", "image": "live"}]}}),
        );
        let mut manifest = object(json!({"spec": {"c": [{"name": "a", "image": "new"}]}}));
        keep_live_values(&mut manifest, &live, &[path(&["spec", "c", "0", "image"])]);
        assert_eq!(manifest, object(json!({"spec": {"c": [{"name": "a", "image": "live"}]}})));
    }

    #[test]
    fn an_item_is_left_to_the_cluster_as_a_whole() {
        let live = object(json!({"spec": {"c": [{"name": "b", "v": 9}, {"name": "c", "v": 9}], "f": ["x"]}}));
        let mut manifest = object(json!({"spec": {"f": ["a", "b"],
            "c": [{"name": "gone"}, {"name": "b", "v": 1}, {"name": "gone too"}, {"name": "d"}]}}));
        let whole = manifest.clone();
        // The last item has a duplicate path, and a path below it.
        let names: [&[&str]; 7] = [
            &["spec", "c", "0"],
            &["spec", "c", "1"],
            &["spec", "c", "2"],
            &["spec", "c", "2", "name"],
            &["spec", "c", "2"],
            &["spec", "c", "10"],
            &["spec", "f", "1"],
        ];
        let paths = names.map(path);
        keep_live_values(&mut manifest, &live, &paths);
        let wanted = json!({"spec": {"c": [{"name": "b", "v": 9}, {"name": "d"}], "f": ["a"]}});
        assert_eq!(manifest, object(wanted));
        let mut reduced = whole;
        remove(&mut reduced, &paths);
        assert_eq!(reduced, object(json!({"spec": {"c": [{"name": "d"}], "f": ["a"]}})));
    }

    #[test]
    fn a_field_that_the_manifest_does_not_have_stays_out_of_it() {
        let live = object(json!({"spec": {"replicas": 7}, "status": 1}));
        let mut manifest = object(json!({"spec": {}}));
        keep_live_values(&mut manifest, &live, &[path(&["spec", "replicas"]), path(&["status"])]);
        assert_eq!(manifest, object(json!({"spec": {}})));
    }

    #[test]
    fn copied_values_are_at_most_as_large_as_the_live_object() {
        let live = object(json!({"spec": {"c": [{"name": "x", "args": ["y".repeat(100_000)]}]}}));
        let mut manifest = object(json!({"spec": {"c": vec![json!({"name": "x"}); 200]}}));
        let paths: Vec<Path> = (0..200).map(|at| path(&["spec", "c", &at.to_string()])).collect();
        let result = super::keep_live_values(&mut manifest, &live, &paths, &mut StepsLeft(MAX_STEPS));
        assert_eq!(result.unwrap_err(), "their live values together are larger than the live object");
        // The limit may be used completely. A name counts as much as a string value.
        let item = json!({"key": "x".repeat(100)});
        let copies = |live: Value, number: usize| {
            let mut manifest = object(json!({"spec": {"c": vec![json!({"name": 1, "key": ""}); number]}}));
            let paths: Vec<Path> = (0..number).map(|at| path(&["spec", "c", &at.to_string()])).collect();
            super::keep_live_values(&mut manifest, &object(live), &paths, &mut StepsLeft(MAX_STEPS)).is_ok()
        };
        let mut named = item;
        named["name"] = json!(1);
        assert!(copies(json!({"spec": {"c": [named.clone()]}}), 1));
        assert!(!copies(json!({"spec": {"c": [named]}}), 2));
        // A path below another one, or all fields at once, must not copy anything twice.
        let chain = |value: Value| (0..100).fold(value, |below, _| json!({"a": below}));
        let (mut manifest, live) = (object(chain(json!(1))), object(chain(json!("y".repeat(100_000)))));
        let paths: Vec<Path> = (1..100).map(|depth| vec!["a".to_owned(); depth]).collect();
        keep_live_values(&mut manifest, &live, &paths);
        assert_eq!(manifest, live);
    }

    #[test]
    fn a_search_for_names_takes_steps() {
        let items = |names: std::ops::Range<usize>| names.map(|n| json!({"name": n})).collect::<Vec<_>>();
        let mut manifest = object(json!({"c": items(0..1000)}));
        let paths: Vec<Path> = (0..1000).map(|at| path(&["c", &at.to_string()])).collect();
        let (live, mut steps) = (object(json!({"c": items(0..1000)})), StepsLeft(0));
        assert!(super::keep_live_values(&mut manifest, &live, &paths, &mut steps).is_ok(), "all in place");
        let (live, mut steps) = (object(json!({"c": items(1000..2000)})), StepsLeft(MAX_STEPS));
        let result = super::keep_live_values(&mut manifest, &live, &paths, &mut steps);
        assert!(result.unwrap_err().contains("too many steps"));
    }

    #[test]
    fn an_item_is_found_with_as_many_steps_as_it_has_items_before_it() {
        let live = object(json!({"c": [{"name": "x"}, {"name": "y"}, {"name": "z", "v": 1}]}));
        let suffices = |steps: usize| {
            let mut manifest = object(json!({"c": [{"name": "z", "v": 0}]}));
            let paths = [path(&["c", "0", "v"])];
            super::keep_live_values(&mut manifest, &live, &paths, &mut StepsLeft(steps)).is_ok()
        };
        assert!(suffices(3) && !suffices(2));
    }

    #[test]
    fn an_index_after_the_last_item_is_not_an_item() {
        let mut manifest = object(json!({"c": ["a"]}));
        remove(&mut manifest, &[path(&["c", "1"])]);
        assert_eq!(manifest, object(json!({"c": ["a"]})));
    }

    #[test]
    fn an_index_has_one_form() {
        let mut manifest = object(json!({"c": ["a", "b", "c"]}));
        remove(&mut manifest, &["1", "01", "+1", "-1", "1.0"].map(|at| path(&["c", at])));
        assert_eq!(manifest, object(json!({"c": ["a", "c"]})));
    }
}
