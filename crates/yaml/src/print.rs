//! Prints JSON values as YAML, as `kubectl kustomize` does.
//!
//! Maps use the natural order of their keys (`a2` before `a10`). Strings are plain unless they could be read as
//! another type. Text of several lines becomes a literal block. Plain text folds at the first space after column
//! 80.
//!
//! To match kubectl byte for byte, this needs the emitter of go-yaml, a port of libyaml. `libyaml-safer` is also a
//! port of libyaml, but lacks what go-yaml changed: the order of keys, and the folding of long text.

use std::fmt::Write;

use serde_json::{Map, Number, Value as Json};

use super::order::sorted;
use super::scalar_style::{Notation, ScalarAnalysis, has_line_breaks, is_break, is_printable};

/// The column after which a line folds at the next space.
const BEST_WIDTH: usize = 80;
/// The longest key in the simple form; longer keys start with `? `.
const MAX_SIMPLE_KEY: usize = 128;
const INDENT: usize = 2;

/// Prints objects as one stream, with `---` between them.
pub fn print_stream<'a>(objects: impl IntoIterator<Item = &'a Map<String, Json>>) -> String {
    objects.into_iter().map(print).collect::<Vec<_>>().join("---\n")
}

/// Prints a map as a document that ends with a newline.
pub fn print(document: &Map<String, Json>) -> String {
    let mut printer = Printer::new(false);
    if document.is_empty() {
        return "{}\n".into();
    }
    printer.map(document);
    printer.end()
}

/// Prints any value as a document that ends with a newline.
pub fn print_value(document: &Json) -> String {
    let mut printer = Printer::new(false);
    printer.document(document);
    printer.end()
}

/// Prints any value as a document whose lists are indented below their keys.
pub fn print_value_indented(document: &Json) -> String {
    let mut printer = Printer::new(true);
    printer.document(document);
    printer.end()
}

/// The state of the emitter. `column` counts characters; `indention` is true while the line has only indentation
/// and indicators.
struct Printer {
    out: String,
    column: usize,
    indent: usize,
    whitespace: bool,
    indention: bool,
    /// True if lists are indented below their keys.
    indents_lists: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    /// The value of a field.
    Field,
    /// An item of a list.
    Item,
    /// A key that fits on a line.
    SimpleKey,
    /// A key in the explicit form.
    ComplexKey,
}

impl Printer {
    fn new(indents_lists: bool) -> Self {
        Self { out: String::new(), column: 0, indent: 0, whitespace: true, indention: true, indents_lists }
    }

    /// Prints the root value, whose fields and items start in the first column.
    fn document(&mut self, document: &Json) {
        match document {
            Json::Object(map) if !map.is_empty() => self.map(map),
            Json::Array(items) if !items.is_empty() => self.items(items),
            other => self.value(other, Context::Field),
        }
    }

    fn end(mut self) -> String {
        if self.column > 0 {
            self.out.push('\n');
        }
        self.out
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn newline(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    fn write_indent(&mut self) {
        if !self.indention || self.column > self.indent || (self.column == self.indent && !self.whitespace) {
            self.newline();
        }
        while self.column < self.indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, spaced: bool, keeps_indention: bool) {
        if spaced && !self.whitespace {
            self.put(' ');
        }
        text.chars().for_each(|c| self.put(c));
        self.whitespace = false;
        self.indention = self.indention && keeps_indention;
    }

    fn map(&mut self, map: &Map<String, Json>) {
        for (key, value) in sorted(map.iter().collect()) {
            self.write_indent();
            if key.len() <= MAX_SIMPLE_KEY && !has_line_breaks(key) {
                self.string(key, Context::SimpleKey);
                self.indicator(":", false, false);
            } else {
                self.indicator("?", true, true);
                self.string(key, Context::ComplexKey);
                self.write_indent();
                self.indicator(":", true, true);
            }
            self.value(value, Context::Field);
        }
    }

    fn value(&mut self, value: &Json, context: Context) {
        match value {
            Json::Null => self.word("null"),
            Json::Bool(true) => self.word("true"),
            Json::Bool(false) => self.word("false"),
            Json::Number(number) => self.word(&number_text(number)),
            Json::String(text) => self.string(text, context),
            Json::Array(items) if items.is_empty() => self.word("[]"),
            Json::Object(map) if map.is_empty() => self.word("{}"),
            Json::Array(items) => {
                let indentless = context == Context::Field && !self.indention && !self.indents_lists;
                self.nested(indentless, |printer| printer.items(items));
            }
            Json::Object(map) => self.nested(false, |printer| printer.map(map)),
        }
    }

    fn items(&mut self, items: &[Json]) {
        for item in items {
            self.write_indent();
            self.indicator("-", true, true);
            self.value(item, Context::Item);
        }
    }

    fn nested(&mut self, indentless: bool, body: impl FnOnce(&mut Self)) {
        let outer = self.indent;
        if !indentless {
            self.indent += INDENT;
        }
        body(self);
        self.indent = outer;
    }

    fn word(&mut self, text: &str) {
        self.indicator(text, true, false);
    }

    fn string(&mut self, text: &str, context: Context) {
        let looks = ScalarAnalysis::new(text);
        let simple_key = context == Context::SimpleKey;
        let outer = self.indent;
        self.indent += INDENT;
        match looks.notation(text, simple_key) {
            Notation::Plain => self.plain(text, !simple_key),
            Notation::Single => self.single(text, !simple_key),
            Notation::Double => self.double(text, !simple_key),
            Notation::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    fn plain(&mut self, text: &str, folds: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' && folds && !after_space && self.column > BEST_WIDTH && chars.peek() != Some(&' ') {
                self.write_indent();
            } else {
                self.put(c);
                self.indention = self.indention && c == ' ';
            }
            after_space = c == ' ';
        }
        self.whitespace = false;
        self.indention = false;
    }

    /// Writes a value in single quotes. The value has line breaks only if it cannot be a block; each break is then
    /// doubled, as folding requires.
    fn single(&mut self, text: &str, folds: bool) {
        self.indicator("'", true, false);
        let (mut after_space, mut after_break) = (false, false);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let inside = at > 0 && at + 1 < text.len();
            if c == ' ' {
                let next_is_space = chars.peek().is_some_and(|(_, next)| *next == ' ');
                if folds && !after_space && self.column > BEST_WIDTH && inside && !next_is_space {
                    self.write_indent();
                } else {
                    self.put(c);
                }
                (after_space, after_break) = (true, after_break);
            } else if is_break(c) {
                if !after_break && c == '\n' {
                    self.newline();
                }
                self.write_break(c);
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.write_indent();
                }
                if c == '\'' {
                    self.put('\'');
                }
                self.put(c);
                self.indention = false;
                (after_space, after_break) = (false, false);
            }
        }
        self.indicator("'", false, false);
    }

    fn double(&mut self, text: &str, folds: bool) {
        self.indicator("\"", true, false);
        // libyaml checks for a byte order mark at the start of the text, not at the current character.
        let starts_with_mark = text.starts_with('\u{feff}');
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let inside = at > 0 && at + 1 < text.len();
            if !is_printable(c) || starts_with_mark || is_break(c) || c == '"' || c == '\\' {
                self.escape(c);
                after_space = false;
            } else if c == ' ' {
                if folds && !after_space && self.column > BEST_WIDTH && inside {
                    self.write_indent();
                    if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                after_space = true;
            } else {
                self.put(c);
                after_space = false;
            }
        }
        self.indicator("\"", false, false);
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => "\\0",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            '\r' => "\\r",
            '\u{1b}' => "\\e",
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{85}' => "\\N",
            '\u{a0}' => "\\_",
            '\u{2028}' => "\\L",
            '\u{2029}' => "\\P",
            _ => "",
        };
        let long = match u32::from(c) {
            _ if !short.is_empty() => short.to_owned(),
            code @ ..=0xff => format!("\\x{code:02X}"),
            code @ ..=0xffff => format!("\\u{code:04X}"),
            code => format!("\\U{code:08X}"),
        };
        long.chars().for_each(|c| self.put(c));
    }

    fn write_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator("2", false, false);
        }
        let mut last = text.chars().rev();
        match (last.next().is_some_and(is_break), last.next()) {
            (false, _) => self.indicator("-", false, false),
            (true, None) => self.indicator("+", false, false),
            (true, Some(c)) if is_break(c) => self.indicator("+", false, false),
            (true, Some(_)) => {}
        }
        self.newline();
        self.indention = true;
        self.whitespace = true;
        let mut after_break = true;
        for c in text.chars() {
            if is_break(c) {
                self.write_break(c);
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.write_indent();
                }
                self.put(c);
                self.indention = false;
                after_break = false;
            }
        }
    }
}

/// Folds text as kustomize does, which writes and reads the folded blocks of every object once more.
///
/// Its emitter decides by the start of the text whether lines need a second break to stay apart. So it adds breaks
/// before indented lines and at the end, or joins lines if the text starts with an indented one.
pub(super) fn refolded(text: &str) -> String {
    // Unlike the printing emitter, this one does not treat tabs specially.
    let looks = ScalarAnalysis::new(&text.replace('\t', "_"));
    if !looks.fits_a_block() {
        return text.to_owned();
    }
    let is_indented = |text: &str| text.starts_with([' ', '\t']);
    let mut rest = text.trim_start_matches('\n');
    let starts_indented = is_indented(rest);
    let mut refolded = "\n".repeat(text.len() - rest.len());
    while let Some(end) = rest.find('\n') {
        let (line, after) = rest.split_at(end);
        rest = after.trim_start_matches('\n');
        let breaks = after.len() - rest.len();
        refolded.push_str(line);
        let written = breaks + usize::from(!starts_indented && !is_indented(line));
        let folds = !is_indented(line) && !is_indented(rest);
        match (rest.is_empty(), folds, written) {
            (true, _, _) if breaks == 1 => refolded.push('\n'),
            (false, true, 1) => refolded.push(' '),
            (false, true, _) => refolded.push_str(&"\n".repeat(written - 1)),
            (_, _, _) => refolded.push_str(&"\n".repeat(written)),
        }
    }
    refolded.push_str(rest);
    refolded
}

fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), _, _) => integer.to_string(),
        (_, Some(integer), _) => integer.to_string(),
        (_, _, Some(float)) => float_text(float),
        (None, None, None) => number.to_string(),
    }
}

/// Returns the shortest text of a float in Go's `g` format: with an exponent from 1e+06 on and below 1e-04.
pub(crate) fn float_text(float: f64) -> String {
    // Rust's `{:e}` is the shortest text that reads back as the same float: digits, an optional fraction, and the
    // exponent.
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mut text = mantissa.to_owned();
    // Writing to a string cannot fail.
    let _ = write!(text, "e{sign}{:02}", exponent.abs());
    text
}
