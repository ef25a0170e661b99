//! The order of keys in printed maps.

use std::cmp::Ordering;

use serde_json::Value as Json;

/// Compares keys: letters by code, runs of digits by value, and other characters before letters.
pub(super) fn natural_order(a: &str, b: &str) -> Ordering {
    let same = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum();
    let (before, a, b) = (
        a.get(..same).unwrap_or_default(),
        a.get(same..).unwrap_or_default(),
        b.get(same..).unwrap_or_default(),
    );
    let (Some(x), Some(y)) = (a.chars().next(), b.chars().next()) else { return a.len().cmp(&b.len()) };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Digits before the difference matter when one side continues with a zero: they make `10` and `1a` differ by
    // more than the zero.
    let mut seed = 0u128;
    if x == '0' || y == '0' {
        seed = u128::from(before.chars().rev().take_while(|c| c.is_numeric()).any(|c| c != '0'));
    }
    let run = |text: &str| {
        let digits = || text.bytes().take_while(u8::is_ascii_digit);
        let value =
            digits().fold(seed, |sum, digit| sum.saturating_mul(10).saturating_add(u128::from(digit - b'0')));
        (value, digits().count())
    };
    run(a).cmp(&run(b)).then(x.cmp(&y))
}

/// Sorts fields by key.
///
/// The order is not transitive: `10` sorts before `1a`, `1a` before `2`, and `2` before `10`. The standard
/// library's sort may panic on such an order. A merge sort always ends, and gives the right order whenever there
/// is one.
pub(super) fn sorted<'a>(mut fields: Vec<(&'a String, &'a Json)>) -> Vec<(&'a String, &'a Json)> {
    if fields.len() < 2 {
        return fields;
    }
    let mut merged = Vec::with_capacity(fields.len());
    let mut right = sorted(fields.split_off(fields.len() / 2)).into_iter().peekable();
    let mut left = sorted(fields).into_iter().peekable();
    while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
        merged.extend(if natural_order(b, a).is_lt() { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    merged
}
