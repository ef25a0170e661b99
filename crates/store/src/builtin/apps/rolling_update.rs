use serde_json::Value;

use object::Object;

/// Sets the parameters if the strategy in a field of the spec is a rolling update.
pub(super) fn fill_rolling_update(object: &mut Object, field: &str, parameters: Value) {
    let strategy = object.field_mut("spec").get_mut(field).and_then(Value::as_object_mut);
    if let Some(strategy) =
        strategy.filter(|s| s.get("type").and_then(Value::as_str) == Some("RollingUpdate"))
    {
        strategy.entry("rollingUpdate").or_insert(parameters);
    }
}
