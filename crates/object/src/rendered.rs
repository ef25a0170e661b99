//! Objects with the places in a repository that they come from.

use std::fmt::{Display, Formatter};

use serde::Serialize;

use super::Object;

/// A file and a line in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Location {
    /// The path from the repository's root; empty if no file holds the object.
    pub file: String,
    /// The line, counted from 1; 0 if no line is to blame.
    pub line: u32,
}

/// `file:line`, or `file` if the line is not known.
impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// An object that a rendering produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedObject {
    /// The object.
    pub object: Object,
    /// The place that it starts at; for a generated object, the place of its generator.
    pub origin: Location,
    /// The namespace of the Helm release that it belongs to, where Helm installs an object that names none.
    pub release_namespace: Option<String>,
}
