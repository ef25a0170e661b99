//! Violations of a schema, and their messages.

/// A value that violates a schema.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    /// The JSON pointer of the value.
    pub(super) at: String,
    pub(super) kind: Kind,
    pub(super) causes: Vec<Violation>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Several keywords of one schema failed.
    Group,
    /// The target of a `$ref` failed.
    Reference,
    /// The message for a failed keyword.
    Keyword(String),
}

impl Violation {
    pub(super) fn new(at: String, text: impl Into<String>) -> Self {
        Self { at, kind: Kind::Keyword(text.into()), causes: Vec::new() }
    }

    pub(super) fn because(self, causes: Vec<Self>) -> Self {
        Self { causes, ..self }
    }

    /// Returns the violations in a group, or the violation itself.
    pub(super) fn ungrouped(self) -> Vec<Self> {
        if matches!(self.kind, Kind::Group) { self.causes } else { vec![self] }
    }

    /// Returns one line per violation, indented below its cause.
    pub(super) fn report(self) -> String {
        let mut lines = Vec::new();
        for violation in self.ungrouped() {
            violation.print(0, &mut lines);
        }
        lines.join("\n")
    }

    fn print(&self, indent: usize, lines: &mut Vec<String>) {
        let is_skipped = matches!(self.kind, Kind::Reference) && self.causes.len() == 1;
        if !is_skipped {
            let text = match &self.kind {
                Kind::Group | Kind::Reference => "validation failed",
                Kind::Keyword(text) => text,
            };
            lines.push(format!("{}- at {}: {text}", "  ".repeat(indent), quoted(&self.at)));
        }
        for cause in &self.causes {
            cause.print(if is_skipped { indent } else { indent + 1 }, lines);
        }
    }
}

/// Quotes a text with single quotes and Go's escape sequences.
pub(super) fn quoted(text: &str) -> String {
    let text = crate::print::quote(text);
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    format!("'{}'", inner.replace("\\\"", "\"").replace('\'', "\\'"))
}

pub(super) fn all_quoted<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}
