//! Runs generators: entries of a kustomization, and generators from configuration objects.

use super::object::{GeneratedKind, make};
use super::{chart, iam_policy, pairs};
use crate::accumulator::ResAccumulator;
use crate::build::Build;
use crate::config_object::ConfigObject;
use crate::decode::Result;
use crate::document::Kustomization;
use crate::kustomization::{Generator, GeneratorOptions};

/// Returns the kinds of objects that configure a built-in generator.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    GeneratedKind::ALL.into_iter().map(GeneratedKind::generator).chain([iam_policy::KIND, chart::KIND])
}

impl Build<'_> {
    /// Runs the `configMapGenerator` and `secretGenerator` entries of a kustomization.
    ///
    /// # Errors
    /// Fails if a file is missing, a text is not a pair, or the object already exists.
    pub(crate) fn generate_entries(
        &self,
        dir: &str,
        kustomization: &Kustomization,
        accumulator: &mut ResAccumulator,
    ) -> Result<()> {
        let all = kustomization.generator_options.as_ref();
        for kind in GeneratedKind::ALL {
            let generators = match kind {
                GeneratedKind::ConfigMap => &kustomization.config_maps,
                GeneratedKind::Secret => &kustomization.secrets,
            };
            for generator in generators {
                let options = GeneratorOptions::merged(generator.options.as_ref(), all);
                let mut resource = make(kind, generator, options, pairs::read(&self.source, dir, generator)?);
                resource.origin = self.configured(kind.generator());
                accumulator.resmap.absorb(resource, generator)?;
            }
        }
        Ok(())
    }
}

/// Runs the generator that an object configures.
///
/// # Errors
/// Fails if the configuration is invalid or the object already exists.
pub(crate) fn run(
    build: &mut Build<'_>,
    dir: &str,
    mut config: ConfigObject<'_>,
    accumulator: &mut ResAccumulator,
) -> Result<()> {
    if config.object.kind() == chart::KIND {
        return chart::run(build, dir, config, accumulator);
    }
    let Some(kind) = GeneratedKind::ALL.into_iter().find(|kind| kind.generator() == config.object.kind())
    else {
        let resource = iam_policy::make(config)?;
        return accumulator.resmap.append(vec![resource]);
    };
    let mut generator = Generator::take(&mut config.fields, &config.located)?;
    if kind == GeneratedKind::Secret {
        generator.secret_type = config.fields.string("type")?;
    }
    let origin = config.origin();
    config.fields.finish()?;
    let object = config.object;
    for (own, named) in [(&mut generator.name, object.name()), (&mut generator.namespace, object.namespace())]
    {
        if own.is_empty() {
            *own = named.to_owned();
        }
    }
    generator.location = object.location.clone();
    let options = GeneratorOptions::merged(generator.options.as_ref(), None);
    let mut resource = make(kind, &generator, options, pairs::read(&build.source, dir, &generator)?);
    resource.origin = origin;
    accumulator.resmap.absorb(resource, &generator)
}
