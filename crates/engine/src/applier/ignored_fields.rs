//! Fields that a manifest leaves to the cluster.

use serde_json::{Map, Value};

use object::Object;

/// The way from the root of an object to a field: names of fields and, in lists, indexes in decimal.
pub(crate) type Path = Vec<String>;

/// Gives fields of a manifest their live value, and drops those that the live object does not have. A field
/// that the manifest does not have stays out of it.
///
/// Server-side apply removes a field that we set at creation and leave out later, so the request carries the
/// live value. List items with names are matched by name, others by position.
pub(crate) fn keep_live_values(manifest: &mut Object, live: &Object, paths: &[Path]) {
    let value = |path: &[String]| live_value(&manifest.0, &live.0, path).cloned();
    let values: Vec<_> = from_the_end(paths).into_iter().map(|path| (path, value(path))).collect();
    for (path, live) in values {
        set(&mut manifest.0, path, live);
    }
}

/// Removes fields from a manifest.
pub(crate) fn remove(manifest: &mut Object, paths: &[Path]) {
    for path in from_the_end(paths) {
        set(&mut manifest.0, path, None);
    }
}

/// Returns each path once, in an order in which the removal of one does not move another: items of a list
/// from the last to the first, and what is below a field before the field.
fn from_the_end(paths: &[Path]) -> Vec<&[String]> {
    let key = |path: &&[String]| -> Vec<(Option<usize>, String)> {
        path.iter().map(|name| (name.parse().ok(), name.clone())).collect()
    };
    let mut paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
    paths.sort_by_cached_key(|path| std::cmp::Reverse(key(path)));
    paths.dedup();
    paths
}

/// Sets a field or an item that exists, or removes it.
fn set(fields: &mut Map<String, Value>, path: &[String], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else { return };
    let Some((first, rest)) = parents.split_first() else { return set_field(fields, last, value) };
    let parent = rest.iter().try_fold(fields.get_mut(first), |parent, name| {
        Some(match parent? {
            Value::Array(items) => name.parse().ok().and_then(|at: usize| items.get_mut(at)),
            other => other.get_mut(name),
        })
    });
    match (parent.flatten(), last.parse::<usize>()) {
        (Some(Value::Object(fields)), _) => set_field(fields, last, value),
        (Some(Value::Array(items)), Ok(at)) if at < items.len() => match (value, items.get_mut(at)) {
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
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => value.get(name),
    }
}

/// Returns the value that a field of a manifest has in the live object.
fn live_value<'a>(
    manifest: &Map<String, Value>,
    live: &'a Map<String, Value>,
    path: &[String],
) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let (mut ours, mut theirs) = (manifest.get(first), live.get(first)?);
    for name in rest {
        let item = ours.and_then(|ours| step(ours, name));
        theirs = match (theirs, item.and_then(|item| item.get("name"))) {
            (Value::Array(items), Some(key)) => items.iter().find(|item| item.get("name") == Some(key))?,
            (theirs, _) => step(theirs, name)?,
        };
        ours = item;
    }
    Some(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn an_item_with_a_name_is_found_wherever_it_stands() {
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
        let kept = manifest.clone();
        // The last item has a path twice, and one below it.
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
        let mut reduced = kept;
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
}
