//! The parts of a request: its path, user and options.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
use serde_json::Value;

use object::{Key, Kind, Object};

use super::collection::weight_of;

/// The path of a request, which is kube-apiserver's `RequestInfo` without the verb:
/// `/apis/{group}/{version}/namespaces/{namespace}/{resource}/{name}/{subresource}`.
///
/// Absent parts are empty, such as the namespace of a cluster-scoped object or of a list over all namespaces, or
/// the name for a list or create.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourcePath {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural name of the resource, such as `deployments`.
    pub resource: String,
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// `status`, `approval`, `finalize`, `scale` or `token`, or empty.
    pub subresource: String,
}

impl ResourcePath {
    /// Returns the path of all objects of a resource.
    pub fn resource(group: &str, version: &str, resource: &str) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into(), ..Self::default() }
    }

    /// Returns the path of all objects of a typed kind.
    pub fn all<K: Kind>() -> Self {
        Self::resource(&K::group(&()), &K::version(&()), &K::plural(&()))
    }

    /// Returns the path of one object of a typed kind.
    pub fn of<K: Kind>(key: &Key) -> Self {
        Self::all::<K>().at(key)
    }

    /// Sets the namespace and name.
    #[must_use]
    pub fn at(mut self, key: &Key) -> Self {
        self.namespace.clone_from(&key.namespace);
        self.name.clone_from(&key.name);
        self
    }

    /// Sets the namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the subresource.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "nobody subtracts from a path")]
    pub fn sub(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = subresource.into();
        self
    }

    /// Returns the namespace and name.
    pub fn key(&self) -> Key {
        Key::namespaced(self.namespace.clone(), self.name.clone())
    }

    /// Returns `group/version`, or `version` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns `resource.group`, as used in messages.
    pub(super) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    pub(super) fn details(&self) -> StatusDetails {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        StatusDetails {
            name: some(&self.name),
            group: some(&self.group),
            kind: some(&self.resource),
            ..StatusDetails::default()
        }
    }
}

/// The user who sends the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user name, such as `system:serviceaccount:default:robot`.
    pub name: String,
    /// The stable ID of the user, if the authenticator knows it.
    pub uid: String,
    pub groups: Vec<String>,
    /// Additional attributes from the authenticator.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the administrator of the store itself.
    pub fn admin() -> Self {
        Self {
            name: "system:admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..Self::default()
        }
    }
}

/// The treatment of fields that are not in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them, and report them in [`Written::warnings`].
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

/// The options of a write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The user who writes. Role escalation is checked for this user, and signing requests record it.
    pub user: Arc<User>,
    /// The owner of the written fields in `metadata.managedFields`. If a request has none, the server passes the
    /// first word of the user agent.
    pub manager: String,
    /// If true, does everything except storing the object.
    pub dry_run: bool,
    /// If true, takes fields from other managers (server-side apply only).
    pub force: bool,
    /// The treatment of unknown fields.
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// Returns options for writing as the administrator, with a field manager.
    pub fn manager(manager: impl Into<String>) -> Self {
        Self {
            user: Arc::new(User::admin()),
            manager: manager.into(),
            dry_run: false,
            force: false,
            field_validation: FieldValidation::default(),
        }
    }

    /// Sets the user.
    #[must_use]
    pub fn by(mut self, user: Arc<User>) -> Self {
        self.user = user;
        self
    }

    /// Sets `force`.
    #[must_use]
    pub fn forced(mut self) -> Self {
        self.force = true;
        self
    }

    /// Sets `dry_run`.
    #[must_use]
    pub fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The object after the write, or after a dry run the resulting object, in the requested version.
    pub object: Arc<Object>,
    /// True if the object was created (HTTP 201).
    pub created: bool,
    /// The texts of `Warning:` headers.
    pub warnings: Vec<String>,
}

/// The body of a PATCH request.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 6902, `application/json-patch+json`.
    Json(Value),
    /// RFC 7386, `application/merge-patch+json`.
    Merge(Value),
    /// `application/strategic-merge-patch+json`; built-in kinds only.
    Strategic(Value),
    /// Server-side apply, `application/apply-patch+yaml`.
    Apply(Value),
}

/// The options of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// The label selector, as in a query string.
    pub labels: String,
    /// The field selector, as in a query string.
    pub fields: String,
    /// The maximum number of items to return; 0 for all.
    pub limit: usize,
    /// The continue token of the previous page.
    pub continue_token: String,
    /// The version that the list must not be older than, or must match exactly; empty or `0` for any.
    pub resource_version: String,
    /// `Exact` or `NotOlderThan`; empty for the default.
    pub resource_version_match: String,
}

/// The objects of one resource at one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The `apiVersion` of the list and its items.
    pub api_version: String,
    /// The `kind` of the list, such as `ConfigMapList`.
    pub kind: String,
    /// The revision, from which a watch can continue.
    pub resource_version: String,
    /// The token for the next page; empty on the last page.
    pub continue_token: String,
    /// The number of remaining objects, if known.
    pub remaining: Option<usize>,
    /// The items, ordered by namespace and name.
    pub items: Vec<Arc<Object>>,
}

impl List {
    /// Returns the approximate memory of the items, in bytes.
    pub fn weight(&self) -> usize {
        self.items.iter().map(|object| weight_of(object)).sum()
    }
}

/// The order for deleting an object and its dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Delete the object, then collect its dependents.
    #[default]
    Background,
    /// Delete the dependents that block it, then the object.
    Foreground,
    /// Delete the object, and remove it from its dependents' owners.
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The user who deletes, for admission policies.
    pub user: Arc<User>,
    /// The required uid of the object; empty for any.
    pub uid: String,
    /// The required version of the object; empty for any.
    pub resource_version: String,
    /// The order for deleting its dependents; `None` for the default.
    pub propagation: Option<Propagation>,
    /// If true, does everything except deleting the object.
    pub dry_run: bool,
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// The object is gone. Contains its last state.
    Gone(Arc<Object>),
    /// The object is terminating, and waits for its finalizers.
    Terminating(Arc<Object>),
}

impl Deleted {
    /// Returns the deleted or terminating object.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Gone(object) | Self::Terminating(object) => object,
        }
    }
}
