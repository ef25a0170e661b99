//! Tokenizes templates. Based on Go's `text/template/parse/lex.go`.

use super::node::Pos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Left,
    Right,
    Space,
    Bool,
    Char,
    Number,
    Str,
    RawStr,
    Field,
    Variable,
    Identifier,
    Keyword,
    Dot,
    Nil,
    Assign,
    Declare,
    Pipe,
    Comma,
    LeftParen,
    RightParen,
    End,
    /// Unreadable text. Like Go's parser, ours reports it when it gets there.
    Error,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) pos: usize,
    pub(super) text: &'a str,
}

impl Token<'_> {
    pub(super) fn pos(&self) -> Pos {
        Pos::try_from(self.pos).unwrap_or(Pos::MAX)
    }
}

/// The location and reason of unreadable text.
#[derive(Debug)]
struct LexError {
    pos: usize,
    reason: String,
}

type Result<T> = std::result::Result<T, LexError>;

const KEYWORDS: [&str; 10] =
    ["block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"];
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Returns the tokens before the end or the first error.
pub(super) fn tokens(text: &str) -> (Vec<Token<'_>>, Option<String>) {
    let mut lexer = Lexer { text, pos: 0, parens: 0, tokens: Vec::new() };
    let reason = lexer.run().err().map(|LexError { pos, reason }| {
        lexer.tokens.push(Token { kind: Kind::Error, pos, text: "" });
        reason
    });
    (lexer.tokens, reason)
}

struct Lexer<'a> {
    text: &'a str,
    pos: usize,
    parens: usize,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn emit(&mut self, kind: Kind, start: usize) {
        let text = self.text.get(start..self.pos).unwrap_or_default();
        self.tokens.push(Token { kind, pos: start, text });
    }

    fn error<T>(&self, pos: usize, reason: impl Into<String>) -> Result<T> {
        Err(LexError { pos, reason: reason.into() })
    }

    fn run(&mut self) -> Result<()> {
        let mut trim_next = false;
        loop {
            if trim_next {
                self.pos += self.rest().len() - self.rest().trim_start_matches(SPACES).len();
            }
            let start = self.pos;
            let Some(at) = self.rest().find("{{") else {
                self.pos = self.text.len();
                if self.pos > start {
                    self.emit(Kind::Text, start);
                }
                self.emit(Kind::End, self.pos);
                return Ok(());
            };
            let open = start + at;
            let after = self.text.get(open + 2..).unwrap_or_default();
            let trims = after.starts_with('-') && after.chars().nth(1).is_some_and(|c| SPACES.contains(&c));
            let before = self.text.get(start..open).unwrap_or_default();
            let text = if trims { before.trim_end_matches(SPACES) } else { before };
            if !text.is_empty() {
                self.tokens.push(Token { kind: Kind::Text, pos: start, text });
            }
            self.pos = open + 2 + if trims { 2 } else { 0 };
            // More than one space may separate a trim marker from a comment.
            trim_next = if self.rest().starts_with("/*") {
                self.comment(open)?
            } else {
                self.tokens.push(Token { kind: Kind::Left, pos: open, text: "{{" });
                self.parens = 0;
                self.action(open)?
            };
        }
    }

    fn comment(&mut self, open: usize) -> Result<bool> {
        let Some(end) = self.rest().find("*/") else { return self.error(open, "unclosed comment") };
        self.pos += end + 2;
        if self.rest().starts_with("}}") {
            self.pos += 2;
            return Ok(false);
        }
        if self.closes_with_trim() {
            self.pos += 4;
            return Ok(true);
        }
        self.error(open, "comment ends before closing delimiter")
    }

    fn closes_with_trim(&self) -> bool {
        let rest = self.rest();
        rest.starts_with(SPACES) && rest.get(1..).is_some_and(|rest| rest.starts_with("-}}"))
    }

    /// Reads the tokens between delimiters. Returns true if the closing delimiter trims the following text.
    fn action(&mut self, open: usize) -> Result<bool> {
        loop {
            let trims = self.closes_with_trim();
            if trims || self.rest().starts_with("}}") {
                if self.parens > 0 {
                    return self.error(self.pos, "unclosed left paren");
                }
                self.pos += if trims { 2 } else { 0 };
                let start = self.pos;
                self.pos += 2;
                self.emit(Kind::Right, start);
                return Ok(trims);
            }
            let start = self.pos;
            let Some(c) = self.peek() else { return self.error(open, "unclosed action") };
            self.pos += c.len_utf8();
            match c {
                ' ' | '\t' | '\r' | '\n' => self.space(start),
                '=' => self.emit(Kind::Assign, start),
                ':' => {
                    if self.peek() != Some('=') {
                        return self.error(start, "expected :=");
                    }
                    self.pos += 1;
                    self.emit(Kind::Declare, start);
                }
                '|' => self.emit(Kind::Pipe, start),
                ',' => self.emit(Kind::Comma, start),
                '"' => self.quote(start)?,
                '`' => self.raw_quote(start)?,
                '\'' => self.character(start)?,
                '$' => self.name(start, Kind::Variable)?,
                '.' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => {
                    if self.peek().is_some_and(is_alphanumeric) {
                        self.name(start, Kind::Field)?;
                    } else {
                        self.emit(Kind::Dot, start);
                    }
                }
                '+' | '-' | '.' | '0'..='9' => self.number(start)?,
                '(' => {
                    self.parens += 1;
                    self.emit(Kind::LeftParen, start);
                }
                ')' => {
                    if self.parens == 0 {
                        return self.error(start, "unexpected right paren");
                    }
                    self.parens -= 1;
                    self.emit(Kind::RightParen, start);
                }
                c if is_alphanumeric(c) => self.identifier(start)?,
                c => {
                    return self.error(
                        start,
                        format!("unrecognized character in action: U+{:04X} '{c}'", u32::from(c)),
                    );
                }
            }
        }
    }

    fn space(&mut self, start: usize) {
        while self.peek().is_some_and(|c| SPACES.contains(&c)) && !self.closes_with_trim() {
            self.pos += 1;
        }
        self.emit(Kind::Space, start);
    }

    fn quote(&mut self, start: usize) -> Result<()> {
        loop {
            match self.peek() {
                Some('\\') => {
                    self.pos += 1;
                    match self.peek() {
                        Some(c) if c != '\n' => self.pos += c.len_utf8(),
                        _ => return self.error(start, "unterminated quoted string"),
                    }
                }
                None | Some('\n') => return self.error(start, "unterminated quoted string"),
                Some(c) => {
                    self.pos += c.len_utf8();
                    if c == '"' {
                        break;
                    }
                }
            }
        }
        self.emit(Kind::Str, start);
        Ok(())
    }

    fn raw_quote(&mut self, start: usize) -> Result<()> {
        let Some(end) = self.rest().find('`') else {
            return self.error(start, "unterminated raw quoted string");
        };
        self.pos += end + 1;
        self.emit(Kind::RawStr, start);
        Ok(())
    }

    fn character(&mut self, start: usize) -> Result<()> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices() {
            match c {
                '\n' => break,
                '\'' if !escaped => {
                    self.pos += at + 1;
                    self.emit(Kind::Char, start);
                    return Ok(());
                }
                _ => escaped = c == '\\' && !escaped,
            }
        }
        self.error(start, "unterminated character constant")
    }

    fn name(&mut self, start: usize, kind: Kind) -> Result<()> {
        while let Some(c) = self.peek().filter(|c| is_alphanumeric(*c)) {
            self.pos += c.len_utf8();
        }
        self.check_terminator()?;
        self.emit(kind, start);
        Ok(())
    }

    fn check_terminator(&self) -> Result<()> {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(' | '=') => Ok(()),
            Some(_) if self.rest().starts_with("}}") => Ok(()),
            Some(c) => self.error(self.pos, format!("bad character U+{:04X} '{c}'", u32::from(c))),
        }
    }

    fn identifier(&mut self, start: usize) -> Result<()> {
        while let Some(c) = self.peek().filter(|c| is_alphanumeric(*c)) {
            self.pos += c.len_utf8();
        }
        let word = self.text.get(start..self.pos).unwrap_or_default();
        self.check_terminator()?;
        let kind = match word {
            "nil" => Kind::Nil,
            "true" | "false" => Kind::Bool,
            _ if KEYWORDS.contains(&word) => Kind::Keyword,
            _ => Kind::Identifier,
        };
        self.emit(kind, start);
        Ok(())
    }

    fn number(&mut self, start: usize) -> Result<()> {
        let text = self.text.get(start..).unwrap_or_default();
        let unsigned = text.trim_start_matches(['+', '-']);
        let sign = usize::from(text.len() > unsigned.len());
        let is_hex = unsigned.starts_with("0x") || unsigned.starts_with("0X");
        let mut end = sign;
        let mut previous = '\0';
        for c in text.chars().skip(sign) {
            let exponent =
                matches!(previous, 'e' | 'E' if !is_hex) || matches!(previous, 'p' | 'P' if is_hex);
            if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || (exponent && matches!(c, '+' | '-'))) {
                break;
            }
            previous = c;
            end += c.len_utf8();
        }
        self.pos = start + end.max(1);
        if self.peek().is_some_and(is_alphanumeric) || end == sign {
            let bad = self.text.get(start..self.pos).unwrap_or_default();
            return self.error(start, format!("bad number syntax: {bad:?}"));
        }
        self.emit(Kind::Number, start);
        Ok(())
    }
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
