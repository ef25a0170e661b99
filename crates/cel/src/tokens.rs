//! Rejects expressions before the CEL crate parses them.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum nesting of brackets. It is the limit of the CEL crate, which parses the rest of a deeper expression in
/// quadratic time; cel-go allows 250.
pub(crate) const MAX_BRACKETS: usize = 96;

/// The tokens of CEL (`CEL.g4` of cel-go). Group 1 matches tokens that can precede a binary operator, group 2
/// operators and brackets; the rest is space.
#[expect(clippy::expect_used, reason = "the pattern is a constant")]
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x) ^ (?:
        [\t\n\f\r\x20]+ | //[^\n]*
        | (
            [bB]? [rR] (?: """(?s:.*?)""" | '''(?s:.*?)''' | "[^"\n\r]*" | '[^'\n\r]*' )
            | [bB]? (?: """(?s:ESC|[^\\])*?""" | '''(?s:ESC|[^\\])*?''' | "(?:ESC|[^\\"\n\r])*" | '(?:ESC|[^\\'\n\r])*' )
            | 0x[0-9a-fA-F]+[uU]? | [0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+(?:[eE][+-]?[0-9]+|[uU])?
            | [A-Za-z_][A-Za-z0-9_]* | `[A-Za-z0-9_./\x20-]+` | [)\]}]
        )
        | ( [=!<>]= | && | \|\| | [-!<>+*/%?:.,(\[{] )
    )"#;
    let escape = r#"\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"#;
    Regex::new(&pattern.replace("ESC", escape)).expect("a valid pattern")
});

/// Checks the tokens of an expression.
///
/// The parser of the CEL crate (0.13) reads `!!a` as `!a` and `--a` as `-a`, and each further level of such signs
/// doubles its time.
///
/// # Errors
/// Fails if the text has an invalid or unsupported token.
pub(crate) fn check(source: &str) -> Result<(), String> {
    let (mut rest, mut open, mut sign) = (source, 0_usize, None);
    let mut is_operand = false;
    while !rest.is_empty() {
        let Some(token) = TOKEN.captures(rest) else {
            return Err(format!("Syntax error: unexpected input at: {}", beginning(rest)));
        };
        rest = rest.get(token[0].len()..).unwrap_or_default();
        let Some(text) = token.get(1).or(token.get(2)).map(|token| token.as_str()) else { continue };
        match text {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.saturating_sub(1),
            _ => {}
        }
        if open > MAX_BRACKETS {
            return Err(format!("brackets are nested more than {MAX_BRACKETS} levels deep"));
        }
        let is_sign = matches!(text, "!" | "-") && !is_operand;
        if is_sign && sign == Some(text) {
            return Err(format!("`{text}{text}` is not supported; write `{text}({text}a)` instead"));
        }
        sign = is_sign.then_some(text);
        is_operand = token.get(1).is_some() && text != "in";
    }
    Ok(())
}

fn beginning(of: &str) -> String {
    of.chars().take(20).collect()
}
