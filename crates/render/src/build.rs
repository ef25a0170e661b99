//! The state of rendering one overlay, and access to its files.

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::kustomization::{BuildMetadata, Text, at};
use super::load::objects;
use super::memo::Parts;
use super::parameters::Parameters;
use super::remote::vendored;
use super::resource::{Origin, Resource};
use super::schemas::Schemas;
use super::source::{PathTarget, Source, relative_join};
use object::Location;
use yaml::{Node, documents};

pub(super) struct Build<'a> {
    pub source: Source<'a>,
    /// The schemas that apply to the overlay.
    pub schemas: Schemas,
    /// The annotations and labels that the outermost kustomization requests.
    pub metadata: BuildMetadata,
    /// The kustomizations being read, outermost first.
    pub stack: Vec<Frame>,
    /// The directories being rendered as manifests of an object, outermost first.
    pub wrapped: Vec<String>,
    /// The parts that are already rendered.
    pub parts: Parts,
    pub parameters: &'a Parameters,
    /// The error of the first chart without random values. It lists all releases that need them.
    pub undrawn: Option<Box<RenderError>>,
    /// The error of the first remote chart that the tree lacks.
    pub unfetched: Option<Box<RenderError>>,
}

/// A kustomization being read.
pub(super) struct Frame {
    pub dir: String,
    pub file: String,
    /// Its path from the outermost directory, as it appears in annotations.
    pub origin: String,
    /// Its namespace, or the inherited one if it sets none.
    pub namespace: String,
}

impl Frame {
    /// Returns the frame of a kustomization to read.
    pub(super) fn new(dir: &str, file: String, origin: String) -> Self {
        Self { dir: dir.into(), file, origin, namespace: String::new() }
    }
}

impl<'a> Build<'a> {
    /// Prepares to render an overlay.
    pub(super) fn new(source: Source<'a>, parts: Parts, parameters: &'a Parameters) -> Self {
        let (schemas, metadata, stack, wrapped) = Default::default();
        Self { source, schemas, metadata, stack, wrapped, parts, parameters, undrawn: None, unfetched: None }
    }

    /// Reads the objects of a file, and charges their memory to the budget.
    pub(super) fn read_objects(&self, file: &str, bytes: &[u8]) -> Result<Vec<Resource>> {
        let read = objects(file, bytes)?;
        for resource in &read {
            self.source.budget.spend_at(&resource.location, resource.node.memory())?;
        }
        Ok(read)
    }

    /// Charges the memory of a file's documents to the budget.
    pub(super) fn spend(&self, file: &str, nodes: &[Node]) -> Result<()> {
        nodes.iter().try_for_each(|node| {
            let location = Location { file: file.into(), line: node.line };
            self.source.budget.spend_at(&location, node.memory())
        })
    }

    /// Returns the documents of a file that a kustomization lists.
    pub(super) fn documents(&self, dir: &str, path: &Text) -> Result<(String, Vec<Node>)> {
        let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
        let nodes = documents(&bytes)
            .map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
        self.spend(&file, &nodes)?;
        Ok((file, nodes))
    }

    /// Finds the file or directory that a kustomization lists, or the copy of a remote one.
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
                                "store a copy in {copy:?}, or refer to a copy elsewhere in the repository"
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

    /// Returns the namespace of the kustomization being read, or the inherited one. Returns an empty string if
    /// there is none.
    pub(super) fn namespace(&self) -> String {
        self.stack.last().map(|frame| frame.namespace.clone()).unwrap_or_default()
    }

    /// Returns the origin of objects that a generator or transformer of this kustomization creates or changes.
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
