//! Sprig's functions for lists (`list.go`, `numeric.go`).

use std::collections::BTreeSet;

use super::{Call, Function, Outcome, Type};
use crate::fault::Fault;
use crate::value::{Element, List, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("list", &[], |call| Ok(Value::list(call.args.to_vec()))).rest(Type::Any),
    Function::new("tuple", &[], |call| Ok(Value::list(call.args.to_vec()))).rest(Type::Any),
    Function::new("first", &[Type::Any], |call| end(call, "find first", <[Value]>::first)),
    Function::new("mustFirst", &[Type::Any], |call| end(call, "find first", <[Value]>::first)),
    Function::new("last", &[Type::Any], |call| end(call, "find last", <[Value]>::last)),
    Function::new("mustLast", &[Type::Any], |call| end(call, "find last", <[Value]>::last)),
    Function::new("rest", &[Type::Any], |call| part(call, "find rest", 1, 0)),
    Function::new("mustRest", &[Type::Any], |call| part(call, "find rest", 1, 0)),
    Function::new("initial", &[Type::Any], |call| part(call, "find initial", 0, 1)),
    Function::new("mustInitial", &[Type::Any], |call| part(call, "find initial", 0, 1)),
    Function::new("append", &[Type::Any, Type::Any], append),
    Function::new("push", &[Type::Any, Type::Any], append),
    Function::new("mustAppend", &[Type::Any, Type::Any], append),
    Function::new("mustPush", &[Type::Any, Type::Any], append),
    Function::new("prepend", &[Type::Any, Type::Any], prepend),
    Function::new("mustPrepend", &[Type::Any, Type::Any], prepend),
    Function::new("concat", &[], concat).rest(Type::Any),
    Function::new("reverse", &[Type::Any], reverse),
    Function::new("mustReverse", &[Type::Any], reverse),
    Function::new("uniq", &[Type::Any], uniq),
    Function::new("mustUniq", &[Type::Any], uniq),
    Function::new("without", &[Type::Any], without).rest(Type::Any),
    Function::new("mustWithout", &[Type::Any], without).rest(Type::Any),
    Function::new("has", &[Type::Any, Type::Any], has),
    Function::new("mustHas", &[Type::Any, Type::Any], has),
    Function::new("compact", &[Type::Any], compact),
    Function::new("mustCompact", &[Type::Any], compact),
    Function::new("slice", &[Type::Any], slice).rest(Type::Any),
    Function::new("mustSlice", &[Type::Any], slice).rest(Type::Any),
    Function::new("chunk", &[Type::Int, Type::Any], chunk),
    Function::new("mustChunk", &[Type::Int, Type::Any], chunk),
    Function::new("until", &[Type::Int], |call| {
        let step = if call.int(0) < 0 { -1 } else { 1 };
        Ok(integers(range(call, 0, call.int(0), step)?))
    }),
    Function::new("untilStep", &[Type::Int, Type::Int, Type::Int], |call| {
        Ok(integers(range(call, call.int(0), call.int(1), call.int(2))?))
    }),
    Function::new("seq", &[], seq).rest(Type::Int),
];

fn end(call: Call<'_>, verb: &str, pick: fn(&[Value]) -> Option<&Value>) -> Outcome {
    Ok(pick(&call.list(0, verb)?.items).cloned().unwrap_or(Value::Nil))
}

fn part(call: Call<'_>, verb: &str, front: usize, back: usize) -> Outcome {
    let items = &call.list(0, verb)?.items;
    match items.len() {
        0 => Ok(Value::Nil),
        length => Ok(Value::list(items.get(front..length - back).unwrap_or_default().to_vec())),
    }
}

fn append(call: Call<'_>) -> Outcome {
    let list = call.list(0, "push")?;
    call.env.budget.list(list.items.len())?;
    Ok(Value::list(list.items.iter().chain([call.arg(1)]).cloned().collect()))
}

fn prepend(call: Call<'_>) -> Outcome {
    let list = call.list(0, "prepend")?;
    call.env.budget.list(list.items.len())?;
    Ok(Value::list([call.arg(1)].into_iter().chain(list.items.iter()).cloned().collect()))
}

fn concat(call: Call<'_>) -> Outcome {
    let mut items = Vec::new();
    for at in 0..call.args.len() {
        let list = call.list(at, "concat type")?;
        call.env.budget.list(items.len() + list.items.len())?;
        items.extend(list.items.iter().cloned());
    }
    Ok(Value::list(items))
}

fn reverse(call: Call<'_>) -> Outcome {
    Ok(Value::list(call.list(0, "find reverse")?.items.iter().rev().cloned().collect()))
}

/// Returns the distinct items. Looks up strings in a set, and compares other values one by one.
fn uniq(call: Call<'_>) -> Outcome {
    let list = call.list(0, "find uniq")?;
    let mut texts = BTreeSet::new();
    let mut distinct: Vec<Value> = Vec::new();
    for item in list.items.iter() {
        let is_new = match item {
            Value::Str(text) => texts.insert(text.clone()),
            other => {
                call.env.budget.work(distinct.len() as u64)?;
                !distinct.iter().any(|known| known.deep_equal(other))
            }
        };
        if is_new {
            distinct.push(item.clone());
        }
    }
    Ok(Value::list(distinct))
}

fn without(call: Call<'_>) -> Outcome {
    let list = call.list(0, "find without")?;
    let omitted = call.from(1);
    call.env.budget.work((list.items.len() as u64).saturating_mul(omitted.len() as u64))?;
    let rest = list.items.iter().filter(|item| !omitted.iter().any(|omitted| item.deep_equal(omitted)));
    Ok(Value::list(rest.cloned().collect()))
}

fn has(call: Call<'_>) -> Outcome {
    if call.arg(1).is_nil() {
        return Ok(Value::Bool(false));
    }
    let list = call.list(1, "find has")?;
    call.env.budget.work(list.items.len() as u64)?;
    Ok(Value::Bool(list.items.iter().any(|item| item.deep_equal(call.arg(0)))))
}

fn compact(call: Call<'_>) -> Outcome {
    let list = call.list(0, "compact")?;
    Ok(Value::list(list.items.iter().filter(|item| !super::types::is_empty(item)).cloned().collect()))
}

fn slice(call: Call<'_>) -> Outcome {
    let Value::List(List { items, element }) = call.arg(0) else {
        return Err(format!("list should be type of slice or array but {}", call.arg(0).kind_name()).into());
    };
    let bound = |at: usize, default: usize| match call.args.get(at) {
        Some(value) => usize::try_from(super::math::to_int64(value)).unwrap_or(usize::MAX),
        None => default,
    };
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let (from, to) = (bound(1, 0), bound(2, items.len()));
    match items.get(from..to) {
        Some(items) => Ok(Value::List(List { items: items.into(), element: *element })),
        None => Err("reflect: slice index out of bounds".into()),
    }
}

fn chunk(call: Call<'_>) -> Outcome {
    let list = call.list(1, "chunk type")?;
    let size = usize::try_from(call.int(0)).unwrap_or(0);
    if size == 0 {
        return Err("runtime error: integer divide by zero".into());
    }
    Ok(Value::list(list.items.chunks(size).map(|items| Value::list(items.to_vec())).collect()))
}

/// Counts from `start` to `stop`, exclusive.
fn range(call: Call<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, Fault> {
    if step == 0 || (step > 0 && stop < start) || (step < 0 && stop > start) {
        return Ok(Vec::new());
    }
    let count =
        (i128::from(stop) - i128::from(start)).unsigned_abs().div_ceil(u128::from(step.unsigned_abs()));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    call.env.budget.list(count)?;
    Ok((0..count).map(|at| start + i64::try_from(at).unwrap_or(0) * step).collect())
}

fn integers(numbers: Vec<i64>) -> Value {
    Value::List(List { items: numbers.into_iter().map(Value::Int).collect(), element: Element::Int })
}

/// Prints numbers like the command `seq`.
fn seq(call: Call<'_>) -> Outcome {
    let by_sign = |start: i64, end: i64| if end < start { -1 } else { 1 };
    let (start, step, end) = match call.args.len() {
        1 => (1, by_sign(1, call.int(0)), call.int(0)),
        2 => (call.int(0), by_sign(call.int(0), call.int(1)), call.int(1)),
        3 => (call.int(0), call.int(1), call.int(2)),
        _ => return Ok(Value::str("")),
    };
    if call.args.len() == 3 && (end < start && step > 0 || step == 0) {
        return Ok(Value::str(""));
    }
    let numbers = range(call, start, end.saturating_add(by_sign(start, end)), step)?;
    Ok(Value::str(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")))
}
