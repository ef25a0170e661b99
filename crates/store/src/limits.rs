//! Limits of one request, checked before memory is allocated.

use serde_json::Value;

use super::ApiError;
use object::Object;

/// Bytes of a stored object, as JSON: etcd takes no more by default (`--max-request-bytes`).
const OBJECT: usize = 1_572_864;
/// Levels of lists and maps in an object. A journal line, a list and a watch event wrap it in two more levels
/// and its managed fields in five, and JSON parsers refuse 128.
const DEPTH: usize = 100;
/// Operations of one JSON patch (apiserver `maxJSONPatchOperations`).
const OPERATIONS: usize = 10_000;
/// Bytes of JSON that the copies of one JSON patch may add up to: the limit of a request (apiserver
/// `JSONPatchMaxCopyBytes`).
const COPIED: usize = 3 << 20;

/// Refuses an object that is too large to store.
pub(super) fn check_size(object: &Object) -> Result<(), ApiError> {
    let size = json_size(object);
    if size <= OBJECT {
        return Ok(());
    }
    Err(ApiError::too_large(format!("etcdserver: request is too large ({size} bytes)")))
}

/// Refuses an object that other parsers could not read back.
pub(super) fn check_depth(object: &Object) -> Result<(), ApiError> {
    if object.0.values().any(|value| is_deeper(value, DEPTH - 1)) {
        return Err(ApiError::bad_request(format!(
            "the object has more than {DEPTH} levels of lists and maps"
        )));
    }
    Ok(())
}

/// Returns whether a value has more levels of lists and maps than this; it looks no deeper.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(below),
        Value::Object(fields) => levels == 0 || fields.values().any(below),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Applies the operations of a JSON patch (RFC 6902) to an object.
pub(super) fn json_patch(value: &mut Value, patch: &json_patch::Patch) -> Result<(), ApiError> {
    let count = patch.0.len();
    if count > OPERATIONS {
        return Err(ApiError::too_large(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}"
        )));
    }
    let mut copied = 0;
    for operation in &patch.0 {
        copied += check_operation(value, operation, copied)?;
        let lenient = of_go(value, operation);
        let operation = lenient.as_ref().unwrap_or(operation);
        json_patch::patch_unsafe(value, std::slice::from_ref(operation))
            .map_err(|_| ApiError::unprocessable())?;
    }
    Ok(())
}

/// Returns the operation that replaces one on an absent field: the library of kube-apiserver
/// (evanphx/json-patch) replaces such a field, copies null from it, and finds null in it.
fn of_go(value: &Value, operation: &json_patch::PatchOperation) -> Option<json_patch::PatchOperation> {
    use json_patch::PatchOperation::{Add, Copy, Move, Remove, Replace, Test};
    use json_patch::{AddOperation, TestOperation};
    let is_absent = |path: &json_patch::jsonptr::Pointer| {
        let parent = path.parent().and_then(|parent| value.pointer(parent.as_str()));
        parent.is_some_and(Value::is_object) && value.pointer(path.as_str()).is_none()
    };
    match operation {
        Replace(to) if is_absent(&to.path) => {
            Some(Add(AddOperation { path: to.path.clone(), value: to.value.clone() }))
        }
        Copy(from) if is_absent(&from.from) => {
            Some(Add(AddOperation { path: from.path.clone(), value: Value::Null }))
        }
        Test(test) if is_absent(&test.path) && test.value.is_null() => {
            // A test of the whole object against itself always succeeds.
            Some(Test(TestOperation { path: json_patch::jsonptr::PointerBuf::root(), value: value.clone() }))
        }
        Replace(_) | Copy(_) | Test(_) | Add(_) | Move(_) | Remove(_) => None,
    }
}

/// Returns the bytes that an operation copies, if it stays within the limits.
fn check_operation(
    value: &Value,
    operation: &json_patch::PatchOperation,
    copied: usize,
) -> Result<usize, ApiError> {
    use json_patch::PatchOperation::{Add, Copy, Move, Remove, Replace, Test};
    let moved = match operation {
        Add(add) => Some(&add.value),
        Replace(replace) => Some(&replace.value),
        Move(from) => value.pointer(from.from.as_str()),
        Copy(from) => value.pointer(from.from.as_str()),
        Remove(_) | Test(_) => None,
    };
    // If the source does not exist, the operation itself is refused.
    let Some(moved) = moved else { return Ok(0) };
    let above = operation.path().tokens().count();
    if above > DEPTH || is_deeper(moved, DEPTH - above) {
        return Err(ApiError::unprocessable());
    }
    let size = if matches!(operation, Copy(_)) { json_size(moved) } else { 0 };
    if copied + size > COPIED {
        return Err(ApiError::unprocessable());
    }
    Ok(size)
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
    serde_json::to_writer(&mut count, value).expect("JSON values have string keys, so they serialise");
    count.0
}
