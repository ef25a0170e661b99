//! File patterns for `.Files.Glob`, like `gobwas/glob` with `/` as the separator.

use regex::Regex;

/// Compiles a pattern. `*` and `?` do not match slashes, `**` does. `{a,b}` and `[a-z]` are alternatives.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let mut regex = String::from("^");
    let mut chars = pattern.chars().peekable();
    let mut braces = 0;
    while let Some(c) = chars.next() {
        match c {
            '*' if chars.next_if_eq(&'*').is_some() => regex.push_str("(?s:.*)"),
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => {
                regex.push('[');
                if chars.next_if_eq(&'!').is_some() {
                    regex.push('^');
                }
                for c in chars.by_ref() {
                    match c {
                        '\\' | '[' | '&' | '~' => regex.extend(['\\', c]),
                        c => regex.push(c),
                    }
                    if c == ']' {
                        break;
                    }
                }
            }
            '{' => {
                braces += 1;
                regex.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                regex.push(')');
            }
            ',' if braces > 0 => regex.push('|'),
            '\\' => regex.push_str(&regex::escape(&chars.next().unwrap_or('\\').to_string())),
            c => regex.push_str(&regex::escape(&c.to_string())),
        }
    }
    regex.push('$');
    Regex::new(&regex).map_err(|_| format!("the pattern {pattern:?} is not a glob"))
}
