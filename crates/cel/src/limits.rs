//! Rejects parsed expressions whose evaluation could take too much time or memory in a single step.

use std::cell::RefCell;
use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use object::pattern::compile_within;

use super::MAX_DEPTH;

/// The largest argument of `lists.range`. The CEL crate allocates the whole list at once.
pub const MAX_RANGE: i64 = 1000;
/// The largest precision for `format`. 17 digits represent a number exactly, but the CEL crate writes as many as
/// requested: 64 KiB for `%.65535f`.
const MAX_PRECISION: u32 = 100;
/// Maximum total size in bytes of the compiled regular expressions in an expression. The CEL crate compiles them
/// at every evaluation, which takes about 2 ms at this size.
const MAX_PATTERNS: usize = 512 << 10;
/// Size in bytes of a compiled regular expression that costs one evaluation step, of about 2 µs.
const PATTERN_BYTES_PER_STEP: usize = 512;

/// Maximum number of cached sizes per thread.
const MAX_SIZES: usize = 1000;

thread_local! {
    /// The sizes of recently used regular expressions.
    static SIZES: RefCell<BTreeMap<String, Option<usize>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Checks an expression.
///
/// # Errors
/// Fails if the expression exceeds a limit.
pub(crate) fn check(expression: &IdedExpr) -> Result<(), String> {
    let mut patterns = MAX_PATTERNS;
    check_below(expression, MAX_DEPTH, &mut patterns)
}

/// Checks an expression with the remaining levels of nesting and bytes of regular expressions.
fn check_below(expression: &IdedExpr, levels: usize, patterns: &mut usize) -> Result<(), String> {
    let Some(levels) = levels.checked_sub(1) else {
        return Err(format!("the expression is nested more than {MAX_DEPTH} levels deep"));
    };
    let mut check = |part: &IdedExpr| check_below(part, levels, patterns);
    let mut entry = |entry: &EntryExpr| match entry {
        EntryExpr::StructField(field) => check(&field.value),
        EntryExpr::MapEntry(entry) => check(&entry.key).and_then(|()| check(&entry.value)),
    };
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Ok(()),
        Expr::Select(select) => check(&select.operand),
        Expr::List(list) => list.elements.iter().try_for_each(check),
        Expr::Map(map) => map.entries.iter().try_for_each(|of| entry(&of.expr)),
        Expr::Struct(message) => message.entries.iter().try_for_each(|of| entry(&of.expr)),
        Expr::Call(call) => {
            call.target.iter().try_for_each(|target| check(target))?;
            call.args.iter().try_for_each(check)?;
            check_call(call, patterns)
        }
        Expr::Comprehension(of) => {
            let parts = [&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result];
            parts.into_iter().try_for_each(check)
        }
    }
}

fn check_call(call: &CallExpr, patterns: &mut usize) -> Result<(), String> {
    match call.func_name.as_str() {
        "range" | "lists.range" => match call.args.first().map(|argument| &argument.expr) {
            Some(Expr::Literal(LiteralValue::Int(length))) if *length.inner() <= MAX_RANGE => Ok(()),
            _ => Err(format!("the argument of lists.range must be a literal of at most {MAX_RANGE}")),
        },
        "format" => match literal(call, 0) {
            Some(text) if precisions(text).into_iter().all(|precision| precision <= MAX_PRECISION) => Ok(()),
            Some(_) => Err(format!("the precision in format must be at most {MAX_PRECISION}")),
            None => Err("the format string must be a string literal".into()),
        },
        name if is_pattern(name) => {
            let Some(pattern) = literal(call, 1) else {
                return Err(format!("the regular expression of {name} must be a string literal"));
            };
            let rest = size(pattern).and_then(|size| patterns.checked_sub(size));
            *patterns =
                rest.ok_or_else(|| format!("the regular expression of {name} is invalid or too large"))?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_pattern(function: &str) -> bool {
    matches!(function, "matches" | "find" | "findAll")
}

/// Returns the number of steps for compiling the regular expression of a call, or 0 if it has none.
#[must_use]
pub fn pattern_steps(call: &CallExpr) -> usize {
    let pattern = is_pattern(&call.func_name).then(|| literal(call, 1)).flatten();
    pattern.map_or(0, |pattern| size(pattern).unwrap_or(MAX_PATTERNS) / PATTERN_BYTES_PER_STEP)
}

/// Returns a part of a call if it is a string literal. Part 0 is the receiver.
fn literal(call: &CallExpr, part: usize) -> Option<&str> {
    let part = call.target.iter().map(|target| &**target).chain(&call.args).nth(part)?;
    match &part.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Returns the precisions in a format string.
fn precisions(text: &str) -> Vec<u32> {
    let without_signs = text.replace("%%", " ");
    let parts = without_signs.split('%').filter_map(|part| part.strip_prefix('.'));
    let digits = parts.map(|part| part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    digits.filter(|digits| !digits.is_empty()).map(|digits| digits.parse().unwrap_or(u32::MAX)).collect()
}

/// Returns the size in bytes of the compiled regular expression, if it is valid and not too large.
fn size(pattern: &str) -> Option<usize> {
    let known = SIZES.with_borrow(|sizes| sizes.get(pattern).copied());
    known.unwrap_or_else(|| {
        let mut left = MAX_PATTERNS;
        let size = compile_within(pattern, &mut left).ok().map(|_| MAX_PATTERNS - left);
        SIZES.with_borrow_mut(|sizes| {
            if sizes.len() >= MAX_SIZES {
                sizes.clear();
            }
            sizes.insert(pattern.to_owned(), size);
        });
        size
    })
}
