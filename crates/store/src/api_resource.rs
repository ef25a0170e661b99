//! The served resources, with their names, versions and rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Schema;
use super::builtin::{BuiltinKind, PrinterColumn, Subresource};

/// A group and plural name, under which objects of all versions are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
}

impl GroupResource {
    /// Creates the ID of a resource.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Returns the resource of namespaces, whose phase restricts the objects in them.
    pub(super) fn namespaces() -> Self {
        Self::new("", "namespaces")
    }

    /// Returns the resource of CustomResourceDefinitions, which decide what is served.
    pub(super) fn definitions() -> Self {
        Self::new("apiextensions.k8s.io", "customresourcedefinitions")
    }
}

/// A kind of object and how the server treats it: what discovery lists as an `APIResource`, and the rules of its
/// versions.
#[derive(Clone, Debug)]
pub struct ApiResource {
    /// The API group; empty for the core group.
    pub group: String,
    pub kind: String,
    /// The kind of lists.
    pub list_kind: String,
    /// The plural name, used in paths.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// Other names that kubectl accepts.
    pub short_names: Vec<String>,
    /// Groups of resources that kubectl accepts, such as `all`.
    pub categories: Vec<String>,
    /// True if objects are namespaced.
    pub namespaced: bool,
    /// The versions, in order of preference.
    pub versions: Vec<Version>,
    /// The version in which objects are stored.
    pub storage: String,
    /// Which changes increase `metadata.generation`.
    pub generation: Generation,
    /// The allowed object names.
    pub names: NameRule,
    /// True if updates may omit the resource version.
    pub unconditional_update: bool,
    /// True if a PUT may create the object.
    pub create_on_update: bool,
    /// The built-in kind; `None` for custom kinds.
    pub(super) builtin: Option<&'static BuiltinKind>,
}

/// One version of a resource.
#[derive(Clone, Debug)]
pub struct Version {
    /// The name, such as `v1alpha1`.
    pub name: String,
    /// True if clients may use it.
    pub served: bool,
    /// The deprecation warning for clients; `None` if the version is not deprecated.
    pub deprecation: Option<String>,
    /// The fields, defaults and checks of objects.
    pub schema: Arc<Schema>,
    /// The schema as OpenAPI, for `kubectl explain`. Built-in kinds refer to [`super::definitions`].
    pub openapi: Arc<Value>,
    /// The compiled CEL rules.
    pub rules: Option<Arc<super::Rules>>,
    /// True if `status` is a subresource.
    pub status: bool,
    /// The paths of the scale subresource.
    pub scale: Option<Scale>,
    /// The columns of `kubectl get`.
    pub columns: Vec<Column>,
    /// The paths for field selectors, besides `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<String>,
}

/// Which changes increase `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// None; the field is absent.
    Never,
    /// Changes to any field outside metadata and status.
    Spec,
    /// Changes to any field outside metadata, for custom resources without a status subresource.
    All,
}

/// The allowed object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomains.
    Subdomain,
    /// RFC 1123 labels.
    Label,
    /// RFC 1035 labels.
    Label1035,
    /// Any valid path segment.
    PathSegment,
}

/// The paths that the scale subresource reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The field names leading to the desired number of replicas.
    pub spec_replicas: Vec<String>,
    /// The field names leading to the observed number of replicas.
    pub status_replicas: Vec<String>,
    /// The field names leading to the serialized selector.
    pub selector: Option<Vec<String>>,
    /// True if the kind is built-in, so that its replicas are never absent.
    pub is_builtin: bool,
}

/// A column of `kubectl get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// The OpenAPI type of the cells.
    pub type_: String,
    /// The OpenAPI format of the cells.
    pub format: String,
    /// The meaning of the cells.
    pub description: String,
    /// 0 to always show the column, higher for `-o wide`.
    pub priority: i64,
    /// The JSONPath of the cell.
    pub path: String,
}

impl ApiResource {
    /// Returns the group and plural name.
    pub fn id(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Returns the resource under which objects are stored: events of both groups are stored together.
    pub(super) fn id_of_storage(&self) -> GroupResource {
        self.builtin.and_then(BuiltinKind::storage).unwrap_or_else(|| self.id())
    }

    /// Returns true if a CustomResourceDefinition defines the resource.
    pub fn is_custom(&self) -> bool {
        self.builtin.is_none()
    }

    /// Returns the subresources besides `status` and `scale`.
    pub fn subresources(&self) -> &'static [Subresource] {
        self.builtin.map_or(&[], |kind| kind.subresources)
    }

    /// Returns true if one request can delete a whole collection.
    pub fn has_collection_delete(&self) -> bool {
        self.builtin.is_none_or(|kind| kind.has_collection_delete)
    }

    /// Returns true if the response to a deletion is the object instead of a `Status`.
    pub fn returns_deleted(&self) -> bool {
        self.builtin.is_some_and(|kind| kind.returns_deleted)
    }

    /// Returns the columns of `kubectl get`; `None` for custom kinds, whose versions define them.
    pub fn printer_columns(&self) -> Option<&'static [PrinterColumn]> {
        self.builtin.map(|kind| kind.columns)
    }

    /// Returns a version if it is served.
    pub fn served(&self, version: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.served && v.name == version)
    }

    /// Returns `group/version`, or `version` in the core group.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }
}

/// Every resource of the server by group and plural name.
pub type ApiResources = BTreeMap<GroupResource, Arc<ApiResource>>;
