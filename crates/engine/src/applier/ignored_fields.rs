//! Fields that a manifest leaves to the cluster.

use serde_json::{Map, Value};

use object::Object;

/// The way from the root of an object to a field: names of fields and, in lists, indexes in decimal.
pub type Path = Vec<String>;

/// Gives ignored fields of a manifest their live value, and drops those that the live object does not have.
///
/// Server-side apply removes a field that we set at creation and leave out later, so the live value is sent along.
pub(crate) fn strip_ignored(manifest: &mut Object, live: &Object, ignored: &[Path]) {
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
