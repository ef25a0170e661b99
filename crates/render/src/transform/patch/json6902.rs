//! JSON patches (RFC 6902). As in kustomize, a negative index counts from the end: `-1` is the last item.

use serde_json::Value as Json;

use yaml::limits::VALUE_BYTES;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    op: Op,
    path: Vec<String>,
    from: Vec<String>,
    value: Json,
    /// The position in the patch, counted from 0.
    index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Remove,
    Replace,
    Move,
    Copy,
    Test,
}

/// Reads the operations of a patch.
///
/// # Errors
/// Returns a sentence with the index of the operation, counted from 0, and what is wrong with it.
pub(super) fn parse(patch: &Json) -> Result<Vec<Operation>, String> {
    let operations = patch.as_array().ok_or("a JSON patch is a list of operations")?;
    operations
        .iter()
        .enumerate()
        .map(|(index, operation)| {
            read(operation)
                .map(|operation| Operation { index, ..operation })
                .map_err(|reason| format!("operation {index}: {reason}"))
        })
        .collect()
}

fn read(operation: &Json) -> Result<Operation, String> {
    let fields = operation.as_object().ok_or("not a map")?;
    let text = |name: &str| match fields.get(name) {
        Some(Json::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("{name} must be a string")),
        None => Ok(None),
    };
    let op = match text("op")?.ok_or("there is no op")? {
        "add" => Op::Add,
        "remove" => Op::Remove,
        "replace" => Op::Replace,
        "move" => Op::Move,
        "copy" => Op::Copy,
        "test" => Op::Test,
        other => return Err(format!("op must be add, remove, replace, move, copy or test, not {other:?}")),
    };
    let path = pointer(text("path")?.ok_or("there is no path")?)?;
    let from = match op {
        Op::Move | Op::Copy => pointer(text("from")?.ok_or("there is no from")?)?,
        Op::Add | Op::Remove | Op::Replace | Op::Test => Vec::new(),
    };
    Ok(Operation { op, path, from, value: fields.get("value").cloned().unwrap_or(Json::Null), index: 0 })
}

/// Splits a path into its parts. The path of the whole object has none. Like kustomize, skips everything before
/// the first "/".
fn pointer(path: &str) -> Result<Vec<String>, String> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let (_, rest) = path
        .split_once('/')
        .ok_or_else(|| format!("the path {path:?} must start with \"/\" and lead into the object"))?;
    Ok(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

impl Operation {
    /// Returns the memory of the values that the operation adds to a document, in bytes.
    ///
    /// # Errors
    /// Fails if the value to copy does not exist.
    pub(super) fn memory(&self, document: &mut Json) -> Result<usize, String> {
        match self.op {
            Op::Add | Op::Replace => Ok(memory(&self.value)),
            Op::Copy => {
                self.copied(document).map(|copied| memory(copied)).map_err(|reason| self.named(&reason))
            }
            Op::Remove | Op::Move | Op::Test => Ok(0),
        }
    }

    /// Applies the operation.
    ///
    /// # Errors
    /// Returns a sentence with the index of the operation, counted from 0, and why it cannot be applied.
    pub(super) fn apply(&self, document: &mut Json) -> Result<(), String> {
        self.step(document).map_err(|reason| self.named(&reason))
    }

    fn named(&self, reason: &str) -> String {
        let op = match self.op {
            Op::Add => "add",
            Op::Remove => "remove",
            Op::Replace => "replace",
            Op::Move => "move",
            Op::Copy => "copy",
            Op::Test => "test",
        };
        format!("operation {} ({op} /{}): {reason}", self.index, self.path.join("/"))
    }

    fn copied<'a>(&'a self, document: &'a mut Json) -> Result<&'a mut Json, String> {
        get_mut(document, &self.from)?.ok_or_else(|| "there is nothing to copy".into())
    }

    fn step(&self, document: &mut Json) -> Result<(), String> {
        let Self { op, path, from, value, index: _ } = self;
        match op {
            Op::Add => add(document, path, value.clone()),
            Op::Remove => remove(document, path).map(|_| ()),
            Op::Replace if path.is_empty() => {
                document.clone_from(value);
                Ok(())
            }
            // kustomize's library replaces an absent field if its parent is a map.
            Op::Replace => match container(document, path)? {
                (Json::Object(map), key) => {
                    map.insert(key.to_owned(), value.clone());
                    Ok(())
                }
                _ => {
                    let slot = get_mut(document, path)?.ok_or("there is nothing to replace")?;
                    *slot = value.clone();
                    Ok(())
                }
            },
            Op::Move => {
                let moved = remove(document, from)?;
                add(document, path, moved)
            }
            Op::Copy => {
                let copied = self.copied(document)?.clone();
                add(document, path, copied)
            }
            Op::Test => match get_mut(document, path)? {
                Some(found) if same(found, value) => Ok(()),
                None if value.is_null() => Ok(()),
                Some(found) => Err(format!("the value is {found}, not {value}")),
                None => Err(format!("the value does not exist, so it does not equal {value}")),
            },
        }
    }
}

/// Returns the memory of a value, in bytes.
fn memory(value: &Json) -> usize {
    let inside: usize = match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(memory).sum(),
        Json::Object(map) => map.iter().map(|(key, value)| key.len() + memory(value)).sum(),
    };
    inside + VALUE_BYTES
}

/// Returns true if values are equal. `1` equals `1.0`.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (a, b) => a == b,
    }
}

/// Returns the map or list that contains the last part of a path.
fn container<'a>(document: &'a mut Json, path: &'a [String]) -> Result<(&'a mut Json, &'a str), String> {
    let (last, parents) = path.split_last().ok_or("the path must lead into the object")?;
    let mut at = document;
    for (depth, part) in parents.iter().enumerate() {
        let shown = || format!("there is no /{}", parents.get(..=depth).unwrap_or_default().join("/"));
        at = match at {
            Json::Object(map) => map.get_mut(part).ok_or_else(shown)?,
            Json::Array(items) => {
                let index = index(part, items.len())?;
                items.get_mut(index).ok_or_else(shown)?
            }
            _ => return Err(shown()),
        };
    }
    match at {
        Json::Object(_) | Json::Array(_) => Ok((at, last)),
        _ => Err(format!("/{} is neither a map nor a list", parents.join("/"))),
    }
}

/// Returns an index into a list. Negative indices count from the end.
fn index(part: &str, len: usize) -> Result<usize, String> {
    let number: i64 = part.parse().map_err(|_| format!("{part:?} is not an index of a list"))?;
    let from_start =
        if number < 0 { i64::try_from(len).unwrap_or(i64::MAX).saturating_add(number) } else { number };
    usize::try_from(from_start)
        .map_err(|_| format!("the index {part} is outside of the list, which has {len} items"))
}

fn get_mut<'a>(document: &'a mut Json, path: &'a [String]) -> Result<Option<&'a mut Json>, String> {
    match container(document, path)? {
        (Json::Object(map), key) => Ok(map.get_mut(key)),
        (Json::Array(items), part) => {
            let len = items.len();
            let slot = items.get_mut(index(part, len)?);
            slot.map(Some)
                .ok_or_else(|| format!("the index {part} is outside of the list, which has {len} items"))
        }
        _ => Ok(None),
    }
}

fn add(document: &mut Json, path: &[String], value: Json) -> Result<(), String> {
    match container(document, path)? {
        (Json::Object(map), key) => {
            map.insert(key.to_owned(), value);
        }
        (Json::Array(items), "-") => items.push(value),
        (Json::Array(items), part) => {
            // A negative index counts the new item too.
            let at = index(part, if part.starts_with('-') { items.len() + 1 } else { items.len() })?;
            if at > items.len() {
                return Err(format!(
                    "the index {part} is outside of the list, which has {} items",
                    items.len()
                ));
            }
            items.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(document: &mut Json, path: &[String]) -> Result<Json, String> {
    match container(document, path)? {
        (Json::Object(map), key) => map.remove(key).ok_or_else(|| "there is nothing to remove".into()),
        (Json::Array(items), part) => {
            let at = index(part, items.len())?;
            if at >= items.len() {
                return Err(format!(
                    "the index {part} is outside of the list, which has {} items",
                    items.len()
                ));
            }
            Ok(items.remove(at))
        }
        _ => Err("there is nothing to remove".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(document: Json, patch: Json, expected: Result<Json, &str>) {
        let mut patched = document.clone();
        let apply =
            |patch: Vec<Operation>| patch.iter().try_for_each(|operation| operation.apply(&mut patched));
        let result = parse(&patch).and_then(apply);
        match expected {
            Ok(expected) => assert_eq!((result, patched), (Ok(()), expected), "{patch}"),
            Err(reason) => assert!(result.as_ref().is_err_and(|e| e.contains(reason)), "{patch}: {result:?}"),
        }
    }

    #[test]
    fn operations_apply() {
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "add", "path": "/a/-", "value": 3}]),
            Ok(json!({"a": [1, 2, 3]})),
        );
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "add", "path": "/a/1", "value": 3}]),
            Ok(json!({"a": [1, 3, 2]})),
        );
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "replace", "path": "/a/-1", "value": 3}]),
            Ok(json!({"a": [1, 3]})),
        );
        check(
            json!({"a/b": {"~": 1}}),
            json!([{"op": "remove", "path": "/a~1b/~0"}]),
            Ok(json!({"a/b": {}})),
        );
        check(json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), Ok(json!({"b": 1})));
        check(
            json!({"a": 1}),
            json!([{"op": "copy", "from": "/a", "path": "/b"}]),
            Ok(json!({"a": 1, "b": 1})),
        );
        check(json!({"a": 1.0}), json!([{"op": "test", "path": "/a", "value": 1}]), Ok(json!({"a": 1.0})));
        check(json!({}), json!([{"op": "replace", "path": "/x", "value": 1}]), Ok(json!({"x": 1})));
        check(json!({}), json!([{"op": "test", "path": "/a", "value": null}]), Ok(json!({})));
    }

    #[test]
    fn operations_that_do_not_apply_are_named() {
        for (patch, reason) in [
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), "operation 0 (add /x/y): there is no /x"),
            (json!([{"op": "remove", "path": "/x"}]), "nothing to remove"),
            (json!([{"op": "replace", "path": "/l/3", "value": 1}]), "outside of the list"),
            (json!([{"op": "add", "path": "/l/x", "value": 1}]), "not an index"),
            (json!([{"op": "test", "path": "/a", "value": 2}]), "the value is 1, not 2"),
            (json!([{"op": "destroy", "path": "/a"}]), "op must be"),
            (json!([{"op": "add", "path": "a"}]), "must start with"),
            (json!({"op": "add"}), "a list of operations"),
        ] {
            check(json!({"a": 1, "l": [1]}), patch, Err(reason));
        }
    }
}
