//! The parts of a kustomization that have no file of their own.

use std::collections::BTreeMap;

use super::selector::Selector;
use crate::decode::{Fields, Located, Result};
use crate::error::Reason;
use object::Gvk;
use object::Place;

/// A string that somebody wrote, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    /// The string.
    pub text: String,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// A file to read something from, or the thing itself.
#[derive(Clone, Debug)]
pub(crate) enum Source<T> {
    /// The thing.
    Inline(T),
    /// A path.
    File(Text),
}

/// Labels, and where they go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Label {
    /// The labels.
    pub pairs: BTreeMap<String, String>,
    /// Also into selectors and templates.
    pub include_selectors: bool,
    /// Also into templates.
    pub include_templates: bool,
    /// Also into these fields.
    pub fields: Vec<FieldSpec>,
    /// Where it stands.
    pub place: Place,
}

/// Fields of some kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    /// The kinds; empty parts mean any.
    pub gvk: Gvk,
    /// The path, its parts separated by `/`.
    pub path: String,
    /// Whether the field is made where it is absent.
    pub create: bool,
}

/// A change of an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    /// The image's name, as a pattern.
    pub name: String,
    /// What the name becomes.
    pub new_name: String,
    /// What the tag becomes.
    pub new_tag: String,
    /// What is put behind the tag.
    pub tag_suffix: String,
    /// What the digest becomes.
    pub digest: String,
    /// Where it stands.
    pub place: Place,
}

/// A number of replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    /// The name of the object, before or after changes.
    pub name: String,
    /// The number.
    pub count: i64,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// A patch and what it applies to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patch {
    /// A file.
    pub path: Option<Text>,
    /// The patch itself.
    pub inline: Option<Text>,
    /// The objects.
    pub target: Option<Selector>,
    /// What the patch may change beyond content.
    pub options: PatchOptions,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// What a patch may change beyond content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PatchOptions {
    /// The name.
    pub allow_name_change: bool,
    /// The kind.
    pub allow_kind_change: bool,
}

/// A value that is put into texts, as `$(NAME)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Var {
    /// The name in the texts.
    pub name: String,
    /// The object: group, version and kind.
    pub gvk: Gvk,
    /// Its name.
    pub object: String,
    /// Its namespace.
    pub namespace: String,
    /// The field of the object.
    pub field_path: String,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// The order of the output.
#[derive(Clone, Debug)]
pub(crate) enum SortOptions {
    /// As read.
    Fifo,
    /// By kind.
    Legacy {
        /// Kinds that come first, in order.
        first: Vec<String>,
        /// Kinds that come last, in order.
        last: Vec<String>,
    },
}

pub(super) fn place_of(located: &Located<'_>) -> Place {
    Place { file: located.file.into(), line: located.line }
}

impl Text {
    /// Reads a string.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        Ok(Self { text: located.string()?, place: place_of(located), field: located.field.clone() })
    }
}

impl Label {
    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let label = Self {
            pairs: fields.string_map("pairs")?,
            include_selectors: fields.bool("includeSelectors")?,
            include_templates: fields.bool("includeTemplates")?,
            fields: fields.list("fields", FieldSpec::read)?,
            place: place_of(located),
        };
        fields.finish()?;
        Ok(label)
    }
}

/// Takes group, version and kind.
pub(super) fn take_gvk(fields: &mut Fields<'_>) -> Result<Gvk> {
    Ok(Gvk {
        group: fields.string("group")?,
        version: fields.string("version")?,
        kind: fields.string("kind")?,
    })
}

impl FieldSpec {
    /// Reads a field specification.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let spec = Self {
            gvk: take_gvk(&mut fields)?,
            path: fields.string("path")?,
            create: fields.bool("create")?,
        };
        fields.finish()?;
        Ok(spec)
    }
}

impl Image {
    /// Reads a change of an image.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let image = Self {
            name: fields.string("name")?,
            new_name: fields.string("newName")?,
            new_tag: fields.string("newTag")?,
            tag_suffix: fields.string("tagSuffix")?,
            digest: fields.string("digest")?,
            place: place_of(located),
        };
        fields.finish()?;
        Ok(image)
    }
}

impl Replica {
    /// Reads a number of replicas.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let count = fields.one("count", Located::integer)?.unwrap_or_default();
        let replica = Self {
            name: fields.string("name")?,
            count,
            place: place_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        Ok(replica)
    }
}

impl Patch {
    /// Reads a patch.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let not_empty = |text: Option<Text>| text.filter(|text| !text.text.trim().is_empty());
        let patch = Self {
            path: not_empty(fields.one("path", Text::read)?),
            inline: not_empty(fields.one("patch", Text::read)?),
            target: fields.one("target", Selector::read)?,
            options: fields.one("options", PatchOptions::read)?.unwrap_or_default(),
            place: place_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        match (&patch.path, &patch.inline) {
            (Some(_), None) | (None, Some(_)) => Ok(patch),
            (None, None) => Err(located.error(Reason::InvalidValue, "one of patch and path is needed")),
            (Some(_), Some(_)) => {
                Err(located.error(Reason::InvalidValue, "patch and path exclude each other"))
            }
        }
    }
}

impl PatchOptions {
    /// Reads the options of a patch.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let options = Self {
            allow_name_change: fields.bool("allowNameChange")?,
            allow_kind_change: fields.bool("allowKindChange")?,
        };
        fields.finish()?;
        Ok(options)
    }
}

impl Var {
    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut var = Self {
            name: fields.string("name")?,
            place: place_of(located),
            field: located.field.clone(),
            ..Self::default()
        };
        fields
            .one("objref", |object| {
                let mut fields = object.fields()?;
                let api_version = fields.string("apiVersion")?;
                let gvk = take_gvk(&mut fields)?;
                let (name, namespace) = (fields.string("name")?, fields.string("namespace")?);
                fields.finish()?;
                Ok((api_version, gvk, name, namespace))
            })?
            .into_iter()
            .for_each(|(api_version, gvk, name, namespace)| {
                let named = Gvk::parse(&api_version, &gvk.kind);
                var.gvk = match api_version.as_str() {
                    "" => gvk,
                    version if version.contains('/') => named,
                    _ => Gvk { group: gvk.group, ..named },
                };
                (var.object, var.namespace) = (name, namespace);
            });
        let field_path = fields.one("fieldref", |field| {
            let mut fields = field.fields()?;
            let path = fields.string("fieldPath")?;
            fields.finish()?;
            Ok(path)
        })?;
        fields.finish()?;
        var.field_path = field_path.filter(|path| !path.is_empty()).unwrap_or_else(|| "metadata.name".into());
        Ok(var)
    }
}

impl SortOptions {
    /// Kinds that come before and after all others where nobody says another order.
    pub(crate) const FIRST: [&'static str; 22] = [
        "Namespace",
        "ResourceQuota",
        "StorageClass",
        "CustomResourceDefinition",
        "ServiceAccount",
        "PodSecurityPolicy",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
        "ConfigMap",
        "Secret",
        "Endpoints",
        "Service",
        "LimitRange",
        "PriorityClass",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Deployment",
        "StatefulSet",
        "CronJob",
        "PodDisruptionBudget",
    ];
    /// Kinds that come after all others.
    pub(crate) const LAST: [&'static str; 2] =
        ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

    /// The order by kind that is used where nothing is said.
    pub(crate) fn legacy() -> Self {
        let owned = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
        Self::Legacy { first: owned(&Self::FIRST), last: owned(&Self::LAST) }
    }

    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let order = fields.take("order");
        let legacy = fields.take("legacySortOptions");
        fields.finish()?;
        let order_text = order.as_ref().map(Located::string).transpose()?.unwrap_or_default();
        let place = order.as_ref().unwrap_or(located);
        match (order_text.as_str(), legacy) {
            ("fifo", Some(legacy)) => {
                Err(legacy.error(Reason::InvalidValue, "goes with order legacy, not with fifo"))
            }
            ("fifo", None) => Ok(Self::Fifo),
            ("legacy", None) => Ok(Self::legacy()),
            ("legacy", Some(legacy)) => {
                let mut fields = legacy.fields()?;
                let options =
                    Self::Legacy { first: fields.strings("orderFirst")?, last: fields.strings("orderLast")? };
                fields.finish()?;
                Ok(options)
            }
            (other, _) => {
                Err(place.error(Reason::InvalidValue, format!("must be legacy or fifo, not {other:?}")))
            }
        }
    }
}
