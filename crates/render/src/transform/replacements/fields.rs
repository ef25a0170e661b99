//! The fields of `replacements`.

use crate::decode::{Fields, Located, Result};
use crate::error::Reason;
use crate::kustomization::{InlineOrFile, Selector, Text, location_of, take_gvk};
use object::Gvk;
use object::Location;

/// A value to copy from one object to others.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacement {
    /// The field that contains the value.
    pub source: Option<SourceSelector>,
    /// A literal value.
    pub source_value: Option<String>,
    pub targets: Vec<TargetSelector>,
}

/// One field of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceSelector {
    /// Group, version and kind. Empty parts match any kind.
    pub gvk: Gvk,
    /// The name. Empty matches any name.
    pub name: String,
    /// The namespace. Empty matches any namespace.
    pub namespace: String,
    pub field_path: String,
    /// The part of the field to copy.
    pub options: FieldOptions,
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// Fields of selected objects.
#[derive(Clone, Debug, Default)]
pub(super) struct TargetSelector {
    /// Objects to change.
    pub select: Option<Selector>,
    /// Objects to exclude.
    pub reject: Vec<Selector>,
    pub field_paths: Vec<Text>,
    /// The part of the fields to replace, and whether to create absent fields.
    pub options: FieldOptions,
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// The part of a text, and whether to create an absent field.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldOptions {
    pub delimiter: String,
    /// The index of the part, counted from 0. A negative index means before the first part, and an index that is
    /// too large means after the last part.
    pub index: i64,
    /// True to create an absent field.
    pub create: bool,
}

impl Replacement {
    /// Reads a replacement, or the path of a file with replacements.
    pub(super) fn read_source(located: &Located<'_>) -> Result<InlineOrFile<Self>> {
        let mut fields = located.fields()?;
        let path = fields.one("path", Text::read)?.filter(|path| !path.text.is_empty());
        let replacement = Self::take(&mut fields)?;
        fields.finish()?;
        match path {
            Some(_) if replacement.source.is_some() || !replacement.targets.is_empty() => {
                Err(located.error(Reason::InvalidValue, "path and an inline replacement exclude each other"))
            }
            Some(path) => Ok(InlineOrFile::File(path)),
            None => Ok(InlineOrFile::Inline(replacement.check(located)?)),
        }
    }

    /// Reads a replacement in a file of replacements.
    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let replacement = Self::take(&mut fields)?;
        fields.finish()?;
        replacement.check(located)
    }

    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            source: fields.one("source", SourceSelector::read)?,
            source_value: fields.one("sourceValue", Located::string)?,
            targets: fields.list("targets", TargetSelector::read)?,
        })
    }

    fn check(self, located: &Located<'_>) -> Result<Self> {
        match (&self.source, &self.source_value) {
            (Some(_), Some(_)) => {
                Err(located.error(Reason::InvalidValue, "source and sourceValue exclude each other"))
            }
            (None, None) => Err(located.error(Reason::InvalidValue, "a replacement needs a source")),
            _ if self.targets.is_empty() => {
                Err(located.error(Reason::InvalidValue, "a replacement needs targets"))
            }
            _ => Ok(self),
        }
    }
}

impl SourceSelector {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let selector = Self {
            gvk: take_gvk(&mut fields)?,
            name: fields.string("name")?,
            namespace: fields.string("namespace")?,
            field_path: fields.string("fieldPath")?,
            options: fields.one("options", FieldOptions::read)?.unwrap_or_default(),
            location: location_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        Ok(selector)
    }
}

impl TargetSelector {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let selector = Self {
            select: fields.one("select", Selector::read_exact)?,
            reject: fields.list("reject", Selector::read_exact)?,
            field_paths: fields.list("fieldPaths", Text::read)?,
            options: fields.one("options", FieldOptions::read)?.unwrap_or_default(),
            location: location_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        if selector.select.is_none() {
            return Err(located.error(Reason::InvalidValue, "a target needs select"));
        }
        Ok(selector)
    }
}

impl FieldOptions {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let index = fields.one("index", Located::integer)?.unwrap_or_default();
        let options = Self { delimiter: fields.string("delimiter")?, index, create: fields.bool("create")? };
        fields.string("encoding")?;
        fields.finish()?;
        Ok(options)
    }
}
