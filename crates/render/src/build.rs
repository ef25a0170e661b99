//! The state of the rendering of one overlay, and its files.

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::kustomization::{BuildMetadata, Text, at};
use super::load::objects;
use super::memo::Parts;
use super::random_values::RandomValues;
use super::remote::vendored;
use super::resource::{Origin, Resource};
use super::schemas::Schemas;
use super::source::{PathTarget, Source, relative_join};
use object::Location;
use yaml::{Node, documents};

/// The rendering of one overlay.
pub(super) struct Build<'a> {
    /// The files.
    pub source: Source<'a>,
    /// The schemas in force.
    pub schemas: Schemas,
    /// The annotations and labels that the outermost kustomization asks for.
    pub metadata: BuildMetadata,
    /// The kustomizations that are being read, outermost first.
    pub stack: Vec<Frame>,
    /// The parts that are rendered already.
    pub parts: Parts,
    /// The random values of charts.
    pub random: RandomValues,
    /// The error of the first chart that lacks them, with the names of all.
    pub undrawn: Option<Box<RenderError>>,
}

/// A kustomization that is being read.
pub(super) struct Frame {
    /// Its directory.
    pub dir: String,
    /// Its file.
    pub file: String,
    /// Its path from the outermost directory, as annotations name it.
    pub origin: String,
    /// Its namespace; if it has none, the namespace of the kustomizations around it.
    pub namespace: String,
}

impl Frame {
    /// Returns a kustomization that is going to be read.
    pub(super) fn new(dir: &str, file: String, origin: String) -> Self {
        Self { dir: dir.into(), file, origin, namespace: String::new() }
    }
}

impl<'a> Build<'a> {
    /// Prepares the rendering of an overlay of a tree.
    pub(super) fn new(source: Source<'a>, parts: Parts, random: RandomValues) -> Self {
        let (schemas, metadata, stack) = Default::default();
        Self { source, schemas, metadata, stack, parts, random, undrawn: None }
    }

    /// Reads the objects of a file, and spends the memory that they take.
    pub(super) fn read_objects(&self, file: &str, bytes: &[u8]) -> Result<Vec<Resource>> {
        let read = objects(file, bytes)?;
        for resource in &read {
            self.source.budget.spend_at(&resource.location, resource.node.memory())?;
        }
        Ok(read)
    }

    /// Spends the memory that the documents of a file take.
    pub(super) fn spend(&self, file: &str, nodes: &[Node]) -> Result<()> {
        nodes.iter().try_for_each(|node| {
            let location = Location { file: file.into(), line: node.line };
            self.source.budget.spend_at(&location, node.memory())
        })
    }

    /// Returns the documents of a file that a kustomization names.
    pub(super) fn documents(&self, dir: &str, path: &Text) -> Result<(String, Vec<Node>)> {
        let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
        let nodes = documents(&bytes)
            .map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
        self.spend(&file, &nodes)?;
        Ok((file, nodes))
    }

    /// Finds the file or directory that a kustomization names; a remote one has a copy in the tree.
    pub(super) fn find(&self, dir: &str, path: &Text) -> Result<PathTarget> {
        if path.text.is_empty() {
            return Err(at(path, Box::new(RenderError::new(Reason::InvalidValue, "", "the path is empty"))));
        }
        let found = if path.text.contains("://") { Ok(None) } else { self.source.find(dir, &path.text) };
        match found.map_err(|error| at(path, error))? {
            Some(target) => Ok(target),
            None => match vendored(&path.text) {
                Some(copy) => match self.source.find(dir, &copy).map_err(|error| at(path, error))? {
                    Some(target) => Ok(target),
                    None => {
                        let error = RenderError::new(
                            Reason::Remote,
                            "",
                            format!("{:?} is not in this repository", path.text),
                        );
                        Err(at(
                            path,
                            Box::new(error.hint(format!(
                                "keep a copy below {copy:?}, where it is found, or name a copy elsewhere"
                            ))),
                        ))
                    }
                },
                None => Err(at(path, self.source.missing(dir, &path.text, "file or directory"))),
            },
        }
    }

    /// Returns the path of a file from the outermost directory, if origins are tracked.
    pub(super) fn origin_of(&self, path: &str) -> Option<String> {
        let here = self.stack.last().map(|frame| frame.origin.as_str()).unwrap_or_default();
        self.metadata.any().then(|| relative_join(here, path))
    }

    /// Returns the namespace of the kustomization that is being read, or of those around it; empty if none has
    /// one.
    pub(super) fn namespace(&self) -> String {
        self.stack.last().map(|frame| frame.namespace.clone()).unwrap_or_default()
    }

    /// Returns the origin of the objects that a generator or transformer of this kustomization makes or
    /// changes.
    pub(super) fn configured(&self, kind: &str) -> Option<Origin> {
        let frame = self.stack.last()?;
        let name = frame.file.rsplit('/').next().unwrap_or_default();
        self.metadata.any().then(|| Origin {
            path: String::new(),
            configured_in: relative_join(&frame.origin, name),
            configured_by: Some(["builtin".into(), kind.into(), String::new(), String::new()]),
        })
    }
}
