//! Mistakes in a repository, with their location and a hint for the author.

use std::fmt::{Display, Formatter};

use serde::Serialize;

use object::{Key, Location};
use yaml::MalformedYaml;

/// A mistake: its location, what is wrong, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderError {
    /// Category of the mistake, a stable word for conditions and metrics.
    pub reason: Reason,
    /// Description of the mistake, without the location.
    pub message: String,
    /// The faulty file, relative to the root of the repository.
    pub file: String,
    /// The line, counted from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The field, as a path such as `patches[0].target.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The line of the file, with the lines around it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excerpt: Vec<ExcerptLine>,
    /// Advice for fixing the mistake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Other relevant locations, such as the first of two duplicates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Location>,
    /// The kustomizations that led to the file, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
    /// The chart releases that need random values and have none yet.
    #[serde(skip)]
    pub undrawn: Vec<Key>,
    /// The references of all remote charts that the rendering reads, if the tree lacks one of them.
    #[serde(skip)]
    pub charts: Vec<String>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExcerptLine {
    /// Line number, counted from 1.
    pub line: u32,
    /// The text of the line, cut to 120 characters.
    pub text: String,
}

/// Categories of mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// A file or directory does not exist.
    NotFound,
    /// A text is not YAML or JSON, or does not have the required structure.
    Malformed,
    /// A field is unknown.
    UnknownField,
    /// A field has an invalid value.
    InvalidValue,
    /// A kustomization includes itself.
    Cycle,
    /// Two objects have the same identity.
    DuplicateObject,
    /// A path or link leaves the repository.
    OutsideRepository,
    /// A base or chart is not in the repository, and was not fetched.
    Remote,
    /// A plugin or a field is not supported.
    Unsupported,
    /// A patch, replacement or variable matches no object, or several.
    Target,
    /// A patch does not apply.
    Patch,
    /// A chart cannot be rendered.
    Chart,
    /// A file is encrypted, and the keys do not open it.
    Encrypted,
    /// A limit is exceeded.
    TooLarge,
    /// The rendering was canceled.
    Cancelled,
}

impl Reason {
    /// Returns the name for conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::Malformed => "Malformed",
            Self::UnknownField => "UnknownField",
            Self::InvalidValue => "InvalidValue",
            Self::Cycle => "Cycle",
            Self::DuplicateObject => "DuplicateObject",
            Self::OutsideRepository => "OutsideRepository",
            Self::Remote => "Remote",
            Self::Unsupported => "Unsupported",
            Self::Target => "Target",
            Self::Patch => "Patch",
            Self::Chart => "Chart",
            Self::Encrypted => "Encrypted",
            Self::TooLarge => "TooLarge",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl RenderError {
    /// Returns an error for a file.
    pub fn new(reason: Reason, file: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            file: file.into(),
            line: None,
            field: None,
            excerpt: Vec::new(),
            hint: None,
            related: Vec::new(),
            through: Vec::new(),
            undrawn: Vec::new(),
            charts: Vec::new(),
        }
    }

    /// Returns an error at a location.
    pub fn at(reason: Reason, location: &Location, message: impl Into<String>) -> Self {
        Self::new(reason, location.file.clone(), message).line(location.line)
    }

    /// Returns an error for a text that cannot be parsed.
    pub(crate) fn malformed(file: impl Into<String>, malformed: MalformedYaml) -> Self {
        let line = malformed.line;
        Self::new(Reason::Malformed, file, malformed.reason).line(line)
    }

    /// Sets the line, unless it is already set or the argument is 0.
    #[must_use]
    pub fn line(mut self, line: u32) -> Self {
        self.line = self.line.or((line > 0).then_some(line));
        self
    }

    /// Sets the field, unless it is already set.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field.get_or_insert_with(|| field.into());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint if there is one.
    #[must_use]
    pub(crate) fn hint_maybe(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Adds a related location.
    #[must_use]
    pub fn related(mut self, location: &Location) -> Self {
        self.related.push(location.clone());
        self
    }

    /// Adds an excerpt: the line, with the lines around it.
    #[must_use]
    pub(crate) fn with_excerpt(mut self, text: &str) -> Self {
        const NEIGHBOURS: u32 = 1;
        const LONGEST: usize = 120;
        let Some(line) = self.line.filter(|_| self.excerpt.is_empty()) else { return self };
        let wanted = line.saturating_sub(NEIGHBOURS)..=line.saturating_add(NEIGHBOURS);
        let shown =
            |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
        let lines = (1u32..).zip(text.lines()).filter(|(number, _)| wanted.contains(number));
        self.excerpt = lines.map(|(line, text)| ExcerptLine { line, text: shown(text) }).collect();
        self
    }
}

/// Prints `file:line: field: message`, then the excerpt, the hint and the kustomizations that led to the file.
impl Display for RenderError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)?;
        let width = self.excerpt.last().map(|line| line.line.to_string().len()).unwrap_or_default();
        for ExcerptLine { line, text } in &self.excerpt {
            let mark = if Some(*line) == self.line { '>' } else { ' ' };
            write!(f, "\n {mark} {line:>width$} | {text}")?;
        }
        for location in &self.related {
            write!(f, "\n   see {location}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n   hint: {hint}")?;
        }
        if !self.through.is_empty() {
            write!(f, "\n   read through {}", self.through.join(" -> "))?;
        }
        Ok(())
    }
}

impl std::error::Error for RenderError {}

/// Suggests the known word that is most similar to `written`, if one is similar enough.
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // The cost is the product of both lengths, which the repository controls.
    const LONGEST: usize = 200;
    let folded = |text: &str| text.to_lowercase().chars().take(LONGEST).collect::<String>();
    let wanted = folded(written);
    let scored = known.into_iter().map(|word| (strsim::osa_distance(&wanted, &folded(word)), word));
    let (distance, best) = scored.min_by_key(|(distance, _)| *distance)?;
    let near = distance <= 1 + best.chars().count().max(written.chars().count()) / 4;
    near.then(|| format!("did you mean {best:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_place_excerpt_and_hint() {
        let error = RenderError::new(Reason::UnknownField, "app/kustomization.yaml", "no such field")
            .line(2)
            .field("resuorces")
            .hint("did you mean \"resources\"?")
            .with_excerpt("kind: Kustomization\nresuorces:\n- a.yaml\n");
        let expected = "app/kustomization.yaml:2: resuorces: no such field\n   1 | kind: Kustomization\n > 2 | resuorces:\n   \
                        3 | - a.yaml\n   hint: did you mean \"resources\"?";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn similar_words_are_suggested_and_others_are_not() {
        let known = ["resources", "namePrefix", "namespace"];
        assert_eq!(did_you_mean("resuorces", known).as_deref(), Some("did you mean \"resources\"?"));
        assert_eq!(did_you_mean("nameprefixx", known).as_deref(), Some("did you mean \"namePrefix\"?"));
        assert_eq!(did_you_mean("zzz", known), None);
    }
}
