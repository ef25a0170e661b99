//! Regular expressions (Sprig's `regex.go`) in Go's syntax, which `rust_syntax` translates.

use regex::{Regex, RegexBuilder};

use super::strings::text;
use super::{Call, Function, Outcome, Type};
use crate::budget::Budget;
use crate::fault::Fault;
use crate::value::Value;

/// Maximum size of a compiled expression.
const MAX_SIZE: usize = 2 << 20;

const TWO: &[Type] = &[Type::Str, Type::Str];
const THREE: &[Type] = &[Type::Str, Type::Str, Type::Str];
const COUNTED: &[Type] = &[Type::Str, Type::Str, Type::Int];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("regexMatch", TWO, |call| {
        let regex = compile(&call, call.str(0));
        Ok(Value::Bool(regex.is_ok_and(|regex| regex.is_match(call.str(1)))))
    }),
    Function::new("mustRegexMatch", TWO, |call| {
        Ok(Value::Bool(compile(&call, call.str(0))?.is_match(call.str(1))))
    }),
    Function::new("regexFind", TWO, find),
    Function::new("mustRegexFind", TWO, find),
    Function::new("regexFindAll", COUNTED, find_all),
    Function::new("mustRegexFindAll", COUNTED, find_all),
    Function::new("regexReplaceAll", THREE, replace_all),
    Function::new("mustRegexReplaceAll", THREE, replace_all),
    Function::new("regexReplaceAllLiteral", THREE, replace_all_literal),
    Function::new("mustRegexReplaceAllLiteral", THREE, replace_all_literal),
    Function::new("regexSplit", COUNTED, split),
    Function::new("mustRegexSplit", COUNTED, split),
    Function::new("regexQuoteMeta", &[Type::Str], |call| text(&quote_meta(call.str(0)))),
];

/// Returns true if a schema's pattern matches anywhere in a text.
pub(crate) fn matches(budget: &Budget, pattern: &str, text: &str) -> Result<bool, Fault> {
    Ok(compile_for(budget, pattern, text.len())?.is_match(text))
}

fn compile(call: &Call<'_>, pattern: &str) -> Result<Regex, Fault> {
    let subject = call.args.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0);
    compile_for(&call.env.budget, pattern, subject)
}

fn compile_for(budget: &Budget, pattern: &str, subject: usize) -> Result<Regex, Fault> {
    // Compiling takes far longer than evaluating a node.
    budget.work(200 + pattern.len() as u64 * 20)?;
    budget.work(subject as u64 / 16)?;
    let rust = rust_syntax(pattern);
    let built = RegexBuilder::new(&rust).size_limit(MAX_SIZE).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            Fault::budget("regex", format!("the regular expression needs more than {limit} bytes"))
        }
        error => {
            let error = error.to_string();
            let reason = match error.lines().last().unwrap_or_default().trim_start_matches("error: ") {
                "unclosed group" => "missing closing )",
                "unopened group" => "unexpected )",
                "unclosed character class" => "missing closing ]",
                "repetition operator missing expression" => "missing argument to repetition operator",
                other => other,
            };
            format!("error parsing regexp: {reason}: `{pattern}`").into()
        }
    })
}

/// Rewrites syntax that Go accepts and Rust does not: a class such as `\w` next to a hyphen, braces that are not a
/// repetition, and brackets inside a class. In Go, Perl classes match only ASCII.
fn rust_syntax(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut rewriter =
        Rewriter { chars: &chars, at: 0, out: String::with_capacity(pattern.len() + 8), class: None };
    while let Some(c) = rewriter.get(0) {
        if c == '\\' {
            rewriter.escape();
        } else {
            rewriter.plain(c);
            rewriter.at += 1;
        }
    }
    rewriter.out
}

struct Rewriter<'a> {
    chars: &'a [char],
    at: usize,
    out: String,
    /// The position of the first character of the open class.
    class: Option<usize>,
}

impl Rewriter<'_> {
    fn get(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn plain(&mut self, c: char) {
        let (next, at) = (self.get(1), self.at);
        match (c, self.class) {
            ('[', None) => {
                self.out.push('[');
                if next == Some('^') {
                    self.out.push('^');
                    self.at += 1;
                }
                self.class = Some(self.at + 1);
            }
            ('[', Some(_)) if next == Some(':') => self.out.push('['),
            ('[', Some(_)) => self.out.push_str("\\["),
            (']', Some(start)) if at == start => self.out.push_str("\\]"),
            (']', Some(_)) if is_posix_end(self.chars, at) => self.out.push(']'),
            (']', _) => {
                self.class = None;
                self.out.push(']');
            }
            ('&' | '~' | '-', Some(_)) if next == Some(c) => self.out.extend(['\\', c]),
            ('{', None) if !is_repetition(self.chars, at) => self.out.push_str("\\{"),
            ('}', None) if !closes_repetition(self.chars, at) => self.out.push_str("\\}"),
            (c, _) => self.out.push(c),
        }
    }

    fn escape(&mut self) {
        let Some(escaped) = self.get(1) else {
            self.out.push('\\');
            self.at += 1;
            return;
        };
        self.at += 2;
        let in_class = self.class.is_some();
        match escaped {
            'd' => self.out.push_str(if in_class { "0-9" } else { "[0-9]" }),
            'w' => self.out.push_str(if in_class { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
            's' => self.out.push_str(if in_class { "\\t\\n\\x0c\\r " } else { "[\\t\\n\\x0c\\r ]" }),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'S' => self.out.push_str("[^\\t\\n\\x0c\\r ]"),
            'b' if !in_class => self.out.push_str(r"(?-u:\b)"),
            'Q' => self.literal(),
            c => self.out.extend(['\\', c]),
        }
        // The braces of `\p{L}` and `\x{10FFFF}` are not a repetition.
        if matches!(escaped, 'p' | 'P' | 'x') && self.get(0) == Some('{') {
            while let Some(c) = self.get(0) {
                self.out.push(c);
                self.at += 1;
                if c == '}' {
                    break;
                }
            }
        }
        // After a class, a hyphen is a literal hyphen.
        if in_class && matches!(escaped, 'd' | 'w' | 's' | 'D' | 'W' | 'S') && self.get(0) == Some('-') {
            self.out.push_str("\\-");
            self.at += 1;
        }
    }

    /// Copies the text between `\Q` and `\E` literally.
    fn literal(&mut self) {
        while let Some(c) = self.get(0) {
            if c == '\\' && self.get(1) == Some('E') {
                self.at += 2;
                return;
            }
            self.out.push_str(&regex::escape(&c.to_string()));
            self.at += 1;
        }
    }
}

/// Returns true if a bracket closes a name such as `[:alpha:]`.
fn is_posix_end(chars: &[char], at: usize) -> bool {
    if at == 0 || chars.get(at - 1) != Some(&':') {
        return false;
    }
    let before: String = chars.get(at.saturating_sub(12)..at).unwrap_or_default().iter().collect();
    before.rfind("[:").is_some_and(|open| {
        let inner = before.get(open + 2..before.len() - 1).unwrap_or_default();
        inner.trim_start_matches('^').chars().all(|c| c.is_ascii_lowercase())
    })
}

/// Returns true if a brace opens a repetition such as `{2}` or `{2,}`.
fn is_repetition(chars: &[char], at: usize) -> bool {
    let rest: String = chars.get(at + 1..).unwrap_or_default().iter().take_while(|c| **c != '}').collect();
    let closed = chars.get(at + 1 + rest.chars().count()) == Some(&'}');
    let (low, high) = rest.split_once(',').unwrap_or((&rest, ""));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    closed && !low.is_empty() && is_digits(low) && is_digits(high)
}

fn closes_repetition(chars: &[char], at: usize) -> bool {
    let open = chars.get(..at).unwrap_or_default().iter().rposition(|c| *c == '{');
    open.is_some_and(|open| is_repetition(chars, open))
}

fn find(call: Call<'_>) -> Outcome {
    let regex = compile(&call, call.str(0))?;
    text(regex.find(call.str(1)).map_or("", |found| found.as_str()))
}

fn find_all(call: Call<'_>) -> Outcome {
    let regex = compile(&call, call.str(0))?;
    let limit = usize::try_from(call.int(2)).unwrap_or(usize::MAX);
    Ok(Value::strings(regex.find_iter(call.str(1)).take(limit).map(|found| found.as_str())))
}

fn replace_all(call: Call<'_>) -> Outcome {
    let regex = compile(&call, call.str(0))?;
    let mut out = String::new();
    let mut end = 0;
    let subject = call.str(1);
    for captures in regex.captures_iter(subject) {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(subject.get(end..whole.start()).unwrap_or_default());
        // As in Rust, `$1W` refers to the group `1W` in Go.
        captures.expand(call.str(2), &mut out);
        call.env.budget.bytes(0)?;
        if out.len() > crate::budget::MAX_TEXT {
            call.env.budget.bytes(out.len())?;
        }
        end = whole.end();
    }
    out.push_str(subject.get(end..).unwrap_or_default());
    text(&out)
}

fn replace_all_literal(call: Call<'_>) -> Outcome {
    let regex = compile(&call, call.str(0))?;
    let matches = regex.find_iter(call.str(1)).count();
    call.env.budget.bytes(matches.saturating_mul(call.str(2).len()))?;
    text(&regex.replace_all(call.str(1), regex::NoExpand(call.str(2))))
}

/// Splits like Go's `Regexp.Split`.
fn split(call: Call<'_>) -> Outcome {
    let regex = compile(&call, call.str(0))?;
    let (subject, limit) = (call.str(1), call.int(2));
    if limit == 0 {
        return Ok(Value::Nil);
    }
    if !call.str(0).is_empty() && subject.is_empty() {
        return Ok(Value::strings([""]));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = Vec::new();
    let (mut start, mut end) = (0, 0);
    for found in regex.find_iter(subject) {
        if parts.len() + 1 >= limit {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(subject.get(start..end).unwrap_or_default());
        }
        start = found.end();
    }
    if end != subject.len() {
        parts.push(subject.get(start..).unwrap_or_default());
    }
    Ok(Value::strings(parts))
}

fn quote_meta(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
