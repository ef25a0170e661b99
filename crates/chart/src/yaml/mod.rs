//! YAML and JSON as `sigs.k8s.io/yaml` reads and prints them: YAML becomes JSON first, so that every number is a
//! `float64`, and what is printed has passed through JSON, too.

pub(crate) mod json;
mod read;
mod scalar;

use crate::value::Value;

pub(crate) use read::{read, read_all};

/// Prints a value without the newline at its end, as Helm's `toYaml`.
pub(crate) fn print(value: &Value) -> Result<String, String> {
    let json = json::from_value(value)?;
    let mut text = ::yaml::print_value(&json);
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Prints a value with indented lists, as `toYamlPretty`.
pub(crate) fn print_pretty(value: &Value) -> Result<String, String> {
    let json = json::from_value(value)?;
    let mut text = ::yaml::print_value_indented(&json);
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}
