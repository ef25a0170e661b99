//! The CEL variable `authorizer`, with which expressions check permissions (KEP-3488, Kubernetes' CEL library
//! `authz`).
//!
//! CEL functions cannot read the store. So a check without a known answer fails and is recorded; the caller
//! answers it and evaluates the expression again ([`answered`]). Expressions have few checks, so this is cheap.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Value};

use crate::ResourcePath;
use cel::map;

/// The functions of the authorizer and of the values they return.
pub(super) const FUNCTIONS: &[&str] = &[
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "path",
    "serviceAccount",
    "check",
    "allowed",
    "reason",
    "errored",
    "error",
];

/// The maximum number of checks of one policy for one request.
const MAX_QUESTIONS: usize = 256;

/// A permission check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    /// The namespace and name of a service account; `None` for the user of the request.
    pub(super) service_account: Option<(String, String)>,
    pub(super) verb: String,
    /// The object or path to check.
    pub(super) on: On,
}

/// The object of a check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum On {
    Objects(ResourcePath),
    Path(String),
}

thread_local! {
    static ANSWERS: RefCell<BTreeMap<Question, bool>> = const { RefCell::new(BTreeMap::new()) };
    static OPEN: RefCell<BTreeSet<Question>> = const { RefCell::new(BTreeSet::new()) };
}

/// Evaluates until every recorded check has an answer.
pub(super) fn answered<T>(mut evaluate: impl FnMut() -> T, answer: impl Fn(&Question) -> bool) -> T {
    ANSWERS.set(BTreeMap::new());
    loop {
        let outcome = evaluate();
        let open = OPEN.take();
        let known = ANSWERS.with_borrow(BTreeMap::len);
        if open.is_empty() || known + open.len() > MAX_QUESTIONS {
            return outcome;
        }
        let answers = open.into_iter().map(|question| (answer(&question), question));
        ANSWERS.with_borrow_mut(|all| all.extend(answers.map(|(answer, question)| (question, answer))));
    }
}

/// Returns the variable `authorizer` for a request.
pub(super) fn variable(target: &ResourcePath) -> Value {
    let request = map([
        ("group", text(&target.group)),
        ("resource", text(&target.resource)),
        ("subresource", text(&target.subresource)),
        ("namespace", text(&target.namespace)),
        ("name", text(&target.name)),
    ]);
    map([("requestResource", request)])
}

/// Registers the functions. Each step of `authorizer.group("").resource("")…` is a map of the fields that have
/// been set so far.
pub(super) fn register(context: &mut Context<'static>) {
    for name in ["group", "resource", "subresource", "namespace", "name", "path"] {
        context.add_function(name, move |This(this): This<Value>, value: Arc<String>| {
            with(&this, [(name, Value::String(value))])
        });
    }
    context.add_function(
        "serviceAccount",
        |This(this): This<Value>, namespace: Arc<String>, name: Arc<String>| {
            with(
                &this,
                [("accountNamespace", Value::String(namespace)), ("accountName", Value::String(name))],
            )
        },
    );
    context.add_function("check", |This(this): This<Value>, verb: Arc<String>| check(&this, &verb));
    context.add_function("allowed", |This(this): This<Value>| field(&this, "allowed"));
    context.add_function("reason", |This(_): This<Value>| String::new());
    context.add_function("errored", |This(_): This<Value>| false);
    context.add_function("error", |This(_): This<Value>| String::new());
}

fn check(this: &Value, verb: &str) -> Result<Value, ExecutionError> {
    let part = |name: &str| match field(this, name) {
        Ok(Value::String(text)) => Some(text.as_str().to_owned()),
        Ok(_) | Err(_) => None,
    };
    let of = |name: &str| part(name).unwrap_or_default();
    let on = match (part("path"), part("resource")) {
        (Some(path), None) => On::Path(path),
        (None, Some(resource)) => On::Objects(
            ResourcePath::resource(&of("group"), "", &resource)
                .within(of("namespace"))
                .named(of("name"))
                .sub(of("subresource")),
        ),
        (Some(_), Some(_)) | (None, None) => {
            return Err(ExecutionError::function_error("check", "names neither a resource nor a path"));
        }
    };
    let service_account = part("accountNamespace").zip(part("accountName"));
    let question = Question { service_account, verb: verb.to_owned(), on };
    match ANSWERS.with_borrow(|answers| answers.get(&question).copied()) {
        Some(allowed) => Ok(map([("allowed", Value::Bool(allowed))])),
        None => {
            OPEN.with_borrow_mut(|open| open.insert(question));
            Err(ExecutionError::function_error("check", "is not answered yet"))
        }
    }
}

fn with<const N: usize>(this: &Value, fields: [(&str, Value); N]) -> Result<Value, ExecutionError> {
    let Value::Map(Map { map: before }) = this else {
        return Err(ExecutionError::function_error("authorizer", "is no authorizer"));
    };
    let mut after = before.as_ref().clone();
    after.extend(fields.map(|(name, value)| (Key::String(Arc::new(name.to_owned())), value)));
    Ok(Value::Map(Map { map: Arc::new(after) }))
}

fn field(this: &Value, name: &str) -> Result<Value, ExecutionError> {
    let Value::Map(map) = this else {
        return Err(ExecutionError::function_error("authorizer", "is no authorizer"));
    };
    let found = map.map.get(&Key::String(Arc::new(name.to_owned())));
    found.cloned().ok_or_else(|| ExecutionError::no_such_key(name))
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}
