//! Prints floats like Go's `strconv.FormatFloat`.

/// Prints in format `g` with the shortest digits: with an exponent from 1e+06 upwards and below 1e-04.
pub(crate) fn float_g(float: f64) -> String {
    if let Some(text) = not_finite(float) {
        return text.into();
    }
    let exponent = exponent_of(float);
    if (-4..6).contains(&exponent) {
        return positional(float);
    }
    scientific(float, None)
}

/// Prints like Go's JSON: with an exponent from 1e21 upwards and below 1e-6.
pub(crate) fn json_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = scientific(float, None);
        return text.replace("e-0", "e-");
    }
    positional(float)
}

fn not_finite(float: f64) -> Option<&'static str> {
    match float {
        _ if float.is_nan() => Some("NaN"),
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

fn positional(float: f64) -> String {
    // Rust prints the shortest digits without an exponent.
    float.to_string()
}

fn exponent_of(float: f64) -> i32 {
    let text = format!("{float:e}");
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

fn scientific(float: f64, precision: Option<usize>) -> String {
    let text = match precision {
        Some(digits) => format!("{float:.digits$e}"),
        None => format!("{float:e}"),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Formats a float by a verb of `fmt`, with an optional precision.
pub(super) fn by_verb(float: f64, verb: char, precision: Option<usize>) -> String {
    if let Some(text) = not_finite(float) {
        return text.into();
    }
    match verb {
        'e' => scientific(float, Some(precision.unwrap_or(6))),
        'E' => scientific(float, Some(precision.unwrap_or(6))).to_uppercase(),
        'f' | 'F' => format!("{float:.*}", precision.unwrap_or(6)),
        'x' => hexadecimal(float),
        'X' => hexadecimal(float).to_uppercase(),
        'b' => {
            let (mantissa, exponent) = parts(float);
            let sign = if float.is_sign_negative() { "-" } else { "" };
            format!("{sign}{mantissa}p{exponent:+}")
        }
        _ => {
            let text = match precision {
                None => float_g(float),
                Some(digits) => general(float, digits),
            };
            if verb == 'G' { text.to_uppercase() } else { text }
        }
    }
}

/// Prints in format `g` with that many significant digits, without trailing zeros.
fn general(float: f64, precision: usize) -> String {
    let digits = precision.max(1);
    let text = format!("{float:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if exponent < -4 || exponent >= i32::try_from(digits).unwrap_or(i32::MAX) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(i32::try_from(digits).unwrap_or(0) - 1 - exponent).unwrap_or(0);
    trim(&format!("{float:.decimals$}"))
}

fn parts(float: f64) -> (u64, i32) {
    let bits = float.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

fn hexadecimal(float: f64) -> String {
    if float == 0.0 {
        return "0x0p+00".into();
    }
    let (mantissa, exponent) = parts(float);
    let shift = mantissa.leading_zeros() - 11;
    let mantissa = mantissa << shift;
    let exponent = exponent + 52 - i32::try_from(shift).unwrap_or(0);
    let digits = format!("{:013x}", mantissa & ((1 << 52) - 1));
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let sign = if float.is_sign_negative() { "-" } else { "" };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}0x1{point}{digits}p{exponent_sign}{:02}", exponent.abs())
}
