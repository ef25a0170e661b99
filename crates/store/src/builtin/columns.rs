//! The columns of `kubectl get` for built-in kinds, matching kube-apiserver's printers.

use jiff::Timestamp;
use serde_json::Value;

use object::Object;

/// A column whose cells are computed from the object and the time.
#[derive(Clone, Copy, Debug)]
pub struct PrinterColumn {
    pub name: &'static str,
    /// The OpenAPI format of the cells; `name` for the name of the object.
    pub format: &'static str,
    /// 0 to always show the column, higher for `-o wide`.
    pub priority: u8,
    /// Computes a cell.
    pub cell: fn(&Object, Timestamp) -> Value,
}

/// Returns a column that is always shown.
pub(super) const fn column(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> PrinterColumn {
    PrinterColumn { name, format: "", priority: 0, cell }
}

/// Returns a column that only `-o wide` shows.
pub(super) const fn wide(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> PrinterColumn {
    PrinterColumn { name, format: "", priority: 1, cell }
}

/// The name of the object.
pub(super) const NAME: PrinterColumn =
    PrinterColumn { name: "Name", format: "name", priority: 0, cell: |o, _| o.name().into() };
/// The age of the object.
pub(super) const AGE: PrinterColumn =
    column("Age", |o, now| age(text(o, &["metadata", "creationTimestamp"]), now));
/// The time when the object was created.
pub(super) const CREATED_AT: PrinterColumn =
    column("Created At", |o, _| text(o, &["metadata", "creationTimestamp"]).into());

/// Returns the text at a path; empty if absent.
pub(super) fn text<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a text, or a fallback if it is empty.
pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// Returns the number at a path; 0 if absent.
pub(super) fn count(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns the number of entries of the map in a field.
pub(super) fn entries(object: &Object, field: &str) -> usize {
    object.at(&[field]).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// Returns the ready and desired replicas, such as `1/2`.
pub(super) fn ratio(object: &Object, ready: &str) -> Value {
    format!("{}/{}", count(object, &["status", ready]), count(object, &["spec", "replicas"])).into()
}

/// Returns the time since `at` in kubectl's format.
pub fn age(at: &str, now: Timestamp) -> Value {
    match at.parse::<Timestamp>() {
        _ if at.is_empty() => "<unknown>".into(),
        Ok(at) => human_duration(now.duration_since(at).as_secs()).into(),
        Err(_) => "<invalid>".into(),
    }
}

/// Formats a duration like kubectl (`HumanDuration` of apimachinery): at most two units, the second one only for
/// short durations.
pub(super) fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |first: i64, unit: &str, second: i64, smaller: &str| {
        if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{smaller}") }
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(hours / 24, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{}d", hours / 24),
        63_072_000..252_288_000 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (660, "11m"),
            (3 * 3600 + 60, "3h1m"),
            (30 * 3600, "30h"),
            (50 * 3600, "2d2h"),
            (20 * 86_400, "20d"),
            (3 * 365 * 86_400 + 86_400, "3y1d"),
            (9 * 365 * 86_400, "9y"),
        ];
        for (seconds, want) in cases {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}
