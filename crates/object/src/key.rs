//! The names of objects: group, version, kind, namespace, name.

use std::fmt::{Debug, Display, Formatter};

use kube_core::Resource;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A type that an API server stores: ours, OCM's or Kubernetes' own.
pub trait Kind:
    Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}

/// A namespace and name, which identify an object of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Key {
    /// Returns the key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: String::new(), name: name.into() }
    }

    /// Returns the key of a namespaced object.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of a typed object.
    pub fn of<K: Kind>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

/// Formats the key as `namespace/name`, or `name` if it is cluster-scoped.
impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}", self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// A group, version and kind. The core group is the empty string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gvk {
    /// The API group.
    pub group: String,
    /// The API version within the group.
    pub version: String,
    /// The kind, in the singular.
    pub kind: String,
}

impl Gvk {
    /// Parses `apiVersion` (`group/version`, or `version` in the core group).
    pub fn parse(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns the group, version and kind of a type.
    pub fn of<K: Kind>() -> Self {
        Self { group: K::group(&()).into(), version: K::version(&()).into(), kind: K::kind(&()).into() }
    }

    /// Returns `group/version`, or `version` in the core group.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// Formats the kind as `Kind.group`, like kubectl; `?` if the kind is unknown.
impl Display for Gvk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let kind = if self.kind.is_empty() { "?" } else { &self.kind };
        match self.group.as_str() {
            "" => write!(f, "{kind}"),
            group => write!(f, "{kind}.{group}"),
        }
    }
}

/// A reference to an object: its kind and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The group, version and kind.
    pub gvk: Gvk,
    /// The namespace and name.
    pub key: Key,
}

impl ObjectRef {
    /// Returns a reference to an object of a typed kind.
    pub fn of<K: Kind>(key: Key) -> Self {
        Self { gvk: Gvk::of::<K>(), key }
    }
}

/// Formats the reference as `Kind.group namespace/name`.
impl Display for ObjectRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let key = &self.key;
        write!(f, "{} {}", self.gvk, if key == &Key::default() { "/".into() } else { key.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_group_is_empty() {
        let gvk = Gvk::parse("v1", "Secret");
        assert_eq!((gvk.group.as_str(), gvk.version.as_str(), gvk.api_version().as_str()), ("", "v1", "v1"));
        assert_eq!(Gvk::parse("apps/v1", "Deployment").api_version(), "apps/v1");
    }

    #[test]
    fn references_print_as_kubectl_does() {
        let deployment =
            ObjectRef { gvk: Gvk::parse("apps/v1", "Deployment"), key: Key::namespaced("web", "front") };
        assert_eq!(deployment.to_string(), "Deployment.apps web/front");
        let namespace = ObjectRef { gvk: Gvk::parse("v1", "Namespace"), key: Key::cluster("web") };
        assert_eq!(namespace.to_string(), "Namespace web");
    }
}
