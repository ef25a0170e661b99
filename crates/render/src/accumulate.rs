//! Renders a directory: accumulates its resources, runs generators, and applies components and transformers.

use std::sync::Arc;

use super::accumulator::ResAccumulator;
use super::build::{Build, Frame};
use super::decode::Result;
use super::document::{FILE_NAMES, Kustomization};
use super::error::{Reason, RenderError};
use super::kustomization::{FieldSpec, SortOptions, Text, at};
use super::limits::MAX_NESTING;
use super::load::objects_of;
use super::part::Role;
use super::resmap::ResMap;
use super::resource::{Origin, Resource};
use super::source::PathTarget;
use super::transform::{Pass, annotations, labels, names, references, sort, vars};
use object::Location;
use yaml::{self, Value, documents};

/// The value of `managedByLabel` in kubectl 1.32, which does not know the version of its kustomize.
const MANAGED_BY: &str = "kustomize-(devel)";

impl Build<'_> {
    /// Renders a directory, with the directories whose manifests its objects contain.
    ///
    /// # Errors
    /// Fails on the first mistake, with its location.
    pub(super) fn run(&mut self, dir: &str) -> Result<Vec<Resource>> {
        let mut resources = self.overlay(dir)?;
        resources.iter_mut().try_for_each(|resource| self.wrap(resource))?;
        Ok(resources)
    }

    fn overlay(&mut self, dir: &str) -> Result<Vec<Resource>> {
        (self.metadata, self.schemas) = Default::default();
        let Some((file, kustomization)) = self.kustomization_of(dir)? else {
            return if self.is_chart(dir)? { self.chart_alone(dir) } else { self.plain(dir) };
        };
        self.metadata = kustomization.build_metadata;
        let frame = Frame::new(dir, file, String::new());
        let accumulated = self.accumulate(frame, &kustomization, ResAccumulator::default())?;
        let ResAccumulator { mut resmap, config, vars } = accumulated;
        names::add_hashes(&mut resmap)?;
        references::fix(&mut resmap, &config.name_reference, &self.source.budget)?;
        vars::resolve(&mut resmap, &vars, &config.var_reference, &self.source.budget)?;
        resmap.retain(|resource| !annotations::is_local(resource));
        resmap.check_ids()?;
        sort::apply(&mut resmap, kustomization.sort.as_ref().unwrap_or(&SortOptions::legacy()));
        if self.metadata.managed_by {
            let pairs =
                [("app.kubernetes.io/managed-by".to_owned(), MANAGED_BY.to_owned())].into_iter().collect();
            let everywhere = FieldSpec { path: "metadata/labels".into(), create: true, ..Default::default() };
            labels::apply(&mut resmap, &pairs, &[everywhere], &self.source.budget)?;
        }
        for resource in resmap.iter_mut() {
            annotations::settle(resource, self.metadata.origin, self.metadata.transformers);
        }
        Ok(resmap.into_vec())
    }

    /// Returns the manifests of a directory without a kustomization, sorted by file name.
    fn plain(&mut self, dir: &str) -> Result<Vec<Resource>> {
        let is_manifest = |name: &String| {
            [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending)) && !name.starts_with('.')
        };
        let names = self.source.names(dir);
        let mut resmap = ResMap::default();
        for name in names.into_iter().filter(is_manifest) {
            let (file, bytes) = self.source.read(dir, &name).map_err(|mut error| {
                error.file = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
                error
            })?;
            resmap.append(self.read_objects(&file, &bytes)?)?;
        }
        if resmap.is_empty() {
            let shown = if dir.is_empty() { "." } else { dir };
            let error = RenderError::new(
                Reason::NotFound,
                shown,
                "the directory has neither a kustomization nor a manifest",
            );
            return Err(Box::new(
                error.hint(format!("add a {}", FILE_NAMES.first().copied().unwrap_or_default())),
            ));
        }
        Ok(resmap.into_vec())
    }

    /// Reads the kustomization of a directory. Returns None if it has none.
    pub(super) fn kustomization_of(&self, dir: &str) -> Result<Option<(String, Kustomization)>> {
        let path = |name: &&str| if dir.is_empty() { (*name).to_owned() } else { format!("{dir}/{name}") };
        let mut found: Vec<(String, Arc<[u8]>)> = Vec::new();
        for file in FILE_NAMES.iter().map(path) {
            let bytes = self.source.file_at(&file)?;
            found.extend(bytes.map(|bytes| (file, bytes)));
        }
        let (file, bytes) = match found.as_slice() {
            [] => return Ok(None),
            [one] => one,
            [(first, _), (second, _), ..] => {
                let other = Location { file: second.clone(), line: 0 };
                let error = RenderError::new(
                    Reason::InvalidValue,
                    first.clone(),
                    "the directory has several kustomizations, but only one is allowed",
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
        self.spend(file, &nodes)?;
        Ok(Some((file.clone(), Kustomization::read(file, node)?)))
    }

    /// Adds the objects of a kustomization to an accumulator and transforms them.
    ///
    /// # Errors
    /// Fails on the first mistake. If the kustomization itself exceeds a limit, the caller adds the location.
    pub(super) fn accumulate(
        &mut self,
        frame: Frame,
        kustomization: &Kustomization,
        into: ResAccumulator,
    ) -> Result<ResAccumulator> {
        let is_settled = !kustomization.namespace.is_empty();
        let namespace = if is_settled { kustomization.namespace.clone() } else { self.namespace() };
        let frame = Frame { namespace, ..frame };
        self.source.enter()?;
        if self.stack.len() >= MAX_NESTING {
            let message = format!("kustomizations refer to each other more than {MAX_NESTING} levels deep");
            return Err(Box::new(RenderError::new(Reason::TooLarge, "", message)));
        }
        let (dir, file) = (frame.dir.clone(), frame.file.clone());
        self.stack.push(frame);
        self.parts.reaches(self.stack.len());
        let inherits_around = std::mem::take(&mut self.parts.inherits);
        let accumulated = self.accumulate_top(&dir, kustomization, into).map_err(|mut error| {
            if error.file.is_empty() {
                error.file = file;
            }
            if error.through.is_empty() && self.stack.len() > 1 {
                error.through = self.stack.iter().map(|frame| frame.file.clone()).collect();
            }
            if error.excerpt.is_empty() {
                let text = self.source.text_of(&error.file).unwrap_or_default();
                return Box::new(error.with_excerpt(&text));
            }
            error
        });
        self.stack.pop();
        self.parts.inherits = inherits_around || (self.parts.inherits && !is_settled);
        accumulated
    }

    fn accumulate_top(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        mut accumulator: ResAccumulator,
    ) -> Result<ResAccumulator> {
        self.read_openapi(dir, kustomization)?;
        for resource in &kustomization.resources {
            self.add_resource(dir, resource, &mut accumulator)?;
        }
        accumulator.config = accumulator.config.merge(&self.config_of(dir, kustomization)?)?;
        self.generate(dir, kustomization, &mut accumulator)?;
        for component in &kustomization.components {
            accumulator = self.add_component(dir, component, accumulator)?;
        }
        self.transform(dir, kustomization, &mut accumulator)?;
        vars::declare(&mut accumulator.resmap, &mut accumulator.vars, &kustomization.vars)?;
        Ok(accumulator)
    }

    fn generate(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        accumulator: &mut ResAccumulator,
    ) -> Result<()> {
        self.generate_entries(dir, kustomization, accumulator)?;
        self.inflate_charts(dir, kustomization, accumulator)?;
        for path in &kustomization.generators {
            for object in self.config_objects(dir, path)? {
                self.run_generator(dir, path, &object, accumulator)?;
            }
        }
        Ok(())
    }

    fn transform(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        accumulator: &mut ResAccumulator,
    ) -> Result<()> {
        let config = accumulator.config.clone();
        for (transformer, transformations) in &kustomization.transformations {
            for transformation in transformations {
                let config = config.clone();
                transformation(&mut Pass { build: self, dir, config, accumulator: &mut *accumulator })?;
                accumulator.end_transformation(self.configured(transformer.kind))?;
            }
        }
        for path in &kustomization.transformers {
            for object in self.config_objects(dir, path)? {
                self.run_transformer(dir, path, &object, accumulator)?;
            }
        }
        for path in &kustomization.validators {
            for object in self.config_objects(dir, path)? {
                self.run_validator(dir, path, &object, accumulator)?;
            }
        }
        Ok(())
    }

    /// Returns the objects that configure generators, transformers or validators, inline or from a file or
    /// directory.
    fn config_objects(&mut self, dir: &str, text: &Text) -> Result<Vec<Resource>> {
        let inline = documents(text.text.as_bytes())
            .ok()
            .filter(|nodes| nodes.iter().any(|node| matches!(node.value, Value::Map(_))));
        let Some(nodes) = inline else {
            let mut accumulator = ResAccumulator::default();
            self.add_resource(dir, text, &mut accumulator)?;
            return Ok(accumulator.resmap.into_vec());
        };
        let mut configs = objects_of(nodes, &text.location.file)?;
        let origin = self.configured("").map(|origin| origin.configured_in);
        for config in &mut configs {
            config.location = text.location.clone();
            config.origin = origin.clone().map(|path| Origin { path, ..Origin::default() });
        }
        Ok(configs)
    }

    /// Adds the objects of a file or directory.
    fn add_resource(&mut self, dir: &str, path: &Text, accumulator: &mut ResAccumulator) -> Result<()> {
        match self.find(dir, path)? {
            PathTarget::File(file, bytes) => {
                let mut read = self.read_objects(&file, &bytes)?;
                if let Some(origin) = self.origin_of(&path.text) {
                    for resource in &mut read {
                        resource.origin = Some(Origin { path: origin.clone(), ..Origin::default() });
                    }
                }
                accumulator.resmap.append(read).map_err(|error| at(path, error))
            }
            PathTarget::Directory(below) => {
                let inner = self.part(&below, path)?;
                accumulator.merge(inner).map_err(|error| at(path, error))
            }
        }
    }

    fn add_component(
        &mut self,
        dir: &str,
        path: &Text,
        accumulator: ResAccumulator,
    ) -> Result<ResAccumulator> {
        match self.find(dir, path)? {
            PathTarget::Directory(below) => self.directory(&below, path, Role::Component, accumulator),
            PathTarget::File(_, _) => {
                let message = "a component is a directory, and this is a file";
                Err(at(path, Box::new(RenderError::new(Reason::InvalidValue, "", message))))
            }
        }
    }
}
