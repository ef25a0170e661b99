//! Conditions on labels and annotations, as `target` selectors carry them: `app=web,tier in (a, b),!legacy`.

use std::collections::BTreeMap;

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Requirement {
    /// Whether labels meet the condition.
    pub(super) fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        let value = labels.get(self.key.as_str()).copied();
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.condition {
            Condition::Exists => value.is_some(),
            Condition::Absent => value.is_none(),
            Condition::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            Condition::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
            Condition::Above(than) => number().is_some_and(|number| number > *than),
            Condition::Below(than) => number().is_some_and(|number| number < *than),
        }
    }
}

/// Reads conditions that are separated by commas.
///
/// # Errors
/// A sentence about the first thing that cannot be read.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    split(text).into_iter().filter(|part| !part.trim().is_empty()).map(requirement).collect()
}

/// Splits at the commas that stand outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let part = part.trim();
    if let Some(key) = part.strip_prefix('!').filter(|rest| !rest.starts_with('=')) {
        return Ok(Requirement { key: checked(key)?, condition: Condition::Absent });
    }
    // Longer operators come first, so that `==` is not read as `=`.
    for operator in ["!=", "==", "=", ">", "<"] {
        if let Some((key, value)) = part.split_once(operator) {
            let value = value.trim();
            if value.contains(|c: char| c.is_whitespace() || "=!<>()".contains(c)) {
                return Err(format!("{value:?} is not a label value"));
            }
            let number = || value.parse::<i64>().map_err(|_| format!("{value:?} is not an integer"));
            let condition = match operator {
                "!=" => Condition::NotIn(vec![value.into()]),
                ">" => Condition::Above(number()?),
                "<" => Condition::Below(number()?),
                _ => Condition::In(vec![value.into()]),
            };
            return Ok(Requirement { key: checked(key)?, condition });
        }
    }
    match part.split_once(char::is_whitespace) {
        None => Ok(Requirement { key: checked(part)?, condition: Condition::Exists }),
        Some((key, rest)) => {
            let (operator, values) =
                rest.trim().split_once('(').ok_or_else(|| format!("{part:?} is not a label condition"))?;
            let values = values
                .trim_end()
                .strip_suffix(')')
                .ok_or_else(|| format!("{part:?} has no closing parenthesis"))?;
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            let condition = match operator.trim() {
                "in" => Condition::In(values),
                "notin" => Condition::NotIn(values),
                other => return Err(format!("{other:?} is not in or notin")),
            };
            Ok(Requirement { key: checked(key)?, condition })
        }
    }
}

fn checked(key: &str) -> Result<String, String> {
    let key = key.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if key.is_empty() || !key.chars().all(allowed) {
        return Err(format!("{key:?} is not a label key"));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &str, labels: &[(&str, &str)], expected: bool) {
        let labels = labels.iter().copied().collect();
        let requirements = parse(selector).unwrap();
        assert_eq!(requirements.iter().all(|r| r.matches(&labels)), expected, "{selector} on {labels:?}");
    }

    #[test]
    fn conditions_match_as_in_kubectl() {
        let web = [("app", "web"), ("n", "5")];
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,n=5", true),
            ("app != web", false),
            ("missing!=x", true),
            ("app in (web, db)", true),
            ("app notin (web)", false),
            ("app", true),
            ("!app", false),
            ("!missing", true),
            ("n>4,n<6", true),
            ("app>1", false),
        ] {
            check(selector, &web, expected);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for selector in ["app in web", "a b", "=x", "app=a b", "app within (x)", "app in (x"] {
            assert!(parse(selector).is_err(), "{selector}");
        }
    }
}
