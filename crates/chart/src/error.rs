//! The error for a chart that cannot be rendered.

use std::fmt;

use crate::fault::Fault;
use crate::random::Draw;

/// The reason a chart cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The message, which matches Helm's if Helm also rejects the chart.
    pub message: String,
    /// The faulty file of the chart, if known.
    pub file: Option<String>,
    /// The line in the file, counted from 1.
    pub line: Option<u32>,
    /// The name of the exhausted budget: `steps`, `bytes`, `text`, `list`, `depth`, `regex` and others.
    pub budget: Option<&'static str>,
    /// True if a document would contain a value that differs in each rendering.
    pub is_fresh: bool,
    /// Advice for fixing the error.
    pub hint: Option<String>,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), file: None, line: None, budget: None, is_fresh: false, hint: None }
    }

    pub(crate) fn budget(name: &'static str, message: String) -> Self {
        Self { budget: Some(name), ..Self::new(message) }
    }

    /// Returns the error for a document that contains a value that differs in each rendering.
    pub(crate) fn fresh(draw: &Draw) -> Self {
        let Draw { function, output, .. } = draw;
        let error = Self::new(format!(
            "{function} returns a different value in each rendering, and {output} holds it"
        ));
        let (file, line) = place(&draw.location);
        Self { is_fresh: true, file, line, ..error }
            .hint("set the value of the chart that the template uses instead, such as a password or the name of an existing Secret")
    }

    pub(crate) fn in_file(self, file: &str, line: Option<u32>) -> Self {
        Self { file: Some(file.to_owned()), line, ..self }
    }

    pub(crate) fn within(self, context: String) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let Fault { text, location, message, budget, unsupported } = fault;
        let place = location.as_deref().unwrap_or_default();
        let (file, line) = self::place(place);
        Self {
            message: match &message {
                Some(message) => format!("execution error at ({place}): {message}"),
                None => text,
            },
            file,
            line,
            budget,
            is_fresh: false,
            hint: if unsupported {
                Some("give the chart an existing Secret, so that it makes none".to_owned())
            } else {
                message.map(|_| "the chart asks for this; set the value it names".to_owned())
            },
        }
    }
}

/// Returns the file and line of a location of the form `file:line:column`.
fn place(location: &str) -> (Option<String>, Option<u32>) {
    let mut parts = location.rsplitn(3, ':');
    let (_column, line, file) = (parts.next(), parts.next(), parts.next());
    (file.map(str::to_owned), line.and_then(|line| line.parse().ok()))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
