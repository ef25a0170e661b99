//! Reads and prints YAML and JSON like `sigs.k8s.io/yaml`: YAML is converted to JSON first, so every number is a
//! `float64`. Printed values also pass through JSON.

pub(crate) mod json;
mod read;
mod scalar;

use crate::value::Value;

pub(crate) use read::{read, read_all};

/// Prints a value without the trailing newline, like Helm's `toYaml`.
pub(crate) fn print(value: &Value) -> Result<String, String> {
    let json = json::from_value(value)?;
    let mut text = ::yaml::print_value(&json);
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Prints a value with indented lists, like `toYamlPretty`.
pub(crate) fn print_pretty(value: &Value) -> Result<String, String> {
    let json = json::from_value(value)?;
    let mut text = ::yaml::print_value_indented(&json);
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}
