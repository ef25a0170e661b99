//! From a directory to its objects: resources are gathered, generators add to them, components and transformers change them.

use std::sync::Arc;

use serde_json::Value as Json;

use super::absorb::{append, check_changed};
use super::config::{Config, DEFAULT};
use super::crds;
use super::decode::{Located, Result};
use super::error::{Reason, RenderError};
use super::generate::at;
use super::kustomization::{BuildMetadata, FILE_NAMES, FieldSpec, Kustomization, SortOptions, Text, Var};
use super::limits::MAX_NESTING;
use super::load::objects;
use super::remote::vendored;
use super::resource::{Origin, Resource};
use super::schemas::Schemas;
use super::source::{Source, Target, relative_join};
use super::transform::{annotations, labels, names, references, sort, vars};
use super::yaml::{self, Node, Reading, documents};
use object::Place;

/// What kubectl 1.32 writes for `managedByLabel`: it does not know which kustomize it was built with.
const MANAGED_BY: &str = "kustomize-(devel)";

/// What a directory has gathered so far.
#[derive(Default)]
pub(super) struct Gathered {
    /// The objects.
    pub resources: Vec<Resource>,
    /// The fields that transformers change.
    pub config: Arc<Config>,
    /// The variables.
    pub vars: Vec<Var>,
}

/// The rendering of one overlay.
pub(super) struct Build<'a> {
    /// The files.
    pub source: Source<'a>,
    /// The schemas in force.
    pub schemas: Schemas,
    /// What the outermost kustomization wants written onto the objects.
    metadata: BuildMetadata,
    /// The kustomizations that are being read, outermost first.
    open: Vec<Open>,
}

/// A kustomization that is being read.
struct Open {
    dir: String,
    file: String,
    /// The way from the outermost directory, as it is written onto objects.
    origin: String,
}

impl<'a> Build<'a> {
    /// Prepares the rendering of an overlay of a tree.
    pub(super) fn new(source: Source<'a>) -> Self {
        Self { source, schemas: Schemas::default(), metadata: BuildMetadata::default(), open: Vec::new() }
    }

    /// Renders a directory.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub(super) fn run(&mut self, dir: &str) -> Result<Vec<Resource>> {
        let Some((file, kustomization)) = self.kustomization_of(dir)? else { return self.plain(dir) };
        self.metadata = kustomization.build_metadata;
        let gathered = self.gather(dir, &file, "", &kustomization, Gathered::default())?;
        let Gathered { mut resources, config, vars } = gathered;
        names::add_hashes(&mut resources)?;
        references::fix(&mut resources, &config.name_reference)?;
        vars::resolve(&mut resources, &vars, &config.var_reference)?;
        resources.retain(|resource| !annotations::is_local(resource));
        check_changed(&resources)?;
        sort::apply(&mut resources, kustomization.sort.as_ref().unwrap_or(&SortOptions::legacy()));
        if self.metadata.managed_by {
            let pairs =
                [("app.kubernetes.io/managed-by".to_owned(), MANAGED_BY.to_owned())].into_iter().collect();
            let everywhere = FieldSpec { path: "metadata/labels".into(), create: true, ..Default::default() };
            labels::apply(&mut resources, &pairs, &[everywhere])?;
        }
        for resource in &mut resources {
            annotations::settle(resource, self.metadata.origin, self.metadata.transformers);
        }
        Ok(resources)
    }

    /// The manifests of a directory without a kustomization, by name.
    fn plain(&mut self, dir: &str) -> Result<Vec<Resource>> {
        let is_manifest = |name: &String| {
            [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending)) && !name.starts_with('.')
        };
        let names = self.source.names(dir);
        let mut gathered = Gathered::default();
        for name in names.into_iter().filter(is_manifest) {
            let (file, bytes) = self.source.read(dir, &name).map_err(|mut error| {
                error.file = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
                error
            })?;
            append(&mut gathered.resources, objects(&file, &bytes)?)?;
        }
        if gathered.resources.is_empty() {
            let shown = if dir.is_empty() { "." } else { dir };
            let error = RenderError::new(
                Reason::NotFound,
                shown,
                "there is neither a kustomization nor a manifest in this directory",
            );
            return Err(Box::new(
                error.hint(format!("add a {}", FILE_NAMES.first().copied().unwrap_or_default())),
            ));
        }
        Ok(gathered.resources)
    }

    fn kustomization_of(&self, dir: &str) -> Result<Option<(String, Kustomization)>> {
        let path = |name: &&str| if dir.is_empty() { (*name).to_owned() } else { format!("{dir}/{name}") };
        let found: Vec<(String, Arc<[u8]>)> = FILE_NAMES
            .iter()
            .map(path)
            .filter_map(|file| Some((file.clone(), self.source.file_at(&file)?)))
            .collect();
        let (file, bytes) = match found.as_slice() {
            [] => return Ok(None),
            [one] => one,
            [(first, _), (second, _), ..] => {
                let other = Place { file: second.clone(), line: 0 };
                let error = RenderError::new(
                    Reason::InvalidValue,
                    first.clone(),
                    "a directory has one kustomization, and this one has several",
                );
                return Err(Box::new(error.related(&other)));
            }
        };
        let nodes = yaml::kustomization(bytes)
            .map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
        let Some(node) = nodes.first() else {
            return Err(Box::new(RenderError::new(
                Reason::InvalidValue,
                file.clone(),
                "the kustomization is empty",
            )));
        };
        Ok(Some((file.clone(), Kustomization::read(file, node)?)))
    }

    /// Gathers what a kustomization says into what is there already.
    fn gather(
        &mut self,
        dir: &str,
        file: &str,
        origin: &str,
        kustomization: &Kustomization,
        into: Gathered,
    ) -> Result<Gathered> {
        self.source.enter(file)?;
        if self.open.len() >= MAX_NESTING {
            return Err(Box::new(RenderError::new(
                Reason::TooLarge,
                file,
                format!("kustomizations in kustomizations, {MAX_NESTING} deep"),
            )));
        }
        self.open.push(Open { dir: dir.into(), file: file.into(), origin: origin.into() });
        let gathered = self.gather_open(dir, kustomization, into).map_err(|mut error| {
            if error.file.is_empty() {
                error.file = file.into();
            }
            if error.through.is_empty() && self.open.len() > 1 {
                error.through = self.open.iter().map(|open| open.file.clone()).collect();
            }
            if error.excerpt.is_empty() {
                let text = self.source.text_of(&error.file).unwrap_or_default();
                return Box::new(error.with_excerpt(&text));
            }
            error
        });
        self.open.pop();
        gathered
    }

    fn gather_open(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        mut gathered: Gathered,
    ) -> Result<Gathered> {
        self.read_openapi(dir, kustomization)?;
        for resource in &kustomization.resources {
            self.add_resource(dir, resource, &mut gathered)?;
        }
        gathered.config = gathered.config.merge(&self.config_of(dir, kustomization)?)?;
        self.generate(dir, kustomization, &mut gathered)?;
        for component in &kustomization.components {
            gathered = self.add_component(dir, component, gathered)?;
        }
        self.transform(dir, kustomization, &mut gathered)?;
        vars::declare(&mut gathered.resources, &mut gathered.vars, &kustomization.vars)?;
        Ok(gathered)
    }

    /// The documents of a file that a kustomization names.
    pub(super) fn documents(&self, dir: &str, path: &Text) -> Result<(String, Vec<Node>)> {
        let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
        let nodes = documents(&bytes)
            .map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
        Ok((file, nodes))
    }

    fn read_openapi(&mut self, dir: &str, kustomization: &Kustomization) -> Result<()> {
        let Some(path) = &kustomization.openapi_path else { return Ok(()) };
        let (file, nodes) = self.documents(dir, path)?;
        for node in nodes {
            let json = json_of(&file, &node)?;
            if node.get("kind").is_some_and(|kind| kind.text() == "CustomResourceDefinition") {
                self.schemas.add_crd(&json);
            } else {
                self.schemas.set_document(json);
            }
        }
        Ok(())
    }

    /// The fields that this kustomization's transformers change.
    fn config_of(&mut self, dir: &str, kustomization: &Kustomization) -> Result<Arc<Config>> {
        let mut config = DEFAULT.clone();
        for path in &kustomization.configurations {
            let (file, nodes) = self.documents(dir, path)?;
            for node in &nodes {
                let more = Arc::new(Config::read(&Located::root(&file, node))?);
                config = config.merge(&more).map_err(|error| at(path, error))?;
            }
        }
        for path in &kustomization.crds {
            let (file, nodes) = self.documents(dir, path)?;
            for node in &nodes {
                let json = json_of(&file, node)?;
                if node.get("kind").is_some_and(|kind| kind.text() == "CustomResourceDefinition") {
                    self.schemas.add_crd(&json);
                } else {
                    let more = Arc::new(crds::config_of(&json)?);
                    config = config.merge(&more).map_err(|error| at(path, error))?;
                }
            }
        }
        Ok(config)
    }

    /// Adds the objects of a file or directory.
    pub(super) fn add_resource(&mut self, dir: &str, path: &Text, gathered: &mut Gathered) -> Result<()> {
        match self.find(dir, path)? {
            Target::File(file, bytes) => {
                let mut read = objects(&file, &bytes)?;
                if let Some(origin) = self.origin_of(&path.text) {
                    read.iter_mut().for_each(|resource| {
                        resource.origin = Some(Origin { path: origin.clone(), ..Origin::default() })
                    });
                }
                append(&mut gathered.resources, read)
            }
            Target::Directory(below) => {
                let inner = self.directory(&below, path, false, Gathered::default())?;
                self.merge(gathered, inner)
            }
        }
    }

    fn add_component(&mut self, dir: &str, path: &Text, gathered: Gathered) -> Result<Gathered> {
        match self.find(dir, path)? {
            Target::Directory(below) => self.directory(&below, path, true, gathered),
            Target::File(_, _) => Err(at(
                path,
                Box::new(RenderError::new(
                    Reason::InvalidValue,
                    "",
                    "a component is a directory, and this is a file",
                )),
            )),
        }
    }

    fn merge(&self, gathered: &mut Gathered, inner: Gathered) -> Result<()> {
        append(&mut gathered.resources, inner.resources)?;
        gathered.config = std::mem::take(&mut gathered.config).merge(&inner.config)?;
        vars::add(&mut gathered.vars, &inner.vars)
    }

    fn find(&self, dir: &str, path: &Text) -> Result<Target> {
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

    /// Gathers a directory that a kustomization names.
    fn directory(&mut self, dir: &str, path: &Text, as_component: bool, into: Gathered) -> Result<Gathered> {
        if self.open.iter().any(|open| open.dir == dir) {
            let from = self.open.iter().skip_while(|open| open.dir != dir).map(|open| open.file.clone());
            let way: Vec<String> = from
                .chain(self.open.iter().find(|open| open.dir == dir).map(|open| open.file.clone()))
                .collect();
            return Err(at(
                path,
                Box::new(RenderError::new(
                    Reason::Cycle,
                    "",
                    format!("the kustomization leads back to itself: {}", way.join(" -> ")),
                )),
            ));
        }
        let Some((file, kustomization)) = self.kustomization_of(dir)? else {
            let message = format!("the directory {:?} has no kustomization", path.text);
            let error = RenderError::new(Reason::NotFound, "", message);
            return Err(at(
                path,
                Box::new(error.hint(format!(
                    "add a {} there, or name its files",
                    FILE_NAMES.first().copied().unwrap_or_default()
                ))),
            ));
        };
        if as_component != kustomization.is_component {
            let (is, list) =
                if as_component { ("a kustomization", "resources") } else { ("a component", "components") };
            let error = RenderError::new(Reason::InvalidValue, "", format!("{:?} is {is}", path.text));
            return Err(at(path, Box::new(error.hint(format!("name it in {list}")))));
        }
        let origin = self.origin_of(&path.text).unwrap_or_default();
        self.gather(dir, &file, &origin, &kustomization, into)
    }

    /// The way to a path from the outermost directory, if that is tracked.
    fn origin_of(&self, path: &str) -> Option<String> {
        let here = self.open.last().map(|open| open.origin.as_str()).unwrap_or_default();
        self.metadata.any().then(|| relative_join(here, path))
    }

    /// The origin of what a part of this kustomization makes or changes.
    pub(super) fn configured(&self, kind: &str) -> Option<Origin> {
        let open = self.open.last()?;
        let name = open.file.rsplit('/').next().unwrap_or_default();
        self.metadata.any().then(|| Origin {
            path: String::new(),
            configured_in: relative_join(&open.origin, name),
            configured_by: Some(["builtin".into(), kind.into(), String::new(), String::new()]),
        })
    }
}

fn json_of(file: &str, node: &Node) -> Result<Json> {
    node.to_json(Reading::Yaml11)
        .map_err(|(line, why)| Box::new(RenderError::new(Reason::InvalidValue, file, why.0).line(line)))
}
