//! Checks and evaluates the CEL expressions of policies.

use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::{Context, Value};

use super::authorizer;
use crate::cost::{Bound, Meter};

/// The variables in every expression of a policy.
pub(super) const VARIABLES: &[&str] =
    &["object", "oldObject", "request", "authorizer", "namespaceObject", "variables"];
/// Libraries with qualified functions, such as `sets.contains`.
const LIBRARIES: &[&str] = &["base64", "format", "ip", "math", "sets", "strings"];
/// The functions of CEL and Kubernetes that the CEL crates implement, without operators and the macros that the
/// parser expands.
const FUNCTIONS: &[&str] = &[
    "add",
    "asApproximateFloat",
    "asInteger",
    "bytes",
    "charAt",
    "cidr",
    "compareTo",
    "contains",
    "containsCIDR",
    "containsIP",
    "distinct",
    "double",
    "duration",
    "endsWith",
    "family",
    "find",
    "findAll",
    "first",
    "flatten",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "indexOf",
    "int",
    "ip",
    "isCIDR",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "join",
    "last",
    "lastIndexOf",
    "lowerAscii",
    "major",
    "masked",
    "matches",
    "max",
    "min",
    "minor",
    "patch",
    "prefixLength",
    "quantity",
    "replace",
    "reverse",
    "semver",
    "sign",
    "size",
    "slice",
    "sort",
    "split",
    "startsWith",
    "string",
    "sub",
    "substring",
    "sum",
    "timestamp",
    "trim",
    "uint",
    "upperAscii",
    "url",
];

/// A compiled expression, or the reason why it does not compile.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) source: String,
    compiled: Result<Arc<IdedExpr>, String>,
}

/// A value, and the bound that was estimated for it.
#[derive(Debug)]
pub(super) struct Bounded {
    pub(super) value: Value,
    pub(super) bound: Bound,
}

impl Expression {
    pub(super) fn compile(source: &str) -> Self {
        Self { source: source.to_owned(), compiled: compile(source).map(Arc::new) }
    }

    /// Returns the reason why the expression cannot be evaluated, if any.
    pub(super) fn error(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }

    /// Returns the value of the expression and its bound.
    ///
    /// # Errors
    /// Returns the error of the CEL crate, or that no steps are left.
    pub(super) fn evaluate(&self, context: &Context<'_>, meter: &mut Meter) -> Result<Bounded, String> {
        let compiled = self.compiled.as_ref().map_err(Clone::clone)?;
        let bound = meter.spend(&compiled.expr)?;
        let value = cel::evaluate(|| context.resolve(compiled).map_err(|e| e.to_string()))?;
        Ok(Bounded { value, bound })
    }
}

fn compile(source: &str) -> Result<IdedExpr, String> {
    if source.trim().is_empty() {
        return Err("the expression is empty".into());
    }
    let failed = |detail: String| format!("compilation failed: {detail}");
    let expression = cel::parse(source).map_err(failed)?;
    let has_function = |name: &str| FUNCTIONS.contains(&name) || authorizer::FUNCTIONS.contains(&name);
    cel::check_names(&expression, VARIABLES, LIBRARIES, has_function).map_err(failed)?;
    Ok(expression)
}

thread_local! {
    // Registering the functions takes longer than most expressions, and threads cannot share a context.
    static ROOT: Context<'static> = {
        let mut context = Context::default();
        context.register_all();
        authorizer::register(&mut context);
        context
    };
}

/// Calls a function with a context that has every CEL function.
pub(super) fn with_functions<T>(run: impl FnOnce(&Context<'static>) -> T) -> T {
    ROOT.with(run)
}
