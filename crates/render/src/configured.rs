//! `generators`, `transformers` and `validators`: objects that configure built-in ones. Programs and containers
//! are rejected.

use std::collections::BTreeMap;

use super::accumulator::ResAccumulator;
use super::build::Build;
use super::config_object::ConfigObject;
use super::decode::Result;
use super::error::{Reason, RenderError, did_you_mean};
use super::generate;
use super::kustomization::Text;
use super::resource::Resource;
use super::transform::{Pass, TRANSFORMERS};
use yaml::Reading;

const BUILTIN: &str = "builtin";

/// Returns the built-in generator or transformer (`role`) that an object configures. Rejects all others.
fn find<T>(
    object: &Resource,
    path: &Text,
    role: &str,
    known: impl Iterator<Item = (&'static str, T)>,
) -> Result<T> {
    let mut known: BTreeMap<&str, T> = known.collect();
    let kind = object.kind();
    let error = |message: String| {
        RenderError::at(Reason::Unsupported, &object.location, message).field(path.field.clone())
    };
    let has = |name: &str| object.string_map("annotations").contains_key(name);
    if has("config.kubernetes.io/function") || has("config.k8s.io/function") {
        let message = format!("{kind} is a container or exec function, which are not supported");
        return Err(Box::new(error(message)));
    }
    if object.api_version() != BUILTIN {
        let message = format!("the {role} {kind} of {:?} is not built in", object.api_version());
        let kinds: Vec<_> = known.into_keys().collect();
        let hint = format!("only {role}s with apiVersion: builtin are supported: {}", kinds.join(", "));
        return Err(Box::new(error(message).hint(hint)));
    }
    known.remove(kind).ok_or_else(|| {
        let kinds: Vec<_> = known.into_keys().collect();
        let hint = did_you_mean(kind, kinds.iter().copied())
            .unwrap_or_else(|| format!("there are {}", kinds.join(", ")));
        Box::new(error(format!("there is no {role} {kind}")).hint(hint))
    })
}

impl Build<'_> {
    /// Runs the generator that an object configures. `path` is the text that names the object.
    ///
    /// # Errors
    /// Fails if the generator is not built in or its configuration is invalid.
    pub(super) fn run_generator(
        &mut self,
        dir: &str,
        path: &Text,
        object: &Resource,
        accumulator: &mut ResAccumulator,
    ) -> Result<()> {
        find(object, path, "generator", generate::kinds().map(|kind| (kind, ())))?;
        generate::run(self, dir, ConfigObject::new(object)?, accumulator)
    }

    /// Runs the transformer that an object configures. `path` is the text that names the object.
    ///
    /// # Errors
    /// Fails if the transformer is not built in, its configuration is invalid, or it cannot be applied.
    pub(super) fn run_transformer(
        &mut self,
        dir: &str,
        path: &Text,
        object: &Resource,
        accumulator: &mut ResAccumulator,
    ) -> Result<()> {
        let rows = TRANSFORMERS.iter().map(|transformer| (transformer.kind, transformer));
        let transformer = find(object, path, "transformer", rows)?;
        let mut config = ConfigObject::new(object)?;
        let transformation = (transformer.read_config)(&mut config)?;
        let origin = config.origin();
        config.fields.finish()?;
        let config = accumulator.config.clone();
        transformation(&mut Pass { build: self, dir, config, accumulator: &mut *accumulator })?;
        accumulator.end_transformation(origin)
    }

    /// Runs a validator: a transformer that must not change anything.
    ///
    /// # Errors
    /// See [`Build::run_transformer`]. Also fails if an object changes.
    pub(super) fn run_validator(
        &mut self,
        dir: &str,
        path: &Text,
        object: &Resource,
        accumulator: &ResAccumulator,
    ) -> Result<()> {
        let mut copy = accumulator.clone();
        self.run_transformer(dir, path, object, &mut copy)?;
        let content = |resources: &[Resource]| {
            resources.iter().map(|resource| resource.node.to_json(Reading::Objects).ok()).collect::<Vec<_>>()
        };
        if content(&copy.resmap) == content(&accumulator.resmap) {
            return Ok(());
        }
        let message = format!("the validator {} changes objects", object.kind());
        let error =
            RenderError::at(Reason::InvalidValue, &object.location, message).field(path.field.clone());
        Err(Box::new(error.hint("list it in transformers")))
    }
}
