//! Quotes texts like Go's `strconv.Quote`.

use std::fmt::Write;

pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|c| escaped(&mut out, c, '"'));
    out.push('"');
    out
}

pub(super) fn quote_char(c: char) -> String {
    let mut out = String::from("'");
    escaped(&mut out, c, '\'');
    out.push('\'');
    out
}

fn escaped(out: &mut String, c: char, quote: char) {
    let short = match c {
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        '\\' => "\\\\",
        _ => "",
    };
    if !short.is_empty() {
        out.push_str(short);
    } else if c == quote {
        out.push('\\');
        out.push(c);
    } else if is_printable(c) {
        out.push(c);
    } else {
        // Writing to a string cannot fail.
        let _ = match u32::from(c) {
            code @ (..0x20 | 0x7f) => write!(out, "\\x{code:02x}"),
            code @ ..0x1_0000 => write!(out, "\\u{code:04x}"),
            code => write!(out, "\\U{code:08x}"),
        };
    }
}

fn is_printable(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}');
    !c.is_control() && !hidden && (c == ' ' || !c.is_whitespace())
}
