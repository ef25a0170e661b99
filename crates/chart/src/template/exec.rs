//! Runs templates. Based on Go's `text/template/exec.go` with the option `missingkey=zero`, which Helm sets.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::node::{Arg, ArgKind, Branch, Command, Node, Number, Pipe, Pos};
use super::parse::Tree;
use super::set::Set;
use crate::budget::Budget;
use crate::fault::Fault;
use crate::object::Object;
use crate::random::Source;
use crate::value::{MapType, Value};

/// The state that all templates of a rendering share.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) budget: Budget,
    /// The number of active inclusions of each named template.
    pub(crate) included: RefCell<BTreeMap<Rc<str>, usize>>,
    pub(crate) fresh: Source,
    /// The file being rendered.
    pub(crate) output: RefCell<Rc<str>>,
    /// The action of this file that is running.
    pub(crate) action: Cell<Pos>,
}

/// The execution of one template.
pub(crate) struct Exec<'e> {
    pub(crate) env: &'e Env,
    pub(crate) set: Rc<Set>,
    pub(super) tree: Rc<Tree>,
    pub(crate) out: String,
    vars: Vec<(Rc<str>, Value)>,
}

/// Says how the walk continues after a node.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Runs a named template and returns its output.
///
/// A nil dot counts as a missing value, so its fields are missing instead of an error.
pub(crate) fn run(env: &Env, set: &Rc<Set>, name: &str, dot: Value) -> Result<String> {
    let dot = if dot.is_nil() { Value::Missing } else { dot };
    let Some(tree) = set.get(name) else {
        return Err(Fault::text(format!(
            "template: no template {name:?} associated with template \"gotpl\""
        )));
    };
    let mut exec = Exec {
        env,
        set: set.clone(),
        tree: tree.clone(),
        out: String::new(),
        vars: vec![("$".into(), dot.clone())],
    };
    let tree = tree.clone();
    env.budget.deeper(|| exec.walk_all(&dot, &tree.root))?;
    Ok(exec.out)
}

impl Exec<'_> {
    pub(super) fn error<T>(
        &self,
        pos: Pos,
        context: &dyn std::fmt::Display,
        reason: impl Into<Fault>,
    ) -> Result<T> {
        let location = self.tree.location(pos);
        Err(reason.into().at(location, &self.tree.name, context))
    }

    fn walk_all(&mut self, dot: &Value, nodes: &[Node]) -> Result<Flow> {
        for node in nodes {
            let flow = self.walk(dot, node)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn walk(&mut self, dot: &Value, node: &Node) -> Result<Flow> {
        self.env.budget.step()?;
        match node {
            Node::Text(text) => {
                self.env.budget.bytes(text.len())?;
                self.out.push_str(text);
            }
            Node::Action(pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if pipe.decl.is_empty() {
                    let text = crate::print::printed(&value);
                    self.env.budget.bytes(text.len())?;
                    self.out.push_str(&text);
                }
            }
            Node::If(branch) => return self.branch(dot, branch, false),
            Node::With(branch) => return self.branch(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template { pos, name, pipe } => self.template(dot, *pos, name, pipe.as_ref())?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn branch(&mut self, dot: &Value, branch: &Branch, is_with: bool) -> Result<Flow> {
        let mark = self.vars.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = if value.truth() {
            self.walk_all(if is_with { &value } else { dot }, &branch.body)
        } else {
            self.walk_all(dot, &branch.otherwise)
        };
        self.vars.truncate(mark);
        flow
    }

    fn range(&mut self, dot: &Value, branch: &Branch) -> Result<Flow> {
        let outer = self.vars.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let mark = self.vars.len();
        let entries: Vec<(Value, Value)> = match &value {
            Value::List(list) => list
                .items
                .iter()
                .enumerate()
                .map(|(at, item)| (Value::Int(at as i64), item.clone()))
                .collect(),
            Value::Map(map) => {
                map.snapshot().into_iter().map(|(key, value)| (Value::Str(key), value)).collect()
            }
            Value::Int(count) | Value::Int64(count) => {
                self.env.budget.list(usize::try_from(*count).unwrap_or(0))?;
                (0..*count).map(|at| (Value::Int(at), Value::Int(at))).collect()
            }
            Value::Object(object) => match &**object {
                Object::Files(files) => files.entries(),
                Object::ApiVersions(versions) => versions
                    .iter()
                    .enumerate()
                    .map(|(at, version)| (Value::Int(at as i64), Value::str(version.as_str())))
                    .collect(),
                _ => return self.cannot_range(branch, &value),
            },
            Value::Missing | Value::Nil => Vec::new(),
            Value::Bool(_) | Value::Float(_) | Value::Str(_) => return self.cannot_range(branch, &value),
        };
        if entries.is_empty() {
            let flow = self.walk_all(dot, &branch.otherwise);
            self.vars.truncate(outer);
            return flow;
        }
        for (key, item) in entries {
            self.bind(branch, key, item.clone())?;
            let flow = self.walk_all(&item, &branch.body)?;
            self.vars.truncate(mark);
            if flow == Flow::Break {
                break;
            }
        }
        self.vars.truncate(outer);
        Ok(Flow::On)
    }

    fn cannot_range(&self, branch: &Branch, value: &Value) -> Result<Flow> {
        let reason = format!("range can't iterate over {}", crate::print::text(value));
        // At this point, Go has evaluated the last word of the pipeline and prints it.
        let last = branch.pipe.commands.last().and_then(|command| command.args.first());
        match last {
            Some(arg) => self.error(arg.pos, arg, reason),
            None => self.error(branch.pos, &branch.pipe, reason),
        }
    }

    /// Sets the variables of a range for one iteration.
    fn bind(&mut self, branch: &Branch, key: Value, item: Value) -> Result<()> {
        let pipe = &branch.pipe;
        let values: Vec<Value> = if pipe.decl.len() > 1 { vec![key, item] } else { vec![item] };
        for (at, (name, value)) in pipe.decl.iter().zip(values).enumerate() {
            if pipe.is_assign {
                self.assign(pipe, name, value)?;
            } else {
                let from_top = pipe.decl.len() - at;
                let index = self.vars.len().saturating_sub(from_top);
                if let Some(slot) = self.vars.get_mut(index) {
                    slot.1 = value;
                }
            }
        }
        Ok(())
    }

    fn assign(&mut self, pipe: &Pipe, name: &Rc<str>, value: Value) -> Result<()> {
        match self.vars.iter_mut().rev().find(|(known, _)| known == name) {
            Some(slot) => {
                slot.1 = value;
                Ok(())
            }
            None => self.error(pipe.pos, pipe, format!("undefined variable: {name}")),
        }
    }

    fn template(&mut self, dot: &Value, pos: Pos, name: &Rc<str>, pipe: Option<&Pipe>) -> Result<()> {
        let Some(tree) = self.set.get(name).cloned() else {
            let context = match pipe {
                Some(pipe) => format!("{{{{template {name:?} {pipe}}}}}"),
                None => format!("{{{{template {name:?}}}}}"),
            };
            return self.error(pos, &context, format!("template {name:?} not defined"));
        };
        let dot = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Missing,
        };
        let outer_vars = std::mem::replace(&mut self.vars, vec![("$".into(), dot.clone())]);
        let outer_tree = std::mem::replace(&mut self.tree, tree.clone());
        let budget = &self.env.budget;
        budget.deeper(|| self.walk_all(&dot, &tree.root))?;
        self.vars = outer_vars;
        self.tree = outer_tree;
        Ok(())
    }

    pub(super) fn pipeline(&mut self, dot: &Value, pipe: &Pipe) -> Result<Value> {
        if self.env.budget.is_outermost() {
            self.env.action.set(pipe.pos);
        }
        let mut value = None;
        for command in &pipe.commands {
            value = Some(match self.command(dot, command, value)? {
                Value::Nil => Value::Missing,
                value => value,
            });
        }
        let value = value.unwrap_or(Value::Missing);
        for name in &pipe.decl {
            if pipe.is_assign {
                self.assign(pipe, name, value.clone())?;
            } else {
                self.vars.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Value, command: &Command, last: Option<Value>) -> Result<Value> {
        self.env.budget.step()?;
        let Some((first, args)) = command.args.split_first() else { return Ok(Value::Missing) };
        match &first.kind {
            ArgKind::Field(names) => self.fields(dot, (first, dot.clone(), names), args, last),
            ArgKind::Chain(arg, names) => {
                let receiver = self.chain_receiver(dot, first, arg)?;
                self.fields(dot, (first, receiver, names), args, last)
            }
            ArgKind::Variable(name, names) => {
                let value = self.variable(first, name)?;
                if names.is_empty() {
                    self.not_a_function(first, args, last.as_ref())?;
                    return Ok(value);
                }
                self.fields(dot, (first, value, names), args, last)
            }
            ArgKind::Identifier(name) => self.function(dot, (command, first, name), args, last),
            ArgKind::Pipe(pipe) => {
                self.not_a_function(first, args, last.as_ref())?;
                self.pipeline(dot, pipe)
            }
            ArgKind::Bool(value) => {
                self.not_a_function(first, args, last.as_ref()).map(|()| Value::Bool(*value))
            }
            ArgKind::Dot => self.not_a_function(first, args, last.as_ref()).map(|()| dot.clone()),
            ArgKind::Nil => self.error(first.pos, first, "nil is not a command"),
            ArgKind::Number(number) => {
                self.not_a_function(first, args, last.as_ref())?;
                self.constant(first, number)
            }
            ArgKind::Str { value, .. } => {
                self.not_a_function(first, args, last.as_ref())?;
                Ok(Value::Str(value.clone()))
            }
        }
    }

    fn not_a_function(&self, first: &Arg, args: &[Arg], last: Option<&Value>) -> Result<()> {
        if args.is_empty() && last.is_none() {
            return Ok(());
        }
        self.error(first.pos, first, format!("can't give argument to non-function {first}"))
    }

    pub(super) fn constant(&self, arg: &Arg, number: &Number) -> Result<Value> {
        match (number.int, number.float) {
            (Some(int), _) if number.is_integer_text => Ok(Value::Int(int)),
            (_, Some(float)) => Ok(Value::Float(float)),
            (Some(int), None) => Ok(Value::Int(int)),
            (None, None) => self.error(arg.pos, arg, format!("{} overflows int", number.text)),
        }
    }

    pub(super) fn variable(&self, arg: &Arg, name: &Rc<str>) -> Result<Value> {
        match self.vars.iter().rev().find(|(known, _)| known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.error(arg.pos, arg, format!("undefined variable: {name}")),
        }
    }

    pub(super) fn chain_receiver(&mut self, dot: &Value, chain: &Arg, arg: &Arg) -> Result<Value> {
        if matches!(arg.kind, ArgKind::Nil) {
            return self.error(chain.pos, chain, format!("indirection through explicit nil in {chain}"));
        }
        self.any_argument(dot, arg)
    }

    /// Resolves a chain of fields. Only the last one may be a method with arguments.
    pub(super) fn fields(
        &mut self,
        dot: &Value,
        (node, receiver, names): (&Arg, Value, &[Rc<str>]),
        args: &[Arg],
        last: Option<Value>,
    ) -> Result<Value> {
        let mut value = receiver;
        let Some((final_name, names)) = names.split_last() else { return Ok(value) };
        for name in names {
            value = self.field(node, &value, name, &[])?;
        }
        let mut values = Vec::new();
        if !args.is_empty() || last.is_some() {
            for arg in args {
                values.push(self.any_argument(dot, arg)?);
            }
            values.extend(last);
        }
        self.field(node, &value, final_name, &values)
    }

    fn field(&self, node: &Arg, receiver: &Value, name: &Rc<str>, args: &[Value]) -> Result<Value> {
        match receiver {
            Value::Missing => Ok(Value::Missing),
            Value::Nil => self.error(node.pos, node, format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(_) if !args.is_empty() => {
                self.error(node.pos, node, format!("{name} is not a method but has arguments"))
            }
            Value::Map(map) => Ok(map.get(name).unwrap_or_else(|| match map.typ {
                MapType::Strings => Value::str(""),
                MapType::Any | MapType::Values => Value::Nil,
            })),
            Value::Object(object) => match object.field(name, args) {
                Ok(Some(value)) => Ok(value),
                Ok(None) => {
                    let reason = format!("can't evaluate field {name} in type {}", object.type_name());
                    self.error(node.pos, node, reason)
                }
                Err(reason) => self.error(node.pos, node, format!("error calling {name}: {reason}")),
            },
            other => {
                let literal = matches!(node.kind, ArgKind::Chain(..));
                let typ = if literal { other.type_name() } else { "interface {}" };
                self.error(node.pos, node, format!("can't evaluate field {name} in type {typ}"))
            }
        }
    }
}
