//! Reasons for not applying an object of a commit.

use std::fmt::{Display, Formatter};

use object::{Location, text};

/// The reason that an object of a commit is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A CamelCase word for conditions.
    pub reason: &'static str,
    /// Names the object, the problem and the fix.
    pub message: String,
    /// The source of the object; empty if it is unknown.
    pub origin: Location,
}

impl Problem {
    /// Returns a problem that concerns the whole commit.
    pub fn of_commit(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), origin: Location::default() }
    }
}

/// Prints `message (origin)`.
impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if self.origin.file.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.origin)
    }
}

/// Describes the first three problems and counts the rest. Long messages are truncated, but never the places.
pub fn summary(problems: &[Problem]) -> String {
    const SHOWN: usize = 3;
    const LONGEST: usize = 1200;
    let longest = LONGEST / problems.len().clamp(1, SHOWN);
    let shown = problems.iter().take(SHOWN).map(|problem| {
        let message = text::plain(&problem.message, longest);
        Problem { message, ..problem.clone() }.to_string()
    });
    let shown: Vec<_> = shown.collect();
    let more = problems.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join("; "))
}
