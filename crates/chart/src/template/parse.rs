//! Parses templates. Based on Go's `text/template/parse/parse.go`.

use std::rc::Rc;

use super::lex::{Kind, Token, tokens};
use super::node::{Arg, ArgKind, Branch, Command, Node, Pipe, Pos};
use super::number::{character, number};

/// Maximum nesting of actions and parentheses. Real templates nest about a dozen.
const MAX_NESTING: usize = 500;

/// A parsed template: a file or a `define`.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The file name, for errors.
    pub(crate) file: Rc<str>,
    /// The text of the file, for line numbers in errors.
    pub(crate) text: Rc<str>,
    pub(crate) name: Rc<str>,
    pub(crate) root: Vec<Node>,
}

impl Tree {
    /// Returns true if the template contains only whitespace.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
    }

    /// Returns the file, line and column of a node, as in Go's errors.
    pub(crate) fn location(&self, pos: Pos) -> String {
        let before = self.text.as_bytes().get(..pos as usize).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
        format!("{}:{line}:{column}", self.file)
    }

    /// Returns the text of a node's action, from the start of the line, which contains the key of its value. If
    /// the action is long, returns only the part near the node.
    pub(crate) fn action(&self, pos: Pos) -> &[u8] {
        const REACH: usize = 2 << 10;
        let (bytes, pos) = (self.text.as_bytes(), pos as usize);
        let from = pos.saturating_sub(REACH);
        let before = bytes.get(from..pos).unwrap_or_default();
        let after = bytes.get(pos..bytes.len().min(pos + REACH)).unwrap_or_default();
        let action = before.windows(2).rposition(|two| two == b"{{").unwrap_or(0);
        let line = before.iter().take(action).rposition(|byte| *byte == b'\n').unwrap_or(0);
        let end = after.windows(2).position(|two| two == b"}}").unwrap_or(after.len());
        bytes.get(from + line..pos + end).unwrap_or_default().trim_ascii()
    }
}

/// Text that cannot be parsed as a template.
#[derive(Clone, Debug)]
pub(crate) struct ParseError {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

type Result<T> = std::result::Result<T, ParseError>;

/// Parses a file. Returns its tree and the templates that it defines.
pub(crate) fn parse(file: &Rc<str>, text: &str, is_function: &dyn Fn(&str) -> bool) -> Result<Vec<Tree>> {
    let (tokens, unreadable) = tokens(text);
    let mut parser = Parser {
        file: file.clone(),
        text: text.into(),
        tokens,
        unreadable,
        at: 0,
        vars: vec!["$".into()],
        range_depth: 0,
        nesting: 0,
        defined: Vec::new(),
        is_function,
    };
    let root = parser.file()?;
    let Parser { file, text, mut defined, .. } = parser;
    defined.push(Tree { name: file.clone(), file, text, root });
    Ok(defined)
}

/// The action that ended a list of nodes.
#[derive(PartialEq, Eq)]
enum Ender {
    End,
    Else,
}

struct Parser<'a> {
    file: Rc<str>,
    text: Rc<str>,
    tokens: Vec<Token<'a>>,
    /// The reason, if the last token is an error.
    unreadable: Option<String>,
    at: usize,
    vars: Vec<Rc<str>>,
    range_depth: usize,
    nesting: usize,
    defined: Vec<Tree>,
    is_function: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        let end = Token { kind: Kind::End, pos: self.text.len(), text: "" };
        self.tokens.get(self.at).copied().unwrap_or(end)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn skip_space(&mut self) {
        while self.peek().kind == Kind::Space {
            self.at += 1;
        }
    }

    fn peek_non_space(&mut self) -> Token<'a> {
        self.skip_space();
        self.peek()
    }

    fn next_non_space(&mut self) -> Token<'a> {
        self.skip_space();
        self.next()
    }

    fn error<T>(&self, reason: impl Into<String>) -> Result<T> {
        let pos =
            self.tokens.get(self.at.saturating_sub(1)).or(self.tokens.last()).map_or(0, |token| token.pos);
        let line = 1 + self.text.bytes().take(pos).filter(|byte| *byte == b'\n').count();
        Err(ParseError { line, reason: reason.into() })
    }

    fn unexpected<T>(&self, token: Token<'_>, context: &str) -> Result<T> {
        if let (Kind::Error, Some(reason)) = (token.kind, &self.unreadable) {
            return self.error(reason.as_str());
        }
        let shown = match token.kind {
            Kind::End => "EOF".to_owned(),
            Kind::Keyword | Kind::Dot | Kind::Nil => format!("<{}>", token.text),
            _ => format!("{:?}", token.text),
        };
        self.error(format!("unexpected {shown} in {context}"))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token<'a>> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { self.unexpected(token, context) }
    }

    fn keyword(&mut self) -> Option<&'a str> {
        let start = self.at;
        if self.peek().kind != Kind::Left {
            return None;
        }
        self.at += 1;
        let token = self.next_non_space();
        if token.kind == Kind::Keyword {
            return Some(token.text);
        }
        self.at = start;
        None
    }

    fn nested<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.error(format!("actions are nested more than {MAX_NESTING} levels deep"));
        }
        let result = stacker::maybe_grow(64 << 10, 1 << 20, || body(self));
        self.nesting -= 1;
        result
    }

    fn file(&mut self) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        while self.peek().kind != Kind::End {
            let start = self.at;
            if self.keyword() == Some("define") {
                self.definition()?;
                continue;
            }
            self.at = start;
            match self.text_or_action()? {
                Ok(node) => nodes.push(node),
                Err(Ender::End) => return self.error("unexpected {{end}}"),
                Err(Ender::Else) => return self.error("unexpected {{else}}"),
            }
        }
        Ok(nodes)
    }

    fn definition(&mut self) -> Result<()> {
        let name = self.name("define clause")?;
        self.expect(Kind::Right, "define clause")?;
        let outer = std::mem::replace(&mut self.vars, vec!["$".into()]);
        let (root, ender) = self.items()?;
        if ender != Ender::End {
            return self.error("unexpected {{else}} in define clause");
        }
        self.vars = outer;
        self.defined.push(Tree { file: self.file.clone(), text: self.text.clone(), name, root });
        Ok(())
    }

    fn name(&mut self, context: &str) -> Result<Rc<str>> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Str | Kind::RawStr => match unquote(token.text) {
                Some(name) => Ok(name.into()),
                None => self.error("invalid syntax"),
            },
            _ => self.unexpected(token, context),
        }
    }

    /// Reads nodes up to `{{end}}` or `{{else}}`.
    fn items(&mut self) -> Result<(Vec<Node>, Ender)> {
        self.nested(|parser| {
            let mut nodes = Vec::new();
            while parser.peek().kind != Kind::End {
                match parser.text_or_action()? {
                    Ok(node) => nodes.push(node),
                    Err(ender) => return Ok((nodes, ender)),
                }
            }
            parser.error("unexpected EOF")
        })
    }

    fn text_or_action(&mut self) -> Result<std::result::Result<Node, Ender>> {
        let token = self.peek();
        if token.kind == Kind::Text {
            self.at += 1;
            return Ok(Ok(Node::Text(token.text.into())));
        }
        let Some(keyword) = self.keyword() else {
            self.expect(Kind::Left, "input")?;
            self.skip_space();
            return Ok(Ok(Node::Action(self.pipeline("command", Kind::Right)?)));
        };
        Ok(Ok(match keyword {
            "if" => Node::If(self.control("if")?),
            "with" => Node::With(self.control("with")?),
            "range" => Node::Range(self.control("range")?),
            "template" => self.template()?,
            "block" => self.block()?,
            "break" | "continue" => {
                self.expect(Kind::Right, &format!("{{{{{keyword}}}}}"))?;
                if self.range_depth == 0 {
                    return self.error(format!("{{{{{keyword}}}}} outside {{{{range}}}}"));
                }
                if keyword == "break" { Node::Break } else { Node::Continue }
            }
            "end" => {
                self.expect(Kind::Right, "end")?;
                return Ok(Err(Ender::End));
            }
            "else" => {
                let next = self.peek_non_space();
                if !(next.kind == Kind::Keyword && matches!(next.text, "if" | "with")) {
                    self.expect(Kind::Right, "else")?;
                }
                return Ok(Err(Ender::Else));
            }
            _ => return self.error("unexpected {{define}}"),
        }))
    }

    fn control(&mut self, context: &'static str) -> Result<Branch> {
        let vars = self.vars.len();
        let pipe = self.pipeline(context, Kind::Right)?;
        self.range_depth += usize::from(context == "range");
        let (body, ender) = self.items()?;
        self.range_depth -= usize::from(context == "range");
        let mut otherwise = Vec::new();
        if ender == Ender::Else {
            let next = self.peek();
            if next.kind == Kind::Keyword && next.text == context && context != "range" {
                self.at += 1;
                let branch = self.nested(|parser| parser.control(context))?;
                otherwise.push(if context == "if" { Node::If(branch) } else { Node::With(branch) });
            } else {
                let (nodes, ender) = self.items()?;
                if ender != Ender::End {
                    return self.error("expected end; found {{else}}");
                }
                otherwise = nodes;
            }
        }
        self.vars.truncate(vars);
        Ok(Branch { pos: pipe.pos, pipe, body, otherwise })
    }

    fn template(&mut self) -> Result<Node> {
        let pos = self.peek_non_space().pos();
        let name = self.name("template clause")?;
        let pipe = if self.peek_non_space().kind == Kind::Right {
            self.at += 1;
            None
        } else {
            Some(self.pipeline("template clause", Kind::Right)?)
        };
        Ok(Node::Template { pos, name, pipe })
    }

    fn block(&mut self) -> Result<Node> {
        let pos = self.peek_non_space().pos();
        let name = self.name("block clause")?;
        let pipe = self.pipeline("block clause", Kind::Right)?;
        let outer = std::mem::replace(&mut self.vars, vec!["$".into()]);
        let (root, ender) = self.items()?;
        if ender != Ender::End {
            return self.error("unexpected {{else}} in block clause");
        }
        self.vars = outer;
        let tree = Tree { file: self.file.clone(), text: self.text.clone(), name: name.clone(), root };
        self.defined.push(tree);
        Ok(Node::Template { pos, name, pipe: Some(pipe) })
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipe> {
        let pos = self.peek_non_space().pos();
        let mut pipe = Pipe { pos, is_assign: false, decl: Vec::new(), commands: Vec::new() };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.peek_non_space();
            match token.kind {
                kind if kind == end => {
                    self.at += 1;
                    self.check_pipeline(&pipe, context)?;
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::Char
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawStr
                | Kind::Str
                | Kind::Variable
                | Kind::LeftParen => pipe.commands.push(self.command()?),
                _ => {
                    self.at += 1;
                    return self.unexpected(token, context);
                }
            }
        }
    }

    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Result<()> {
        loop {
            let start = self.at;
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.at += 1;
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    self.at += 1;
                    pipe.is_assign = next.kind == Kind::Assign;
                    pipe.decl.push(variable.text.into());
                    self.vars.push(variable.text.into());
                    return Ok(());
                }
                Kind::Comma => {
                    self.at += 1;
                    pipe.decl.push(variable.text.into());
                    self.vars.push(variable.text.into());
                    if context != "range" || pipe.decl.len() >= 2 {
                        return self.error(format!("too many declarations in {context}"));
                    }
                    if !matches!(self.peek_non_space().kind, Kind::Variable | Kind::Right | Kind::RightParen)
                    {
                        return self.error("range can only initialize variables");
                    }
                }
                _ => {
                    self.at = start;
                    return Ok(());
                }
            }
        }
    }

    fn check_pipeline(&self, pipe: &Pipe, context: &str) -> Result<()> {
        if pipe.commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (at, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = command.args.first().map(|arg| &arg.kind);
            if matches!(
                first,
                Some(
                    ArgKind::Bool(_) | ArgKind::Dot | ArgKind::Nil | ArgKind::Number(_) | ArgKind::Str { .. }
                )
            ) {
                return self.error(format!("non executable command in pipeline stage {}", at + 1));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Result<Command> {
        let mut command = Command { pos: self.peek_non_space().pos(), args: Vec::new() };
        loop {
            self.skip_space();
            command.args.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                Kind::Space => {}
                Kind::Right | Kind::RightParen => {
                    self.at -= 1;
                    break;
                }
                Kind::Pipe => break,
                _ => return self.unexpected(token, "operand"),
            }
        }
        if command.args.is_empty() {
            return self.error("empty command");
        }
        Ok(command)
    }

    fn operand(&mut self) -> Result<Option<Arg>> {
        let Some(arg) = self.term()? else { return Ok(None) };
        if self.peek().kind != Kind::Field {
            return Ok(Some(arg));
        }
        let pos = self.peek().pos();
        let mut names = Vec::new();
        while self.peek().kind == Kind::Field {
            names.push(Rc::from(self.next().text.trim_start_matches('.')));
        }
        let kind = match arg.kind {
            ArgKind::Field(mut first) => {
                first.extend(names);
                ArgKind::Field(first)
            }
            ArgKind::Variable(name, mut first) => {
                first.extend(names);
                ArgKind::Variable(name, first)
            }
            ArgKind::Bool(_) | ArgKind::Str { .. } | ArgKind::Number(_) | ArgKind::Nil | ArgKind::Dot => {
                return self.error(format!("unexpected . after term {:?}", arg.to_string()));
            }
            _ => ArgKind::Chain(Box::new(arg), names),
        };
        Ok(Some(Arg { pos, kind }))
    }

    fn term(&mut self) -> Result<Option<Arg>> {
        let token = self.next_non_space();
        let kind = match token.kind {
            Kind::Identifier => {
                if !(self.is_function)(token.text) {
                    return self.error(format!("function {:?} not defined", token.text));
                }
                ArgKind::Identifier(token.text.into())
            }
            Kind::Dot => ArgKind::Dot,
            Kind::Nil => ArgKind::Nil,
            Kind::Variable => {
                if !self.vars.iter().any(|name| **name == *token.text) {
                    return self.error(format!("undefined variable {:?}", token.text));
                }
                ArgKind::Variable(token.text.into(), Vec::new())
            }
            Kind::Field => ArgKind::Field(vec![token.text.trim_start_matches('.').into()]),
            Kind::Bool => ArgKind::Bool(token.text == "true"),
            Kind::Char | Kind::Number => {
                let read = if token.kind == Kind::Char { character(token.text) } else { number(token.text) };
                match read {
                    Some(number) => ArgKind::Number(number),
                    None => return self.error(format!("bad number syntax: {:?}", token.text)),
                }
            }
            Kind::LeftParen => {
                let pipe =
                    self.nested(|parser| parser.pipeline("parenthesized pipeline", Kind::RightParen))?;
                return Ok(Some(Arg { pos: pipe.pos, kind: ArgKind::Pipe(Box::new(pipe)) }));
            }
            Kind::Str | Kind::RawStr => match unquote(token.text) {
                Some(value) => ArgKind::Str { value: value.into(), quoted: token.text.into() },
                None => return self.error("invalid syntax"),
            },
            _ => {
                self.at -= 1;
                return Ok(None);
            }
        };
        Ok(Some(Arg { pos: token.pos(), kind }))
    }
}

/// Returns the text of a quoted or raw string, like Go's `strconv.Unquote`.
fn unquote(text: &str) -> Option<String> {
    if let Some(raw) = text.strip_prefix('`') {
        return raw.strip_suffix('`').map(|raw| raw.replace('\r', ""));
    }
    unescape(text.strip_prefix('"')?.strip_suffix('"')?)
}

/// Resolves Go's escape sequences.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        let c = match chars.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            c @ ('\\' | '\'' | '"') => c,
            'x' => {
                bytes.push(u8::try_from(hex(&mut chars, 2)?).ok()?);
                continue;
            }
            'u' => char::from_u32(hex(&mut chars, 4)?)?,
            'U' => char::from_u32(hex(&mut chars, 8)?)?,
            first @ '0'..='7' => {
                let mut value = first.to_digit(8)?;
                for _ in 0..2 {
                    value = value * 8 + chars.next()?.to_digit(8)?;
                }
                bytes.push(u8::try_from(value).ok()?);
                continue;
            }
            _ => return None,
        };
        bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(chars: &mut std::str::Chars<'_>, count: usize) -> Option<u32> {
    let mut value = 0;
    for _ in 0..count {
        value = value * 16 + chars.next()?.to_digit(16)?;
    }
    Some(value)
}
