//! Sprig's arithmetic (`numeric.go`), on `int64` unless the name ends in `f`, and conversions to numbers.

use super::{Call, Function, Outcome, Type};
use crate::template::number::{go_float, go_integer};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("int", &[Type::Any], |call| Ok(Value::Int(to_int64(call.arg(0))))),
    Function::new("int64", &[Type::Any], |call| Ok(Value::Int64(to_int64(call.arg(0))))),
    Function::new("float64", &[Type::Any], |call| Ok(Value::Float(to_float(call.arg(0))))),
    Function::new("atoi", &[Type::Str], |call| {
        let text = call.str(0);
        let is_decimal = text.trim_start_matches(['+', '-']).bytes().all(|b| b.is_ascii_digit());
        Ok(Value::Int(text.parse().ok().filter(|_| is_decimal).unwrap_or(0)))
    }),
    Function::new("toDecimal", &[Type::Any], |call| {
        let text = crate::print::text(call.arg(0));
        Ok(Value::Int64(i64::from_str_radix(&text, 8).unwrap_or(0)))
    }),
    Function::new("add", &[], |call| fold(call, 0, |sum, number| Some(sum.wrapping_add(number))))
        .rest(Type::Any),
    Function::new("add1", &[Type::Any], |call| Ok(Value::Int64(to_int64(call.arg(0)).wrapping_add(1)))),
    Function::new("sub", &[Type::Any, Type::Any], |call| {
        Ok(Value::Int64(to_int64(call.arg(0)).wrapping_sub(to_int64(call.arg(1)))))
    }),
    Function::new("mul", &[Type::Any], |call| {
        fold(call, 1, |product, number| Some(product.wrapping_mul(number)))
    })
    .rest(Type::Any),
    Function::new("div", &[Type::Any, Type::Any], |call| divided(call, i64::checked_div)),
    Function::new("mod", &[Type::Any, Type::Any], |call| divided(call, i64::checked_rem)),
    Function::new("max", &[Type::Any], |call| first_and(call, i64::max)).rest(Type::Any),
    Function::new("biggest", &[Type::Any], |call| first_and(call, i64::max)).rest(Type::Any),
    Function::new("min", &[Type::Any], |call| first_and(call, i64::min)).rest(Type::Any),
    Function::new("addf", &[], |call| Ok(Value::Float(decimal_sum(call.args, |sum, number| sum + number))))
        .rest(Type::Any),
    Function::new("add1f", &[Type::Any], |call| Ok(Value::Float(exact(to_float(call.arg(0)) + 1.0)))),
    Function::new("subf", &[Type::Any], |call| {
        Ok(Value::Float(decimal_sum(call.args, |difference, number| difference - number)))
    })
    .rest(Type::Any),
    Function::new("mulf", &[Type::Any], |call| {
        Ok(Value::Float(decimal_sum(call.args, |product, number| product * number)))
    })
    .rest(Type::Any),
    Function::new("divf", &[Type::Any], |call| {
        Ok(Value::Float(decimal_sum(call.args, |quotient, number| quotient / number)))
    })
    .rest(Type::Any),
    Function::new("maxf", &[Type::Any], |call| Ok(Value::Float(reduced(call.args, f64::max))))
        .rest(Type::Any),
    Function::new("minf", &[Type::Any], |call| Ok(Value::Float(reduced(call.args, f64::min))))
        .rest(Type::Any),
    Function::new("floor", &[Type::Any], |call| Ok(Value::Float(to_float(call.arg(0)).floor()))),
    Function::new("ceil", &[Type::Any], |call| Ok(Value::Float(to_float(call.arg(0)).ceil()))),
    Function::new("round", &[Type::Any, Type::Int], round).rest(Type::Float),
];

/// Converts like `cast.ToInt64`.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(number) | Value::Int64(number) => *number,
        // On amd64, Go converts a float that is out of range to the minimum.
        Value::Float(float) if float.is_nan() || float.abs() >= 2f64.powi(63) => i64::MIN,
        Value::Float(float) => *float as i64,
        Value::Bool(flag) => i64::from(*flag),
        Value::Str(text) => {
            let text = trimmed_zero_decimal(text);
            go_integer(text).unwrap_or(0)
        }
        Value::Object(object) => match **object {
            crate::object::Object::Duration(nanoseconds) => nanoseconds,
            _ => 0,
        },
        Value::Missing | Value::Nil | Value::List(_) | Value::Map(_) => 0,
    }
}

/// Drops a fractional part that consists of zeros, like `cast`.
fn trimmed_zero_decimal(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && fraction.bytes().all(|b| b == b'0') => whole,
        _ => text,
    }
}

/// Converts like `cast.ToFloat64`.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Float(float) => *float,
        Value::Str(text) => go_float(text).unwrap_or(0.0),
        other => to_int64(other) as f64,
    }
}

fn fold(call: Call<'_>, start: i64, next: fn(i64, i64) -> Option<i64>) -> Outcome {
    let result = call.args.iter().map(to_int64).try_fold(start, next);
    result.map(Value::Int64).ok_or_else(|| "runtime error: integer overflow".into())
}

fn divided(call: Call<'_>, divide: fn(i64, i64) -> Option<i64>) -> Outcome {
    let (dividend, divisor) = (to_int64(call.arg(0)), to_int64(call.arg(1)));
    match divide(dividend, divisor) {
        Some(number) => Ok(Value::Int64(number)),
        None if divisor == 0 => Err("runtime error: integer divide by zero".into()),
        None => Ok(Value::Int64(dividend)),
    }
}

fn first_and(call: Call<'_>, choose: fn(i64, i64) -> i64) -> Outcome {
    Ok(Value::Int64(call.args.iter().map(to_int64).reduce(choose).unwrap_or(0)))
}

fn reduced(args: &[Value], next: fn(f64, f64) -> f64) -> f64 {
    args.iter().map(to_float).reduce(next).unwrap_or(0.0)
}

/// Computes with decimal numbers so that 0.1 + 0.2 is 0.3. Sprig uses `shopspring/decimal`.
fn decimal_sum(args: &[Value], next: fn(f64, f64) -> f64) -> f64 {
    exact(reduced(args, next))
}

/// Rounds to 15 significant digits, which hides the error of binary floats in such sums.
fn exact(float: f64) -> f64 {
    format!("{float:.14e}").parse().unwrap_or(float)
}

fn round(call: Call<'_>) -> Outcome {
    let number = to_float(call.arg(0));
    let places = i32::try_from(call.int(1)).unwrap_or(0);
    let half = match call.arg(2) {
        Value::Float(half) => *half,
        _ => 0.5,
    };
    let power = 10f64.powi(places);
    let digit = power * number;
    let (whole, fraction) = (digit.trunc(), digit.fract());
    let rounded = if fraction >= half { digit.ceil() } else { digit.floor() };
    Ok(Value::Float(if fraction == 0.0 { whole / power } else { rounded / power }))
}
