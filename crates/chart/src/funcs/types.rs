//! Defaults and types (Sprig's `defaults.go` and `reflect.go`).

use super::strings::text;
use super::{Function, Type};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("default", &[Type::Any], |call| {
        Ok(match call.args.get(1) {
            Some(given) if !is_empty(given) => given.clone(),
            _ => call.arg(0).clone(),
        })
    })
    .rest(Type::Any),
    Function::new("empty", &[Type::Any], |call| Ok(Value::Bool(is_empty(call.arg(0))))),
    Function::new("coalesce", &[], |call| {
        Ok(call.args.iter().find(|arg| !is_empty(arg)).cloned().unwrap_or(Value::Nil))
    })
    .rest(Type::Any),
    Function::new("all", &[], |call| Ok(Value::Bool(!call.args.iter().any(is_empty)))).rest(Type::Any),
    Function::new("any", &[], |call| Ok(Value::Bool(!call.args.iter().all(is_empty)))).rest(Type::Any),
    Function::new("ternary", &[Type::Any, Type::Any, Type::Bool], |call| {
        Ok(call.arg(if call.bool(2) { 0 } else { 1 }).clone())
    }),
    Function::new("typeOf", &[Type::Any], |call| text(call.arg(0).type_name())),
    Function::new("kindOf", &[Type::Any], |call| text(call.arg(0).kind_name())),
    Function::new("typeIs", &[Type::Str, Type::Any], |call| {
        Ok(Value::Bool(call.arg(1).type_name() == call.str(0)))
    }),
    Function::new("kindIs", &[Type::Str, Type::Any], |call| {
        Ok(Value::Bool(call.arg(1).kind_name() == call.str(0)))
    }),
    Function::new("typeIsLike", &[Type::Str, Type::Any], |call| {
        let name = call.arg(1).type_name();
        Ok(Value::Bool(name == call.str(0) || name.strip_prefix('*') == Some(call.str(0))))
    }),
];

/// Returns true if Sprig considers a value empty. Structs are never empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(object) => match &**object {
            crate::object::Object::Files(files) => files.0.is_empty(),
            _ => false,
        },
        other => !other.truth(),
    }
}
