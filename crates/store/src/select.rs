//! Label and field selectors as they stand in query strings.

use std::collections::BTreeMap;

use object::selector::{key_fault, value_fault};

/// A label selector: every requirement must hold; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

/// A selector that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement: {why}")]
pub(super) struct BadSelector {
    /// What is wrong, and where.
    pub why: String,
}

fn bad<T>(why: impl Into<String>) -> Result<T, BadSelector> {
    Err(BadSelector { why: why.into() })
}

impl LabelSelector {
    /// Reads a selector as it stands in a query string: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    ///
    /// # Errors
    /// [`BadSelector`] says what was found where something else had to stand.
    pub(super) fn parse(text: &str) -> Result<Self, BadSelector> {
        let parts = split_outside_parentheses(text);
        let requirements = parts.into_iter().map(Requirement::parse).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }

    /// Whether the selector selects everything.
    pub(super) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether these labels are selected.
    pub(super) fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, BadSelector> {
        let requirement = Self::read(text.trim())?;
        if let Some(why) = key_fault(&requirement.key) {
            return bad(format!("key: Invalid value: {:?}: {why}", requirement.key));
        }
        match requirement.values.iter().find_map(|value| Some((value, value_fault(value)?))) {
            Some((value, why)) => {
                bad(format!("values[0][{}]: Invalid value: {value:?}: {why}", requirement.key))
            }
            None => Ok(requirement),
        }
    }

    fn read(text: &str) -> Result<Self, BadSelector> {
        if text.is_empty() {
            return bad("found '', expected: !, identifier, or 'end of string'");
        }
        if let Some(key) = text.strip_prefix('!') {
            return Ok(Self { key: key.trim().into(), operator: Operator::Absent, values: Vec::new() });
        }
        for (sign, operator) in [
            ("!=", Operator::NotIn),
            ("==", Operator::In),
            ("=", Operator::In),
            (">", Operator::Greater),
            ("<", Operator::Less),
        ] {
            let Some((key, value)) = text.split_once(sign) else { continue };
            let value = value.trim();
            if matches!(operator, Operator::Greater | Operator::Less) && value.parse::<i64>().is_err() {
                return bad(format!("{key}: for 'Gt', 'Lt' operators, the value must be an integer"));
            }
            return Ok(Self { key: key.trim().into(), operator, values: vec![value.into()] });
        }
        let Some((key, rest)) = text.split_once(char::is_whitespace) else {
            return Ok(Self { key: text.into(), operator: Operator::Exists, values: Vec::new() });
        };
        let rest = rest.trim();
        let (operator, list) = match (rest.strip_prefix("in"), rest.strip_prefix("notin")) {
            (Some(list), _) => (Operator::In, list),
            (None, Some(list)) => (Operator::NotIn, list),
            (None, None) => {
                let word = rest.split_whitespace().next().unwrap_or_default();
                return bad(format!("found '{word}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let inner = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')'));
        let Some(inner) = inner else { return bad(format!("found '{}', expected: '('", list.trim())) };
        Ok(Self {
            key: key.into(),
            operator,
            values: inner.split(',').map(|value| value.trim().to_owned()).collect(),
        })
    }

    fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        let value = labels.get(self.key.as_str());
        let listed = || value.is_some_and(|value| self.values.iter().any(|one| one == value));
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = || self.values.first().and_then(|bound| number(bound));
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater => {
                value.and_then(|value| number(value)).zip(bound()).is_some_and(|(value, bound)| value > bound)
            }
            Operator::Less => {
                value.and_then(|value| number(value)).zip(bound()).is_some_and(|(value, bound)| value < bound)
            }
        }
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

/// A field selector: `metadata.name=x,status.phase!=y`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSelector {
    /// Path, whether it must be equal, and the value.
    pub(super) requirements: Vec<(String, bool, String)>,
}

impl FieldSelector {
    /// Reads a selector as it stands in a query string.
    ///
    /// # Errors
    /// [`BadSelector`] names the part without `=` or `!=`.
    pub(super) fn parse(text: &str) -> Result<Self, BadSelector> {
        let mut requirements = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (path, equal, value) =
                match (part.split_once("!="), part.split_once("=="), part.split_once('=')) {
                    (Some((path, value)), ..) => (path, false, value),
                    (None, Some((path, value)), _) | (None, None, Some((path, value))) => (path, true, value),
                    (None, None, None) => {
                        return bad(format!("invalid selector: '{part}'; can't understand '{part}'"));
                    }
                };
            requirements.push((path.to_owned(), equal, value.to_owned()));
        }
        Ok(Self { requirements })
    }

    /// Whether an object is selected, given how to read a field of it (absent fields read as empty).
    pub(super) fn matches<'a>(&self, field: impl Fn(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.requirements.iter().all(|(path, equal, value)| (field(path) == *value) == *equal)
    }
}

/// Whether the text is an RFC 1123 label: at most 63 of lower case letters, digits and `-`, alphanumeric at both ends.
pub(super) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Whether the text is an RFC 1123 subdomain: parts like labels between dots, at most 253 bytes in all.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text.chars().all(|c| alphanumeric(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &str, labels: &[(&str, &str)], selected: bool) {
        let labels = labels.iter().copied().collect();
        assert_eq!(
            LabelSelector::parse(selector).unwrap().matches(&labels),
            selected,
            "{selector} on {labels:?}"
        );
    }

    #[test]
    fn label_selectors_select() {
        let labels = [("a", "b"), ("n", "5"), ("x.io/y", "")];
        for selected in [
            "",
            "a",
            "a=b",
            "a==b",
            "a!=c",
            "z!=c",
            "!z",
            "a in (b,c)",
            "a notin (c)",
            "z notin (b)",
            "n>4",
            "n<6",
            "x.io/y",
            "x.io/y=",
            "a=b,n",
            "a in (b),n in (5)",
        ] {
            check(selected, &labels, true);
        }
        for passed in ["z", "a=c", "a!=b", "!a", "a in (c)", "a notin (b,c)", "n>5", "a>1", "z=", "a=b,z"] {
            check(passed, &labels, false);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in ["a b", "a in b", "a in (b", "=x", "a=b=c", "a>x", ",", "a,,b", "-a", "a=-"] {
            assert!(LabelSelector::parse(nonsense).is_err(), "{nonsense}");
        }
        assert!(FieldSelector::parse("metadata.name").is_err());
    }

    #[test]
    fn field_selectors_compare_text() {
        let selector = FieldSelector::parse("metadata.name=a,status.phase!=Gone").unwrap();
        assert!(selector.matches(|path| if path == "metadata.name" { "a".into() } else { "".into() }));
        assert!(!selector.matches(|path| if path == "metadata.name" { "b".into() } else { "".into() }));
    }
}
