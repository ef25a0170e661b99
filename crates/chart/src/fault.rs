//! Failures of templates, with the stack of templates that led to them.

/// The length from which on no more places are added to an error, in bytes.
const MAX_TEXT: usize = 2 << 10;

/// A failure of a template or function.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The full text as Go prints it: each `executing … at …` on the stack, then the cause.
    pub(crate) text: String,
    /// File, line and column of the outermost node.
    pub(crate) location: Option<String>,
    /// The message of `fail` or `required`, which Helm prints without the stack.
    pub(crate) message: Option<String>,
    /// The name of the exhausted budget.
    pub(crate) budget: Option<&'static str>,
    /// True if Helm has the function but this crate does not.
    pub(crate) unsupported: bool,
}

impl Fault {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), location: None, message: None, budget: None, unsupported: false }
    }

    /// Returns the error of `fail` and `required`.
    pub(crate) fn message(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { message: Some(text.clone()), ..Self::text(text) }
    }

    /// Returns the error for a function that only Helm supports.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self { unsupported: true, ..Self::text(text) }
    }

    pub(crate) fn budget(name: &'static str, text: String) -> Self {
        Self { budget: Some(name), ..Self::text(text) }
    }

    /// Adds the name of the failed function.
    pub(crate) fn calling(self, function: &str) -> Self {
        self.within(&format!("error calling {function}"))
    }

    /// Adds the node at which a template failed.
    pub(crate) fn at(self, location: String, template: &str, context: &dyn std::fmt::Display) -> Self {
        let place = format!("template: {location}: executing {template:?} at <{context}>");
        Self { location: Some(location), ..self.within(&place) }
    }

    /// Adds a place around the failed one, unless a deep recursion has added many.
    fn within(mut self, place: &str) -> Self {
        if self.text.len() <= MAX_TEXT {
            self.text.insert_str(0, &format!("{place}: "));
        }
        self
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
