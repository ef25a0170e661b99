//! Resource quantities, such as `500m`, `2`, `1e3` and `16Gi`.

/// The number of billionths in one.
pub const NANO: i128 = 1_000_000_000;

/// Parses a [quantity](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/) to
/// billionths, the finest unit that Kubernetes stores; finer digits are truncated.
///
/// Returns `None` if the text is not a quantity, or exceeds 10²⁹.
pub fn nanos(text: &str) -> Option<i128> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let shift = i32::try_from(fraction.len()).ok()?;
    match suffix {
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => {
            let power = "KMGTPE".find(suffix.get(..1)?)? + 1;
            scaled(digits.checked_mul(1 << (10 * power))?, 9 - shift)
        }
        "n" => scaled(digits, -shift),
        "u" => scaled(digits, 3 - shift),
        "m" => scaled(digits, 6 - shift),
        "" => scaled(digits, 9 - shift),
        "k" => scaled(digits, 12 - shift),
        "M" => scaled(digits, 15 - shift),
        "G" => scaled(digits, 18 - shift),
        "T" => scaled(digits, 21 - shift),
        "P" => scaled(digits, 24 - shift),
        "E" => scaled(digits, 27 - shift),
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            scaled(digits, exponent.checked_add(9)?.checked_sub(shift)?)
        }
    }
}

/// Returns `digits` × 10^`exponent`.
fn scaled(digits: i128, exponent: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(exponent.unsigned_abs());
    if exponent < 0 { Some(factor.map_or(0, |factor| digits / factor)) } else { digits.checked_mul(factor?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, value) in [
            ("0", Some(0)),
            ("500m", Some(NANO / 2)),
            ("2", Some(2 * NANO)),
            ("-2", Some(-2 * NANO)),
            ("1.5Gi", Some(1_610_612_736 * NANO)),
            ("3k", Some(3000 * NANO)),
            ("1e3", Some(1000 * NANO)),
            ("1E-1", Some(NANO / 10)),
            ("2E", Some(2 * NANO.pow(3))),
            ("1Ei", Some((1 << 60) * NANO)),
            ("250n", Some(250)),
            ("0.1n", Some(0)),
            ("x", None),
            ("", None),
            ("1Zi", None),
            ("1.2.3", None),
            ("1e99", None),
            ("1e2147483647", None),
        ] {
            assert_eq!(nanos(text), value, "{text}");
        }
    }
}
