//! The limits of one request, checked before memory is allocated.

use serde_json::Value;

use super::ApiError;
use super::collection::weight_of;
use object::Object;

/// The maximum size of a stored object, in bytes of JSON. By default, etcd accepts no more
/// (`--max-request-bytes`).
const OBJECT: usize = 1_572_864;
/// The maximum nesting of lists and maps in an object. A journal line, a list and a watch event add two levels,
/// its managed fields add five, and JSON parsers reject 128.
const DEPTH: usize = 100;
/// The maximum number of operations in a JSON patch (apiserver `maxJSONPatchOperations`).
const OPERATIONS: usize = 10_000;
/// The maximum total size of the copies in a JSON patch, in bytes of JSON: the size limit of a request (apiserver
/// `JSONPatchMaxCopyBytes`).
const COPIED: usize = 3 << 20;

/// The maximum number of values that the operations of a JSON patch may visit or move, not counting its own
/// values: about 40 ms. A patch moves whole subtrees and shifts list items, so its length does not bound its work.
const WORK: usize = 4_000_000;

/// The maximum number of bytes of JSON for each byte of an object's [weight](weight_of): a control character takes
/// six.
const JSON_PER_WEIGHT: usize = 6;

/// Rejects an object that is too large to store. Measures its JSON only if its weight allows it to be too large.
pub(super) fn check_size(object: &Object) -> Result<(), ApiError> {
    if weight_of(object) * JSON_PER_WEIGHT <= OBJECT {
        return Ok(());
    }
    let size = json_size(object);
    if size <= OBJECT {
        return Ok(());
    }
    Err(ApiError::too_large(format!("etcdserver: request is too large ({size} bytes)")))
}

/// Rejects an object that other parsers could not read back.
pub(super) fn check_depth(object: &Object) -> Result<(), ApiError> {
    if object.0.values().any(|value| is_deeper(value, DEPTH - 1)) {
        return Err(ApiError::bad_request(format!(
            "the object has more than {DEPTH} levels of lists and maps"
        )));
    }
    Ok(())
}

/// Returns true if a value has more than `levels` levels of lists and maps, without looking deeper.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(below),
        Value::Object(fields) => levels == 0 || fields.values().any(below),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Applies the operations of a JSON patch (RFC 6902) to an object.
pub(super) fn json_patch(value: &mut Value, patch: json_patch::Patch) -> Result<(), ApiError> {
    let count = patch.0.len();
    if count > OPERATIONS {
        return Err(ApiError::too_large(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}"
        )));
    }
    let mut spent = Spent::default();
    for operation in patch.0 {
        check_operation(value, &operation, &mut spent)?;
        if let Some(operation) = as_in_go(value, operation) {
            json_patch::patch_unsafe(value, std::slice::from_ref(&operation))
                .map_err(|_| ApiError::unprocessable())?;
        }
    }
    Ok(())
}

/// Returns an operation with the effect that this one has in kube-apiserver's library (evanphx/json-patch), which
/// accepts absent fields: replacing one adds it, copying one copies null, and testing one for null succeeds.
/// Returns `None` for a test that succeeds.
fn as_in_go(value: &Value, operation: json_patch::PatchOperation) -> Option<json_patch::PatchOperation> {
    use json_patch::AddOperation;
    use json_patch::PatchOperation::{Add, Copy, Move, Remove, Replace, Test};
    let is_absent = |path: &json_patch::jsonptr::Pointer| {
        let parent = path.parent().and_then(|parent| value.pointer(parent.as_str()));
        parent.is_some_and(Value::is_object) && value.pointer(path.as_str()).is_none()
    };
    match operation {
        Replace(to) if is_absent(&to.path) => Some(Add(AddOperation { path: to.path, value: to.value })),
        Copy(from) if is_absent(&from.from) => {
            Some(Add(AddOperation { path: from.path, value: Value::Null }))
        }
        Test(test) if test.value.is_null() && is_absent(&test.path) => None,
        Replace(_) | Copy(_) | Test(_) | Add(_) | Move(_) | Remove(_) => Some(operation),
    }
}

/// The cost of the operations of a patch so far.
#[derive(Default)]
struct Spent {
    /// The size of copies, in bytes.
    copied: usize,
    /// The number of values that were visited or moved.
    work: usize,
}

impl Spent {
    fn work(&mut self, values: usize) -> Result<(), ApiError> {
        self.work += values;
        if self.work <= WORK {
            return Ok(());
        }
        let message = format!("the operations of the JSON patch visit or move more than {WORK} values");
        Err(ApiError::too_large(message))
    }
}

/// Rejects an operation that exceeds the limits of its patch.
fn check_operation(
    value: &Value,
    operation: &json_patch::PatchOperation,
    spent: &mut Spent,
) -> Result<(), ApiError> {
    use json_patch::PatchOperation::{Add, Copy, Move, Remove, Replace, Test};
    let moved = match operation {
        Add(add) => Some(&add.value),
        Replace(replace) => Some(&replace.value),
        Move(from) => value.pointer(from.from.as_str()),
        Copy(from) => value.pointer(from.from.as_str()),
        Remove(_) | Test(_) => None,
    };
    match operation {
        Add(_) | Remove(_) | Copy(_) => spent.work(shifted(value, operation.path()))?,
        Move(from) => spent.work(shifted(value, &from.from) + shifted(value, &from.path))?,
        Replace(_) | Test(_) => {}
    }
    // If the source does not exist, the operation itself fails.
    let Some(moved) = moved else { return Ok(()) };
    let above = operation.path().tokens().count();
    if above > DEPTH || is_deeper(moved, DEPTH - above) {
        return Err(ApiError::unprocessable());
    }
    match operation {
        Move(_) => spent.work(values_in(moved)),
        Copy(_) => {
            spent.copied += json_size(moved);
            if spent.copied > COPIED { Err(ApiError::unprocessable()) } else { Ok(()) }
        }
        Add(_) | Replace(_) | Remove(_) | Test(_) => Ok(()),
    }
}

/// Returns how many list items an insertion or removal at a path shifts.
fn shifted(value: &Value, path: &json_patch::jsonptr::Pointer) -> usize {
    let list = path.parent().and_then(|parent| value.pointer(parent.as_str())).and_then(Value::as_array);
    let index = path.last().and_then(|last| last.decoded().parse::<usize>().ok());
    list.zip(index).map_or(0, |(list, index)| list.len().saturating_sub(index))
}

/// Returns the number of values in a value, including itself.
fn values_in(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values_in).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn json_size(value: &impl serde::Serialize) -> usize {
    /// A writer that only counts bytes.
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("JSON values have string keys, so they serialize");
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_weight_of_an_object_bounds_its_json() {
        let text = "\u{1}".repeat(1_000);
        let numbers = json!([f64::MIN, f64::MIN_POSITIVE, i64::MIN, u64::MAX, null, false]);
        let objects = [
            json!({}),
            json!({"": f64::MIN}),
            json!({"a": text}),
            json!({text: [[], {}, [[]], ""]}),
            numbers,
        ];
        for value in objects {
            let object = Object([("a".to_owned(), value)].into_iter().collect());
            assert!(json_size(&object) <= weight_of(&object) * JSON_PER_WEIGHT, "{object:?}");
        }
    }
}
