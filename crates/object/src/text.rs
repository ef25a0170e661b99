//! Makes text from untrusted sources (spokes, git servers, API servers) safe to show.
//!
//! Condition messages, events, reports and logs quote such text. First, secrets are redacted by pattern,
//! characters that control terminals or reorder lines are dropped, and the length is limited. [`short_commit`]
//! does none of this, and [`first_line`] only omits lines.

use std::sync::LazyLock;

use regex::Regex;

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";

/// Returns a commit ID with its first twelve digits. The revision of an artifact keeps its tag: `1.2.3@sha256:` with
/// twelve digits.
pub fn short_commit(commit: &str) -> &str {
    let digits = commit.rfind(':').map_or(0, |at| at + 1);
    commit.get(..digits + 12).unwrap_or(commit)
}

/// Returns the first line of an error about a file with credentials, such as a kubeconfig, because the remaining
/// lines quote the file.
pub fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

/// Returns a single line of plain text with at most `max` characters, without secrets or control characters.
pub fn plain(text: &str, max: usize) -> String {
    // Patterns only search a bounded prefix, because the rest is cut off anyway. Eight characters per character of
    // `max` leave room for what redaction removes. A secret across the cut is redacted up to the cut.
    let head = clip(text, max.saturating_mul(8));
    let redacted = redact(&head);
    let mut line = String::with_capacity(redacted.len());
    for c in redacted.chars() {
        match c {
            _ if c.is_whitespace() => {
                if !line.ends_with(' ') {
                    line.push(' ');
                }
            }
            _ if is_steering(c) => {}
            _ => line.push(c),
        }
    }
    clip(line.trim(), max)
}

/// Returns [`plain`], escaped so that no character has a meaning in Markdown, HTML or workflow logs. Characters
/// without a meaning at their position are not escaped, because people also read reports with `git show`.
pub fn markdown(text: &str, max: usize) -> String {
    let line: Vec<char> = plain(text, max).chars().collect();
    let mut escaped = String::with_capacity(line.len());
    for (at, c) in line.iter().copied().enumerate() {
        let before = at.checked_sub(1).and_then(|at| line.get(at)).copied();
        let rest = line.get(at + 1..).unwrap_or_default();
        let after = rest.first().copied();
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match c {
            '&' if is_word(after) || after == Some('#') => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' if before.is_none() => escaped.push_str("&gt;"),
            '@' if !is_word(before) || is_address(rest) => escaped.push_str("&#64;"),
            // Prevents automatic links and workflow commands.
            ':' if matches!(after, Some('/' | ':')) || escaped.ends_with("&#58;") => {
                escaped.push_str("&#58;")
            }
            '(' if before == Some(']') => escaped.extend(['\\', c]),
            '\\' | '`' | '*' | '[' | ']' | '#' | '|' | '~' => escaped.extend(['\\', c]),
            '_' if !(is_word(before) && is_word(after)) => escaped.extend(['\\', c]),
            '+' if before.is_none() => escaped.extend(['\\', c]),
            // Site generators that read Markdown replace text between such braces.
            '{' if matches!(after, Some('{' | '%')) => escaped.extend(['\\', c]),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Returns true if the text after an `@` may complete an email address, which would become a link.
fn is_address(rest: &[char]) -> bool {
    rest.iter().take_while(|c| !c.is_whitespace()).any(|c| *c == '.')
}

/// Truncates a text to `max` characters; a truncated text ends with `…`.
pub fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Returns true if a character moves the cursor, or hides or reorders text: control characters, and Unicode format
/// characters for direction and joining.
fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Replaces text that looks like a secret.
pub(crate) fn redact(text: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let patterns = [
            (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", REDACTED),
            (r"(^|[^hH])://[^/\s@]*@", "${1}://[redacted]@"),
            // An ssh user without a password is not a secret.
            (r"([hH])://[^/\s@:]*:[^/\s@]*@", "${1}://[redacted]@"),
            (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", "${1} [redacted]"),
            (r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*", REDACTED),
            (r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-)[A-Za-z0-9_-]{10,}", REDACTED),
            (r"\bAKIA[0-9A-Z]{16}\b", REDACTED),
            (
                r#"(?i)\b(password|passwd|secret|token|api[_-]?key)(["']?\s*[=:]\s*["']?)[^\s"',;&]{3,}"#,
                "${1}${2}[redacted]",
            ),
        ];
        patterns
            .map(|(pattern, with)| {
                (Regex::new(pattern).expect("the pattern is a constant that a test compiles"), with)
            })
            .into()
    });
    static ENCODED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"[A-Za-z0-9+/]{40,}={0,2}").expect("the pattern is a constant that a test compiles")
    });

    let mut text = text.to_owned();
    for (pattern, with) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    ENCODED.replace_all(&text, |found: &regex::Captures<'_>| redact_encoded(&found[0])).into_owned()
}

/// Redacts text that looks like base64, which mixes cases and digits. Hashes and commit IDs have one case and stay
/// readable.
fn redact_encoded(text: &str) -> String {
    let has = |class: fn(&char) -> bool| text.chars().any(|c| class(&c));
    if has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit) {
        REDACTED.into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted() {
        let cases = [
            (
                "cannot reach https://me:hunter2@git.example/x",
                "cannot reach https://[redacted]@git.example/x",
            ),
            ("ssh://me:hunter2@git.example/x", "ssh://[redacted]@git.example/x"),
            ("ssh://git@git.example/x", "ssh://git@git.example/x"),
            ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer [redacted]"),
            ("got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl back", "got [redacted] back"),
            ("token ghp_0123456789abcdefghij refused", "token [redacted] refused"),
            ("PASSWORD=hunter2 rejected", "PASSWORD=[redacted] rejected"),
            (r#"{"password": "hunter2"}"#, r#"{"password": "[redacted]"}"#),
            ("key -----BEGIN RSA PRIVATE KEY-----\nMIIE\n", "key [redacted]"),
            ("blob QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9w", "blob [redacted]"),
            (
                "commit 0123456789abcdef0123456789abcdef01234567",
                "commit 0123456789abcdef0123456789abcdef01234567",
            ),
            ("secret default/x not found", "secret default/x not found"),
        ];
        for (text, safe) in cases {
            assert_eq!(plain(text, 200), safe);
        }
    }

    #[test]
    fn no_text_controls_the_readers_terminal() {
        assert_eq!(plain("a\x1b[31mb\r\nc\u{202e}d\u{200b}\0", 50), "a[31mb cd");
        assert_eq!(
            markdown("](javascript:alert(1))|<b>@all", 80),
            r"\]\(javascript:alert(1))\|&lt;b>&#64;all"
        );
        assert_eq!(markdown("see https://evil.example: a:b", 80), "see https&#58;//evil.example: a:b");
        assert_eq!(markdown("::set-output name=x::y", 80), "&#58;&#58;set-output name=x&#58;&#58;y");
    }

    #[test]
    fn only_characters_with_a_meaning_in_markdown_are_escaped() {
        for text in ["commit (15 objects), a_b", "msa-0.4.2@12345678 of fleet/a!", "a & b > c + {d}"] {
            assert_eq!(markdown(text, 80), text);
        }
        for (text, escaped) in [
            ("> a", "&gt; a"),
            ("+ a", r"\+ a"),
            ("&lt;b&#62;", r"&amp;lt;b&amp;\#62;"),
            ("_a_ b_", r"\_a\_ b\_"),
            ("me@evil.example", "me&#64;evil.example"),
            ("(@all)", "(&#64;all)"),
            ("![a](b)", r"!\[a\]\(b)"),
            ("{{ a }} {% b %}", r"\{{ a }} \{% b %}"),
        ] {
            assert_eq!(markdown(text, 80), escaped);
        }
    }

    #[test]
    fn a_message_of_one_mebibyte_is_cut() {
        let cut = plain(&"x y".repeat(1 << 19), 20);
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (20, true));
        assert_eq!(clip("äöü", 3), "äöü");
        assert_eq!(clip("äöüx", 3), "äö…");
    }
}
