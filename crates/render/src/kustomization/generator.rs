//! `configMapGenerator`, `secretGenerator` and `generatorOptions`.

use std::collections::BTreeMap;

use super::parts::{Text, location_of};
use crate::decode::{Fields, Located, Result};
use crate::error::Reason;
use object::Location;

/// A ConfigMap or Secret to generate from files and texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generator {
    pub name: String,
    pub namespace: String,
    /// The handling of an existing object.
    pub behavior: Behavior,
    /// Files with lines of the form `key=value`.
    pub envs: Vec<Text>,
    /// Texts of the form `key=value`.
    pub literals: Vec<Text>,
    /// Files, as `path` or `key=path`.
    pub files: Vec<Text>,
    /// The type of the generated Secret.
    pub secret_type: String,
    /// Options that override the options for all generators.
    pub options: Option<GeneratorOptions>,
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// The handling of an existing object with the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// The object must not exist.
    #[default]
    Create,
    /// The generated object replaces it.
    Replace,
    /// The generated object is merged into it.
    Merge,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorOptions {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// True if names get no hash suffix.
    pub disable_name_suffix_hash: bool,
    /// True if the objects are immutable.
    pub immutable: bool,
}

impl Generator {
    pub(crate) fn read(located: &Located<'_>, secret: bool) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut generator = Self::take(&mut fields, located)?;
        if secret {
            generator.secret_type = fields.string("type")?;
        }
        fields.finish()?;
        generator.check(located)
    }

    /// Takes the fields that ConfigMap and Secret generators share.
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

    /// Rejects a generator without a name.
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
            // Like kustomize, reads all other values as `create`. Some repositories have such values.
            _ => Ok(Self::Create),
        }
    }
}

impl GeneratorOptions {
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

    /// Merges a generator's options with the options for all generators. Its own options win.
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
