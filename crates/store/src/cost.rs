//! Estimates the cost of CEL rules before they are evaluated, because a running evaluation cannot be stopped.
//!
//! The estimate uses the sizes of the actual values, just as kube-apiserver uses the limits in the schema
//! (KEP-2876). It is coarse: for each element, every list counts as being as long as the longest list in the
//! object.

use kube_cel::CompiledSchema;
use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr};
use serde_json::Value;

/// The steps that the rules of one object may take: a second or two of evaluation (apiserver `PerCallLimit`).
pub(super) const BUDGET: f64 = 1e6;

/// Functions whose result is as small as a boolean or number.
const SMALL: [&str; 16] = [
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_&&_",
    "_||_",
    "!_",
    "@in",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "size",
    "indexOf",
];

/// The length of the longest list from `lists.range`.
#[expect(clippy::cast_precision_loss, reason = "a bound needs no precision")]
const RANGE: f64 = cel::MAX_RANGE as f64;

/// Upper bounds for an expression.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bound {
    steps: f64,
    /// The length of the longest list or map in the value.
    length: f64,
    /// The number of values in the value, plus one for every 16 bytes of text.
    weight: f64,
}

/// Counts the steps of consecutive expressions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    /// The bound for each variable.
    known: Bound,
    steps: f64,
}

impl Meter {
    /// Creates a meter for expressions over these values.
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        Self { known: values.map(measure).fold(Bound::default(), Bound::or), steps: 0.0 }
    }

    /// Adds the steps of an expression; returns the upper bound of its value.
    ///
    /// # Errors
    /// Returns an error if the expressions so far might exceed [`BUDGET`]. The expression must then not be
    /// evaluated.
    pub(super) fn spend(&mut self, expression: &Expr) -> Result<Bound, String> {
        let bound = Estimate { known: self.known, variables: Vec::new() }.of(expression);
        self.steps += bound.steps;
        if self.steps > BUDGET {
            return Err("validation failed due to running out of cost budget".into());
        }
        Ok(bound)
    }

    /// Adds a variable whose value has this bound.
    pub(super) fn know(&mut self, value: Bound) {
        self.known = self.known.or(value);
    }
}

impl Bound {
    /// Returns the bound of a value that is one of two.
    fn or(self, other: Self) -> Self {
        Self { steps: 1.0, length: self.length.max(other.length), weight: self.weight.max(other.weight) }
    }
}

/// Returns the steps that the rules of a schema may take on a value; `old` is the previous value.
pub(super) fn steps(rules: &CompiledSchema, value: &Value, old: Option<&Value>) -> f64 {
    below(rules, value, old.map(measure).unwrap_or_default())
}

fn below(rules: &CompiledSchema, value: &Value, old: Bound) -> f64 {
    let mut steps = 0.0;
    if !rules.validations.is_empty() {
        let here = measure(value);
        let known = here.or(old);
        let programs = rules
            .validations
            .iter()
            .flatten()
            .flat_map(|rule| std::iter::once(&rule.program).chain(&rule.message_program));
        steps += programs.map(|program| of_program(program, known)).sum::<f64>();
    }
    let alternatives = rules.all_of.iter().chain(&rules.any_of).chain(&rules.one_of);
    steps += alternatives.map(|rules| below(rules, value, old)).sum::<f64>();
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let rules = rules.properties.get(name).or(rules.additional_properties.as_deref());
                steps += rules.map_or(0.0, |rules| below(rules, field, old));
            }
        }
        Value::Array(items) => {
            if let Some(rules) = &rules.items {
                steps += items.iter().map(|item| below(rules, item, old)).sum::<f64>();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    steps
}

#[expect(clippy::cast_precision_loss, reason = "a bound needs no precision")]
fn number(of: usize) -> f64 {
    of as f64
}

fn measure(value: &Value) -> Bound {
    let all =
        |values: &mut dyn Iterator<Item = &Value>, count: usize| {
            values.map(measure).fold(Bound { steps: 0.0, length: number(count), weight: 1.0 }, |sum, one| {
                Bound { steps: 0.0, length: sum.length.max(one.length), weight: sum.weight + one.weight }
            })
        };
    match value {
        Value::Array(items) => all(&mut items.iter(), items.len()),
        Value::Object(fields) => all(&mut fields.values(), fields.len()),
        Value::String(text) => Bound { weight: 1.0 + number(text.len()) / 16.0, ..Bound::default() },
        Value::Null | Value::Bool(_) | Value::Number(_) => Bound { weight: 1.0, ..Bound::default() },
    }
}

fn of_program(program: &Program, known: Bound) -> f64 {
    Estimate { known, variables: Vec::new() }.of(&program.expression().expr).steps
}

struct Estimate {
    /// The bound for `self` and `oldSelf`.
    known: Bound,
    variables: Vec<(String, Bound)>,
}

impl Estimate {
    fn of(&mut self, expression: &Expr) -> Bound {
        match expression {
            Expr::Unspecified => Bound::default(),
            Expr::Ident(name) => {
                let variable = self.variables.iter().rev().find(|(variable, _)| variable == name);
                Bound { steps: 1.0, ..variable.map_or(self.known, |(_, bound)| *bound) }
            }
            Expr::Literal(literal) => {
                Bound { steps: 1.0, length: 0.0, weight: 1.0 + number(format!("{literal:?}").len()) / 16.0 }
            }
            Expr::Select(select) => {
                let operand = self.of(&select.operand.expr);
                Bound { steps: operand.steps + 1.0, ..operand }
            }
            Expr::List(list) => self.all(list.elements.iter().map(|element| &element.expr)),
            Expr::Map(map) => self.all(map.entries.iter().flat_map(|entry| parts(&entry.expr))),
            Expr::Struct(message) => self.all(message.entries.iter().flat_map(|entry| parts(&entry.expr))),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// Returns the total cost of several expressions.
    fn all<'e>(&mut self, parts: impl Iterator<Item = &'e Expr>) -> Bound {
        let (mut sum, mut count) = (Bound { steps: 1.0, length: 0.0, weight: 1.0 }, 0);
        for part in parts {
            let one = self.of(part);
            count += 1;
            sum.steps += one.steps;
            sum.length = sum.length.max(one.length);
            sum.weight += one.weight;
        }
        Bound { length: sum.length.max(number(count)), ..sum }
    }

    fn call(&mut self, call: &CallExpr) -> Bound {
        let target = call.target.iter().map(|target| &target.expr);
        let operands: Vec<Bound> = target
            .chain(call.args.iter().map(|argument| &argument.expr))
            .map(|operand| self.of(operand))
            .collect();
        let steps = 1.0 + operands.iter().map(|operand| operand.steps).sum::<f64>();
        let weight = operands.iter().map(|operand| operand.weight).sum::<f64>();
        let length = operands.iter().map(|operand| operand.length).fold(0.0, f64::max);
        match call.func_name.as_str() {
            "contains" | "equivalent" | "intersects" if cel::library(call) == Some("sets") => {
                Bound { steps: steps + length * length, length: 0.0, weight: 1.0 }
            }
            "distinct" => Bound { steps: steps + length * length, length, weight },
            "matches" | "contains" => {
                let steps = steps + weight + number(cel::pattern_steps(call));
                Bound { steps, length: 0.0, weight: 1.0 }
            }
            "range" | "lists.range" => Bound { steps, length: RANGE, weight: RANGE },
            "flatten" => Bound { steps: steps + weight, length: weight, weight },
            name if SMALL.contains(&name) => Bound { steps, length: 0.0, weight: 1.0 },
            "_+_" => {
                let length = operands.iter().map(|operand| operand.length).sum();
                Bound { steps: steps + weight / 16.0, length, weight }
            }
            "split" | "findAll" | "find" => {
                let steps = steps + weight + number(cel::pattern_steps(call));
                Bound { steps, length: weight * 16.0, weight: weight * 16.0 }
            }
            "replace" | "join" | "format" => {
                let weight = operands.iter().map(|operand| operand.weight * 16.0).product::<f64>();
                Bound { steps: steps + weight / 16.0, length, weight }
            }
            _ => Bound { steps, length, weight },
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Bound {
        let range = self.of(&comprehension.iter_range.expr);
        let first = self.of(&comprehension.accu_init.expr);
        let times = range.length.max(1.0);
        let element = Bound { steps: 1.0, length: range.length, weight: range.weight / times };
        let before = self.variables.len();
        let names = std::iter::once(&comprehension.iter_var).chain(&comprehension.iter_var2);
        self.variables.extend(names.map(|name| (name.clone(), element)));
        self.variables.push((comprehension.accu_var.clone(), Bound::default()));
        let condition = self.of(&comprehension.loop_cond.expr);
        let step = self.of(&comprehension.loop_step.expr);
        self.variables.truncate(before);
        let gathered =
            Bound { steps: 1.0, length: times.max(step.length), weight: first.weight + times * step.weight };
        self.variables.push((comprehension.accu_var.clone(), gathered));
        let result = self.of(&comprehension.result.expr);
        self.variables.truncate(before);
        // `map` and `filter` copy their list for each element. Copying two elements takes about one step.
        let copied = if step.length > 0.0 { times * times / 4.0 } else { 0.0 };
        let steps =
            range.steps + first.steps + result.steps + times * (1.0 + condition.steps + step.steps) + copied;
        Bound { steps, ..result }
    }
}

/// Returns the expressions of an entry.
fn parts(entry: &EntryExpr) -> Vec<&Expr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value.expr],
        EntryExpr::MapEntry(entry) => vec![&entry.key.expr, &entry.value.expr],
    }
}
