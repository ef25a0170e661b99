//! Function calls: arguments and their types, based on `evalCall` and `evalArg` in Go's `exec.go`.

use std::rc::Rc;

use super::exec::{Exec, Result};
use super::node::{Arg, ArgKind, Command};
use crate::fault::Fault;
use crate::funcs::{Call, Function, Type, function};
use crate::random::Draw;
use crate::value::{Element, List, Value};

impl Exec<'_> {
    pub(super) fn function(
        &mut self,
        dot: &Value,
        (command, first, name): (&Command, &Arg, &Rc<str>),
        args: &[Arg],
        last: Option<Value>,
    ) -> Result<Value> {
        let Some(function) = function(name) else {
            return self.error(first.pos, first, format!("{name:?} is not a defined function"));
        };
        let count = args.len() + usize::from(last.is_some());
        if let Some(reason) = wrong_count(function, count) {
            return self.error(first.pos, first, reason);
        }
        if matches!(&**name, "and" | "or") {
            return self.short_circuit(dot, &**name == "or", args, last);
        }
        let mut values = Vec::with_capacity(count);
        for (at, arg) in args.iter().enumerate() {
            values.push(self.argument(dot, function.parameter(at), arg)?);
        }
        if let Some(last) = last {
            let node = args.last().unwrap_or(first);
            values.push(self.checked(function.parameter(args.len()), last, node)?);
        }
        let call = Call { env: self.env, set: &self.set, args: &values, site: (&self.tree, command.pos) };
        let result = (function.run)(call).and_then(|value| {
            self.env.budget.value(&value)?;
            Ok(value)
        });
        if self.env.fresh.was_asked() {
            let location = self.tree.location(command.pos);
            let output = self.env.output.borrow().clone();
            self.env.fresh.record(Draw { function: function.name, location, output });
        }
        match result {
            Ok(value) => Ok(value),
            Err(fault) => {
                let fault = fault.calling(name);
                self.error(command.pos, command, fault)
            }
        }
    }

    fn short_circuit(
        &mut self,
        dot: &Value,
        ends_on: bool,
        args: &[Arg],
        last: Option<Value>,
    ) -> Result<Value> {
        let mut value = Value::Missing;
        for arg in args {
            value = self.any_argument(dot, arg)?;
            if value.truth() == ends_on {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Evaluates an argument for a parameter that accepts any value.
    pub(super) fn any_argument(&mut self, dot: &Value, arg: &Arg) -> Result<Value> {
        self.env.budget.step()?;
        match &arg.kind {
            ArgKind::Dot => Ok(dot.clone()),
            ArgKind::Nil => Ok(Value::Nil),
            ArgKind::Bool(value) => Ok(Value::Bool(*value)),
            ArgKind::Number(number) => self.constant(arg, number),
            ArgKind::Str { value, .. } => Ok(Value::Str(value.clone())),
            ArgKind::Field(names) => self.fields(dot, (arg, dot.clone(), names), &[], None),
            ArgKind::Variable(name, names) => {
                let value = self.variable(arg, name)?;
                self.fields(dot, (arg, value, names), &[], None)
            }
            ArgKind::Identifier(name) => {
                let command = Command { pos: arg.pos, args: Vec::new() };
                self.function(dot, (&command, arg, name), &[], None)
            }
            ArgKind::Chain(inner, names) => {
                let receiver = self.chain_receiver(dot, arg, inner)?;
                self.fields(dot, (arg, receiver, names), &[], None)
            }
            ArgKind::Pipe(pipe) => self.pipeline(dot, pipe),
        }
    }

    fn argument(&mut self, dot: &Value, typ: Type, arg: &Arg) -> Result<Value> {
        match (&arg.kind, typ) {
            (ArgKind::Nil, Type::Any | Type::Map | Type::List) => Ok(Value::Nil),
            (ArgKind::Nil, _) => self.error(arg.pos, arg, format!("cannot assign nil to {}", typ.name())),
            (ArgKind::Number(number), Type::Int) => match number.int {
                Some(int) => Ok(Value::Int(int)),
                None => self.error(arg.pos, arg, format!("expected integer; found {arg}")),
            },
            (ArgKind::Number(number), Type::Float) => match number.float {
                Some(float) => Ok(Value::Float(float)),
                None => self.error(arg.pos, arg, format!("expected float; found {arg}")),
            },
            (ArgKind::Bool(_) | ArgKind::Number(_) | ArgKind::Str { .. }, _) => {
                let value = self.any_argument(dot, arg)?;
                if typ.takes(&value) {
                    return Ok(value);
                }
                let reason = match typ {
                    Type::Map | Type::List => format!("can't handle {arg} for arg of type {}", typ.name()),
                    Type::Int => format!("expected integer; found {arg}"),
                    Type::Float => format!("expected float; found {arg}"),
                    Type::Any | Type::Str | Type::Bool | Type::Time | Type::Certificate => {
                        format!("expected {}; found {arg}", typ.name())
                    }
                };
                self.error(arg.pos, arg, reason)
            }
            _ => {
                let value = self.any_argument(dot, arg)?;
                self.checked(typ, value, arg)
            }
        }
    }

    /// Checks a value against the type of a parameter, like `validateType`.
    fn checked(&self, typ: Type, value: Value, node: &Arg) -> Result<Value> {
        match value {
            Value::Missing | Value::Nil if matches!(typ, Type::Any | Type::Map | Type::List) => {
                Ok(Value::Nil)
            }
            Value::Missing => self.error(node.pos, node, format!("invalid value; expected {}", typ.name())),
            Value::Nil => {
                let reason = format!("wrong type for value; expected {}; got interface {{}}", typ.name());
                self.error(node.pos, node, reason)
            }
            // A list of strings is not a `[]interface {}`. Sprig's functions for lists accept any value instead.
            Value::List(List { element: Element::Str | Element::Int, .. }) if typ == Type::List => {
                self.mismatch(typ, &value, node)
            }
            value if typ.takes(&value) => Ok(value),
            value => self.mismatch(typ, &value, node),
        }
    }

    fn mismatch(&self, typ: Type, value: &Value, node: &Arg) -> Result<Value> {
        let reason = format!("wrong type for value; expected {}; got {}", typ.name(), value.type_name());
        self.error(node.pos, node, reason)
    }
}

fn wrong_count(function: &Function, count: usize) -> Option<Fault> {
    let want = function.params.len();
    let name = function.name;
    match function.rest {
        Some(_) if count < want => {
            Some(format!("wrong number of args for {name}: want at least {want} got {count}").into())
        }
        None if count != want => {
            Some(format!("wrong number of args for {name}: want {want} got {count}").into())
        }
        _ => None,
    }
}
