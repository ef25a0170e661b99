//! Estimates the cost of a rule on the largest object that the schema allows. Like kube-apiserver, the store
//! rejects a definition with a rule above the limit (KEP-2876, `StaticEstimatedCostLimit`).
//!
//! The estimate follows cel-go's `checker.Cost`. Unknown values count as small, so that no rule is rejected by
//! mistake; [`cost`](crate::cost) limits the evaluation of such rules.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr};
use serde_json::Value;

use super::definition::{list, text};

/// The maximum cost of one rule, over all places it applies to (apiextensions `StaticEstimatedCostLimit`).
pub(super) const RULE: f64 = 1e7;
/// The maximum cost of all rules of a schema (apiextensions `StaticEstimatedCRDCostLimit`).
pub(super) const SCHEMA: f64 = 1e8;

/// The size of the largest request, in bytes.
const REQUEST: f64 = 3.0 * 1024.0 * 1024.0;
/// The cost per traversed character of a string (cel-go `StringTraversalCostFactor`).
const PER_CHARACTER: f64 = 0.1;
/// The cost per character of a regular expression (cel-go `RegexStringLengthCostFactor`).
const PER_PATTERN: f64 = 0.25;
const NEW_LIST: f64 = 10.0;
const NEW_MAP: f64 = 30.0;

/// Returns the upper bound for the cost of a rule on one value of a schema.
pub(super) fn of_rule(rule: &Expr, schema: &Value) -> f64 {
    let value = Shape { size: size(schema), schema: Some(schema) };
    let names = ["self", "oldSelf"].map(|name| (name.to_owned(), value));
    Estimate { variables: names.to_vec() }.of(rule).0
}

/// Returns the maximum number of values of the schema `below` in an object that has `of` lists or maps of
/// `schema`.
pub(super) fn cardinality(of: f64, schema: &Value, below: &Value) -> f64 {
    (of * size(schema)).min(REQUEST / (least_bytes(below) + 1.0))
}

/// The value of an expression: its maximum number of elements or bytes, and its schema if known.
#[derive(Clone, Copy, Debug, Default)]
struct Shape<'s> {
    size: f64,
    schema: Option<&'s Value>,
}

impl<'s> Shape<'s> {
    fn from_size(size: f64) -> Self {
        Self { size, schema: None }
    }

    fn below(self, schema: impl FnOnce(&'s Value) -> Option<&'s Value>) -> Self {
        let schema = self.schema.and_then(schema);
        Self { size: schema.map_or(0.0, size), schema }
    }

    /// Returns the elements that a comprehension iterates over: items of a list, keys of a map.
    fn element(self) -> Self {
        self.below(|schema| schema.get("items"))
    }
}

/// Returns the maximum size of a value of a schema, in elements or bytes.
fn size(schema: &Value) -> f64 {
    let limit = |word: &str| schema.get(word).and_then(Value::as_f64);
    let most = |least_of_one: f64| (REQUEST - 2.0) / least_of_one;
    match text(schema, "type") {
        "array" => {
            let item = schema.get("items").map_or(1.0, least_bytes);
            limit("maxItems").unwrap_or_else(|| most(item + 1.0))
        }
        "object" => match schema.get("additionalProperties") {
            Some(value) => limit("maxProperties").unwrap_or_else(|| most(least_bytes(value) + 6.0)),
            None => 1.0,
        },
        "string" => {
            let words = list(schema, "enum").iter().filter_map(Value::as_str).map(str::len);
            match (words.max(), text(schema, "format")) {
                (Some(longest), _) => number(longest),
                // A character has at most four bytes.
                (None, _) if limit("maxLength").is_some() => limit("maxLength").unwrap_or_default() * 4.0,
                (None, "date" | "date-time" | "duration") => 64.0,
                (None, _) => REQUEST - 2.0,
            }
        }
        _ => 1.0,
    }
}

/// Returns the minimum size of a value of a schema, in bytes of JSON.
fn least_bytes(schema: &Value) -> f64 {
    match text(schema, "type") {
        "string" | "array" => 2.0,
        "boolean" => 4.0,
        "object" => {
            let required = list(schema, "required").iter().filter_map(Value::as_str);
            let field = |name: &str| {
                let value = schema.pointer("/properties").and_then(|fields| fields.get(name));
                number(name.len()) + 4.0 + value.map_or(1.0, least_bytes)
            };
            2.0 + required.map(field).sum::<f64>()
        }
        _ => 1.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bound needs no precision")]
fn number(of: usize) -> f64 {
    of as f64
}

struct Estimate<'s> {
    variables: Vec<(String, Shape<'s>)>,
}

impl<'s> Estimate<'s> {
    /// Returns the cost of an expression, and its value.
    fn of(&mut self, expression: &Expr) -> (f64, Shape<'s>) {
        match expression {
            Expr::Unspecified => (0.0, Shape::default()),
            Expr::Ident(name) => {
                let known = self.variables.iter().rev().find(|(variable, _)| variable == name);
                (1.0, known.map(|(_, shape)| *shape).unwrap_or_default())
            }
            Expr::Literal(literal) => (0.0, Shape::from_size(number(format!("{literal:?}").len()))),
            Expr::Select(select) => {
                let (cost, operand) = self.of(&select.operand.expr);
                let field = |schema: &'s Value| {
                    let named = schema.get("properties").and_then(|fields| fields.get(&select.field));
                    named.or_else(|| schema.get("additionalProperties"))
                };
                (cost + 1.0, operand.below(field))
            }
            Expr::List(list) => {
                let cost: f64 = list.elements.iter().map(|element| self.of(&element.expr).0).sum();
                (cost + NEW_LIST, Shape::from_size(number(list.elements.len())))
            }
            Expr::Map(map) => (self.entries(map.entries.iter().map(|entry| &entry.expr)), Shape::default()),
            Expr::Struct(message) => {
                (self.entries(message.entries.iter().map(|entry| &entry.expr)), Shape::default())
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn entries<'e>(&mut self, entries: impl Iterator<Item = &'e EntryExpr>) -> f64 {
        let cost = entries.map(|entry| match entry {
            EntryExpr::StructField(field) => self.of(&field.value.expr).0,
            EntryExpr::MapEntry(entry) => self.of(&entry.key.expr).0 + self.of(&entry.value.expr).0,
        });
        cost.sum::<f64>() + NEW_MAP
    }

    fn call(&mut self, call: &CallExpr) -> (f64, Shape<'s>) {
        let target = call.target.iter().map(|target| &target.expr);
        let operands: Vec<(f64, Shape<'s>)> = target
            .chain(call.args.iter().map(|argument| &argument.expr))
            .map(|operand| self.of(operand))
            .collect();
        let cost = operands.iter().map(|(cost, _)| cost).sum::<f64>() + 1.0;
        let shape = |i: usize| operands.get(i).map(|(_, shape)| *shape).unwrap_or_default();
        let (first, second) = (shape(0), shape(1));
        match call.func_name.as_str() {
            "_==_" | "_!=_" => (cost + first.size.min(second.size) * PER_CHARACTER, Shape::default()),
            "@in" => (cost + second.size, Shape::default()),
            "matches" => (
                cost + (1.0 + first.size * PER_CHARACTER) * (1.0 + second.size * PER_PATTERN),
                Shape::default(),
            ),
            "contains" => {
                let through = (first.size * PER_CHARACTER) * (1.0 + second.size * PER_CHARACTER);
                (cost + through, Shape::default())
            }
            "startsWith" | "endsWith" => (cost + second.size * PER_CHARACTER, Shape::default()),
            "_+_" => {
                let size = first.size + second.size;
                (cost + size * PER_CHARACTER, Shape { size, schema: first.schema })
            }
            "_?_:_" => (cost, if second.size < shape(2).size { shape(2) } else { second }),
            "_[_]" | "_[?_]" => {
                (cost, first.below(|schema| schema.get("items").or(schema.get("additionalProperties"))))
            }
            "split" | "lowerAscii" | "upperAscii" | "replace" | "find" | "findAll" | "trim" | "url"
            | "isURL" | "quantity" | "isQuantity" | "ip" | "isIP" | "cidr" | "isCIDR" => {
                (cost + first.size * PER_CHARACTER, Shape::from_size(first.size))
            }
            "sum" | "min" | "max" | "isSorted" | "indexOf" | "lastIndexOf" | "join" => {
                (cost + first.size, Shape::default())
            }
            _ => (cost, Shape::default()),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> (f64, Shape<'s>) {
        let (range_cost, range) = self.of(&comprehension.iter_range.expr);
        let (first_cost, first) = self.of(&comprehension.accu_init.expr);
        let before = self.variables.len();
        self.variables.push((comprehension.accu_var.clone(), first));
        match &comprehension.iter_var2 {
            Some(value) => {
                self.variables.push((comprehension.iter_var.clone(), Shape::default()));
                let values = |schema: &'s Value| schema.get("items").or(schema.get("additionalProperties"));
                self.variables.push((value.clone(), range.below(values)));
            }
            None => self.variables.push((comprehension.iter_var.clone(), range.element())),
        }
        let each = self.of(&comprehension.loop_cond.expr).0 + self.of(&comprehension.loop_step.expr).0;
        self.variables.truncate(before);
        // The accumulator has at most as many elements as the range.
        self.variables.push((comprehension.accu_var.clone(), Shape::from_size(range.size)));
        let (result_cost, result) = self.of(&comprehension.result.expr);
        self.variables.truncate(before);
        (range_cost + first_cost + result_cost + range.size * each, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_rule(rule: &str, schema: &Value) -> f64 {
        super::of_rule(&cel::parse(rule).unwrap().expr, schema)
    }

    #[test]
    fn limits_of_the_schema_bound_what_a_rule_costs() {
        let texts = |limits: Value| {
            let mut schema = json!({ "type": "array", "items": { "type": "string", "maxLength": 10 } });
            schema.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
            schema
        };
        let cubed = "self.all(x, self.all(y, self.all(z, x + y != z)))";
        assert!(of_rule(cubed, &texts(json!({}))) > RULE);
        assert!(of_rule(cubed, &texts(json!({ "maxItems": 10 }))) < RULE / 10.0);
        assert!(of_rule("self.all(x, x != 'a')", &texts(json!({}))) < RULE);
        assert!(of_rule("self.exists(x, x.matches('(a+)+'))", &texts(json!({}))) > RULE / 10.0);
        let text = json!({ "type": "string" });
        assert!(of_rule("self.startsWith('abc') && self != 'abcd'", &text) < 100.0);
        assert!(of_rule("self == oldSelf", &text) < RULE);
    }
}
