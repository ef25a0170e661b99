//! The nodes of a parsed template, and their text in errors.

use std::fmt::{Display, Formatter, Result};
use std::rc::Rc;

/// A byte position in the text of a template.
pub(crate) type Pos = u32;

#[derive(Debug)]
pub(crate) enum Node {
    Text(Rc<str>),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template { pos: Pos, name: Rc<str>, pipe: Option<Pipe> },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pos: Pos,
    pub(crate) pipe: Pipe,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) pos: Pos,
    pub(crate) is_assign: bool,
    pub(crate) decl: Vec<Rc<str>>,
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) pos: Pos,
    pub(crate) args: Vec<Arg>,
}

#[derive(Debug)]
pub(crate) struct Arg {
    pub(crate) pos: Pos,
    pub(crate) kind: ArgKind,
}

#[derive(Debug)]
pub(crate) enum ArgKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Str {
        value: Rc<str>,
        quoted: Rc<str>,
    },
    Field(Vec<Rc<str>>),
    /// A variable and a chain of fields.
    Variable(Rc<str>, Vec<Rc<str>>),
    Identifier(Rc<str>),
    Chain(Box<Arg>, Vec<Rc<str>>),
    Pipe(Box<Pipe>),
}

/// A number that is an integer, a float, or either.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) text: Rc<str>,
    pub(crate) int: Option<i64>,
    pub(crate) float: Option<f64>,
    /// True if it is written as a character, in hexadecimal, or without a point and exponent, which makes it an
    /// `int`.
    pub(crate) is_integer_text: bool,
}

fn fields(f: &mut Formatter<'_>, names: &[Rc<str>]) -> Result {
    names.iter().try_for_each(|name| write!(f, ".{name}"))
}

impl Display for Arg {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            ArgKind::Dot => f.write_str("."),
            ArgKind::Nil => f.write_str("nil"),
            ArgKind::Bool(value) => write!(f, "{value}"),
            ArgKind::Number(number) => f.write_str(&number.text),
            ArgKind::Str { quoted, .. } => f.write_str(quoted),
            ArgKind::Field(names) => fields(f, names),
            ArgKind::Variable(name, names) => {
                f.write_str(name)?;
                fields(f, names)
            }
            ArgKind::Identifier(name) => f.write_str(name),
            ArgKind::Chain(arg, names) => {
                if matches!(arg.kind, ArgKind::Pipe(_)) {
                    write!(f, "({arg})")?;
                } else {
                    write!(f, "{arg}")?;
                }
                fields(f, names)
            }
            ArgKind::Pipe(pipe) => write!(f, "{pipe}"),
        }
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, arg) in self.args.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            match &arg.kind {
                ArgKind::Pipe(pipe) => write!(f, "({pipe})")?,
                _ => write!(f, "{arg}")?,
            }
        }
        Ok(())
    }
}

impl Display for Pipe {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if !self.decl.is_empty() {
            f.write_str(&self.decl.join(", "))?;
            f.write_str(if self.is_assign { " = " } else { " := " })?;
        }
        for (at, command) in self.commands.iter().enumerate() {
            if at > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}
