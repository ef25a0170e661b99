//! CEL expressions on clusters, with limits that the CEL crate does not provide.
//!
//! A compiled expression is rewritten so that every iteration of a macro and every function result consumes
//! steps from a [`StepBudget`]. Nothing else can run long or grow large, because the length of an expression is
//! limited. The functions `scores` and `parseJSON` are OCM's; `docs/design/placement.md` lists the differences.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Key;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use api::cluster::v1::ManagedCluster;

/// The maximum number of expressions in one predicate.
const MAX_EXPRESSIONS: usize = 64;
/// The maximum number of steps for one predicate and cluster: 1 to 4 µs each, so 40 ms at most.
const MAX_STEPS_PER_CLUSTER: u64 = 10_000;
/// The maximum length of the texts and lists that `replace`, `join` and `format` accept. The size of a result is
/// the product of two lengths, and 8 KiB × 8 KiB is 64 MiB.
const MAX_FACTOR: u64 = 8 * 1024;
/// The number of bytes of a value that cost one step.
const BYTES_PER_STEP: u64 = 256;
/// The number of comparisons that cost one step.
const COMPARISONS_PER_STEP: u64 = 32;

/// The variable in the expressions of a placement.
pub(super) const SUBJECT: &str = "managedCluster";

/// The function libraries of the CEL crates, such as `sets` with `sets.contains`.
const LIBRARIES: [&str; 9] =
    ["base64", "format", "ip", "jsonpatch", "lists", "math", "optional", "sets", "strings"];

const STEP: &str = "@step";
const BOUND: &str = "@bound";
const FACTOR: &str = "@factor";
const CHARGE: &str = "@charge";
const SQUARE: &str = "@square";

/// Reads the valid scores of a cluster by resource and then by name. Called only if an expression reads scores.
pub type Scores<'a> = dyn Fn() -> BTreeMap<String, Vec<(String, i32)>> + 'a;

/// The cost of all evaluations so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepBudget {
    /// The number of steps.
    pub spent: u64,
    /// True if the expressions of one predicate exceeded their limit.
    pub exhausted: bool,
}

/// A list of expressions that must all be true.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    sources: Vec<String>,
    compiled: Vec<IdedExpr>,
    read_scores: bool,
}

impl Expressions {
    /// Compiles expressions that use the given variables.
    ///
    /// # Errors
    /// Names the first expression that does not compile or exceeds a limit, and the reason.
    pub(crate) fn compile(sources: &[String], variables: &[&str]) -> Result<Self, String> {
        if sources.len() > MAX_EXPRESSIONS {
            return Err(format!(
                "compilation failed: {} expressions, at most {MAX_EXPRESSIONS} are allowed",
                sources.len()
            ));
        }
        let mut all = Self { sources: sources.to_vec(), ..Self::default() };
        for source in sources {
            let failed = |reason: String| format!("compilation failed: {reason}");
            let mut expression = cel::parse(source).map_err(failed)?;
            // A call of an unknown function fails when it is evaluated.
            cel::check_names(&expression, variables, &LIBRARIES, |_| true).map_err(failed)?;
            all.read_scores |= expression.references().has_function("scores");
            limit(&mut expression).map_err(|what| failed(format!("{what} is not supported")))?;
            all.compiled.push(expression);
        }
        Ok(all)
    }

    /// Returns true if there are no expressions.
    pub(crate) fn is_empty(&self) -> bool {
        self.compiled.is_empty()
    }

    /// Returns true if all expressions are true for a cluster.
    ///
    /// # Errors
    /// Returns the evaluation error. As in OCM, the cluster then does not match.
    pub(crate) fn matches(
        &self,
        cluster: &ManagedCluster,
        scores: &Scores<'_>,
        budget: &mut StepBudget,
    ) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        USED_STEPS.set(0);
        SCORES.set(if self.read_scores { scores() } else { BTreeMap::new() });
        let subject = serde_json::to_value(cluster).map_err(|e| e.to_string())?;
        let result = ROOT.with(|root| {
            let mut context = root.new_inner_scope();
            context.add_variable_from_value(SUBJECT, cel::value(&subject));
            cel::evaluate(|| self.all_true(&context))
        });
        budget.spent = budget.spent.saturating_add(USED_STEPS.get());
        if USED_STEPS.get() > MAX_STEPS_PER_CLUSTER {
            budget.exhausted = true;
            return Err(format!("the expressions cost more than {MAX_STEPS_PER_CLUSTER} steps"));
        }
        result
    }

    /// Returns true if all expressions are true for the given variables.
    ///
    /// # Errors
    /// Returns the evaluation error, or fails if the expressions exceed the limits.
    pub(crate) fn hold(&self, variables: &[(&str, &serde_json::Value)]) -> Result<bool, String> {
        within(json(variables), |context| self.all_true(context))
    }

    /// Returns the index of the first expression that is true for a variable; `None` if none is.
    ///
    /// # Errors
    /// Returns the evaluation error, or fails if the expressions exceed the limits.
    pub(crate) fn first(&self, variable: &str, value: Value) -> Result<Option<usize>, String> {
        within([(variable, value)], |context| {
            for (index, (source, expression)) in self.sources.iter().zip(&self.compiled).enumerate() {
                if is_true(source, context.resolve(expression))? {
                    return Ok(Some(index));
                }
            }
            Ok(None)
        })
    }

    /// Returns the text to which the first expression evaluates.
    ///
    /// # Errors
    /// Returns the evaluation error, or fails if the result is not a string.
    pub(crate) fn text(&self, variables: &[(&str, &serde_json::Value)]) -> Result<String, String> {
        within(json(variables), |context| {
            match self.compiled.first().map(|expression| context.resolve(expression)) {
                Some(Ok(Value::String(text))) => Ok(text.to_string()),
                Some(Ok(_)) | None => Err("the expression does not return a string".into()),
                Some(Err(error)) => Err(error.to_string()),
            }
        })
    }

    fn all_true(&self, context: &Context<'_>) -> Result<bool, String> {
        for (source, expression) in self.sources.iter().zip(&self.compiled) {
            if !is_true(source, context.resolve(expression))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_true(source: &str, result: Result<Value, ExecutionError>) -> Result<bool, String> {
    match result {
        Ok(Value::Bool(is)) => Ok(is),
        Ok(_) => Err(format!("`{source}` is not a boolean")),
        Err(error) => Err(format!("`{source}`: {error}")),
    }
}

thread_local! {
    static USED_STEPS: Cell<u64> = const { Cell::new(0) };
    static SCORES: RefCell<BTreeMap<String, Vec<(String, i32)>>> = const { RefCell::new(BTreeMap::new()) };
    static ROOT: Context<'static> = root();
    static OBJECTS: Context<'static> = objects();
}

fn json<'n>(variables: &[(&'n str, &serde_json::Value)]) -> impl Iterator<Item = (&'n str, Value)> {
    variables.iter().map(|(name, json)| (*name, cel::value(json)))
}

/// Evaluates expressions with the given variables, within the limits of one predicate.
fn within<'n, T>(
    variables: impl IntoIterator<Item = (&'n str, Value)>,
    evaluate: impl FnOnce(&Context<'_>) -> Result<T, String>,
) -> Result<T, String> {
    USED_STEPS.set(0);
    let result = OBJECTS.with(|root| {
        let mut context = root.new_inner_scope();
        for (name, value) in variables {
            context.add_variable_from_value(name, value);
        }
        cel::evaluate(|| evaluate(&context))
    });
    if USED_STEPS.get() > MAX_STEPS_PER_CLUSTER {
        return Err(format!("the expressions cost more than {MAX_STEPS_PER_CLUSTER} steps"));
    }
    result
}

/// Returns the functions for placements, plus `hasConditions` for the condition rules of works.
fn objects() -> Context<'static> {
    let mut context = root();
    context.add_function("hasConditions", |status: Value| match &status {
        Value::Map(status) => match status.map.get(&Key::String(Arc::new("conditions".to_owned()))) {
            Some(Value::List(conditions)) => !conditions.is_empty(),
            Some(_) | None => false,
        },
        _ => false,
    });
    context
}

fn root() -> Context<'static> {
    let mut context = Context::default();
    context.register_all();
    context.add_function(STEP, || spend(1).map(|()| true));
    context.add_function(BOUND, |value: Value| spend(1 + size(&value) / BYTES_PER_STEP).map(|()| value));
    context.add_function(CHARGE, |value: Value, steps: i64| spend(steps.unsigned_abs()).map(|()| value));
    context.add_function(SQUARE, |value: Value| {
        let elements = match &value {
            Value::List(list) => list.len() as u64,
            _ => 0,
        };
        spend(elements * elements / COMPARISONS_PER_STEP).map(|()| value)
    });
    context.add_function(FACTOR, |ftx: &FunctionContext<'_, '_>, value: Value| match size(&value) {
        size if size > MAX_FACTOR => Err(ftx.error("the value is too large")),
        _ => Ok(value),
    });
    context.add_function(
        "scores",
        |ftx: &FunctionContext<'_, '_>, This(_cluster): This<Value>, resource: Arc<String>| {
            SCORES.with_borrow(|all| match all.get(resource.as_str()) {
                Some(scores) => Ok(Value::List(Arc::new(scores.iter().map(score).collect()))),
                None => Err(ftx.error(format!("no valid AddOnPlacementScore {resource}"))),
            })
        },
    );
    context.add_function("parseJSON", |ftx: &FunctionContext<'_, '_>, This(text): This<Arc<String>>| {
        let parsed: serde_json::Value = serde_json::from_str(&text).map_err(|e| ftx.error(e))?;
        Ok::<_, ExecutionError>(cel::value(&parsed))
    });
    context
}

fn score((name, score): &(String, i32)) -> Value {
    cel::value(&serde_json::json!({ "name": name, "value": score }))
}

fn spend(steps: u64) -> Result<(), ExecutionError> {
    USED_STEPS.set(USED_STEPS.get().saturating_add(steps));
    if USED_STEPS.get() > MAX_STEPS_PER_CLUSTER {
        Err(ExecutionError::function_error("budget", "exhausted"))
    } else {
        Ok(())
    }
}

/// Returns the number of bytes and elements in a value. Counting stops well above every limit.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(list) => sum(list.iter()),
        Value::Map(map) => sum(map.map.values()),
        _ => 1,
    }
}

fn sum<'a>(values: impl Iterator<Item = &'a Value>) -> u64 {
    let mut total = 1;
    for value in values {
        total += 1 + size(value);
        if total > MAX_STEPS_PER_CLUSTER * BYTES_PER_STEP {
            break;
        }
    }
    total
}

/// Rewrites an expression so that it consumes steps from the budget.
fn limit(expression: &mut IdedExpr) -> Result<(), &'static str> {
    match &mut expression.expr {
        Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Select(select) => limit(&mut select.operand)?,
        Expr::List(list) => list.elements.iter_mut().try_for_each(limit)?,
        Expr::Map(map) => {
            for entry in &mut map.entries {
                let EntryExpr::MapEntry(entry) = &mut entry.expr else { return Err("a message literal") };
                limit(&mut entry.key)?;
                limit(&mut entry.value)?;
            }
        }
        Expr::Call(call) => limit_call(call)?,
        Expr::Comprehension(loops) => {
            for part in [
                &mut loops.iter_range,
                &mut loops.accu_init,
                &mut loops.loop_cond,
                &mut loops.loop_step,
                &mut loops.result,
            ] {
                limit(part)?;
            }
            let condition = std::mem::take(&mut loops.loop_cond);
            loops.loop_cond = call(operators::LOGICAL_AND, vec![call(STEP, vec![]), condition]);
            wrap(&mut loops.loop_step, BOUND, None);
        }
        Expr::Struct(_) => return Err("a message literal"),
        Expr::Unspecified => return Err("an empty expression"),
    }
    let grows = matches!(&expression.expr, Expr::Call(call) if grows(&call.func_name));
    if grows {
        wrap(expression, BOUND, None);
    }
    Ok(())
}

fn limit_call(call_expr: &mut CallExpr) -> Result<(), &'static str> {
    call_expr.target.iter_mut().try_for_each(|target| limit(target))?;
    call_expr.args.iter_mut().try_for_each(limit)?;
    let wrapper = match call_expr.func_name.as_str() {
        "replace" | "join" | "format" => Some(FACTOR),
        // These compare every pair of values.
        "distinct" | "contains" | "equivalent" | "intersects" => Some(SQUARE),
        _ => None,
    };
    let steps = i64::try_from(cel::pattern_steps(call_expr)).unwrap_or(i64::MAX);
    let is_of_sets = cel::library(call_expr) == Some("sets");
    let target = call_expr.target.as_deref_mut().filter(|_| !is_of_sets);
    let mut parts = target.into_iter().chain(&mut call_expr.args);
    if let Some(wrapper) = wrapper {
        parts.for_each(|part| wrap(part, wrapper, None));
    } else if steps > 0
        && let Some(first) = parts.next()
    {
        wrap(first, CHARGE, Some(int(steps)));
    }
    Ok(())
}

/// Replaces an expression by a call with the expression as its first argument.
fn wrap(expression: &mut IdedExpr, function: &str, second: Option<IdedExpr>) {
    let first = std::mem::take(expression);
    *expression = call(function, std::iter::once(first).chain(second).collect());
}

fn int(value: i64) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Int(value.into())) }
}

/// Returns true if a call is a function. Operator names contain characters that are invalid in function names.
fn is_function(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns true if a call may return a large value: all functions, and `+`, which also concatenates.
fn grows(function: &str) -> bool {
    function == operators::ADD || is_function(function)
}

fn call(function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }) }
}

#[cfg(test)]
mod tests;
