//! Evaluates an expression on an object and counts the steps.
//!
//! Values are borrowed from the object and the expression, so each step needs constant memory.

use std::borrow::Cow;
use std::rc::Rc;

use serde_json::Value;

use super::compare::kind;
use super::compile::Expr;
use super::make::make;
use crate::applier::Path;
use object::steps::{OutOfSteps, StepsLeft};

/// The path to a value in the object.
#[derive(Clone)]
enum Origin<'a> {
    Root,
    /// A field or item of another value.
    Below(Rc<(Origin<'a>, FieldStep<'a>)>),
    /// The value is not part of the object.
    Nowhere,
}

enum FieldStep<'a> {
    Key(Cow<'a, str>),
    Item(usize),
}

#[derive(Clone)]
pub(super) struct Node<'a> {
    pub(super) value: Cow<'a, Value>,
    origin: Origin<'a>,
}

/// The reason for stopping an evaluation early.
pub(super) enum Stop {
    /// The expression fails on a value. `?` and `//` catch this.
    Failed(String),
    /// No steps are left.
    Steps(OutOfSteps),
}

impl From<OutOfSteps> for Stop {
    fn from(reason: OutOfSteps) -> Self {
        Self::Steps(reason)
    }
}

static NULL: Value = Value::Null;

/// Returns the fields that an expression selects.
pub(super) fn paths(expression: &Expr, object: &Value, budget: &mut StepsLeft) -> Result<Vec<Path>, Stop> {
    let root = Node { value: Cow::Borrowed(object), origin: Origin::Root };
    let (found, ended) = results(expression, &root, budget);
    ended?;
    found.iter().map(|node| path(node, budget)).collect()
}

fn path(node: &Node<'_>, budget: &mut StepsLeft) -> Result<Path, Stop> {
    let mut names = Vec::new();
    let mut origin = &node.origin;
    while let Origin::Below(below) = origin {
        let (parent, step) = &**below;
        let name = match step {
            FieldStep::Key(key) => key.clone().into_owned(),
            FieldStep::Item(index) => index.to_string(),
        };
        budget.take_text(name.len())?;
        names.push(name);
        origin = parent;
    }
    match origin {
        Origin::Nowhere => Err(Stop::Failed("it names a value, not a field".into())),
        Origin::Root | Origin::Below(_) if names.is_empty() => {
            Err(Stop::Failed("it names the whole object".into()))
        }
        Origin::Root | Origin::Below(_) => {
            names.reverse();
            Ok(names)
        }
    }
}

pub(super) fn is_true(node: &Node<'_>) -> bool {
    !matches!(*node.value, Value::Null | Value::Bool(false))
}

/// Returns the results of an expression for an input, and the final status: results may precede a failure.
pub(super) fn results<'a>(
    expression: &'a Expr,
    input: &Node<'a>,
    budget: &mut StepsLeft,
) -> (Vec<Node<'a>>, Result<(), Stop>) {
    let mut results = Vec::new();
    let ended = evaluate(expression, input, budget, &mut results);
    (results, ended)
}

/// Appends the results of an expression for an input to `out`.
fn evaluate<'a>(
    expression: &'a Expr,
    input: &Node<'a>,
    budget: &mut StepsLeft,
    out: &mut Vec<Node<'a>>,
) -> Result<(), Stop> {
    budget.take(1)?;
    match expression {
        Expr::Identity => out.push(input.clone()),
        Expr::Recurse => recurse(input, budget, out)?,
        Expr::Constant(value) => out.push(Node { value: Cow::Borrowed(value), origin: Origin::Nowhere }),
        Expr::Index(target, key, optional) => indexed([target, key], *optional, input, budget, out)?,
        Expr::Iterate(target, optional) => {
            let (targets, ended) = results(target, input, budget);
            for target in &targets {
                unless_optional(*optional, iterate(target, budget, out))?;
            }
            ended?;
        }
        Expr::Pipe(left, right) => {
            let (lefts, ended) = results(left, input, budget);
            lefts.iter().try_for_each(|left| evaluate(right, left, budget, out))?;
            ended?;
        }
        Expr::Comma(left, right) => {
            evaluate(left, input, budget, out)?;
            evaluate(right, input, budget, out)?;
        }
        Expr::Alternative(left, right) => {
            let (mut lefts, ended) = results(left, input, budget);
            unless_optional(true, ended)?;
            lefts.retain(is_true);
            if lefts.is_empty() {
                evaluate(right, input, budget, out)?;
            }
            out.append(&mut lefts);
        }
        Expr::Try(body) => {
            unless_optional(true, evaluate(body, input, budget, out))?;
        }
        Expr::If(branches, otherwise) => branch(branches, otherwise, input, budget, out)?,
        Expr::Select(condition) => {
            let (conditions, ended) = results(condition, input, budget);
            out.extend(conditions.iter().filter(|condition| is_true(condition)).map(|_| input.clone()));
            ended?;
        }
        Expr::Empty => {}
        Expr::OfType(types) => out.extend(types.contains(&kind(&input.value)).then(|| input.clone())),
        Expr::And(..)
        | Expr::Or(..)
        | Expr::Compare(..)
        | Expr::Any(..)
        | Expr::All(..)
        | Expr::Not
        | Expr::Length
        | Expr::Type
        | Expr::Test(..)
        | Expr::Matches { .. } => {
            let mut made = Vec::new();
            let ended = make(expression, input, budget, &mut made);
            let node = |value| Node { value: Cow::Owned(value), origin: Origin::Nowhere };
            out.extend(made.into_iter().map(node));
            ended?;
        }
    }
    Ok(())
}

/// Turns a failure into `None` if `?` catches it.
fn unless_optional<T>(optional: bool, done: Result<T, Stop>) -> Result<Option<T>, Stop> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Stop::Failed(_)) if optional => Ok(None),
        Err(stop) => Err(stop),
    }
}

/// Appends the field or item at each key of each target to `out`.
fn indexed<'a>(
    [target, key]: [&'a Expr; 2],
    optional: bool,
    input: &Node<'a>,
    budget: &mut StepsLeft,
    out: &mut Vec<Node<'a>>,
) -> Result<(), Stop> {
    let (targets, ended) = results(target, input, budget);
    for target in &targets {
        let (keys, ended) = results(key, input, budget);
        for key in &keys {
            out.extend(unless_optional(optional, index(target, key, budget))?);
        }
        ended?;
    }
    ended
}

fn branch<'a>(
    branches: &'a [(Expr, Expr)],
    otherwise: &'a Expr,
    input: &Node<'a>,
    budget: &mut StepsLeft,
    out: &mut Vec<Node<'a>>,
) -> Result<(), Stop> {
    let Some(((condition, then), rest)) = branches.split_first() else {
        return evaluate(otherwise, input, budget, out);
    };
    let (conditions, ended) = results(condition, input, budget);
    for condition in &conditions {
        if is_true(condition) {
            evaluate(then, input, budget, out)?;
        } else {
            branch(rest, otherwise, input, budget, out)?;
        }
    }
    ended
}

fn below<'a>(parent: &Node<'a>, step: FieldStep<'a>, value: &'a Value) -> Node<'a> {
    let origin = match &parent.origin {
        Origin::Nowhere => Origin::Nowhere,
        origin @ (Origin::Root | Origin::Below(_)) => Origin::Below(Rc::new((origin.clone(), step))),
    };
    Node { value: Cow::Borrowed(value), origin }
}

/// Returns the borrowed value. Owned values come from an evaluation and are never lists or objects.
fn borrowed<'a>(node: &Node<'a>) -> Option<&'a Value> {
    match node.value {
        Cow::Borrowed(value) => Some(value),
        Cow::Owned(_) => None,
    }
}

fn index<'a>(target: &Node<'a>, key: &Node<'a>, budget: &mut StepsLeft) -> Result<Node<'a>, Stop> {
    budget.take(1)?;
    let text = match &key.value {
        Cow::Borrowed(Value::String(text)) => Some(Cow::Borrowed(text.as_str())),
        Cow::Owned(Value::String(text)) => Some(Cow::Owned(text.clone())),
        Cow::Borrowed(_) | Cow::Owned(_) => None,
    };
    let number = key.value.as_f64();
    match (borrowed(target), text, number) {
        (Some(Value::Object(fields)), Some(text), _) => {
            budget.take_text(text.len())?;
            let value = fields.get(&*text).unwrap_or(&NULL);
            Ok(below(target, FieldStep::Key(text), value))
        }
        (Some(Value::Null), Some(text), _) => Ok(below(target, FieldStep::Key(text), &NULL)),
        (Some(Value::Array(items)), _, Some(number)) => {
            // A negative index counts from the end. An index outside the list selects nothing.
            let at = number.trunc();
            #[expect(clippy::cast_precision_loss, reason = "a list has fewer items than 2^52")]
            let at = if at < 0.0 { at + items.len() as f64 } else { at };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
            let at = if at < 0.0 { usize::MAX } else { at as usize };
            Ok(below(target, FieldStep::Item(at), items.get(at).unwrap_or(&NULL)))
        }
        (Some(Value::Null), _, Some(_)) => Ok(below(target, FieldStep::Item(usize::MAX), &NULL)),
        _ => {
            failed(&format!("a value of type {} has nothing at a {}", kind(&target.value), kind(&key.value)))
        }
    }
}

/// Appends the direct children of a list or object to `out`.
fn iterate<'a>(target: &Node<'a>, budget: &mut StepsLeft, out: &mut Vec<Node<'a>>) -> Result<(), Stop> {
    match borrowed(target) {
        Some(Value::Object(fields)) => {
            budget.take(fields.len())?;
            let field = |(name, value): (&'a String, &'a Value)| {
                below(target, FieldStep::Key(Cow::Borrowed(name)), value)
            };
            out.extend(fields.iter().map(field));
            Ok(())
        }
        Some(Value::Array(items)) => {
            budget.take(items.len())?;
            out.extend(items.iter().enumerate().map(|(at, item)| below(target, FieldStep::Item(at), item)));
            Ok(())
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {
            failed(&format!("a value of type {} cannot be iterated over", kind(&target.value)))
        }
    }
}

/// Appends a value and all its descendants to `out`. A manifest has at most 128 levels.
fn recurse<'a>(node: &Node<'a>, budget: &mut StepsLeft, out: &mut Vec<Node<'a>>) -> Result<(), Stop> {
    budget.take(1)?;
    out.push(node.clone());
    let mut items = Vec::new();
    if matches!(*node.value, Value::Array(_) | Value::Object(_)) {
        iterate(node, budget, &mut items)?;
    }
    items.iter().try_for_each(|item| recurse(item, budget, out))
}

pub(super) fn failed<T>(reason: &str) -> Result<T, Stop> {
    Err(Stop::Failed(reason.to_owned()))
}
