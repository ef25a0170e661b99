//! Evaluates a path on a value, counting the steps.
//!
//! The evaluator of jsonpath-rust has no limit, and stores a text for each value it visits. This one borrows
//! values, so a step takes a fixed amount of memory.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, Literal, Segment, Selector, SingularQuery,
    SingularQuerySegment, Test,
};
use serde_json::Value;

use crate::steps::{OutOfSteps, StepsLeft};

/// A value and its location.
#[derive(Clone)]
pub(super) struct LocatedNode<'a> {
    pub(super) value: &'a Value,
    /// The last step to the value; `None` for the value at which the query starts.
    origin: Option<Rc<Origin<'a>>>,
}

struct Origin<'a> {
    parent: Option<Rc<Origin<'a>>>,
    step: FieldStep<'a>,
}

enum FieldStep<'a> {
    Key(&'a str),
    Item(usize),
}

impl<'a> LocatedNode<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, origin: None }
    }

    fn below(&self, step: FieldStep<'a>, value: &'a Value) -> Self {
        Self { value, origin: Some(Rc::new(Origin { parent: self.origin.clone(), step })) }
    }

    /// Returns the location of the value: field names and decimal list indexes.
    pub(super) fn place(&self, steps: &mut StepsLeft) -> Result<Vec<String>, OutOfSteps> {
        let mut names = Vec::new();
        let mut origin = &self.origin;
        while let Some(below) = origin {
            let name = match below.step {
                FieldStep::Key(key) => key.to_owned(),
                FieldStep::Item(at) => at.to_string(),
            };
            steps.take_text(name.len())?;
            names.push(name);
            origin = &below.parent;
        }
        names.reverse();
        Ok(names)
    }
}

/// The root value of an evaluation, and the remaining steps.
pub(super) struct Evaluation<'a, 's> {
    pub(super) root: &'a Value,
    pub(super) steps: &'s mut StepsLeft,
}

impl<'a> Evaluation<'a, '_> {
    /// Returns the values that segments select. A value that is reached twice appears twice.
    pub(super) fn query(
        &mut self,
        segments: &[Segment],
        from: &'a Value,
    ) -> Result<Vec<LocatedNode<'a>>, OutOfSteps> {
        segments
            .iter()
            .try_fold(vec![LocatedNode::root(from)], |nodes, segment| self.segment(segment, &nodes))
    }

    fn segment(
        &mut self,
        segment: &Segment,
        nodes: &[LocatedNode<'a>],
    ) -> Result<Vec<LocatedNode<'a>>, OutOfSteps> {
        let mut found = Vec::new();
        match segment {
            Segment::Descendant(below) => {
                nodes.iter().try_for_each(|node| self.descend(node, &mut found))?;
                return self.segment(below, &found);
            }
            Segment::Selector(selector) => {
                nodes.iter().try_for_each(|node| self.select(selector, node, &mut found))?;
            }
            Segment::Selectors(selectors) => {
                for selector in selectors {
                    nodes.iter().try_for_each(|node| self.select(selector, node, &mut found))?;
                }
            }
        }
        Ok(found)
    }

    /// Adds each list and object at or below a value. A value parsed from JSON has at most 128 levels.
    fn descend(&mut self, node: &LocatedNode<'a>, out: &mut Vec<LocatedNode<'a>>) -> Result<(), OutOfSteps> {
        if matches!(node.value, Value::Array(_) | Value::Object(_)) {
            out.push(node.clone());
            self.children(node)?.iter().try_for_each(|child| self.descend(child, out))?;
        }
        Ok(())
    }

    fn children(&mut self, node: &LocatedNode<'a>) -> Result<Vec<LocatedNode<'a>>, OutOfSteps> {
        Ok(match node.value {
            Value::Object(fields) => {
                self.steps.take(fields.len())?;
                fields.iter().map(|(name, value)| node.below(FieldStep::Key(name), value)).collect()
            }
            Value::Array(items) => {
                self.steps.take(items.len())?;
                items.iter().enumerate().map(|(at, item)| node.below(FieldStep::Item(at), item)).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        })
    }

    fn select(
        &mut self,
        selector: &Selector,
        node: &LocatedNode<'a>,
        out: &mut Vec<LocatedNode<'a>>,
    ) -> Result<(), OutOfSteps> {
        self.steps.take(1)?;
        match (selector, node.value) {
            (Selector::Name(name), Value::Object(fields)) => {
                self.steps.take_text(name.len())?;
                let field = fields.get_key_value(name);
                out.extend(field.map(|(name, value)| node.below(FieldStep::Key(name), value)));
            }
            (Selector::Index(at), Value::Array(items)) => {
                let item = |at: usize| Some(node.below(FieldStep::Item(at), items.get(at)?));
                out.extend(position(*at, items.len()).and_then(item));
            }
            (Selector::Slice(start, end, step), Value::Array(items)) => {
                let places = slice([*start, *end, *step], items.len());
                self.steps.take(places.len())?;
                let item = |at: usize| Some(node.below(FieldStep::Item(at), items.get(at)?));
                out.extend(places.into_iter().filter_map(item));
            }
            (Selector::Wildcard, _) => out.extend(self.children(node)?),
            (Selector::Filter(filter), _) => {
                for child in self.children(node)? {
                    if self.holds(filter, child.value)? {
                        out.push(child);
                    }
                }
            }
            (Selector::Name(_) | Selector::Index(_) | Selector::Slice(..), _) => {}
        }
        Ok(())
    }

    fn holds(&mut self, filter: &Filter, item: &'a Value) -> Result<bool, OutOfSteps> {
        self.steps.take(1)?;
        match filter {
            Filter::Or(filters) => {
                filters.iter().try_fold(false, |result, filter| Ok(result || self.holds(filter, item)?))
            }
            Filter::And(filters) => {
                filters.iter().try_fold(true, |result, filter| Ok(result && self.holds(filter, item)?))
            }
            Filter::Atom(FilterAtom::Filter { expr, not }) => Ok(self.holds(expr, item)? != *not),
            Filter::Atom(FilterAtom::Test { expr, not }) => {
                let found = match &**expr {
                    Test::RelQuery(segments) => self.query(segments, item)?,
                    Test::AbsQuery(query) => self.query(&query.segments, self.root)?,
                    Test::Function(_) => Vec::new(),
                };
                Ok(found.is_empty() == *not)
            }
            Filter::Atom(FilterAtom::Comparison(comparison)) => self.compares(comparison, item),
        }
    }

    fn compares(&mut self, comparison: &Comparison, item: &'a Value) -> Result<bool, OutOfSteps> {
        let (left, right) = comparison.vals();
        let (left, right) = (self.operand(left, item)?, self.operand(right, item)?);
        let order = match (left, right) {
            (Some(left), Some(right)) => order(&left, &right, self.steps)?,
            (None, None) => Some(Ordering::Equal),
            (Some(_), None) | (None, Some(_)) => None,
        };
        Ok(match comparison {
            Comparison::Eq(..) => order.is_some_and(Ordering::is_eq),
            Comparison::Ne(..) => !order.is_some_and(Ordering::is_eq),
            Comparison::Gt(..) => order.is_some_and(Ordering::is_gt),
            Comparison::Gte(..) => order.is_some_and(Ordering::is_ge),
            Comparison::Lt(..) => order.is_some_and(Ordering::is_lt),
            Comparison::Lte(..) => order.is_some_and(Ordering::is_le),
        })
    }

    fn operand(
        &mut self,
        operand: &Comparable,
        item: &'a Value,
    ) -> Result<Option<Cow<'a, Value>>, OutOfSteps> {
        let (from, segments) = match operand {
            Comparable::Literal(literal) => return Ok(Some(Cow::Owned(value(literal)))),
            Comparable::Function(_) => return Ok(None),
            Comparable::SingularQuery(SingularQuery::Current(segments)) => (item, segments),
            Comparable::SingularQuery(SingularQuery::Root(segments)) => (self.root, segments),
        };
        self.steps.take(segments.len())?;
        let found = segments.iter().try_fold(from, |value, segment| match (segment, value) {
            (SingularQuerySegment::Name(name), Value::Object(fields)) => fields.get(name),
            (SingularQuerySegment::Index(at), Value::Array(items)) => items.get(position(*at, items.len())?),
            (SingularQuerySegment::Name(_) | SingularQuerySegment::Index(_), _) => None,
        });
        Ok(found.map(Cow::Borrowed))
    }
}

fn value(literal: &Literal) -> Value {
    match literal {
        Literal::Int(number) => (*number).into(),
        Literal::Float(number) => (*number).into(),
        Literal::String(text) => text.as_str().into(),
        Literal::Bool(truth) => (*truth).into(),
        Literal::Null => Value::Null,
    }
}

/// Returns the order of two numbers or two strings; other values are equal or unordered.
fn order(left: &Value, right: &Value, steps: &mut StepsLeft) -> Result<Option<Ordering>, OutOfSteps> {
    Ok(match (left, right) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64().partial_cmp(&b.as_f64()),
        },
        (Value::String(a), Value::String(b)) => {
            steps.take_text(a.len().min(b.len()))?;
            Some(a.cmp(b))
        }
        (left, right) => {
            take_whole(left, steps)?;
            (left == right).then_some(Ordering::Equal)
        }
    })
}

/// Takes the steps for a value and everything below it.
fn take_whole(value: &Value, steps: &mut StepsLeft) -> Result<(), OutOfSteps> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => steps.take(1),
        Value::String(text) => steps.take_text(text.len()),
        Value::Array(items) => {
            steps.take(1)?;
            items.iter().try_for_each(|item| take_whole(item, steps))
        }
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            steps.take_text(name.len())?;
            take_whole(value, steps)
        }),
    }
}

/// Resolves an index into a list; a negative index counts from the end.
fn position(index: i64, count: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(at) => Some(at),
        Err(_) => count.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

/// Returns the indexes that `[start:end:step]` selects (RFC 9535, section 2.3.4.2).
fn slice([start, end, step]: [Option<i64>; 3], count: usize) -> Vec<usize> {
    let Ok(count) = i64::try_from(count) else { return Vec::new() };
    let step = step.unwrap_or(1);
    let from_start = |at: i64| if at < 0 { at + count } else { at };
    let place = |at: &i64| usize::try_from(*at).ok();
    let next = |at: &i64| at.checked_add(step);
    if step > 0 {
        let start = from_start(start.unwrap_or(0)).clamp(0, count);
        let end = from_start(end.unwrap_or(count)).clamp(0, count);
        let places = std::iter::successors(Some(start), next).take_while(|at| *at < end);
        places.filter_map(|at| place(&at)).collect()
    } else if step < 0 {
        let start = start.map_or(count - 1, from_start).clamp(-1, count - 1);
        let end = end.map_or(-1, from_start).clamp(-1, count - 1);
        let places = std::iter::successors(Some(start), next).take_while(|at| *at > end);
        places.filter_map(|at| place(&at)).collect()
    } else {
        Vec::new()
    }
}
