//! Reasons not to apply an object of a commit.

use std::fmt::{Display, Formatter};

use object::{Location, text};

/// Why an object of a commit is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// CamelCase word for conditions.
    pub reason: &'static str,
    /// Names the object, the problem and the correction.
    pub message: String,
    /// The place that the object comes from; empty if it is not known.
    pub origin: Location,
}

impl Problem {
    /// Returns a problem of the commit as a whole.
    pub fn of_commit(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), origin: Location::default() }
    }
}

/// `message (origin)`.
impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if self.origin.file.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.origin)
    }
}

/// Describes the first three problems, and counts the rest. If the messages are long, they are cut, but never their places.
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
