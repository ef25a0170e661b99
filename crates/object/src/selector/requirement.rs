//! A selector as requirements on labels.

use std::collections::BTreeMap;

use crate::names::{label_value_fault, qualified_name_fault};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Requirements on labels, all of which must match. Without requirements, everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The requirements, sorted by key as in the API machinery.
    pub requirements: Vec<Requirement>,
}

/// The requirement on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label key.
    pub key: String,
    /// The operator in `matchExpressions`, or its equivalent in a text selector.
    pub operator: Operator,
    /// The values: any number for `In` and `NotIn`, sorted; one for `GreaterThan` and `LessThan`; none otherwise.
    pub values: Vec<String>,
}

/// The comparison of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label is present with one of the values.
    In,
    /// The label is absent, or present with another value.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value; only in text selectors.
    GreaterThan,
    /// The label is an integer below the value; only in text selectors.
    LessThan,
}

/// The error of a selector that the API machinery would reject, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSelector(pub String);

impl Selector {
    /// Parses `matchLabels` and `matchExpressions`.
    ///
    /// # Errors
    /// Returns an error for the first key, value or operator that the API machinery would reject.
    pub fn parse(selector: &LabelSelector) -> Result<Self, InvalidSelector> {
        let labels = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Requirement::new(key, Operator::In, vec![value.clone()]));
        let expressions = selector.match_expressions.iter().flatten().map(Requirement::parse);
        let mut requirements = labels.chain(expressions).collect::<Result<Vec<_>, _>>()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Parses expressions without `matchLabels`.
    ///
    /// # Errors
    /// As for [`Selector::parse`].
    pub fn from_expressions(expressions: &[LabelSelectorRequirement]) -> Result<Self, InvalidSelector> {
        let mut requirements = expressions.iter().map(Requirement::parse).collect::<Result<Vec<_>, _>>()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Returns true if there are no requirements, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns true if labels satisfy every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_with(|key| labels.get(key).map(String::as_str))
    }

    /// Returns true if the values that a lookup returns satisfy every requirement.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(lookup(&requirement.key)))
    }
}

impl Requirement {
    /// Returns a requirement after validating its key and values.
    ///
    /// # Errors
    /// Returns the message of the API machinery.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, InvalidSelector> {
        if let Some(reason) = qualified_name_fault(key) {
            return Err(InvalidSelector(format!("key: Invalid value: {key:?}: {reason}")));
        }
        match (operator, values.is_empty()) {
            (Operator::In | Operator::NotIn, true) => {
                return Err(InvalidSelector(
                    "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
                        .into(),
                ));
            }
            (Operator::Exists | Operator::DoesNotExist, false) => {
                let reason = "values set must be empty for exists and does not exist";
                return Err(InvalidSelector(format!("values: Invalid value: {values:?}: {reason}")));
            }
            (Operator::GreaterThan | Operator::LessThan, _) => {
                if let Some(value) = values.iter().find(|value| value.parse::<i64>().is_err()) {
                    let reason = "for 'Gt', 'Lt' operators, the value must be an integer";
                    return Err(InvalidSelector(format!(
                        "values[0][{key}]: Invalid value: {value:?}: {reason}"
                    )));
                }
            }
            (Operator::In | Operator::NotIn, false) | (Operator::Exists | Operator::DoesNotExist, true) => {}
        }
        let faults =
            values.iter().enumerate().filter_map(|(i, value)| Some((i, value, label_value_fault(value)?)));
        if let Some((i, value, reason)) = faults.into_iter().next() {
            return Err(InvalidSelector(format!("values[{i}][{key}]: Invalid value: {value:?}: {reason}")));
        }
        values.sort();
        values.dedup();
        Ok(Self { key: key.into(), operator, values })
    }

    fn parse(expression: &LabelSelectorRequirement) -> Result<Self, InvalidSelector> {
        let operator = match expression.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                return Err(InvalidSelector(format!("{other:?} is not a valid label selector operator")));
            }
        };
        Self::new(&expression.key, operator, expression.values.clone().unwrap_or_default())
    }

    /// Returns true if a value, or its absence, satisfies the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let among = |value: &str| self.values.binary_search_by(|wanted| wanted.as_str().cmp(value)).is_ok();
        match self.operator {
            Operator::In => value.is_some_and(among),
            Operator::NotIn => !value.is_some_and(among),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value, i64::gt),
            Operator::LessThan => self.compares(value, i64::lt),
        }
    }

    fn compares(&self, value: Option<&str>, holds: fn(&i64, &i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(|bound| number(bound));
        value.and_then(number).zip(bound).is_some_and(|(value, bound)| holds(&value, &bound))
    }
}

/// Formats a selector as text, which [`str::parse`] reads.
impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

/// Formats a requirement as `kubectl` does: `key in (a,b)`, `key`, `!key`.
impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, operator, values } = self;
        match operator {
            Operator::In => write!(f, "{key} in ({})", values.join(",")),
            Operator::NotIn => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{}", values.join(",")),
            Operator::LessThan => write!(f, "{key}<{}", values.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, operator: &str, values: &[&str], labels: &[(&str, &str)]) -> Result<bool, String> {
        let expression = LabelSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        let selector =
            LabelSelector { match_expressions: Some(vec![expression]), ..LabelSelector::default() };
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Selector::parse(&selector).map(|s| s.matches(&labels)).map_err(|e| e.to_string())
    }

    #[test]
    fn negative_operators_match_absent_keys() {
        for (operator, values, absent, equal, other) in [
            ("In", &["v"][..], false, true, false),
            ("NotIn", &["v"], true, false, true),
            ("Exists", &[], false, true, true),
            ("DoesNotExist", &[], true, false, false),
        ] {
            let got = [&[][..], &[("k", "v")], &[("k", "w")]]
                .map(|labels| check("k", operator, values, labels).unwrap());
            assert_eq!(got, [absent, equal, other], "{operator}");
        }
    }

    #[test]
    fn an_empty_selector_matches_everything() {
        assert!(Selector::parse(&LabelSelector::default()).unwrap().matches(&BTreeMap::new()));
    }

    #[test]
    fn refusals_are_worded_as_the_api_machinery_words_them() {
        for (key, operator, values, start) in [
            (
                "id.k8s.io",
                "In",
                &["https://x.example/abc"][..],
                "values[0][id.k8s.io]: Invalid value: \"https://x.example/abc\": a valid label must be",
            ),
            (
                "k",
                "In",
                &[],
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            ("k", "Exists", &["v"], "values: Invalid value: [\"v\"]: values set must be empty"),
            ("k", "Gt", &["1"], "\"Gt\" is not a valid label selector operator"),
            ("-k", "Exists", &[], "key: Invalid value: \"-k\": name part must consist"),
            ("A.b/k", "Exists", &[], "key: Invalid value: \"A.b/k\": prefix part"),
        ] {
            let refusal = check(key, operator, values, &[]).unwrap_err();
            assert!(refusal.starts_with(start), "{refusal}");
        }
    }
}
