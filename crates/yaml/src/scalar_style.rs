//! The styles in which a string can be written, according to the analysis of libyaml.

use super::builder::MERGE_KEY;
use super::scalar::reads_as_another_type;

/// The notation of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    Plain,
    Single,
    Double,
    Literal,
}

/// The analysis of a string: which notations read back as the same string.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScalarAnalysis {
    breaks: bool,
    special: bool,
    indicators: bool,
    blank_at_an_end: bool,
    trailing_space: bool,
    break_then_space: bool,
    space_then_break: bool,
}

impl ScalarAnalysis {
    pub(super) fn new(text: &str) -> Self {
        let mut looks =
            Self { indicators: text.starts_with("---") || text.starts_with("..."), ..Self::default() };
        let (mut after_space, mut after_break, mut after_blank) = (false, false, true);
        let mut chars = text.chars().enumerate().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            let before_blank = next.is_none_or(|next| next == ' ' || next == '\t');
            looks.indicators |= match c {
                '#' => at == 0 || after_blank,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    at == 0
                }
                '?' | '-' => at == 0 && before_blank,
                ':' => before_blank,
                _ => false,
            };
            // YAML 1.1 breaks lines at these two characters, YAML 1.2 does not. Both read them the same only if
            // escaped.
            looks.special |= !is_printable(c) || matches!(c, '\u{2028}' | '\u{2029}');
            let (is_space, breaks) = (c == ' ', is_break(c));
            looks.breaks |= breaks;
            looks.blank_at_an_end |= (is_space || breaks) && (at == 0 || next.is_none());
            looks.trailing_space |= is_space && next.is_none();
            looks.break_then_space |= is_space && after_break;
            looks.space_then_break |= breaks && after_space;
            (after_space, after_break) = (is_space, breaks);
            after_blank = is_space || breaks || c == '\t' || c == '\0';
        }
        looks
    }

    /// Returns true if the text can be written as a block.
    pub(super) fn fits_a_block(self) -> bool {
        !(self.trailing_space || self.space_then_break || self.special)
    }

    pub(super) fn notation(self, text: &str, simple_key: bool) -> Notation {
        let single_allowed = !(self.break_then_space || self.space_then_break || self.special);
        let block_allowed = !text.is_empty() && self.fits_a_block();
        let plain_allowed = single_allowed && !(self.blank_at_an_end || self.breaks || self.indicators);
        // A plain `<<` key would be read as a merge.
        if simple_key && (self.breaks || text == MERGE_KEY) {
            return Notation::Double;
        }
        if text.contains('\n') {
            return if block_allowed && !simple_key { Notation::Literal } else { Notation::Double };
        }
        if reads_as_another_type(text) || is_base_60(text) {
            return Notation::Double;
        }
        match (plain_allowed, single_allowed) {
            (true, _) => Notation::Plain,
            (false, true) => Notation::Single,
            (false, false) => Notation::Double,
        }
    }
}

/// Returns true if a string is written without quotes and on one line.
pub(super) fn is_plain(text: &str) -> bool {
    ScalarAnalysis::new(text).notation(text, false) == Notation::Plain
}

pub(super) fn has_line_breaks(text: &str) -> bool {
    text.contains(is_break)
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns true if the emitter treats a character as printable. Characters beyond the basic plane are not.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Returns true if a text looks like `1:30`, which YAML 1.1 reads as a base 60 number.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) =
        text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts = whole.split(':');
    let first =
        parts.next().is_some_and(|first| first.starts_with(|c: char| c.is_ascii_digit()) && digits(first));
    let rest: Vec<&str> = parts.collect();
    let sixtieth = |part: &&str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first && !rest.is_empty() && rest.iter().all(sixtieth) && fraction.is_none_or(digits)
}
