//! Regular expressions in Go's syntax, as kustomize reads them.

use regex::{Regex, RegexBuilder};

use super::limits::{MAX_PATTERN_BYTES, MAX_PATTERN_MEMORY};

/// Compiles a regular expression that matches anywhere in a text.
///
/// # Errors
/// Returns a sentence that explains the mistake.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    compile_between("", pattern, "")
}

/// Compiles a regular expression that must match the whole text.
///
/// # Errors
/// See [`compile`].
pub(super) fn anchored(pattern: &str) -> Result<Regex, String> {
    compile_between("^(?:", pattern, ")$")
}

/// Compiles a regular expression with a prefix and a suffix.
///
/// # Errors
/// See [`compile`].
pub(super) fn compile_between(before: &str, pattern: &str, after: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"));
    }
    let whole = format!("{before}{}{after}", translated(pattern));
    let built = RegexBuilder::new(&whole).size_limit(MAX_PATTERN_MEMORY).build();
    built.map_err(|e| {
        format!("not a regular expression: {}", e.to_string().lines().last().unwrap_or_default().trim())
    })
}

/// Escapes what Go reads as literal text and our library does not: braces that are not a repetition, as in
/// `${NAME}`, and brackets within brackets.
fn translated(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = match c {
            '\\' => escape(after, &mut out),
            '{' if !is_repetition(after) => {
                out.push_str("\\{");
                after
            }
            '[' => class(after, &mut out),
            _ => {
                out.push(c);
                after
            }
        };
    }
    out
}

/// Translates the text after a backslash and returns the rest.
fn escape<'p>(text: &'p str, out: &mut String) -> &'p str {
    if let Some(quoted) = text.strip_prefix('Q') {
        let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        out.push_str(&regex::escape(literal));
        return rest;
    }
    let Some(c) = text.chars().next() else {
        out.push('\\');
        return text;
    };
    if c != '<' && c != '>' {
        out.push('\\');
    }
    out.push(c);
    text.get(c.len_utf8()..).unwrap_or_default()
}

/// Returns true if the text starts with `2}`, `2,}` or `2,3}`.
fn is_repetition(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once('}').is_some_and(|(inside, _)| match inside.split_once(',') {
        Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
        None => is_number(inside),
    })
}

/// Translates the text between brackets and returns the rest.
fn class<'p>(text: &'p str, out: &mut String) -> &'p str {
    out.push('[');
    let mut rest = text;
    // A closing bracket in the first position is a literal character.
    for opening in ["^", "]"] {
        if let Some(after) = rest.strip_prefix(opening) {
            out.push_str(opening);
            rest = after;
        }
    }
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let named = after.strip_prefix(':').and_then(|name| name.split_once(":]"));
        rest = match (c, named) {
            ('\\', _) => escape(after, out),
            (']', _) => {
                out.push(c);
                return after;
            }
            ('[', Some((name, after))) => {
                out.push_str(&format!("[:{name}:]"));
                after
            }
            _ => {
                if matches!(c, '[' | '&' | '~') {
                    out.push('\\');
                }
                out.push(c);
                after
            }
        };
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_takes_literally_is_literal() {
        for (pattern, matching, other) in [
            ("a${X}", None, "a${X}"),
            ("{{ a }}", Some("{{ a }}"), "a"),
            ("a{,2}", Some("a{,2}"), "aa"),
            ("a{2}", Some("aa"), "a{2}"),
            ("a{1,}b{2,3}", Some("aabbb"), "ab"),
            ("\\{2}", Some("{2}"), "{{"),
            ("\\Qa.b\\E.", Some("a.bc"), "axbc"),
            ("[[a]", Some("["), "b"),
            ("[]a]", Some("]"), "b"),
            ("[a&&b]", Some("&"), "c"),
            ("[a~~b]", Some("~"), "c"),
            ("[[:alpha:]]+", Some("abc"), "a1"),
            ("\\<a\\>", Some("<a>"), "a"),
        ] {
            let compiled = anchored(pattern).unwrap();
            assert!(matching.is_none_or(|text| compiled.is_match(text)), "{pattern}");
            assert!(!compiled.is_match(other), "{pattern} {other}");
        }
        for broken in ["(", "*", "[a", "a\\"] {
            assert!(anchored(broken).is_err(), "{broken}");
        }
    }
}
