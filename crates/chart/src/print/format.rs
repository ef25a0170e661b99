//! `Sprintf`, based on Go's `fmt/print.go` and `fmt/format.go`.

use super::float::by_verb;
use super::quote::{quote, quote_char};
use super::{MAX_DEPTH, bytes};
use crate::value::{Element, Value};

/// Maximum width of a field. Go has the same limit.
const MAX_WIDTH: usize = 1_000_000;

#[derive(Clone, Copy, Default)]
struct Flags {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

pub(crate) fn sprintf(format: &str, args: &[Value]) -> String {
    let mut printer = Printer { out: String::new(), flags: Flags::default() };
    Directives { format: format.chars().collect(), at: 0, args, arg: 0, reordered: false }
        .print(&mut printer);
    printer.out
}

/// The position in a format and its arguments.
struct Directives<'a> {
    format: Vec<char>,
    at: usize,
    args: &'a [Value],
    arg: usize,
    reordered: bool,
}

impl Directives<'_> {
    fn peek(&self) -> Option<char> {
        self.format.get(self.at).copied()
    }

    fn print(mut self, printer: &mut Printer) {
        let mut ever_reordered = false;
        while let Some(c) = self.peek() {
            self.at += 1;
            if c != '%' {
                printer.out.push(c);
                continue;
            }
            self.reordered = false;
            printer.flags = Flags::default();
            self.directive(printer);
            ever_reordered |= self.reordered;
        }
        if !ever_reordered && self.arg < self.args.len() {
            printer.flags = Flags::default();
            printer.out.push_str("%!(EXTRA ");
            for (at, arg) in self.args.iter().enumerate().skip(self.arg) {
                if at > self.arg {
                    printer.out.push_str(", ");
                }
                if arg.is_nil() {
                    printer.out.push_str("<nil>");
                } else {
                    printer.out.push_str(arg.type_name());
                    printer.out.push('=');
                    printer.value(arg, 'v', 0);
                }
            }
            printer.out.push(')');
        }
    }

    fn directive(&mut self, printer: &mut Printer) {
        self.flags(&mut printer.flags);
        let mut bad_index = !self.argument_number();
        if self.peek() == Some('*') {
            self.at += 1;
            match self.integer_argument() {
                Some(width) => {
                    printer.flags.minus |= width < 0;
                    printer.flags.width =
                        usize::try_from(width.unsigned_abs()).ok().filter(|width| *width <= MAX_WIDTH);
                }
                None => printer.out.push_str("%!(BADWIDTH)"),
            }
        } else {
            printer.flags.width = self.number();
        }
        if self.peek() == Some('.') {
            self.at += 1;
            bad_index |= !self.argument_number();
            if self.peek() == Some('*') {
                self.at += 1;
                match self.integer_argument() {
                    Some(precision) => printer.flags.precision = usize::try_from(precision).ok(),
                    None => printer.out.push_str("%!(BADPREC)"),
                }
            } else {
                printer.flags.precision = Some(self.number().unwrap_or(0));
            }
        }
        bad_index |= !self.argument_number();
        let Some(verb) = self.peek() else {
            printer.out.push_str("%!(NOVERB)");
            return;
        };
        self.at += 1;
        // For `%v`, `+` prints field names, which no value here has.
        printer.flags.plus &= verb != 'v';
        if verb == '%' {
            printer.out.push('%');
        } else if bad_index {
            printer.out.push_str(&format!("%!{verb}(BADINDEX)"));
        } else if let Some(arg) = self.args.get(self.arg) {
            self.arg += 1;
            printer.argument(arg, verb);
        } else {
            printer.out.push_str(&format!("%!{verb}(MISSING)"));
        }
    }

    fn flags(&mut self, flags: &mut Flags) {
        while let Some(c) = self.peek() {
            match c {
                '#' => flags.sharp = true,
                '0' => flags.zero = true,
                '+' => flags.plus = true,
                '-' => flags.minus = true,
                ' ' => flags.space = true,
                _ => return,
            }
            self.at += 1;
        }
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            number = Some((number.unwrap_or(0) * 10 + digit as usize).min(MAX_WIDTH));
            self.at += 1;
        }
        number
    }

    /// Reads `[2]`. Returns false if the argument does not exist.
    fn argument_number(&mut self) -> bool {
        if self.peek() != Some('[') {
            return true;
        }
        self.reordered = true;
        self.at += 1;
        let number = self.number();
        let closed = self.peek() == Some(']');
        self.at += usize::from(closed);
        match number.and_then(|number| number.checked_sub(1)) {
            Some(index) if closed && index < self.args.len() => {
                self.arg = index;
                true
            }
            _ => false,
        }
    }

    fn integer_argument(&mut self) -> Option<i64> {
        let arg = self.args.get(self.arg)?;
        self.arg += 1;
        match arg {
            Value::Int(number) | Value::Int64(number) => Some(*number),
            _ => None,
        }
    }
}

struct Printer {
    out: String,
    flags: Flags,
}

impl Printer {
    fn argument(&mut self, arg: &Value, verb: char) {
        match verb {
            'T' => self.pad(arg.type_name()),
            'v' if arg.is_nil() => self.pad("<nil>"),
            _ if arg.is_nil() => self.out.push_str(&format!("%!{verb}(<nil>)")),
            _ => self.value(arg, verb, 0),
        }
    }

    fn pad(&mut self, text: &str) {
        let missing = self.flags.width.unwrap_or(0).saturating_sub(text.chars().count());
        if self.flags.minus {
            self.out.push_str(text);
            self.out.extend(std::iter::repeat_n(' ', missing));
        } else {
            self.out.extend(std::iter::repeat_n(if self.flags.zero { '0' } else { ' ' }, missing));
            self.out.push_str(text);
        }
    }

    fn bad_verb(&mut self, value: &Value, verb: char, depth: usize) {
        self.out.push_str(&format!("%!{verb}({}=", value.type_name()));
        self.value(value, 'v', depth);
        self.out.push(')');
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) {
        match value {
            Value::Missing | Value::Nil => self.out.push_str("<nil>"),
            Value::Bool(flag) => match verb {
                't' | 'v' => self.pad(if *flag { "true" } else { "false" }),
                _ => self.bad_verb(value, verb, depth),
            },
            Value::Int(number) | Value::Int64(number) => self.integer(value, *number, verb, depth),
            Value::Float(number) => self.float(value, *number, verb, depth),
            Value::Str(text) => self.string(value, text, verb, depth),
            Value::List(_) | Value::Map(_) if depth > MAX_DEPTH => self.out.push_str("..."),
            Value::List(list) => {
                if list.element == Element::Byte && matches!(verb, 's' | 'q' | 'x' | 'X') {
                    let bytes = bytes(list);
                    return self.string(value, &String::from_utf8_lossy(&bytes), verb, depth);
                }
                self.out.push('[');
                for (at, item) in list.items.iter().enumerate() {
                    if at > 0 {
                        self.out.push(' ');
                    }
                    self.value(item, verb, depth + 1);
                }
                self.out.push(']');
            }
            Value::Map(map) => {
                self.out.push_str("map[");
                for (at, (key, item)) in map.borrow().iter().enumerate() {
                    if at > 0 {
                        self.out.push(' ');
                    }
                    self.value(&Value::Str(key.clone()), verb, depth + 1);
                    self.out.push(':');
                    self.value(item, verb, depth + 1);
                }
                self.out.push(']');
            }
            Value::Object(object) => self.string(value, &object.print(), verb, depth),
        }
    }

    fn string(&mut self, value: &Value, text: &str, verb: char, depth: usize) {
        match verb {
            'v' if self.flags.sharp => self.pad(&quote(text)),
            'v' | 's' => match self.flags.precision {
                Some(precision) => self.pad(&text.chars().take(precision).collect::<String>()),
                None => self.pad(text),
            },
            'q' if self.flags.sharp && !text.contains('`') => self.pad(&format!("`{text}`")),
            'q' => self.pad(&quote(text)),
            'x' => self.pad(&text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()),
            'X' => self.pad(&text.bytes().map(|byte| format!("{byte:02X}")).collect::<String>()),
            _ => self.bad_verb(value, verb, depth),
        }
    }

    fn integer(&mut self, value: &Value, number: i64, verb: char, depth: usize) {
        let magnitude = number.unsigned_abs();
        let (digits, prefix) = match verb {
            'v' | 'd' => (magnitude.to_string(), ""),
            'b' => (format!("{magnitude:b}"), "0b"),
            'o' => (format!("{magnitude:o}"), "0"),
            'O' => (format!("{magnitude:o}"), "0o"),
            'x' => (format!("{magnitude:x}"), "0x"),
            'X' => (format!("{magnitude:X}"), "0X"),
            'c' | 'q' => {
                let c = u32::try_from(number)
                    .ok()
                    .and_then(char::from_u32)
                    .unwrap_or(char::REPLACEMENT_CHARACTER);
                return self.pad(&if verb == 'q' { quote_char(c) } else { c.to_string() });
            }
            'U' => return self.pad(&format!("U+{magnitude:04X}")),
            _ => return self.bad_verb(value, verb, depth),
        };
        let sign = match (number < 0, self.flags.plus, self.flags.space) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        let least = match (self.flags.precision, self.flags.width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if self.flags.zero && !self.flags.minus => width.saturating_sub(sign.len()),
            _ => 0,
        };
        let prefix =
            if verb == 'O' || (self.flags.sharp && verb != 'd' && verb != 'v') { prefix } else { "" };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        let zero = std::mem::replace(&mut self.flags.zero, false);
        self.pad(&format!("{sign}{prefix}{zeros}{digits}"));
        self.flags.zero = zero;
    }

    fn float(&mut self, value: &Value, number: f64, verb: char, depth: usize) {
        let text = match verb {
            'v' => by_verb(number, 'g', self.flags.precision),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'x' | 'X' | 'b' => {
                by_verb(number, verb, self.flags.precision)
            }
            _ => return self.bad_verb(value, verb, depth),
        };
        let (sign, digits) = match text.strip_prefix(['-', '+']) {
            Some(digits) if text.starts_with('-') => ("-", digits),
            Some(digits) => ("+", digits),
            None if self.flags.plus => ("+", text.as_str()),
            None if self.flags.space => (" ", text.as_str()),
            None => ("", text.as_str()),
        };
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
        let width = self.flags.width.unwrap_or(0);
        if self.flags.zero && !self.flags.minus && is_number && !sign.is_empty() {
            let zeros = "0".repeat(width.saturating_sub(sign.len() + digits.len()));
            self.out.push_str(&format!("{sign}{zeros}{digits}"));
            return;
        }
        let zero = self.flags.zero;
        self.flags.zero = zero && is_number;
        self.pad(&format!("{sign}{digits}"));
        self.flags.zero = zero;
    }
}
