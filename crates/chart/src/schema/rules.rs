//! Keywords that check a value without its children. Each violation is a text.

use serde_json::{Map, Number, Value as Json};

use super::format;
use super::violation::{all_quoted, quoted};

type Fields = Map<String, Json>;

/// The types, in the order in which errors list them.
const TYPES: &[&str] = &["null", "boolean", "number", "integer", "string", "array", "object"];

/// Checks `type`, `const`, `enum` and `format`, and reports only the first failure.
pub(super) fn whole(schema: &Fields, value: &Json, draft: u16) -> Option<String> {
    if let Some(wanted) = schema.get("type") {
        let is_wanted = |typ: &&&str| match wanted {
            Json::String(wanted) => wanted == **typ,
            Json::Array(wanted) => wanted.iter().any(|wanted| wanted == **typ),
            _ => false,
        };
        let wanted: Vec<&str> = TYPES.iter().filter(is_wanted).copied().collect();
        let got = type_of(value);
        let is_integer = || wanted.contains(&"integer") && value.as_f64().is_some_and(|n| n.fract() == 0.0);
        if !wanted.is_empty() && !wanted.contains(&got) && !is_integer() {
            return Some(format!("got {got}, want {}", wanted.join(" or ")));
        }
    }
    if let Some(wanted) = schema.get("const").filter(|_| draft >= 6)
        && !equal(value, wanted)
    {
        return Some(match wanted {
            Json::Array(_) | Json::Object(_) => "'const' failed".to_owned(),
            wanted => format!("value must be {}", shown(wanted)),
        });
    }
    if let Some(wanted) = schema.get("enum").and_then(Json::as_array)
        && !wanted.iter().any(|wanted| equal(value, wanted))
    {
        let shown: Vec<String> = wanted.iter().map(shown).collect();
        return Some(match shown.as_slice() {
            _ if wanted.iter().any(|wanted| wanted.is_array() || wanted.is_object()) => {
                "'enum' failed".to_owned()
            }
            [wanted] => format!("value must be {wanted}"),
            _ => format!("value must be one of {}", shown.join(", ")),
        });
    }
    let format = schema.get("format").and_then(Json::as_str).filter(|_| draft < 2019)?;
    let reason = format::refused(format, value.as_str()?)?;
    Some(format!("{} is not valid {format}: {reason}", shown(value)))
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::Null => "<nil>".to_owned(),
        Json::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Compares like JSON Schema: 1 equals 1.0.
fn equal(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| equal(one, other)))
        }
        _ => one == other,
    }
}

/// Returns a limit if it is a whole number.
fn limit(schema: &Fields, keyword: &str) -> Option<usize> {
    let number = schema.get(keyword)?;
    let whole = number.as_u64().or_else(|| number.as_f64().map(|number| number as u64));
    usize::try_from(whole?).ok()
}

/// Checks `minX` and `maxX`.
fn bounds(schema: &Fields, of: &str, got: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for (bound, fails) in [("min", usize::lt as fn(&usize, &usize) -> bool), ("max", usize::gt)] {
        let keyword = format!("{bound}{of}");
        if let Some(want) = limit(schema, &keyword).filter(|want| fails(&got, want)) {
            texts.push(format!(
                "{keyword}: got {}, want {}",
                grouped(&got.to_string()),
                grouped(&want.to_string())
            ));
        }
    }
    texts
}

pub(super) fn object(schema: &Fields, object: &Fields, draft: u16) -> Vec<String> {
    let mut texts = bounds(schema, "Properties", object.len());
    let missing = |names: &Json| -> Vec<String> {
        let names = names.as_array().into_iter().flatten().filter_map(Json::as_str);
        names.filter(|name| !object.contains_key(*name)).map(str::to_owned).collect()
    };
    let names = schema.get("required").map(missing).unwrap_or_default();
    match names.as_slice() {
        [] => {}
        [name] => texts.push(format!("missing property {}", quoted(name))),
        names => {
            texts.push(format!("missing properties {}", all_quoted(names.iter().map(String::as_str))));
        }
    }
    for keyword in ["dependencies", "dependentRequired"] {
        if keyword == "dependentRequired" && draft < 2019 {
            continue;
        }
        for (name, wanted) in schema.get(keyword).and_then(Json::as_object).into_iter().flatten() {
            let names = if object.contains_key(name) { missing(wanted) } else { Vec::new() };
            if !names.is_empty() {
                let names = all_quoted(names.iter().map(String::as_str));
                texts.push(format!("properties {names} required, if {} exists", quoted(name)));
            }
        }
    }
    texts
}

pub(super) fn array(schema: &Fields, items: &[Json]) -> Vec<String> {
    let mut texts = bounds(schema, "Items", items.len());
    if schema.get("uniqueItems") == Some(&Json::Bool(true)) {
        let same = items.iter().enumerate().find_map(|(at, item)| {
            let before = items.iter().take(at).position(|other| equal(item, other))?;
            Some((before, at))
        });
        texts.extend(same.map(|(one, other)| format!("items at {one} and {other} are equal")));
    }
    texts
}

/// Checks the number of items that match `contains`.
pub(super) fn contains(schema: &Fields, matched: &[String], draft: u16) -> Vec<String> {
    let limit = |keyword| limit(schema, keyword).filter(|_| draft >= 2019);
    let count = matched.len();
    let mut texts = Vec::new();
    let items = matched.join(" ");
    match limit("minContains") {
        None if count == 0 => texts.push("no items match contains schema".to_owned()),
        Some(want) if count < want => texts.push(if count == 0 {
            format!("min {want} items required to match contains schema, but none matched")
        } else {
            format!(
                "min {want} items required to match contains schema, but matched {count} items at {items}"
            )
        }),
        _ => {}
    }
    if let Some(want) = limit("maxContains").filter(|want| count > *want) {
        let text = format!(
            "max {want} items required to match contains schema, but matched {count} items at {items}"
        );
        texts.push(text);
    }
    texts
}

pub(super) fn string(schema: &Fields, text: &str) -> Vec<String> {
    bounds(schema, "Length", text.chars().count())
}

pub(super) fn number(schema: &Fields, number: &Number) -> Vec<String> {
    let Some(got) = number.as_f64() else { return Vec::new() };
    let mut texts = Vec::new();
    let mut fail = |keyword: &str, want: f64| {
        texts.push(format!("{keyword}: got {}, want {}", number_text(got), number_text(want)));
    };
    for (bound, exclusive, sign) in
        [("minimum", "exclusiveMinimum", 1.0), ("maximum", "exclusiveMaximum", -1.0)]
    {
        // In draft 4, `exclusiveMinimum` is a flag that modifies `minimum`.
        let is_flagged = schema.get(exclusive) == Some(&Json::Bool(true));
        let above = |want: f64| (got - want) * sign;
        if let Some(want) = schema.get(bound).and_then(Json::as_f64) {
            if is_flagged && above(want) <= 0.0 {
                fail(exclusive, want);
            } else if above(want) < 0.0 {
                fail(bound, want);
            }
        }
        if let Some(want) = schema.get(exclusive).and_then(Json::as_f64).filter(|want| above(*want) <= 0.0) {
            fail(exclusive, want);
        }
    }
    if let Some(want) = schema.get("multipleOf").and_then(Json::as_f64) {
        // Helm divides with unlimited precision. The tolerance accepts decimal fractions such as 0.3 / 0.1.
        let quotient = got / want;
        if (quotient - quotient.round()).abs() > 1e-9 {
            fail("multipleOf", want);
        }
    }
    texts
}

/// Prints a number like the messages of Helm's validator: `1,000`, but `1×10⁰⁶`.
fn number_text(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-4..1e6).contains(&size) {
        return grouped(&number.to_string());
    }
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let superscript = |digit: char| {
        let at = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
        at.and_then(|at| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(at))
    };
    let digits: String = format!("{digits:0>2}").chars().filter_map(superscript).collect();
    format!("{mantissa}×10{sign}{digits}")
}

/// Adds thousands separators.
fn grouped(number: &str) -> String {
    let (sign, size) = number.strip_prefix('-').map_or(("", number), |size| ("-", size));
    let whole = size.split('.').next().unwrap_or(size);
    let mut out = String::from(sign);
    for (at, c) in size.chars().enumerate() {
        if at > 0 && at < whole.len() && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
