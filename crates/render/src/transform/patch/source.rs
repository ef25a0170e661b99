//! Reads the texts of patches.

use super::json6902::{self, Operation};
use crate::decode::Result;
use crate::error::{Reason, RenderError};
use crate::load::objects_of;
use crate::resource::Resource;
use object::Location;
use yaml::{Node, Reading, Value, documents};

pub(super) enum PatchContent {
    /// Objects with the fields to change.
    Strategic(Vec<Resource>),
    /// A list of operations.
    Json(Vec<Operation>),
}

/// The location of a patch's text.
pub(super) struct PatchSource<'a> {
    /// The file of the text, or the kustomization with the inline text.
    pub file: String,
    /// The location in the kustomization that refers to the patch.
    pub location: &'a Location,
    /// The field at this location.
    pub field: &'a str,
    /// The line before the text in the file. None if line numbers in the text have no meaning in the file.
    pub first_line: Option<u32>,
}

impl PatchSource<'_> {
    fn error(&self, message: impl Into<String>) -> Box<RenderError> {
        Box::new(RenderError::at(Reason::Patch, self.location, message).field(self.field))
    }

    /// Adds the location of the text to an error.
    fn within(&self, mut error: Box<RenderError>) -> Box<RenderError> {
        match self.first_line {
            Some(first) => {
                error.line = error.line.map(|line| line + first);
                error
            }
            None => {
                (error.file, error.line) = (self.location.file.clone(), Some(self.location.line));
                Box::new(error.field(self.field))
            }
        }
    }

    /// Reads the text of a strategic merge patch or JSON patch.
    ///
    /// # Errors
    /// Fails if the text is neither.
    pub(super) fn read(&self, text: &str) -> Result<PatchContent> {
        let nodes = documents(text.as_bytes()).map_err(|malformed| {
            let error = self.within(Box::new(RenderError::malformed(&self.file, malformed)));
            let hint = "a patch is an object with the fields to change, or a list of JSON patch operations";
            Box::new(error.hint(hint))
        })?;
        match nodes.as_slice() {
            [] => Err(self.error("the patch is empty")),
            [Node { value: Value::List(_), .. }] => read_json(text, self).map(PatchContent::Json),
            _ => self.read_strategic(nodes).map(PatchContent::Strategic),
        }
    }

    fn read_strategic(&self, nodes: Vec<Node>) -> Result<Vec<Resource>> {
        let mut objects = objects_of(nodes, &self.file).map_err(|error| self.within(error))?;
        for object in &mut objects {
            object.location = self.location.clone();
        }
        Ok(objects)
    }
}

/// Reads a JSON patch.
///
/// # Errors
/// Fails if the text is not a JSON patch.
pub(super) fn read_json(text: &str, source: &PatchSource<'_>) -> Result<Vec<Operation>> {
    let malformed = |malformed| source.within(Box::new(RenderError::malformed(&source.file, malformed)));
    let node = documents(text.as_bytes()).map_err(malformed)?.into_iter().next();
    let node = node.ok_or_else(|| source.error("the patch is empty"))?;
    let json = node.to_json(Reading::Yaml11).map_err(|(line, reason)| {
        source.within(Box::new(RenderError::new(Reason::InvalidValue, &source.file, reason.0).line(line)))
    })?;
    json6902::parse(&json).map_err(|reason| source.error(reason))
}
