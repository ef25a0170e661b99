//! Parts of kustomizations that several readers share.

use crate::decode::{Fields, Located, Result};
use crate::error::{Reason, RenderError};
use object::Gvk;
use object::Location;

/// A string and its location.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub text: String,
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// A value, or the path of a file that contains it.
#[derive(Clone, Debug)]
pub(crate) enum InlineOrFile<T> {
    Inline(T),
    File(Text),
}

/// A field of objects of some kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    /// The kinds. Empty parts match any kind.
    pub gvk: Gvk,
    /// The path, separated by `/`.
    pub path: String,
    /// True if the field is created if absent.
    pub create: bool,
}

/// A variable, substituted for `$(NAME)` in texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Var {
    /// The name of the variable.
    pub name: String,
    /// The group, version and kind of the object.
    pub gvk: Gvk,
    /// The name of the object.
    pub object: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The field of the object.
    pub field_path: String,
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// The order of the output.
#[derive(Clone, Debug)]
pub(crate) enum SortOptions {
    /// The order in which the objects were read.
    Fifo,
    /// Sorted by kind.
    Legacy {
        /// Kinds that come first, in order.
        first: Vec<String>,
        /// Kinds that come last, in order.
        last: Vec<String>,
    },
}

/// The annotations and labels to add about the origin of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildMetadata {
    /// The file or generator of each object.
    pub origin: bool,
    /// The transformers that changed each object.
    pub transformers: bool,
    /// The label `app.kubernetes.io/managed-by`.
    pub managed_by: bool,
}

impl BuildMetadata {
    /// Returns true if origins must be tracked.
    pub(crate) fn any(self) -> bool {
        self.origin || self.transformers || self.managed_by
    }
}

pub(crate) fn location_of(located: &Located<'_>) -> Location {
    Location { file: located.file.into(), line: located.line }
}

impl Text {
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        Ok(Self { text: located.string()?, location: location_of(located), field: located.field.clone() })
    }
}

/// Adds the location of a text to an error without a location.
pub(crate) fn at(text: &Text, mut error: Box<RenderError>) -> Box<RenderError> {
    if error.file.is_empty() {
        error.file = text.location.file.clone();
        return Box::new(error.line(text.location.line).field(text.field.clone()));
    }
    error
}

pub(crate) fn take_gvk(fields: &mut Fields<'_>) -> Result<Gvk> {
    Ok(Gvk {
        group: fields.string("group")?,
        version: fields.string("version")?,
        kind: fields.string("kind")?,
    })
}

impl FieldSpec {
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

impl Var {
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut var = Self {
            name: fields.string("name")?,
            location: location_of(located),
            field: located.field.clone(),
            ..Self::default()
        };
        let object = fields.one("objref", |object| {
            let mut fields = object.fields()?;
            let api_version = fields.string("apiVersion")?;
            let gvk = take_gvk(&mut fields)?;
            let (name, namespace) = (fields.string("name")?, fields.string("namespace")?);
            fields.finish()?;
            Ok((api_version, gvk, name, namespace))
        })?;
        if let Some((api_version, gvk, name, namespace)) = object {
            let named = Gvk::parse(&api_version, &gvk.kind);
            var.gvk = match api_version.as_str() {
                "" => gvk,
                version if version.contains('/') => named,
                _ => Gvk { group: gvk.group, ..named },
            };
            (var.object, var.namespace) = (name, namespace);
        }
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
    /// Kinds that come first by default.
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
    /// Kinds that come last by default.
    pub(crate) const LAST: [&'static str; 2] =
        ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

    /// Returns the default order by kind.
    pub(crate) fn legacy() -> Self {
        let owned = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
        Self::Legacy { first: owned(&Self::FIRST), last: owned(&Self::LAST) }
    }

    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let order = fields.take("order");
        let legacy = fields.take("legacySortOptions");
        fields.finish()?;
        let order_text = order.as_ref().map(Located::string).transpose()?.unwrap_or_default();
        let location = order.as_ref().unwrap_or(located);
        match (order_text.as_str(), legacy) {
            ("fifo", Some(legacy)) => {
                Err(legacy.error(Reason::InvalidValue, "is valid only with order legacy, not with fifo"))
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
                Err(location.error(Reason::InvalidValue, format!("must be legacy or fifo, not {other:?}")))
            }
        }
    }
}
