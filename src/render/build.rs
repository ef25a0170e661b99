//! From a directory to its objects: resources are gathered, generators add to them, components and transformers change them.

use std::sync::Arc;

use super::config::{Config, DEFAULT};
use super::decode::{Located, Result};
use super::error::{Place, Reason, RenderError};
use super::generate::{self, Made, at, merge_data};
use super::kustomization::Source as Given;
use super::kustomization::{Behavior, BuildMetadata, FILE_NAMES, Generator, Kustomization, Replacement, SortOptions, Text, Var};
use super::limits::{MAX_NESTING, MAX_OBJECTS};
use super::load::objects;
use super::resource::{Id, Origin, Resource};
use super::schemas::Schemas;
use super::source::{Source, Target};
use super::transform::namespace::{self, Namespace};
use super::transform::patch::{self, Written};
use super::transform::{annotations, images, labels, names, references, replacements, replicas, sort, vars};
use super::yaml::{Reading, Value, documents};
use super::{crds, plugins};

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
        sort::apply(&mut resources, kustomization.sort.as_ref().unwrap_or(&SortOptions::legacy()));
        if self.metadata.managed_by {
            let pairs = [("app.kubernetes.io/managed-by".to_owned(), "kustomize-(devel)".to_owned())].into_iter().collect();
            let everywhere = super::kustomization::FieldSpec { path: "metadata/labels".into(), create: true, ..Default::default() };
            labels::apply(&mut resources, &pairs, &[everywhere])?;
        }
        for resource in &mut resources {
            annotations::settle(resource, self.metadata.origin, self.metadata.transformers);
        }
        Ok(resources)
    }

    /// The manifests of a directory without a kustomization, by name.
    fn plain(&mut self, dir: &str) -> Result<Vec<Resource>> {
        let is_manifest = |name: &String| [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending)) && !name.starts_with('.');
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
            let error = RenderError::new(Reason::NotFound, shown, "there is neither a kustomization nor a manifest in this directory");
            return Err(Box::new(error.hint(format!("add a {}", FILE_NAMES.first().copied().unwrap_or_default()))));
        }
        Ok(gathered.resources)
    }

    fn kustomization_of(&self, dir: &str) -> Result<Option<(String, Kustomization)>> {
        let path = |name: &&str| if dir.is_empty() { (*name).to_owned() } else { format!("{dir}/{name}") };
        let found: Vec<(String, Arc<[u8]>)> =
            FILE_NAMES.iter().map(path).filter_map(|file| Some((file.clone(), self.source.file_at(&file)?))).collect();
        let (file, bytes) = match found.as_slice() {
            [] => return Ok(None),
            [one] => one,
            [(first, _), (second, _), ..] => {
                let other = Place { file: second.clone(), line: 0 };
                let error =
                    RenderError::new(Reason::InvalidValue, first.clone(), "a directory has one kustomization, and this one has several");
                return Err(Box::new(error.related(&other)));
            }
        };
        let nodes = documents(bytes).map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
        let Some(node) = nodes.first() else {
            return Err(Box::new(RenderError::new(Reason::InvalidValue, file.clone(), "the kustomization is empty")));
        };
        Ok(Some((file.clone(), Kustomization::read(file, node)?)))
    }

    /// Gathers what a kustomization says into what is there already.
    fn gather(&mut self, dir: &str, file: &str, origin: &str, kustomization: &Kustomization, into: Gathered) -> Result<Gathered> {
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

    fn gather_open(&mut self, dir: &str, kustomization: &Kustomization, mut gathered: Gathered) -> Result<Gathered> {
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

    fn read_openapi(&mut self, dir: &str, kustomization: &Kustomization) -> Result<()> {
        let Some(path) = &kustomization.openapi_path else { return Ok(()) };
        let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
        let nodes = documents(&bytes).map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
        for node in nodes {
            let json = node
                .to_json(Reading::Yaml11)
                .map_err(|(line, why)| Box::new(RenderError::new(Reason::InvalidValue, file.clone(), why.0).line(line)))?;
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
            let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
            let nodes = documents(&bytes).map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
            for node in &nodes {
                let more = Arc::new(Config::read(&Located::root(&file, node))?);
                config = config.merge(&more).map_err(|error| at(path, error))?;
            }
        }
        for path in &kustomization.crds {
            let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
            let nodes = documents(&bytes).map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
            for node in &nodes {
                let json = node
                    .to_json(Reading::Yaml11)
                    .map_err(|(line, why)| Box::new(RenderError::new(Reason::InvalidValue, file.clone(), why.0).line(line)))?;
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
    fn add_resource(&mut self, dir: &str, path: &Text, gathered: &mut Gathered) -> Result<()> {
        match self.find(dir, path)? {
            Target::File(file, bytes) => {
                let mut read = objects(&file, &bytes)?;
                if let Some(origin) = self.origin_of(&path.text) {
                    read.iter_mut().for_each(|resource| resource.origin = Some(Origin { path: origin.clone(), ..Origin::default() }));
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
            Target::File(_, _) => {
                Err(at(path, Box::new(RenderError::new(Reason::InvalidValue, "", "a component is a directory, and this is a file"))))
            }
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
            None => match super::remote::vendored(&path.text) {
                Some(copy) => match self.source.find(dir, &copy).map_err(|error| at(path, error))? {
                    Some(target) => Ok(target),
                    None => {
                        let error = RenderError::new(Reason::Remote, "", format!("{:?} is not in this repository", path.text));
                        Err(at(
                            path,
                            Box::new(error.hint(format!("keep a copy below {copy:?}, where it is found, or name a copy elsewhere"))),
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
            let way: Vec<String> = from.chain(self.open.iter().find(|open| open.dir == dir).map(|open| open.file.clone())).collect();
            return Err(at(
                path,
                Box::new(RenderError::new(Reason::Cycle, "", format!("the kustomization leads back to itself: {}", way.join(" -> ")))),
            ));
        }
        let Some((file, kustomization)) = self.kustomization_of(dir)? else {
            let message = format!("the directory {:?} has no kustomization", path.text);
            let error = RenderError::new(Reason::NotFound, "", message);
            return Err(at(
                path,
                Box::new(error.hint(format!("add a {} there, or name its files", FILE_NAMES.first().copied().unwrap_or_default()))),
            ));
        };
        if as_component != kustomization.is_component {
            let (is, list) = if as_component { ("a kustomization", "resources") } else { ("a component", "components") };
            let error = RenderError::new(Reason::InvalidValue, "", format!("{:?} is {is}", path.text));
            return Err(at(path, Box::new(error.hint(format!("name it in {list}")))));
        }
        let origin = self.origin_of(&path.text).unwrap_or_default();
        self.gather(dir, &file, &origin, &kustomization, into)
    }

    /// The way to a path from the outermost directory, if that is tracked.
    fn origin_of(&self, path: &str) -> Option<String> {
        let here = self.open.last().map(|open| open.origin.as_str()).unwrap_or_default();
        self.metadata.any().then(|| super::source::relative_join(here, path))
    }

    /// The origin of what a part of this kustomization makes or changes.
    fn configured(&self, kind: &str) -> Option<Origin> {
        let open = self.open.last()?;
        let name = open.file.rsplit('/').next().unwrap_or_default();
        self.metadata.any().then(|| Origin {
            path: String::new(),
            configured_in: super::source::relative_join(&open.origin, name),
            configured_by: Some(["builtin".into(), kind.into(), String::new(), String::new()]),
        })
    }

    fn generate(&mut self, dir: &str, kustomization: &Kustomization, gathered: &mut Gathered) -> Result<()> {
        let all = kustomization.generator_options.as_ref();
        for (generators, made, kind) in
            [(&kustomization.config_maps, Made::ConfigMap, "ConfigMapGenerator"), (&kustomization.secrets, Made::Secret, "SecretGenerator")]
        {
            for generator in generators {
                let mut resource = generate::make(&self.source, dir, generator, all, made)?;
                resource.origin = self.configured(kind);
                absorb(&mut gathered.resources, resource, generator)?;
            }
        }
        for path in &kustomization.generators {
            for config in self.plugin_configs(dir, path)? {
                plugins::generate(self, dir, path, &config, gathered)?;
            }
        }
        Ok(())
    }

    /// The objects that configure plugins: inline, or of a file or directory.
    pub(super) fn plugin_configs(&mut self, dir: &str, text: &Text) -> Result<Vec<Resource>> {
        let inline = documents(text.text.as_bytes()).ok().filter(|nodes| nodes.iter().any(|node| matches!(node.value, Value::Map(_))));
        if let Some(nodes) = inline {
            let mut configs = super::load::objects_of(nodes, &text.place.file)?;
            let origin =
                self.open.last().map(|open| super::source::relative_join(&open.origin, open.file.rsplit('/').next().unwrap_or_default()));
            for config in &mut configs {
                config.place = text.place.clone();
                config.origin = origin.clone().filter(|_| self.metadata.any()).map(|path| Origin { path, ..Origin::default() });
            }
            return Ok(configs);
        }
        let mut gathered = Gathered::default();
        self.add_resource(dir, text, &mut gathered)?;
        Ok(gathered.resources)
    }

    fn transform(&mut self, dir: &str, kustomization: &Kustomization, gathered: &mut Gathered) -> Result<()> {
        let config = gathered.config.clone();
        self.patch(dir, kustomization, gathered)?;
        if !kustomization.namespace.is_empty() {
            let namespace = Namespace { name: kustomization.namespace.clone(), ..Namespace::default() };
            namespace::apply(&mut gathered.resources, &namespace, &config.namespace)?;
            self.done(gathered, "NamespaceTransformer")?;
        }
        if !kustomization.name_prefix.is_empty() {
            names::apply(&mut gathered.resources, &kustomization.name_prefix, &config.name_prefix, names::End::Prefix)?;
            self.done(gathered, "PrefixTransformer")?;
        }
        if !kustomization.name_suffix.is_empty() {
            names::apply(&mut gathered.resources, &kustomization.name_suffix, &config.name_suffix, names::End::Suffix)?;
            self.done(gathered, "SuffixTransformer")?;
        }
        for label in &kustomization.labels {
            let specs = labels::fields_of(label, &config).map_err(|mut error| {
                (error.file, error.line) = (label.place.file.clone(), Some(label.place.line));
                error
            })?;
            labels::apply(&mut gathered.resources, &label.pairs, &specs)?;
            self.done(gathered, "LabelTransformer")?;
        }
        if !(kustomization.labels.is_empty() && kustomization.common_labels.is_empty()) {
            labels::apply(&mut gathered.resources, &kustomization.common_labels, &config.common_labels)?;
            self.done(gathered, "LabelTransformer")?;
        }
        if !kustomization.common_annotations.is_empty() {
            labels::apply(&mut gathered.resources, &kustomization.common_annotations, &config.common_annotations)?;
            self.done(gathered, "AnnotationsTransformer")?;
        }
        self.patch_json(dir, kustomization, gathered)?;
        for replica in &kustomization.replicas {
            replicas::apply(&mut gathered.resources, replica, &config.replicas)?;
            self.done(gathered, "ReplicaCountTransformer")?;
        }
        for image in &kustomization.images {
            images::apply(&mut gathered.resources, image, &config.images)?;
            self.done(gathered, "ImageTagTransformer")?;
        }
        if !kustomization.replacements.is_empty() {
            let all = self.replacements_of(dir, &kustomization.replacements)?;
            replacements::apply(&mut gathered.resources, &all)?;
            self.done(gathered, "ReplacementTransformer")?;
        }
        for path in &kustomization.transformers {
            for config in self.plugin_configs(dir, path)? {
                plugins::transform(self, dir, path, &config, gathered)?;
            }
        }
        for path in &kustomization.validators {
            for config in self.plugin_configs(dir, path)? {
                plugins::validate(self, dir, path, &config, gathered)?;
            }
        }
        Ok(())
    }

    /// Drops what a transformer emptied, and writes it down on the others if that is asked for.
    pub(super) fn done(&self, gathered: &mut Gathered, kind: &str) -> Result<()> {
        if let Some(origin) = self.configured(kind) {
            self.done_by(gathered, &origin);
        }
        gathered.resources.retain(|resource| !resource.is_empty());
        if gathered.resources.len() > MAX_OBJECTS {
            return Err(Box::new(RenderError::new(Reason::TooLarge, "", format!("more than {MAX_OBJECTS} objects"))));
        }
        Ok(())
    }

    /// Writes down what changed the objects.
    pub(super) fn done_by(&self, gathered: &mut Gathered, origin: &Origin) {
        for resource in &mut gathered.resources {
            match resource.origin {
                Some(_) => resource.transformations.push(origin.clone()),
                None => resource.origin = Some(origin.clone()),
            }
        }
    }

    fn patch(&mut self, dir: &str, kustomization: &Kustomization, gathered: &mut Gathered) -> Result<()> {
        if !kustomization.patches_strategic_merge.is_empty() {
            for text in &kustomization.patches_strategic_merge {
                self.patch_strategic(dir, text, gathered)?;
            }
            self.done(gathered, "PatchStrategicMergeTransformer")?;
        }
        for one in &kustomization.patches {
            self.apply_patch(dir, one, gathered)?;
            self.done(gathered, "PatchTransformer")?;
        }
        Ok(())
    }

    /// Applies an entry of `patches`.
    pub(super) fn apply_patch(&mut self, dir: &str, one: &super::kustomization::Patch, gathered: &mut Gathered) -> Result<()> {
        let change = match (&one.path, &one.inline) {
            (Some(path), _) => {
                let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
                let text = utf8(&file, &bytes)?;
                patch::read(text, &Written { file: &file, place: &one.place, field: &one.field, first_line: Some(0) })?
            }
            (None, Some(inline)) => {
                let written = Written { file: &inline.place.file, place: &inline.place, field: &inline.field, first_line: None };
                patch::read(inline.text.trim(), &written)?
            }
            (None, None) => return Ok(()),
        };
        patch::apply(&mut gathered.resources, one, change, &self.schemas)
    }

    /// Applies an entry of `patchesStrategicMerge`: the patch itself, or a file.
    pub(super) fn patch_strategic(&mut self, dir: &str, text: &Text, gathered: &mut Gathered) -> Result<()> {
        let written = Written { file: &text.place.file, place: &text.place, field: &text.field, first_line: None };
        let inline =
            documents(text.text.as_bytes()).ok().filter(|nodes| !nodes.is_empty() && nodes.iter().all(|node| node.as_map().is_some()));
        let patches = match inline {
            Some(nodes) => super::load::objects_of(nodes, &text.place.file).map_err(|mut error| {
                error.line = Some(text.place.line);
                error
            })?,
            None => {
                let (file, bytes) = self.source.read(dir, &text.text).map_err(|error| at(text, error))?;
                objects(&file, &bytes)?
            }
        };
        for one in patches {
            patch::apply_strategic(&mut gathered.resources, one, &self.schemas, &written)?;
        }
        Ok(())
    }

    fn patch_json(&mut self, dir: &str, kustomization: &Kustomization, gathered: &mut Gathered) -> Result<()> {
        for one in &kustomization.patches_json6902 {
            self.apply_json_patch(dir, one, gathered)?;
            self.done(gathered, "PatchJson6902Transformer")?;
        }
        Ok(())
    }

    /// Applies an entry of `patchesJson6902`.
    pub(super) fn apply_json_patch(&mut self, dir: &str, one: &super::kustomization::Patch, gathered: &mut Gathered) -> Result<()> {
        let written = Written { file: &one.place.file, place: &one.place, field: &one.field, first_line: None };
        let Some(target) = &one.target else {
            return Err(Box::new(
                RenderError::at(Reason::InvalidValue, &one.place, "a JSON patch needs a target").field(one.field.clone()),
            ));
        };
        let operations = match (&one.path, &one.inline) {
            (Some(path), _) => {
                let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
                patch::read_json(utf8(&file, &bytes)?, &Written { file: &file, first_line: Some(0), ..written.clone() })?
            }
            (None, Some(inline)) => patch::read_json(&inline.text, &written)?,
            (None, None) => return Ok(()),
        };
        patch::apply_json(&mut gathered.resources, target, &operations, &written, false)
    }

    /// The replacements, with those of files.
    pub(super) fn replacements_of(&mut self, dir: &str, given: &[Given<Replacement>]) -> Result<Vec<Replacement>> {
        let mut all = Vec::new();
        for one in given {
            match one {
                Given::Inline(replacement) => all.push(replacement.clone()),
                Given::File(path) => {
                    let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
                    let nodes = documents(&bytes).map_err(|malformed| Box::new(RenderError::malformed(file.clone(), malformed)))?;
                    let Some(node) = nodes.first() else { continue };
                    let root = Located::root(&file, node);
                    match &node.value {
                        Value::List(_) => all.extend(root.items()?.iter().map(Replacement::read).collect::<Result<Vec<_>>>()?),
                        Value::Map(_) => all.push(Replacement::read(&root)?),
                        Value::Scalar(_) => return Err(root.error(Reason::InvalidValue, "a replacement or a list of them is expected")),
                    }
                }
            }
        }
        Ok(all)
    }
}

fn utf8<'b>(file: &str, bytes: &'b [u8]) -> Result<&'b str> {
    std::str::from_utf8(bytes).map_err(|_| Box::new(RenderError::new(Reason::Malformed, file, "not UTF-8 text")))
}

/// Adds objects that must not be there yet.
///
/// # Errors
/// Names the places of two objects that are one and the same.
pub(super) fn append(resources: &mut Vec<Resource>, more: Vec<Resource>) -> Result<()> {
    let mut known: std::collections::BTreeMap<Id, Place> =
        resources.iter().map(|resource| (resource.id(), resource.place.clone())).collect();
    for resource in more {
        if let Some(first) = known.insert(resource.id(), resource.place.clone()) {
            let error = RenderError::at(Reason::DuplicateObject, &resource.place, format!("{} is there already", resource.id()));
            return Err(Box::new(error.related(&first).hint("every object may come from one place only; use a patch to change it")));
        }
        resources.push(resource);
    }
    if resources.len() > MAX_OBJECTS {
        return Err(Box::new(RenderError::new(Reason::TooLarge, "", format!("more than {MAX_OBJECTS} objects"))));
    }
    Ok(())
}

/// Adds a generated object, or merges it with the one it is meant for.
///
/// # Errors
/// Where there is an object though there must be none, or none though there must be one.
pub(super) fn absorb(resources: &mut Vec<Resource>, mut made: Resource, generator: &Generator) -> Result<()> {
    let id = made.id();
    let error = |reason, message: String| Box::new(RenderError::at(reason, &generator.place, message).field(generator.field.clone()));
    let mut found = resources.iter_mut().filter(|resource| !resource.is_empty() && resource.all_ids().any(|other| other == id));
    match (found.next(), found.next(), made.behavior) {
        (None, _, Behavior::Create) => {
            drop(found);
            resources.push(made);
            Ok(())
        }
        (None, _, Behavior::Merge | Behavior::Replace) => {
            let error = error(Reason::Target, format!("there is no {id} to merge with or to replace"));
            Err(Box::new(error.hint("with behavior create, or none, it is made anew")))
        }
        (Some(old), None, Behavior::Create) => {
            let error = error(Reason::DuplicateObject, format!("{id} is there already")).related(&old.place);
            Err(Box::new(error.hint("set behavior to merge or replace")))
        }
        (Some(old), None, behavior @ (Behavior::Merge | Behavior::Replace)) => {
            for field in ["labels", "annotations"] {
                let texts = |resource: &Resource| -> Vec<(String, String)> {
                    resource.string_map(field).into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
                };
                let merged = texts(old).into_iter().chain(texts(&made)).collect();
                made.set_string_map(field, merged);
            }
            if behavior == Behavior::Merge {
                merge_data(&mut made.node, &old.node);
                made.origin = old.origin.clone().or(made.origin);
            }
            made.set_name(old.name());
            made.set_namespace(old.namespace());
            made.needs_hash &= old.needs_hash;
            made.behavior = old.behavior;
            (made.previous, made.prefixes, made.suffixes) = (old.previous.clone(), old.prefixes.clone(), old.suffixes.clone());
            made.vars.clone_from(&old.vars);
            made.transformations.clone_from(&old.transformations);
            *old = made;
            Ok(())
        }
        (Some(one), Some(other), _) => {
            let error = error(Reason::Target, format!("several objects are {id}"));
            Err(Box::new(error.related(&one.place).related(&other.place)))
        }
    }
}
