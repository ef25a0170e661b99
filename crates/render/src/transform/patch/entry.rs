//! The fields of an entry of `patches`.

use super::source::PatchSource;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Located, Result};
use crate::error::{Reason, RenderError};
use crate::kustomization::{Selector, Text, at, location_of};
use crate::transform::transformer::Pass;
use object::Location;

/// A patch and its target.
pub(super) struct Patch {
    /// The file that contains the patch.
    path: Option<Text>,
    /// The inline patch.
    inline: Option<Text>,
    /// The objects to change. Without a target, a strategic merge patch names its object.
    pub target: Option<Selector>,
    pub options: PatchOptions,
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// The identity fields that a patch may change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PatchOptions {
    pub allow_name_change: bool,
    pub allow_kind_change: bool,
}

impl Patch {
    /// Reads an entry of a kustomization.
    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let patch = Self::take(&mut fields, located, "patch")?;
        fields.finish()?;
        Ok(patch)
    }

    /// Reads a configuration object. `inline` is the field of an inline patch.
    pub(super) fn of_config(config: &mut ConfigObject<'_>, inline: &'static str) -> Result<Self> {
        let patch = Self::take(&mut config.fields, &config.located, inline)?;
        Ok(Self { location: config.object.location.clone(), field: inline.to_owned(), ..patch })
    }

    fn take(fields: &mut Fields<'_>, located: &Located<'_>, inline: &'static str) -> Result<Self> {
        let not_empty = |text: Option<Text>| text.filter(|text| !text.text.trim().is_empty());
        let patch = Self {
            path: not_empty(fields.one("path", Text::read)?),
            inline: not_empty(fields.one(inline, Text::read)?),
            target: fields.one("target", Selector::read)?,
            options: fields.one("options", PatchOptions::read)?.unwrap_or_default(),
            location: location_of(located),
            field: located.field.clone(),
        };
        let problem = match (&patch.path, &patch.inline) {
            (Some(_), None) | (None, Some(_)) => return Ok(patch),
            (None, None) => format!("either {inline} or path is required"),
            (Some(_), Some(_)) => format!("{inline} and path exclude each other"),
        };
        Err(located.error(Reason::InvalidValue, problem))
    }

    /// Returns the text of the patch. Returns None if there is neither a text nor a file.
    pub(super) fn text(&self, pass: &Pass<'_, '_>) -> Result<Option<(String, PatchSource<'_>)>> {
        let (location, field) = (&self.location, self.field.as_str());
        match (&self.path, &self.inline) {
            (Some(path), _) => {
                let (file, bytes) =
                    pass.build.source.read(pass.dir, &path.text).map_err(|error| at(path, error))?;
                pass.build.source.budget.spend(bytes.len()).map_err(|error| at(path, error))?;
                let text = std::str::from_utf8(&bytes)
                    .map_err(|_| Box::new(RenderError::new(Reason::Malformed, &file, "not UTF-8 text")))?;
                Ok(Some((text.to_owned(), PatchSource { file, location, field, first_line: Some(0) })))
            }
            (None, Some(inline)) => {
                let (file, location, field) =
                    (inline.location.file.clone(), &inline.location, inline.field.as_str());
                Ok(Some((
                    inline.text.trim().to_owned(),
                    PatchSource { file, location, field, first_line: None },
                )))
            }
            (None, None) => Ok(None),
        }
    }
}

impl PatchOptions {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let options = Self {
            allow_name_change: fields.bool("allowNameChange")?,
            allow_kind_change: fields.bool("allowKindChange")?,
        };
        fields.finish()?;
        Ok(options)
    }
}
