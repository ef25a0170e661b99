//! The hash with which OCM identifies the content of a configuration.
//!
//! It is the SHA-256 of the object without `apiVersion`, `kind`, `metadata` and `status`, in Go's JSON: keys
//! sorted, no white space, `<`, `>`, `&` and the two line separators escaped, numbers in Go's shortest form.
//! Every OCM component computes this hash, so ours must match exactly.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

use object::go_json::write_string;
use object::{Object, hex};

/// Fields that are not part of the content: they identify the object or report its state.
const NOT_CONTENT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Returns the part of a configuration that is hashed and stored in snapshots.
pub fn content(object: &Object) -> Map<String, Value> {
    object
        .0
        .iter()
        .filter(|(field, _)| !NOT_CONTENT.contains(&field.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Returns the hash of an object, as in OCM's `specHash`.
pub fn spec_hash(object: &Object) -> String {
    content_hash(&content(object))
}

/// Returns the hash of the content of an object.
pub(crate) fn content_hash(content: &Map<String, Value>) -> String {
    let mut json = String::new();
    write_map(&mut json, content);
    hex(Sha256::digest(json.as_bytes()))
}

fn write_value(json: &mut String, value: &Value) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(true) => json.push_str("true"),
        Value::Bool(false) => json.push_str("false"),
        Value::Number(number) => write_number(json, number),
        Value::String(text) => write_string(json, text),
        Value::Array(items) => {
            json.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    json.push(',');
                }
                write_value(json, item);
            }
            json.push(']');
        }
        Value::Object(fields) => write_map(json, fields),
    }
}

fn write_map(json: &mut String, fields: &Map<String, Value>) {
    json.push('{');
    for (i, (field, value)) in fields.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        write_string(json, field);
        json.push(':');
        write_value(json, value);
    }
    json.push('}');
}

/// Prints a number as Go does (`encoding/json`, `floatEncoder`). A 64-bit integer is printed as an integer. Any
/// other number is the shortest float that parses to the same value, with an exponent below 1e-6 and from 1e21
/// on.
fn write_number(json: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        let _ = write!(json, "{integer}");
        return;
    }
    let float = number.as_f64().unwrap_or_default();
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        let signed = text.split_once('e').filter(|(_, exponent)| !exponent.starts_with('-'));
        match signed {
            Some((digits, exponent)) => {
                let _ = write!(json, "{digits}e+{exponent}");
            }
            None => json.push_str(&text),
        }
    } else {
        let _ = write!(json, "{float}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(object: Value, hash: &str) {
        assert_eq!(spec_hash(&Object::from_value(object.clone()).unwrap()), hash, "{object}");
    }

    #[test]
    fn hashes_match_ocm() {
        check(
            json!({"apiVersion": "v1", "metadata": {"name": "x"}, "status": {}}),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        );
        check(
            json!({"spec": {"test": 1}}),
            "af144391b79b4b07bd7c579980ae9ed42dc8e34f7babebbf3fd08cacb578fba4",
        );
        check(
            json!({"kind": "ConfigMap", "data": {"test": 1}}),
            "766dd25b5177d7bd3673d1bc2d015b74f9fefec024319e5b6a49eef9236bbfa1",
        );
        let variables = json!([{"name": "test", "value": "test"}]);
        let namespace = "open-cluster-management-agent-addon";
        check(
            json!({"spec": {"agentInstallNamespace": namespace, "customizedVariables": variables, "proxyConfig": {}}}),
            "ea4e6089e8b2f584c1cd8b86e16a15df3186b30744f433ede7436091c93a4cc7",
        );
        check(
            json!({"spec": {"agentInstallNamespace": namespace, "customizedVariables": variables}}),
            "daef34d10f53bf4e0b0550286fc451c9bc2d8f78fdc1383249d503ce9e489650",
        );
        check(
            json!({"spec": {"addonName": "test1", "agentSpec": {"workload": {}}, "registration": null}}),
            "b59db5673238c791a826f0a8f8710f3d6e49cd4c7a5ee73e186c91412f26fc85",
        );
    }

    #[test]
    fn numbers_and_strings_are_written_as_go_writes_them() {
        let cases = [
            (json!(1.0), "1"),
            (json!(0.5), "0.5"),
            (json!(-3), "-3"),
            (json!(1e21), "1e+21"),
            (json!(1e20), "100000000000000000000"),
            (json!(1.5e-7), "1.5e-7"),
            (json!(0.000001), "0.000001"),
            (json!(18446744073709551615_u64), "18446744073709552000"),
            (json!("<a href=\"x\">&\u{2028}\u{1}\n"), r#""\u003ca href=\"x\"\u003e\u0026\u2028\u0001\n""#),
        ];
        for (value, want) in cases {
            let mut json = String::new();
            write_value(&mut json, &value);
            assert_eq!(json, want);
        }
    }
}
