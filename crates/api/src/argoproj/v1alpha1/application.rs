//! Application: what Argo CD deploys, and to which cluster.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Root, names};

/// An Argo CD application. All fields except the metadata are kept unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// `apiVersion`, `kind`, and the fields `spec`, `operation` and `status`.
    #[serde(flatten)]
    pub root: Root<Self>,
}

impl Application {
    /// Returns a field at the root, such as `spec`.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.root.unknown.get(name)
    }
}

impl Resource for Application {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Application".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        names::argo::ARGO_GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "applications".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
