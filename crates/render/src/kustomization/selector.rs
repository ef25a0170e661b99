//! Selects the objects of a patch or replacement.

use regex::Regex;

use crate::decode::{Located, Result};
use crate::error::Reason;
use crate::pattern::anchored;
use object::Gvk;

/// Selects objects by identity patterns, labels and annotations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    /// Pattern of the group.
    pub group: Option<Regex>,
    /// Pattern of the version.
    pub version: Option<Regex>,
    /// Pattern of the kind.
    pub kind: Option<Regex>,
    /// Pattern of the name.
    pub name: Option<Regex>,
    /// Pattern of the namespace.
    pub namespace: Option<Regex>,
    /// Requirements for labels.
    pub labels: object::Selector,
    /// Requirements for annotations, in the same form.
    pub annotations: object::Selector,
}

impl Selector {
    /// Reads a selector with patterns.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        Self::read_as(located, str::to_owned)
    }

    /// Reads a selector with literal names instead of patterns.
    pub(crate) fn read_exact(located: &Located<'_>) -> Result<Self> {
        Self::read_as(located, regex::escape)
    }

    fn read_as(located: &Located<'_>, to_pattern: fn(&str) -> String) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut pattern = |name| {
            fields.one(name, |value: &Located<'_>| {
                let text = value.string()?;
                let compile =
                    |text: &str| anchored(text).map_err(|reason| value.error(Reason::InvalidValue, reason));
                (!text.is_empty()).then(|| compile(&to_pattern(&text))).transpose()
            })
        };
        let mut selector = Self {
            group: pattern("group")?.flatten(),
            version: pattern("version")?.flatten(),
            kind: pattern("kind")?.flatten(),
            name: pattern("name")?.flatten(),
            namespace: pattern("namespace")?.flatten(),
            ..Self::default()
        };
        let requirements = |value: &Located<'_>| {
            let text = value.string()?;
            text.parse::<object::Selector>().map_err(|reason| {
                value.error(Reason::InvalidValue, format!("{text:?} is not a label selector: {reason}"))
            })
        };
        selector.labels = fields.one("labelSelector", requirements)?.unwrap_or_default();
        selector.annotations = fields.one("annotationSelector", requirements)?.unwrap_or_default();
        fields.finish()?;
        Ok(selector)
    }

    /// Returns true if the selector has only labels and annotations.
    pub(crate) fn names_nothing(&self) -> bool {
        let patterns = [&self.group, &self.version, &self.kind, &self.name, &self.namespace];
        patterns.iter().all(|pattern| pattern.is_none())
    }

    /// Returns true if group, version and kind match.
    pub(crate) fn matches_gvk(&self, gvk: &Gvk) -> bool {
        matches(&self.group, &gvk.group)
            && matches(&self.version, &gvk.version)
            && matches(&self.kind, &gvk.kind)
    }

    pub(crate) fn matches_name(&self, name: &str) -> bool {
        matches(&self.name, name)
    }

    pub(crate) fn matches_namespace(&self, namespace: &str) -> bool {
        matches(&self.namespace, namespace)
    }
}

fn matches(pattern: &Option<Regex>, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
}
