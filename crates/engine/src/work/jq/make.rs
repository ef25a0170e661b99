//! Evaluates expressions that create values rather than select fields.

use std::cmp::Ordering;

use serde_json::Value;

use super::compare::{compare, contains, kind};
use super::compile::{Expr, Test};
use super::evaluate::{Node, Stop, failed, is_true, results};
use object::steps::StepsLeft;

/// Appends the results of a value-creating expression to `out`.
pub(super) fn make<'a>(
    expression: &'a Expr,
    input: &Node<'a>,
    budget: &mut StepsLeft,
    out: &mut Vec<Value>,
) -> Result<(), Stop> {
    let value = &*input.value;
    match expression {
        Expr::And(left, right) => both([left, right], true, input, budget, out),
        Expr::Or(left, right) => both([left, right], false, input, budget, out),
        Expr::Compare(left, comparison, right) => {
            let (rights, ended) = results(right, input, budget);
            for right in &rights {
                let (lefts, ended) = results(left, input, budget);
                for left in &lefts {
                    let order = compare(&left.value, &right.value, budget)?;
                    out.push(comparison.run(&order, &Ordering::Equal).into());
                }
                ended?;
            }
            ended
        }
        Expr::Any(values, condition) => quantified([values, condition], true, input, budget, out),
        Expr::All(values, condition) => quantified([values, condition], false, input, budget, out),
        Expr::Not => {
            out.push((!is_true(input)).into());
            Ok(())
        }
        Expr::Length => {
            out.push(length(value, budget)?);
            Ok(())
        }
        Expr::Type => {
            out.push(kind(value).into());
            Ok(())
        }
        Expr::Test(test, argument) => {
            let (arguments, ended) = results(argument, input, budget);
            for argument in &arguments {
                out.push(asked(*test, value, &argument.value, budget)?.into());
            }
            ended
        }
        Expr::Matches { regex, size } => {
            let Value::String(text) = value else {
                return failed(&format!("a value of type {} cannot be matched", kind(value)));
            };
            // Each byte may lead to as many states as the expression has.
            budget.take_text(text.len().saturating_mul((size / 4096).max(1)))?;
            out.push(regex.is_match(text).into());
            Ok(())
        }
        Expr::Identity
        | Expr::Recurse
        | Expr::Constant(_)
        | Expr::Index(..)
        | Expr::Iterate(..)
        | Expr::Pipe(..)
        | Expr::Comma(..)
        | Expr::Alternative(..)
        | Expr::Try(_)
        | Expr::If(..)
        | Expr::Select(_)
        | Expr::Empty
        | Expr::OfType(_) => Ok(()),
    }
}

/// Appends the results of `and` or `or` to `out`. The right side is evaluated only if the left side equals
/// `goes_on`.
fn both<'a>(
    [left, right]: [&'a Expr; 2],
    goes_on: bool,
    input: &Node<'a>,
    budget: &mut StepsLeft,
    out: &mut Vec<Value>,
) -> Result<(), Stop> {
    let (lefts, ended) = results(left, input, budget);
    for left in &lefts {
        if is_true(left) == goes_on {
            let (rights, ended) = results(right, input, budget);
            out.extend(rights.iter().map(|right| Value::Bool(is_true(right))));
            ended?;
        } else {
            out.push((!goes_on).into());
        }
    }
    ended
}

/// Appends `sought` to `out` if the condition equals `sought` for any of the values, or else the opposite.
fn quantified<'a>(
    [values, condition]: [&'a Expr; 2],
    sought: bool,
    input: &Node<'a>,
    budget: &mut StepsLeft,
    out: &mut Vec<Value>,
) -> Result<(), Stop> {
    let (values, ended) = results(values, input, budget);
    for value in &values {
        let (conditions, ended) = results(condition, value, budget);
        if conditions.iter().any(|condition| is_true(condition) == sought) {
            out.push(sought.into());
            return Ok(());
        }
        ended?;
    }
    ended?;
    out.push((!sought).into());
    Ok(())
}

fn length(value: &Value, budget: &mut StepsLeft) -> Result<Value, Stop> {
    Ok(match value {
        Value::Null => 0.into(),
        Value::Bool(_) => return failed("a value of type boolean has no length"),
        Value::Number(number) => number.as_f64().map(f64::abs).into(),
        Value::String(text) => {
            budget.take_text(text.len())?;
            text.chars().count().into()
        }
        Value::Array(items) => items.len().into(),
        Value::Object(fields) => fields.len().into(),
    })
}

fn asked(test: Test, value: &Value, argument: &Value, budget: &mut StepsLeft) -> Result<bool, Stop> {
    match (test, value, argument) {
        (Test::Has, Value::Object(fields), Value::String(name)) => {
            budget.take_text(name.len())?;
            Ok(fields.contains_key(name))
        }
        (Test::Has, Value::Array(items), Value::Number(at)) => {
            let at = at.as_u64().and_then(|at| usize::try_from(at).ok());
            Ok(at.is_some_and(|at| at < items.len()))
        }
        (Test::StartsWith, Value::String(text), Value::String(part)) => {
            budget.take_text(part.len())?;
            Ok(text.starts_with(part))
        }
        (Test::EndsWith, Value::String(text), Value::String(part)) => {
            budget.take_text(part.len())?;
            Ok(text.ends_with(part))
        }
        (Test::Contains, ..) => contains(value, argument, budget),
        (Test::Has | Test::StartsWith | Test::EndsWith, ..) => failed(&format!(
            "{} does not take a value of type {} and one of type {}",
            test.name(),
            kind(value),
            kind(argument)
        )),
    }
}
