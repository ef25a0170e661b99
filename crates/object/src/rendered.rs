//! Rendered objects and their locations in a repository.

use std::fmt::{Display, Formatter};

use serde::Serialize;

use super::Object;

/// A line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Location {
    /// The path from the repository root; empty if no file contains the object.
    pub file: String,
    /// The line, counted from 1; 0 if unknown.
    pub line: u32,
}

/// Formats the location as `file:line`, or `file` if the line is unknown.
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
    /// The object after all transformers.
    pub object: Object,
    /// The location of its start; for a generated object, the location of its generator.
    pub origin: Location,
    /// The namespace of its Helm release, into which Helm installs objects that set none.
    pub release_namespace: Option<String>,
}
