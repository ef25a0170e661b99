//! `configMapGenerator`, `secretGenerator` and `generatorOptions`.

use std::collections::BTreeMap;

use super::parts::{Text, location_of};
use crate::decode::{Fields, Located, Result};
use crate::error::Reason;
use object::Location;

/// A ConfigMap or Secret that is made of files and texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generator {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether it changes one that exists.
    pub behavior: Behavior,
    /// Files of `key=value` lines.
    pub envs: Vec<Text>,
    /// `key=value` texts.
    pub literals: Vec<Text>,
    /// Files, as `path` or `key=path`.
    pub files: Vec<Text>,
    /// The type of a Secret.
    pub secret_type: String,
    /// Its own options.
    pub options: Option<GeneratorOptions>,
    /// Its place.
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// Decides about an existing object with the name of a generated one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// It must not exist.
    #[default]
    Create,
    /// The generated object replaces it.
    Replace,
    /// The generated object is merged into it.
    Merge,
}

/// Options of generated objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorOptions {
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// Their annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether names go without the hash of the content.
    pub disable_name_suffix_hash: bool,
    /// Whether they cannot be changed.
    pub immutable: bool,
}

impl Generator {
    /// Reads a generator of ConfigMaps or Secrets.
    pub(crate) fn read(located: &Located<'_>, secret: bool) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut generator = Self::take(&mut fields, located)?;
        if secret {
            generator.secret_type = fields.string("type")?;
        }
        fields.finish()?;
        generator.check(located)
    }

    /// Takes the fields that ConfigMaps and Secrets share.
    pub(crate) fn take(fields: &mut Fields<'_>, located: &Located<'_>) -> Result<Self> {
        let mut envs = fields.list("envs", Text::read)?;
        envs.extend(fields.one("env", Text::read)?.filter(|env| !env.text.is_empty()));
        Ok(Self {
            name: fields.string("name")?,
            namespace: fields.string("namespace")?,
            behavior: fields.one("behavior", Behavior::read)?.unwrap_or_default(),
            envs,
            literals: fields.list("literals", Text::read)?,
            files: fields.list("files", Text::read)?,
            secret_type: String::new(),
            options: fields.one("options", GeneratorOptions::read)?,
            location: location_of(located),
            field: located.field.clone(),
        })
    }

    /// Refuses a generator without a name.
    pub(crate) fn check(self, located: &Located<'_>) -> Result<Self> {
        if self.name.is_empty() {
            return Err(located.error(Reason::InvalidValue, "a generated object needs a name"));
        }
        Ok(self)
    }
}

impl Behavior {
    fn read(located: &Located<'_>) -> Result<Self> {
        match located.string()?.as_str() {
            "replace" => Ok(Self::Replace),
            "merge" => Ok(Self::Merge),
            // kustomize reads every other value as create, and some repositories have such values.
            _ => Ok(Self::Create),
        }
    }
}

impl GeneratorOptions {
    /// Reads the options of generated objects.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let options = Self {
            labels: fields.string_map("labels")?,
            annotations: fields.string_map("annotations")?,
            disable_name_suffix_hash: fields.bool("disableNameSuffixHash")?,
            immutable: fields.bool("immutable")?,
        };
        fields.finish()?;
        Ok(options)
    }

    /// Returns own options over those of all generators.
    pub(crate) fn merged(own: Option<&Self>, all: Option<&Self>) -> Self {
        let mut merged = own.cloned().unwrap_or_default();
        if let Some(all) = all {
            for (mine, theirs) in
                [(&mut merged.labels, &all.labels), (&mut merged.annotations, &all.annotations)]
            {
                for (key, value) in theirs {
                    mine.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            merged.disable_name_suffix_hash |= all.disable_name_suffix_hash;
            merged.immutable |= all.immutable;
        }
        merged
    }
}
