//! Parses the field selectors of query strings.

/// A selector that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid selector: '{0}'; can't understand '{0}'")]
pub(super) struct InvalidFieldSelector(String);

/// A field selector: `metadata.name=x,status.phase!=y`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSelector {
    /// The path, whether it must be equal, and the value.
    pub(super) requirements: Vec<(String, bool, String)>,
}

impl FieldSelector {
    /// Parses the selector of a query string.
    ///
    /// # Errors
    /// Returns [`InvalidFieldSelector`] with the part that lacks `=` or `!=`.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidFieldSelector> {
        let mut requirements = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (path, equal, value) =
                match (part.split_once("!="), part.split_once("=="), part.split_once('=')) {
                    (Some((path, value)), ..) => (path, false, value),
                    (None, Some((path, value)), _) | (None, None, Some((path, value))) => (path, true, value),
                    (None, None, None) => {
                        return Err(InvalidFieldSelector(part.into()));
                    }
                };
            requirements.push((path.to_owned(), equal, value.to_owned()));
        }
        Ok(Self { requirements })
    }

    /// Returns true if an object matches. `field` reads a field; an absent field counts as empty.
    pub(super) fn matches<'a>(&self, field: impl Fn(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.requirements.iter().all(|(path, equal, value)| (field(path) == *value) == *equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors_compare_text() {
        let selector = FieldSelector::parse("metadata.name=a,status.phase!=Gone").unwrap();
        assert!(selector.matches(|path| if path == "metadata.name" { "a".into() } else { "".into() }));
        assert!(!selector.matches(|path| if path == "metadata.name" { "b".into() } else { "".into() }));
        assert!(FieldSelector::parse("metadata.name").is_err());
    }
}
