//! The served resources: their names, versions and rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Schema;
use super::builtin::{BuiltinKind, PrinterColumn, Subresource};

/// Group and plural name, under which objects of all versions are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: String,
    /// Resource in the plural.
    pub resource: String,
}

impl GroupResource {
    /// Names a resource.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Namespaces: their phase decides about the objects in them.
    pub(super) fn namespaces() -> Self {
        Self::new("", "namespaces")
    }

    /// Returns the resource of the CustomResourceDefinitions, which decide what is served.
    pub(super) fn definitions() -> Self {
        Self::new("apiextensions.k8s.io", "customresourcedefinitions")
    }
}

/// A kind of objects and how the server treats it: what discovery lists as an `APIResource`, and the rules of
/// its versions.
#[derive(Clone, Debug)]
pub struct ApiResource {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Kind of lists.
    pub list_kind: String,
    /// Name in paths.
    pub plural: String,
    /// Name for people.
    pub singular: String,
    /// Other names that kubectl takes.
    pub short_names: Vec<String>,
    /// Groups of resources that kubectl takes, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The versions, in order of preference.
    pub versions: Vec<Version>,
    /// Name of the version objects are stored in.
    pub storage: String,
    /// When `metadata.generation` counts.
    pub generation: Generation,
    /// The names that objects may have.
    pub names: NameRule,
    /// Whether an update may come without a resource version.
    pub unconditional_update: bool,
    /// Whether a PUT or a merge may create the object.
    pub create_on_update: bool,
    /// The built-in kind; `None` for custom kinds.
    pub(super) builtin: Option<&'static BuiltinKind>,
}

/// One version of a resource.
#[derive(Clone, Debug)]
pub struct Version {
    /// Name, such as `v1alpha1`.
    pub name: String,
    /// Whether clients may use it.
    pub served: bool,
    /// The warning to clients; `None` while the version is not deprecated.
    pub deprecation: Option<String>,
    /// The fields, defaults and checks of objects.
    pub schema: Arc<Schema>,
    /// The schema as OpenAPI, for `kubectl explain`. Built-in kinds refer to [`super::definitions`].
    pub openapi: Arc<Value>,
    /// CEL rules, compiled.
    pub rules: Option<Arc<super::Rules>>,
    /// Whether `status` is a subresource.
    pub status: bool,
    /// Paths of the scale subresource.
    pub scale: Option<Scale>,
    /// Columns of `kubectl get`.
    pub columns: Vec<Column>,
    /// Paths that field selectors may name, beside `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<String>,
}

/// When `metadata.generation` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Never: the field stays absent.
    Never,
    /// Whenever a field beside metadata and status changes.
    Spec,
    /// Whenever a field beside metadata changes, for custom resources without a status subresource.
    All,
}

/// The names that objects may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain.
    Subdomain,
    /// RFC 1123 label.
    Label,
    /// RFC 1035 label.
    Label1035,
    /// Anything that can be one part of a path.
    PathSegment,
}

/// The paths that the scale subresource reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Field names to the wanted number of replicas.
    pub spec_replicas: Vec<String>,
    /// Field names to the observed number of replicas.
    pub status_replicas: Vec<String>,
    /// Field names to the serialised selector.
    pub selector: Option<Vec<String>>,
    /// Whether it is of a built-in kind, whose replicas are never absent.
    pub is_builtin: bool,
}

/// One column of `kubectl get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type of the cells.
    pub type_: String,
    /// OpenAPI format of the cells.
    pub format: String,
    /// The meaning of the cells.
    pub description: String,
    /// 0 for always, higher for `-o wide`.
    pub priority: i64,
    /// JSONPath of the cell.
    pub path: String,
}

impl ApiResource {
    /// Returns group and plural name.
    pub fn id(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Returns the resource that its objects are stored under: events of both groups are stored in one place.
    pub(super) fn id_of_storage(&self) -> GroupResource {
        self.builtin.and_then(BuiltinKind::storage).unwrap_or_else(|| self.id())
    }

    /// Returns whether a CustomResourceDefinition made it.
    pub fn is_custom(&self) -> bool {
        self.builtin.is_none()
    }

    /// Returns the subresources beside `status` and `scale`.
    pub fn subresources(&self) -> &'static [Subresource] {
        self.builtin.map_or(&[], |kind| kind.subresources)
    }

    /// Returns whether one request can delete a whole collection.
    pub fn has_collection_delete(&self) -> bool {
        self.builtin.is_none_or(|kind| kind.has_collection_delete)
    }

    /// Returns whether a deletion is answered with the object instead of a `Status`.
    pub fn returns_deleted(&self) -> bool {
        self.builtin.is_some_and(|kind| kind.returns_deleted)
    }

    /// Returns the columns that `kubectl get` prints; `None` for custom kinds, whose versions have them.
    pub fn printer_columns(&self) -> Option<&'static [PrinterColumn]> {
        self.builtin.map(|kind| kind.columns)
    }

    /// Returns a served version.
    pub fn served(&self, version: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.served && v.name == version)
    }

    /// Returns `group/version`, or `version` in the core group.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }
}

/// Every resource the server knows, by group and plural name.
pub type ApiResources = BTreeMap<GroupResource, Arc<ApiResource>>;
