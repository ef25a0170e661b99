//! Functions that change the case, length or lines of words, based on `goutils` and `xstrings`, which Sprig uses.

use super::strings::{cut, text};
use super::{Call, Function, Outcome, Type};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("title", &[Type::Str], |call| text(&title(call.str(0), true))),
    Function::new("untitle", &[Type::Str], |call| text(&title(call.str(0), false))),
    Function::new("swapcase", &[Type::Str], |call| text(&swapcase(call.str(0)))),
    Function::new("initials", &[Type::Str], |call| {
        text(&call.str(0).split_whitespace().filter_map(|word| word.chars().next()).collect::<String>())
    }),
    Function::new("snakecase", &[Type::Str], |call| text(&delimited(call.str(0), '_'))),
    Function::new("kebabcase", &[Type::Str], |call| text(&delimited(call.str(0), '-'))),
    Function::new("camelcase", &[Type::Str], |call| text(&camelcase(call.str(0)))),
    Function::new("abbrev", &[Type::Int, Type::Str], abbrev),
    Function::new("abbrevboth", &[Type::Int, Type::Int, Type::Str], abbrev_both),
    Function::new("wrap", &[Type::Int, Type::Str], |call| {
        text(&wrapped(call.str(1), call.int(0), "\n", false))
    }),
    Function::new("wrapWith", &[Type::Int, Type::Str, Type::Str], |call| {
        call.env.budget.bytes(call.str(2).len().saturating_mul(call.str(1).len().saturating_add(1)))?;
        text(&wrapped(call.str(2), call.int(0), call.str(1), true))
    }),
];

/// Converts the first letter of each word to upper or lower case. Like in `strings.Title`, words are separated by
/// anything except letters, digits, underscores and apostrophes.
fn title(text: &str, raise: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut starts = true;
    for c in text.chars() {
        if starts && raise {
            out.extend(c.to_uppercase());
        } else if starts {
            out.extend(c.to_lowercase());
        } else {
            out.push(c);
        }
        starts = if raise { !(c.is_alphanumeric() || c == '_' || c == '\'') } else { c.is_whitespace() };
    }
    out
}

fn swapcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
    }
    out
}

/// Separates the words of a camel-case name, like `xstrings.ToSnakeCase`.
fn delimited(text: &str, delimiter: char) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in chars.iter().copied().enumerate() {
        let previous = at.checked_sub(1).and_then(|at| chars.get(at)).copied();
        let next = chars.get(at + 1).copied();
        if matches!(c, '_' | '-' | ' ') || c.is_whitespace() {
            out.push(delimiter);
            continue;
        }
        let starts_word = c.is_uppercase()
            && previous.is_some_and(|p| {
                p.is_lowercase()
                    || p.is_numeric()
                    || (p.is_uppercase() && next.is_some_and(char::is_lowercase))
            });
        let starts_number = c.is_numeric()
            && previous.is_some_and(|p| p.is_alphabetic() && p.is_lowercase())
            && next.is_some_and(char::is_uppercase);
        if (starts_word || starts_number) && !out.ends_with(delimiter) {
            out.push(delimiter);
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Joins words separated by `_`, `-` and spaces, like `xstrings.ToPascalCase`.
fn camelcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut raise = true;
    for c in text.chars() {
        if matches!(c, '_' | '-') || c.is_whitespace() {
            raise = true;
        } else if raise {
            out.extend(c.to_uppercase());
            raise = false;
        } else {
            out.push(c);
        }
    }
    out
}

fn abbrev(call: Call<'_>) -> Outcome {
    abbreviated(call.str(1), 0, call.int(0))
}

fn abbrev_both(call: Call<'_>) -> Outcome {
    abbreviated(call.str(2), call.int(0), call.int(1))
}

/// Shortens a text to a width, with ellipses at the cuts, like `goutils.AbbreviateFull`.
fn abbreviated(whole: &str, offset: i64, width: i64) -> Outcome {
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    if width < 4 || (offset > 0 && width < 7) || length <= width {
        return text(whole);
    }
    let offset = offset.min(length);
    let offset = if length - offset < width - 3 { length - (width - 3) } else { offset };
    let slice = |from: i64, to: i64| {
        let from = usize::try_from(from).unwrap_or(0);
        let to = usize::try_from(to).unwrap_or(0).min(whole.len());
        whole.as_bytes().get(from..to).unwrap_or_default().to_vec()
    };
    if offset <= 4 {
        return cut(&[slice(0, width - 3), b"...".to_vec()].concat());
    }
    if offset + width - 3 < length {
        let rest = String::from_utf8_lossy(&slice(offset, length)).into_owned();
        let abbreviated = abbreviated(&rest, 0, width - 3)?;
        return text(&format!("...{}", abbreviated.as_str().unwrap_or_default()));
    }
    cut(&[b"...".to_vec(), slice(length - (width - 3), length)].concat())
}

/// Wraps lines at spaces, like `goutils.WrapCustom`.
fn wrapped(text: &str, width: i64, newline: &str, breaks_words: bool) -> String {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let bytes = text.as_bytes();
    let slice = |from: usize, to: usize| {
        String::from_utf8_lossy(bytes.get(from..to).unwrap_or_default()).into_owned()
    };
    let mut out = String::with_capacity(bytes.len() + 32);
    let mut offset = 0;
    while bytes.len() > offset + width {
        if bytes.get(offset) == Some(&b' ') {
            offset += 1;
            continue;
        }
        let window = bytes.get(offset..=offset + width).unwrap_or_default();
        if let Some(space) = window.iter().rposition(|byte| *byte == b' ') {
            out.push_str(&slice(offset, offset + space));
            out.push_str(newline);
            offset += space + 1;
        } else if breaks_words {
            out.push_str(&slice(offset, offset + width));
            out.push_str(newline);
            offset += width;
        } else {
            let rest = bytes.get(offset + width..).unwrap_or_default();
            let Some(space) = rest.iter().position(|byte| *byte == b' ') else { break };
            out.push_str(&slice(offset, offset + width + space));
            out.push_str(newline);
            offset += width + space + 1;
        }
    }
    out.push_str(&slice(offset, bytes.len()));
    out
}
