//! Numbers in templates, based on `newNumber` in Go's `text/template/parse/node.go`.

use ::yaml::radix;

use super::node::Number;

/// Reads a number literal.
pub(super) fn number(text: &str) -> Option<Number> {
    let integer_text = !text.contains(['.', 'p', 'P']) && (is_prefixed(text) || !text.contains(['e', 'E']));
    if let Some(int) = go_integer(text) {
        return Some(Number {
            text: text.into(),
            int: Some(int),
            float: Some(int as f64),
            is_integer_text: true,
        });
    }
    let float = go_float(text)?;
    if integer_text {
        // The integer is out of range.
        return None;
    }
    let int = (float.fract() == 0.0 && float.abs() < 9.2e18).then_some(float as i64);
    Some(Number { text: text.into(), int, float: Some(float), is_integer_text: false })
}

fn is_prefixed(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['+', '-']);
    unsigned.starts_with("0x") || unsigned.starts_with("0X")
}

/// Reads a quoted character constant.
pub(super) fn character(text: &str) -> Option<Number> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let inner = if inner == "\\'" { "'".to_owned() } else { super::parse::unescape(inner)? };
    let mut chars = inner.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else { return None };
    let int = i64::from(u32::from(c));
    Some(Number { text: text.into(), int: Some(int), float: Some(int as f64), is_integer_text: true })
}

/// Reads an integer like `strconv.ParseInt(text, 0, 64)`: with the prefixes `0x`, `0o`, `0b`, `0` and underscores.
pub(crate) fn go_integer(text: &str) -> Option<i64> {
    let (negative, radix, digits) = radix(text)?;
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    if plain.is_empty() || digits.ends_with('_') || !plain.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = i128::from_str_radix(&plain, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Reads a float like `strconv.ParseFloat`.
pub(crate) fn go_float(text: &str) -> Option<f64> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let starts = plain.trim_start_matches(['+', '-']);
    if let Some(digits) = starts.strip_prefix("0x").or_else(|| starts.strip_prefix("0X")) {
        let float = hexadecimal(digits)?;
        return Some(if plain.starts_with('-') { -float } else { float });
    }
    if !starts.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    plain.parse().ok().filter(|float: &f64| float.is_finite())
}

/// Reads the digits of a hexadecimal float, such as `1.8p3`. Its exponent is a power of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    Some(digits as f64 * 2f64.powi(exponent.checked_sub(shift)?)).filter(|float| float.is_finite())
}
