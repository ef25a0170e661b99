//! Fields that a manifest leaves to the cluster.

use serde_json::{Map, Value};

use object::Object;

/// The way from the root of an object to a field: names of fields and, in lists, indexes in decimal.
pub(crate) type Path = Vec<String>;

/// Gives fields of a manifest their live value, and drops those that the live object does not have.
///
/// Server-side apply removes a field that we set at creation and leave out later, so the request carries the
/// live value. List items with names are matched by name, others by position.
pub(crate) fn keep_live_values(manifest: &mut Object, live: &Object, paths: &[Path]) {
    for path in paths {
        let live = live_value(&manifest.0, &live.0, path).cloned();
        let Some((parent, last)) = parent_of(manifest, path) else { continue };
        match live {
            Some(live) => parent.insert(last.clone(), live),
            None => parent.remove(last),
        };
    }
}

/// Removes fields from a manifest.
pub(crate) fn remove(manifest: &mut Object, paths: &[Path]) {
    for path in paths {
        if let Some((parent, last)) = parent_of(manifest, path) {
            parent.remove(last);
        }
    }
}

fn parent_of<'a, 'b>(
    manifest: &'a mut Object,
    path: &'b [String],
) -> Option<(&'a mut Map<String, Value>, &'b String)> {
    let (last, parents) = path.split_last()?;
    Some((follow_mut(&mut manifest.0, parents)?, last))
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
}
