//! Sprig's functions for maps (`dict.go`). `set` and `unset` modify their argument.

use super::{Call, Function, Outcome, Type};
use crate::print::strval;
use crate::value::{Fields, Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("dict", &[], dict).rest(Type::Any),
    Function::new("get", &[Type::Map, Type::Str], |call| {
        Ok(call.map(0).and_then(|map| map.get(call.str(1))).unwrap_or_else(|| Value::str("")))
    }),
    Function::new("set", &[Type::Map, Type::Str, Type::Any], |call| {
        call.writable(0)?.insert(call.str(1), call.arg(2).clone());
        Ok(call.arg(0).clone())
    }),
    Function::new("unset", &[Type::Map, Type::Str], |call| {
        if let Some(map) = call.map(0) {
            map.borrow_mut().remove(call.str(1));
        }
        Ok(call.arg(0).clone())
    }),
    Function::new("hasKey", &[Type::Map, Type::Str], |call| {
        Ok(Value::Bool(call.map(0).is_some_and(|map| map.borrow().contains_key(call.str(1)))))
    }),
    Function::new("keys", &[], keys).rest(Type::Map),
    Function::new("values", &[Type::Map], |call| {
        Ok(Value::list(call.map(0).map(|map| map.borrow().values().cloned().collect()).unwrap_or_default()))
    }),
    Function::new("pick", &[Type::Map], pick).rest(Type::Str),
    Function::new("omit", &[Type::Map], omit).rest(Type::Str),
    Function::new("pluck", &[Type::Str], |call| {
        let maps = call.from(1).iter().filter_map(Value::as_map);
        Ok(Value::list(maps.filter_map(|map| map.get(call.str(0))).collect()))
    })
    .rest(Type::Map),
    Function::new("dig", &[], dig).rest(Type::Any),
    Function::new("deepCopy", &[Type::Any], deep_copy),
    Function::new("mustDeepCopy", &[Type::Any], deep_copy),
    Function::new("deepEqual", &[Type::Any, Type::Any], |call| {
        Ok(Value::Bool(call.arg(0).deep_equal(call.arg(1))))
    }),
];

fn dict(call: Call<'_>) -> Outcome {
    let mut fields = Fields::new();
    for pair in call.args.chunks(2) {
        if let Some(key) = pair.first() {
            fields.insert(strval(key).into(), pair.get(1).cloned().unwrap_or_else(|| Value::str("")));
        }
    }
    Ok(Value::map(fields))
}

/// Returns the sorted keys. Sprig's order is random, as for every Go map.
fn keys(call: Call<'_>) -> Outcome {
    let maps = call.args.iter().filter_map(Value::as_map);
    Ok(Value::strings(
        maps.flat_map(|map| map.snapshot().into_iter().map(|(key, _)| key)).collect::<Vec<_>>(),
    ))
}

fn pick(call: Call<'_>) -> Outcome {
    let wanted = call.from(1).iter().filter_map(Value::as_str);
    let fields = wanted.filter_map(|key| Some((key, call.map(0)?.get(key)?)));
    Ok(Value::Map(fields.collect::<Map>()))
}

fn omit(call: Call<'_>) -> Outcome {
    let mut fields = call.map(0).map(|map| map.borrow().clone()).unwrap_or_default();
    for key in call.from(1).iter().filter_map(Value::as_str) {
        fields.remove(key);
    }
    Ok(Value::map(fields))
}

fn dig(call: Call<'_>) -> Outcome {
    let [keys @ .., default, Value::Map(map)] = call.args else {
        return Err(match call.args.last() {
            _ if call.args.len() < 3 => "dig needs at least three arguments".into(),
            Some(other) => format!(
                "interface conversion: interface {{}} is {}, not map[string]interface {{}}",
                other.type_name()
            )
            .into(),
            None => "dig needs at least three arguments".into(),
        });
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut map = map.clone();
    for (at, key) in keys.iter().enumerate() {
        let Value::Str(key) = key else {
            return Err(
                format!("interface conversion: interface {{}} is {}, not string", key.type_name()).into()
            );
        };
        let Some(value) = map.get(key) else { return Ok(default.clone()) };
        if at + 1 == keys.len() {
            return Ok(value);
        }
        map = match value {
            Value::Map(inner) => inner,
            Value::Missing | Value::Nil => {
                return Err("interface conversion: interface {} is nil, not map[string]interface {}".into());
            }
            other => {
                let typ = other.type_name();
                let text =
                    format!("interface conversion: interface {{}} is {typ}, not map[string]interface {{}}");
                return Err(text.into());
            }
        };
    }
    Ok(default.clone())
}

fn deep_copy(call: Call<'_>) -> Outcome {
    call.env.budget.work(size(call.arg(0), 0)?)?;
    Ok(call.arg(0).deep_copy())
}

/// Counts the values inside a value before copying it. A map that contains itself cannot be copied.
fn size(value: &Value, depth: usize) -> Result<u64, crate::fault::Fault> {
    if depth > crate::print::MAX_DEPTH {
        return Err("the map contains itself".into());
    }
    let mut count = 1;
    match value {
        Value::Map(map) => {
            for value in map.borrow().values() {
                count += size(value, depth + 1)?;
            }
        }
        Value::List(list) => {
            for value in list.items.iter() {
                count += size(value, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(count)
}
