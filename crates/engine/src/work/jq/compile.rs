//! Compiles an expression, and rejects unsupported syntax.

use jaq_core::load::lex::{Lexer, StrPart};
use jaq_core::load::parse::{BinaryOp, Parser, Term};
use jaq_core::ops::Cmp;
use jaq_core::path::{Opt, Part};
use object::pattern::compile_within;
use object::steps::StepsLeft;
use regex::Regex;
use serde_json::{Map, Number, Value};

/// The maximum total size of an expression's compiled regular expressions.
const MAX_PATTERNS: usize = 64 << 10;
/// The size of compiled regular expressions that costs one step.
const BYTES_OF_A_STEP: usize = 256;

/// An expression that selects fields, or a value for comparison with one.
#[derive(Debug)]
pub(super) enum Expr {
    /// `.`
    Identity,
    /// `..`
    Recurse,
    Constant(Value),
    /// `a[b]` or `a.b`; the key is a value of the input. The flag suppresses errors (`?`).
    Index(Box<Expr>, Box<Expr>, bool),
    /// `a[]`, with the same flag.
    Iterate(Box<Expr>, bool),
    /// `a | b`
    Pipe(Box<Expr>, Box<Expr>),
    /// `a, b`
    Comma(Box<Expr>, Box<Expr>),
    /// `a // b`
    Alternative(Box<Expr>, Box<Expr>),
    /// `a and b`
    And(Box<Expr>, Box<Expr>),
    /// `a or b`
    Or(Box<Expr>, Box<Expr>),
    /// `a == b` and similar comparisons.
    Compare(Box<Expr>, Cmp, Box<Expr>),
    /// `a?`
    Try(Box<Expr>),
    /// `if a then b elif c then d else e end`; `else` defaults to the input.
    If(Vec<(Expr, Expr)>, Box<Expr>),
    /// `select(a)`
    Select(Box<Expr>),
    /// `empty`
    Empty,
    /// `objects` and similar filters: the input, if its type is listed.
    OfType(&'static [&'static str]),
    /// `any(a; b)`: true if a condition is true for any generated value.
    Any(Box<Expr>, Box<Expr>),
    /// `all(a; b)`
    All(Box<Expr>, Box<Expr>),
    /// `not`
    Not,
    /// `length`
    Length,
    /// `type`
    Type,
    /// A function of the input and one argument.
    Test(Test, Box<Expr>),
    /// `test(a)`
    Matches {
        /// The compiled argument.
        regex: Box<Regex>,
        /// The size of the compiled expression in bytes.
        size: usize,
    },
}

/// A test of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Test {
    Has,
    Contains,
    StartsWith,
    EndsWith,
}

impl Test {
    /// Returns the name of the function.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Has => "has",
            Self::Contains => "contains",
            Self::StartsWith => "startswith",
            Self::EndsWith => "endswith",
        }
    }
}

/// Compiles an expression. Its text and its regular expressions cost steps.
///
/// # Errors
/// Describes what is not valid jq, or not supported.
pub(super) fn compile(source: &str, budget: &mut StepsLeft) -> Result<Expr, String> {
    budget.take_text(source.len()).map_err(|error| error.to_string())?;
    let tokens = Lexer::new(source).lex().map_err(|errors| {
        let rest = errors.first().map_or("", |(_, rest)| rest);
        format!("invalid jq at {rest:?}")
    })?;
    let term = Parser::new(&tokens).parse(Parser::term).map_err(|errors| match errors.first() {
        Some((_, Some(token))) => format!("invalid jq at {:?}", token.as_str()),
        Some((_, None)) | None => "it ends too early".into(),
    })?;
    Compiler { patterns: MAX_PATTERNS, budget }.term(term)
}

fn unsupported<T>(what: &str) -> Result<T, String> {
    Err(format!("{what} is not supported"))
}

struct Compiler<'s> {
    /// The remaining bytes for regular expressions.
    patterns: usize,
    budget: &'s mut StepsLeft,
}

impl Compiler<'_> {
    fn boxed(&mut self, term: Term<&str>) -> Result<Box<Expr>, String> {
        self.term(term).map(Box::new)
    }

    fn term(&mut self, term: Term<&str>) -> Result<Expr, String> {
        match term {
            Term::Id => Ok(Expr::Identity),
            Term::Recurse => Ok(Expr::Recurse),
            Term::Num(_) | Term::Neg(_) | Term::Arr(_) | Term::Str(..) => literal(term).map(Expr::Constant),
            Term::BinOp(left, operator, right) => self.binary(*left, operator, *right),
            Term::TryCatch(body, None) => Ok(Expr::Try(self.boxed(*body)?)),
            Term::IfThenElse(branches, otherwise) => {
                let branches = branches
                    .into_iter()
                    .map(|(condition, then)| Ok((self.term(condition)?, self.term(then)?)))
                    .collect::<Result<_, String>>()?;
                let otherwise = otherwise.map_or(Ok(Expr::Identity), |otherwise| self.term(*otherwise))?;
                Ok(Expr::If(branches, Box::new(otherwise)))
            }
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Path(target, path) => {
                let target = self.term(*target)?;
                path.0.into_iter().try_fold(target, |target, (part, optional)| {
                    let optional = matches!(optional, Opt::Optional);
                    match part {
                        Part::Index(key) => Ok(Expr::Index(Box::new(target), self.boxed(key)?, optional)),
                        Part::Range(None, None) => Ok(Expr::Iterate(Box::new(target), optional)),
                        Part::Range(..) => unsupported("a slice"),
                    }
                })
            }
            Term::Obj(fields) if fields.is_empty() => Ok(Expr::Constant(Value::Object(Map::new()))),
            Term::Obj(_) => unsupported("the construction of objects"),
            Term::TryCatch(_, Some(_)) => unsupported("catch"),
            Term::Label(..) | Term::Break(_) => unsupported("label"),
            Term::Fold(name, ..) => unsupported(name),
            Term::Def(..) => unsupported("def"),
            Term::Var(name) => unsupported(name),
        }
    }

    fn binary(
        &mut self,
        left: Term<&str>,
        operator: BinaryOp<&str>,
        right: Term<&str>,
    ) -> Result<Expr, String> {
        let made: fn(Box<Expr>, Box<Expr>) -> Expr = match operator {
            BinaryOp::Pipe(None) => Expr::Pipe,
            BinaryOp::Comma => Expr::Comma,
            BinaryOp::Alt => Expr::Alternative,
            BinaryOp::Or => Expr::Or,
            BinaryOp::And => Expr::And,
            BinaryOp::Cmp(cmp) => return Ok(Expr::Compare(self.boxed(left)?, cmp, self.boxed(right)?)),
            BinaryOp::Pipe(Some(_)) => return unsupported("as"),
            BinaryOp::Math(math) => return unsupported(math.as_str()),
            BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
                return unsupported("an assignment");
            }
        };
        Ok(made(self.boxed(left)?, self.boxed(right)?))
    }

    fn call(&mut self, name: &str, arguments: Vec<Term<&str>>) -> Result<Expr, String> {
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next().ok_or_else(String::new);
        let items = || Box::new(Expr::Iterate(Box::new(Expr::Identity), false));
        let input = || Box::new(Expr::Identity);
        let indexed = |key: i64| Expr::Index(input(), Box::new(Expr::Constant(key.into())), false);
        Ok(match (name, count) {
            ("null", 0) => Expr::Constant(Value::Null),
            ("true", 0) => Expr::Constant(true.into()),
            ("false", 0) => Expr::Constant(false.into()),
            ("empty", 0) => Expr::Empty,
            ("not", 0) => Expr::Not,
            ("length", 0) => Expr::Length,
            ("type", 0) => Expr::Type,
            ("recurse", 0) => Expr::Recurse,
            ("first", 0) => indexed(0),
            ("last", 0) => indexed(-1),
            ("any", 0) => Expr::Any(items(), input()),
            ("all", 0) => Expr::All(items(), input()),
            ("any", 1) => Expr::Any(items(), self.boxed(next()?)?),
            ("all", 1) => Expr::All(items(), self.boxed(next()?)?),
            ("any", 2) => Expr::Any(self.boxed(next()?)?, self.boxed(next()?)?),
            ("all", 2) => Expr::All(self.boxed(next()?)?, self.boxed(next()?)?),
            ("select", 1) => Expr::Select(self.boxed(next()?)?),
            ("has", 1) => Expr::Test(Test::Has, self.boxed(next()?)?),
            ("contains", 1) => Expr::Test(Test::Contains, self.boxed(next()?)?),
            ("startswith", 1) => Expr::Test(Test::StartsWith, self.boxed(next()?)?),
            ("endswith", 1) => Expr::Test(Test::EndsWith, self.boxed(next()?)?),
            ("getpath", 1) => below(literal(next()?)?)?,
            ("test", 1) => self.pattern(literal(next()?)?)?,
            (_, 0) if let Some(types) = of_type(name) => Expr::OfType(types),
            (_, 0) => return unsupported(name),
            (..) => return unsupported(&format!("{name}/{count}")),
        })
    }

    fn pattern(&mut self, pattern: Value) -> Result<Expr, String> {
        let Value::String(pattern) = pattern else { return unsupported("test without a string") };
        let before = self.patterns;
        let regex = compile_within(&pattern, &mut self.patterns).map_err(|error| {
            format!("the regular expression {pattern:?} is invalid or too large: {error}")
        })?;
        let size = before - self.patterns;
        self.budget.take(size / BYTES_OF_A_STEP).map_err(|error| error.to_string())?;
        Ok(Expr::Matches { regex: Box::new(regex), size })
    }
}

/// Returns the types that a filter function accepts.
fn of_type(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "arrays" => &["array"],
        "objects" => &["object"],
        "strings" => &["string"],
        "numbers" => &["number"],
        "booleans" => &["boolean"],
        "nulls" => &["null"],
        "iterables" => &["array", "object"],
        "scalars" => &["null", "boolean", "number", "string"],
        "values" => &["boolean", "number", "string", "array", "object"],
        _ => return None,
    })
}

/// Returns the expression for a literal path (`getpath`).
fn below(path: Value) -> Result<Expr, String> {
    let Value::Array(steps) = path else { return unsupported("getpath without a list") };
    let index = |target, key| Expr::Index(Box::new(target), Box::new(Expr::Constant(key)), false);
    Ok(steps.into_iter().fold(Expr::Identity, index))
}

/// Returns the value of a literal.
fn literal(term: Term<&str>) -> Result<Value, String> {
    let number = |text: String| {
        let number: Option<Number> = text.parse().ok();
        number.map_or_else(|| unsupported(&format!("the number {text}")), |number| Ok(number.into()))
    };
    match term {
        Term::Num(text) => number(text.to_owned()),
        Term::Neg(inner) => match *inner {
            Term::Num(text) => number(format!("-{text}")),
            _ => unsupported("-"),
        },
        Term::Str(None, parts) => {
            let parts = parts.into_iter().map(|part| match part {
                StrPart::Str(text) => Ok(text.to_owned()),
                StrPart::Char(char) => Ok(char.to_string()),
                StrPart::Term(_) => unsupported("a string with an expression in it"),
            });
            parts.collect::<Result<String, _>>().map(Value::String)
        }
        Term::Str(Some(format), _) => unsupported(format),
        Term::Arr(None) => Ok(Value::Array(Vec::new())),
        Term::Arr(Some(items)) => {
            let mut list = Vec::new();
            let mut rest = *items;
            while let Term::BinOp(left, BinaryOp::Comma, right) = rest {
                list.push(literal(*right)?);
                rest = *left;
            }
            list.push(literal(rest)?);
            list.reverse();
            Ok(Value::Array(list))
        }
        Term::Call(name, arguments) if arguments.is_empty() => match name {
            "null" => Ok(Value::Null),
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => unsupported("a value other than a literal in this place"),
        },
        _ => unsupported("a value other than a literal in this place"),
    }
}
