//! A tokenizer of Rust source for the checks of names and imports.

/// Returns the identifiers, `::` and single characters of a source text. Comments are dropped; a literal becomes
/// `"`.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    written(text).into_iter().map(|token| if is_literal(token) { "\"" } else { token }).collect()
}

/// Returns the tokens of a source text, keeping literals unchanged.
fn written(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = next(rest, first);
        let (token, after) = rest.split_at(length);
        if is_token {
            found.push(token);
        }
        rest = after;
    }
    found
}

/// Returns the length of the next piece of a text, and true if it is a token.
fn next(text: &str, first: char) -> (usize, bool) {
    if first.is_whitespace() {
        (first.len_utf8(), false)
    } else if text.starts_with("//") {
        (text.find('\n').unwrap_or(text.len()), false)
    } else if text.starts_with("/*") {
        (text.find("*/").map_or(text.len(), |end| end + 2), false)
    } else if let Some(length) = raw_string(text).or_else(|| string(text)).or_else(|| character(text)) {
        (length, true)
    } else if text.starts_with("::") {
        (2, true)
    } else if first.is_alphanumeric() || first == '_' {
        (text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()), true)
    } else {
        (first.len_utf8(), true)
    }
}

fn is_literal(token: &str) -> bool {
    let quote = token.trim_start_matches(['b', 'c', 'r', '#']);
    quote.starts_with('"') || (quote.starts_with('\'') && token.len() > 1)
}

/// Returns the length of `r#"…"#` at the start of a text.
fn raw_string(text: &str) -> Option<usize> {
    let start = text.strip_prefix('b').unwrap_or(text).strip_prefix('r')?;
    let hashes = start.len() - start.trim_start_matches('#').len();
    let body = start[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let closing = body.find(&end)? + end.len();
    Some(text.len() - body.len() + closing)
}

/// Returns the length of `"…"` at the start of a text.
fn string(text: &str) -> Option<usize> {
    let body = text.strip_prefix('b').unwrap_or(text).strip_prefix('"')?;
    Some(text.len() - body.len() + closing(body, '"')?)
}

/// Returns the length of `'c'` at the start of a text; a lifetime is not a character.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('b').unwrap_or(text).strip_prefix('\'')?;
    let is_escape = body.starts_with('\\');
    let length = closing(body, '\'')?;
    (is_escape || body[..length].chars().count() == 2).then(|| text.len() - body.len() + length)
}

/// Returns the index after the closing quote of a literal.
fn closing(body: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (position, c) in body.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(position + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn comments_and_literals_are_not_words() {
    let text = r##"use a::{b, c}; // use d::e
/* f */ let s: &'static str = "g::h \" i"; let c = '\''; let r = r#"j "k" "#; let t = b'x';"##;
    let words: Vec<&str> =
        tokens(text).into_iter().filter(|word| word.starts_with(char::is_alphabetic)).collect();
    assert_eq!(
        words,
        ["use", "a", "b", "c", "let", "s", "static", "str", "let", "c", "let", "r", "let", "t"]
    );
}
