//! `vars`: substitutes values of fields for `$(NAME)` in texts.

use std::collections::BTreeMap;

use crate::accumulator::add_vars;
use crate::budget::MemoryBudget;
use crate::decode::Result;
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, visit};
use crate::kustomization::{FieldSpec, Var};
use crate::path;
use crate::resource::Resource;
use yaml::{Node, Scalar, Style, Tag, Value};

/// Marks the objects from which variables read their values, as seen by the kustomization that declares the
/// variables.
///
/// # Errors
/// Fails if a variable is ambiguous or declared twice.
pub(crate) fn declare(resources: &mut [Resource], known: &mut Vec<Var>, vars: &[Var]) -> Result<()> {
    for var in vars {
        let matches = |resource: &Resource| {
            let fits_namespace = |namespace: &str| var.namespace.is_empty() || namespace == var.namespace;
            resource
                .all_ids()
                .any(|id| id.gvk == var.gvk && id.name == var.object && fits_namespace(&id.namespace))
        };
        let mut found: Vec<&mut Resource> =
            resources.iter_mut().filter(|resource| !resource.is_empty() && matches(resource)).collect();
        match found.as_mut_slice() {
            [] => {}
            [one] => one.vars.push(var.name.clone()),
            several => {
                let message = format!("{} objects are named {:?}", several.len(), var.object);
                let error = RenderError::at(Reason::Target, &var.location, message).field(var.field.clone());
                return Err(Box::new(error.hint("name the namespace in objref")));
            }
        }
    }
    add_vars(known, vars)
}

/// Substitutes the values of all variables in the fields that may contain them.
///
/// # Errors
/// Fails if a variable has no object, or its object lacks the field.
pub(crate) fn resolve(
    resources: &mut [Resource],
    vars: &[Var],
    specs: &[FieldSpec],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    if vars.is_empty() {
        return Ok(());
    }
    let mut values = BTreeMap::new();
    for var in vars {
        let value = value_of(resources, var)?;
        budget.spend_at(&var.location, value.text.len())?;
        values.insert(var.name.clone(), value);
    }
    for resource in resources.iter_mut() {
        for spec in specs {
            visit(resource, spec, Create::Never, &mut |node| replace_in(node, &values, budget))?;
        }
        resource.spread_shared();
    }
    Ok(())
}

fn value_of(resources: &[Resource], var: &Var) -> Result<Scalar> {
    let error = |message: String| {
        Box::new(RenderError::at(Reason::Target, &var.location, message).field(var.field.clone()))
    };
    let Some(resource) = resources.iter().find(|resource| resource.vars.contains(&var.name)) else {
        let id = format!("{} {:?}", var.gvk, var.object);
        let hint = "use the apiVersion and the original name of the object";
        return Err(Box::new(
            error(format!("the variable {:?} refers to {id}, which is not among the objects", var.name))
                .hint(hint),
        ));
    };
    let parts: Vec<String> = path::parts(&var.field_path).iter().flat_map(|part| split_index(part)).collect();
    let found = path::lookup(&resource.node, &parts)
        .map_err(|reason| error(format!("fieldPath {:?}: {reason}", var.field_path)))?;
    let found = found.ok_or_else(|| error(format!("{} has no field {:?}", resource.id(), var.field_path)))?;
    let scalar = found
        .as_scalar()
        .ok_or_else(|| error(format!("the field {:?} is {}, not a string", var.field_path, found.kind())))?;
    Ok(typed(scalar))
}

/// Splits `ports[0]` into the field `ports` and the index `0`.
fn split_index(part: &str) -> Vec<String> {
    let indexed = part.strip_suffix(']').and_then(|part| part.rsplit_once('['));
    match indexed.filter(|(_, index)| !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit())) {
        Some(("", index)) => vec![index.to_owned()],
        Some((field, index)) => vec![field.to_owned(), index.to_owned()],
        None => vec![part.to_owned()],
    }
}

/// Determines the type of a text that consists only of a variable, so that numbers and booleans keep their type.
fn typed(scalar: &Scalar) -> Scalar {
    let (text, tag) = match scalar.tag {
        Tag::Int => match scalar.text.parse::<i64>() {
            Ok(number) => (number.to_string(), Tag::Int),
            Err(_) => (scalar.text.clone(), Tag::Str),
        },
        Tag::Float => match scalar.text.parse::<f64>() {
            Ok(number) => (number.to_string(), Tag::Float),
            Err(_) => (scalar.text.clone(), Tag::Str),
        },
        Tag::Bool => (scalar.text.to_ascii_lowercase(), Tag::Bool),
        Tag::Str | Tag::Unsettled | Tag::Null | Tag::Timestamp | Tag::Binary => {
            (scalar.text.clone(), Tag::Str)
        }
    };
    Scalar { text, tag, style: Style::Plain }
}

fn replace_in(node: &mut Node, values: &BTreeMap<String, Scalar>, budget: &MemoryBudget<'_>) -> Result<()> {
    let is_text = |scalar: &Scalar| matches!(scalar.tag, Tag::Str | Tag::Unsettled);
    match &mut node.value {
        Value::Scalar(scalar) if is_text(scalar) => *scalar = replaced(scalar, values, budget)?,
        Value::Scalar(_) => {}
        Value::Map(map) => {
            for entry in map.values_mut() {
                if let Value::Scalar(scalar) = &mut entry.node.value
                    && is_text(scalar)
                {
                    *scalar = replaced(scalar, values, budget)?;
                }
            }
        }
        Value::List(items) => {
            for item in items {
                let (line, kind) = (item.line, item.kind());
                match &mut item.value {
                    Value::Scalar(scalar) if is_text(scalar) => *scalar = replaced(scalar, values, budget)?,
                    Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
                        let message = format!(
                            "variables are replaced in this list, so every item must be a string, not {kind}"
                        );
                        let error = RenderError::new(Reason::InvalidValue, "", message).line(line);
                        return Err(Box::new(error.hint("write it in quotes")));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Replaces `$(NAME)`, and `$$` with `$`. Unknown names remain unchanged.
fn replaced(scalar: &Scalar, values: &BTreeMap<String, Scalar>, budget: &MemoryBudget<'_>) -> Result<Scalar> {
    let text = scalar.text.as_str();
    if !text.contains('$') {
        return Ok(Scalar { style: Style::Plain, ..string(text.to_owned()) });
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let name = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        rest = match (name, after.chars().next()) {
            (Some((name, tail)), _) => {
                match values.get(name) {
                    Some(value) => {
                        budget.spend(value.text.len())?;
                        if text == format!("$({name})") {
                            return Ok(value.clone());
                        }
                        result.push_str(&value.text);
                    }
                    None if text == format!("$({name})") => return Ok(string(text.to_owned())),
                    None => result.push_str(&format!("$({name})")),
                }
                tail
            }
            (None, Some('$')) => {
                result.push('$');
                after.get(1..).unwrap_or_default()
            }
            (None, Some(c)) => {
                result.push('$');
                result.push(c);
                after.get(c.len_utf8()..).unwrap_or_default()
            }
            (None, None) => {
                result.push('$');
                ""
            }
        };
    }
    result.push_str(rest);
    Ok(string(result))
}

fn string(text: String) -> Scalar {
    Scalar { text, tag: Tag::Str, style: Style::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_in_texts() {
        let budget = MemoryBudget::new(&|| false);
        let number = Scalar { text: "80".into(), tag: Tag::Int, style: Style::Plain };
        let values = BTreeMap::from([("A".to_owned(), string("x".into())), ("N".to_owned(), number.clone())]);
        for (text, expected) in [
            ("$(A)", "x"),
            ("-$(A)-$(N)", "-x-80"),
            ("$$(A)", "$(A)"),
            ("$(B)", "$(B)"),
            ("$A $(", "$A $("),
            ("$", "$"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(replaced(&string(text.into()), &values, &budget).unwrap().text, expected, "{text}");
        }
        assert_eq!(replaced(&string("$(N)".into()), &values, &budget).unwrap(), number);
    }
}
