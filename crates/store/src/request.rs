//! The parts of a request: the object that it names, and its options.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
use serde_json::Value;

use object::{Key, Kind, Object};

use super::collection::weight_of;

/// The path of a request, which is kube-apiserver's `RequestInfo` without the verb:
/// `/apis/{group}/{version}/namespaces/{namespace}/{resource}/{name}/{subresource}`.
///
/// Parts that a request does not have are empty: the namespace of a cluster-scoped object or of a list over
/// all namespaces, the name of a list or a creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourcePath {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Resource in the plural, such as `deployments`.
    pub resource: String,
    /// Namespace.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// `status`, `approval`, `finalize`, `scale`, `token` or nothing.
    pub subresource: String,
}

impl ResourcePath {
    /// Returns all objects of a resource.
    pub fn resource(group: &str, version: &str, resource: &str) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into(), ..Self::default() }
    }

    /// Returns all objects of a typed kind.
    pub fn all<K: Kind>() -> Self {
        Self::resource(&K::group(&()), &K::version(&()), &K::plural(&()))
    }

    /// Returns one object of a typed kind.
    pub fn of<K: Kind>(key: &Key) -> Self {
        Self::all::<K>().at(key)
    }

    /// Returns the object at a key.
    #[must_use]
    pub fn at(mut self, key: &Key) -> Self {
        self.namespace.clone_from(&key.namespace);
        self.name.clone_from(&key.name);
        self
    }

    /// Returns the path within a namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Returns the object of that name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Returns a subresource of it.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "nobody subtracts from a path")]
    pub fn sub(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = subresource.into();
        self
    }

    /// Returns namespace and name.
    pub fn key(&self) -> Key {
        Key::namespaced(self.namespace.clone(), self.name.clone())
    }

    /// Returns `group/version`, or `version` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns `resource.group`, as messages name it.
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
    /// User name, such as `system:serviceaccount:default:robot`.
    pub name: String,
    /// Stable id of the user, if the authenticator knows one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
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

/// The treatment of fields that the schema does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped, and [`Written::warnings`] names them.
    #[default]
    Warn,
    /// They lead to a refusal.
    Strict,
}

/// Options of a write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The user who writes: role escalation is checked against it, and signing requests name it.
    pub user: Arc<User>,
    /// Owner of the written fields in `metadata.managedFields`. For a request without one, the server passes
    /// the first word of the user agent.
    pub manager: String,
    /// Do everything except storing.
    pub dry_run: bool,
    /// Take fields from other managers (server-side apply only).
    pub force: bool,
    /// The treatment of unknown fields.
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// Writes as the administrator on behalf of a field manager.
    pub fn manager(manager: impl Into<String>) -> Self {
        Self {
            user: Arc::new(User::admin()),
            manager: manager.into(),
            dry_run: false,
            force: false,
            field_validation: FieldValidation::default(),
        }
    }

    /// Returns the options of another user.
    #[must_use]
    pub fn by(mut self, user: Arc<User>) -> Self {
        self.user = user;
        self
    }

    /// Returns the options with `force`.
    #[must_use]
    pub fn forced(mut self) -> Self {
        self.force = true;
        self
    }

    /// Returns the options of a dry run.
    #[must_use]
    pub fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The object after the write, or after a dry run as it would be, in the requested version.
    pub object: Arc<Object>,
    /// Whether it was created (HTTP 201) rather than changed.
    pub created: bool,
    /// Sentences for `Warning:` headers.
    pub warnings: Vec<String>,
}

/// Body of a PATCH request.
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

/// Options of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Label selector as in a query string.
    pub labels: String,
    /// Field selector as in a query string.
    pub fields: String,
    /// Most items to return; 0 for all.
    pub limit: usize,
    /// The continue token of the list before.
    pub continue_token: String,
    /// Empty, `0`, or a version the list must not be older than (or exactly be).
    pub resource_version: String,
    /// `Exact` or `NotOlderThan`, empty for the default.
    pub resource_version_match: String,
}

/// Objects of one resource at one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// `apiVersion` of the list, that of its items.
    pub api_version: String,
    /// `kind` of the list, such as `ConfigMapList`.
    pub kind: String,
    /// The revision, from which a watch can continue.
    pub resource_version: String,
    /// Token for the next page; empty on the last.
    pub continue_token: String,
    /// The number of remaining objects, if it is known.
    pub remaining: Option<usize>,
    /// The items, ordered by namespace and name.
    pub items: Vec<Arc<Object>>,
}

impl List {
    /// Returns the approximate bytes of the items in memory.
    pub fn weight(&self) -> usize {
        self.items.iter().map(|object| weight_of(object)).sum()
    }
}

/// The order in which an object and its dependents are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The object; its dependents are collected after it.
    #[default]
    Background,
    /// The dependents that block it, then the object.
    Foreground,
    /// The object; its dependents stay, without their owner.
    Orphan,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The user who deletes, for admission policies.
    pub user: Arc<User>,
    /// The object must have this uid; empty for any.
    pub uid: String,
    /// The object must be at this version; empty for any.
    pub resource_version: String,
    /// The order of the deletion.
    pub propagation: Option<Propagation>,
    /// Do everything except deleting.
    pub dry_run: bool,
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Arc<Object>),
    /// The object is terminating and waits for its finalizers.
    Terminating(Arc<Object>),
}

impl Deleted {
    /// Returns the object, deleted or terminating.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Gone(object) | Self::Terminating(object) => object,
        }
    }
}
