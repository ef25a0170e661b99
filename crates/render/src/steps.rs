//! What a kustomization does to the objects it gathered, step by step in kustomize's order.

use super::absorb::absorb;
use super::build::{Build, Gathered};
use super::decode::{Located, Result};
use super::error::{Reason, RenderError};
use super::generate::{self, Made, at};
use super::kustomization::Source as Given;
use super::kustomization::{Kustomization, Patch, Replacement, Text};
use super::limits::MAX_OBJECTS;
use super::load::objects;
use super::plugins;
use super::resource::{Origin, Resource};
use super::transform::namespace::{self, Namespace};
use super::transform::patch::{self, Written};
use super::transform::{images, labels, names, replacements, replicas};
use super::yaml::{Value, documents};

impl Build<'_> {
    pub(super) fn generate(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let all = kustomization.generator_options.as_ref();
        for (generators, made, kind) in [
            (&kustomization.config_maps, Made::ConfigMap, "ConfigMapGenerator"),
            (&kustomization.secrets, Made::Secret, "SecretGenerator"),
        ] {
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
        let inline = documents(text.text.as_bytes())
            .ok()
            .filter(|nodes| nodes.iter().any(|node| matches!(node.value, Value::Map(_))));
        if let Some(nodes) = inline {
            let mut configs = super::load::objects_of(nodes, &text.place.file)?;
            let origin = self.configured("").map(|origin| origin.configured_in);
            for config in &mut configs {
                config.place = text.place.clone();
                config.origin = origin.clone().map(|path| Origin { path, ..Origin::default() });
            }
            return Ok(configs);
        }
        let mut gathered = Gathered::default();
        self.add_resource(dir, text, &mut gathered)?;
        Ok(gathered.resources)
    }

    pub(super) fn transform(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let config = gathered.config.clone();
        self.patch(dir, kustomization, gathered)?;
        if !kustomization.namespace.is_empty() {
            let namespace = Namespace { name: kustomization.namespace.clone(), ..Namespace::default() };
            namespace::apply(&mut gathered.resources, &namespace, &config.namespace)?;
            self.done(gathered, "NamespaceTransformer")?;
        }
        if !kustomization.name_prefix.is_empty() {
            names::apply(
                &mut gathered.resources,
                &kustomization.name_prefix,
                &config.name_prefix,
                names::End::Prefix,
            )?;
            self.done(gathered, "PrefixTransformer")?;
        }
        if !kustomization.name_suffix.is_empty() {
            names::apply(
                &mut gathered.resources,
                &kustomization.name_suffix,
                &config.name_suffix,
                names::End::Suffix,
            )?;
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
            labels::apply(
                &mut gathered.resources,
                &kustomization.common_annotations,
                &config.common_annotations,
            )?;
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
            return Err(Box::new(RenderError::new(
                Reason::TooLarge,
                "",
                format!("more than {MAX_OBJECTS} objects"),
            )));
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
    pub(super) fn apply_patch(&mut self, dir: &str, one: &Patch, gathered: &mut Gathered) -> Result<()> {
        let change = match (&one.path, &one.inline) {
            (Some(path), _) => {
                let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
                let text = utf8(&file, &bytes)?;
                patch::read(
                    text,
                    &Written { file: &file, place: &one.place, field: &one.field, first_line: Some(0) },
                )?
            }
            (None, Some(inline)) => {
                let written = Written {
                    file: &inline.place.file,
                    place: &inline.place,
                    field: &inline.field,
                    first_line: None,
                };
                patch::read(inline.text.trim(), &written)?
            }
            (None, None) => return Ok(()),
        };
        patch::apply(&mut gathered.resources, one, change, &self.schemas)
    }

    /// Applies an entry of `patchesStrategicMerge`: the patch itself, or a file.
    pub(super) fn patch_strategic(&mut self, dir: &str, text: &Text, gathered: &mut Gathered) -> Result<()> {
        let written =
            Written { file: &text.place.file, place: &text.place, field: &text.field, first_line: None };
        let inline = documents(text.text.as_bytes())
            .ok()
            .filter(|nodes| !nodes.is_empty() && nodes.iter().all(|node| node.as_map().is_some()));
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
        if patches.is_empty() {
            let error = RenderError::at(Reason::Patch, &text.place, "the patch is empty");
            return Err(Box::new(error.field(text.field.clone())));
        }
        for one in patches {
            patch::apply_strategic(&mut gathered.resources, one, &self.schemas, &written)?;
        }
        Ok(())
    }

    fn patch_json(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        gathered: &mut Gathered,
    ) -> Result<()> {
        for one in &kustomization.patches_json6902 {
            self.apply_json_patch(dir, one, gathered)?;
            self.done(gathered, "PatchJson6902Transformer")?;
        }
        Ok(())
    }

    /// Applies an entry of `patchesJson6902`.
    pub(super) fn apply_json_patch(&mut self, dir: &str, one: &Patch, gathered: &mut Gathered) -> Result<()> {
        let written =
            Written { file: &one.place.file, place: &one.place, field: &one.field, first_line: None };
        let Some(target) = &one.target else {
            return Err(Box::new(
                RenderError::at(Reason::InvalidValue, &one.place, "a JSON patch needs a target")
                    .field(one.field.clone()),
            ));
        };
        let operations = match (&one.path, &one.inline) {
            (Some(path), _) => {
                let (file, bytes) = self.source.read(dir, &path.text).map_err(|error| at(path, error))?;
                patch::read_json(
                    utf8(&file, &bytes)?,
                    &Written { file: &file, first_line: Some(0), ..written.clone() },
                )?
            }
            (None, Some(inline)) => patch::read_json(&inline.text, &written)?,
            (None, None) => return Ok(()),
        };
        patch::apply_json(&mut gathered.resources, target, &operations, &written, false)
    }

    /// The replacements, with those of files.
    pub(super) fn replacements_of(
        &mut self,
        dir: &str,
        given: &[Given<Replacement>],
    ) -> Result<Vec<Replacement>> {
        let mut all = Vec::new();
        for one in given {
            match one {
                Given::Inline(replacement) => all.push(replacement.clone()),
                Given::File(path) => {
                    let (file, nodes) = self.documents(dir, path)?;
                    let Some(node) = nodes.first() else { continue };
                    let root = Located::root(&file, node);
                    match &node.value {
                        Value::List(_) => all
                            .extend(root.items()?.iter().map(Replacement::read).collect::<Result<Vec<_>>>()?),
                        Value::Map(_) => all.push(Replacement::read(&root)?),
                        Value::Scalar(_) => {
                            return Err(root
                                .error(Reason::InvalidValue, "a replacement or a list of them is expected"));
                        }
                    }
                }
            }
        }
        Ok(all)
    }
}

fn utf8<'b>(file: &str, bytes: &'b [u8]) -> Result<&'b str> {
    std::str::from_utf8(bytes)
        .map_err(|_| Box::new(RenderError::new(Reason::Malformed, file, "not UTF-8 text")))
}
