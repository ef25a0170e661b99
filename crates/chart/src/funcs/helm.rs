//! Helm's own functions (`pkg/engine/funcs.go` and `engine.go`).

use std::rc::Rc;

use super::strings::text;
use super::{Call, Function, Outcome, Type};
use crate::fault::Fault;
use crate::template::exec;
use crate::value::{Map, Value};
use crate::yaml::json::Style;
use crate::{toml, yaml};

/// Maximum number of inclusions of one template within itself, as in Helm.
const MAX_INCLUSIONS: usize = 1_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("include", &[Type::Str, Type::Any], include),
    Function::new("tpl", &[Type::Str, Type::Any], tpl),
    Function::new("required", &[Type::Str, Type::Any], |call| match call.arg(1) {
        Value::Missing | Value::Nil => Err(Fault::message(call.str(0))),
        Value::Str(given) if given.is_empty() => Err(Fault::message(call.str(0))),
        given => Ok(given.clone()),
    }),
    Function::new("fail", &[Type::Str], |call| Err(Fault::message(call.str(0)))),
    // Returns nothing, like `helm template`, which does not query a cluster.
    Function::new("lookup", &[Type::Str, Type::Str, Type::Str, Type::Str], |_| {
        Ok(Value::Map(Map::new(std::collections::BTreeMap::new())))
    }),
    Function::new("getHostByName", &[Type::Str], |_| text("")),
    Function::new("toYaml", &[Type::Any], |call| text(&yaml::print(call.arg(0)).unwrap_or_default())),
    Function::new("mustToYaml", &[Type::Any], |call| text(&yaml::print(call.arg(0))?)),
    Function::new("toYamlPretty", &[Type::Any], |call| {
        text(&yaml::print_pretty(call.arg(0)).unwrap_or_default())
    }),
    Function::new("fromYaml", &[Type::Str], from_yaml),
    Function::new("fromYamlArray", &[Type::Str], from_yaml_array),
    Function::new("toJson", &[Type::Any], |call| json(call, Style::Compact, true)),
    Function::new("mustToJson", &[Type::Any], |call| json(call, Style::Compact, false)),
    Function::new("toRawJson", &[Type::Any], |call| json(call, Style::Raw, true)),
    Function::new("mustToRawJson", &[Type::Any], |call| json(call, Style::Raw, false)),
    Function::new("toPrettyJson", &[Type::Any], |call| json(call, Style::Pretty, true)),
    Function::new("mustToPrettyJson", &[Type::Any], |call| json(call, Style::Pretty, false)),
    Function::new("fromJson", &[Type::Str], from_json),
    Function::new("mustFromJson", &[Type::Str], |call| Ok(yaml::json::read(call.str(0))?)),
    Function::new("fromJsonArray", &[Type::Str], from_json_array),
    Function::new("toToml", &[Type::Any], |call| {
        text(&toml::print(call.arg(0)).unwrap_or_else(|reason| reason))
    }),
    Function::new("fromToml", &[Type::Str], |_| {
        Err(Fault::unsupported("this function is not supported yet"))
    }),
    Function::new("mustToToml", &[Type::Any], |call| text(&toml::print(call.arg(0))?)),
];

fn include(call: Call<'_>) -> Outcome {
    let name: Rc<str> = call.str(0).into();
    let count = {
        let mut included = call.env.included.borrow_mut();
        let count = included.entry(name.clone()).or_insert(0);
        *count += 1;
        *count
    };
    if count > MAX_INCLUSIONS {
        return Err(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )
        .into());
    }
    let output = exec::run(call.env, call.set, &name, call.arg(1).clone());
    if let Some(count) = call.env.included.borrow_mut().get_mut(&name) {
        *count = count.saturating_sub(1);
    }
    text(&output?)
}

/// Renders a text as a template. Its definitions are visible only within it.
fn tpl(call: Call<'_>) -> Outcome {
    let Value::Str(template) = call.arg(0) else { return text("") };
    let name: Rc<str> = "gotpl".into();
    call.env.budget.work(1 + template.len() as u64 / 64)?;
    let set = call.set.layer(&name, template).map_err(|error| {
        Fault::text(format!(
            "cannot parse template {template:?}: template: gotpl:{}: {}",
            error.line, error.reason
        ))
    })?;
    let output = exec::run(call.env, &set, &name, call.arg(1).clone()).map_err(|fault| Fault {
        text: format!("error during tpl function execution for {:?}: {}", &**template, fault.text),
        ..fault
    })?;
    text(&output.replace("<no value>", ""))
}

fn json(call: Call<'_>, style: Style, swallows: bool) -> Outcome {
    match yaml::json::print(call.arg(0), style) {
        Ok(json) => text(&json),
        Err(_) if swallows => text(""),
        Err(reason) => Err(reason.into()),
    }
}

/// Returns a map with the error. `fromYaml` and `fromJson` return it instead of failing.
fn error_map(reason: String) -> Value {
    Value::Map([("Error", Value::str(reason))].into_iter().collect())
}

fn from_yaml(call: Call<'_>) -> Outcome {
    call.env.budget.work(call.str(0).len() as u64 / 64)?;
    Ok(match read_yaml(call.str(0)) {
        Ok(Value::Missing | Value::Nil) => Value::Map(Map::new(std::collections::BTreeMap::new())),
        Ok(map @ Value::Map(_)) => map,
        Ok(other) => error_map(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            json_type(&other)
        )),
        Err(reason) => error_map(format!("error converting YAML to JSON: {reason}")),
    })
}

fn from_yaml_array(call: Call<'_>) -> Outcome {
    call.env.budget.work(call.str(0).len() as u64 / 64)?;
    Ok(match read_yaml(call.str(0)) {
        Ok(Value::Missing | Value::Nil) => Value::list(Vec::new()),
        Ok(list @ Value::List(_)) => list,
        Ok(other) => Value::list(vec![Value::str(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             []interface {{}}",
            json_type(&other)
        ))]),
        Err(reason) => Value::list(vec![Value::str(format!("error converting YAML to JSON: {reason}"))]),
    })
}

/// Reads YAML that must be representable in JSON, which has no infinity.
fn read_yaml(text: &str) -> Result<Value, String> {
    let value = yaml::read(text)?;
    yaml::json::from_value(&value)?;
    Ok(value)
}

fn from_json(call: Call<'_>) -> Outcome {
    Ok(match yaml::json::read(call.str(0)) {
        Ok(Value::Missing | Value::Nil) => Value::Map(Map::new(std::collections::BTreeMap::new())),
        Ok(map @ Value::Map(_)) => map,
        Ok(other) => error_map(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        )),
        Err(reason) => error_map(reason),
    })
}

fn from_json_array(call: Call<'_>) -> Outcome {
    Ok(match yaml::json::read(call.str(0)) {
        Ok(Value::Missing | Value::Nil) => Value::list(Vec::new()),
        Ok(list @ Value::List(_)) => list,
        Ok(other) => Value::list(vec![Value::str(format!(
            "json: cannot unmarshal {} into Go value of type []interface {{}}",
            json_type(&other)
        ))]),
        Err(reason) => Value::list(vec![Value::str(reason)]),
    })
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "array",
        Value::Map(_) | Value::Object(_) => "object",
        Value::Str(_) => "string",
        Value::Bool(_) => "bool",
        Value::Missing | Value::Nil => "null",
        Value::Int(_) | Value::Int64(_) | Value::Float(_) => "number",
    }
}
