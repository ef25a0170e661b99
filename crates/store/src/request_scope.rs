use std::sync::Arc;

use super::{ApiResource, Version};

/// The resource and version of a request (kube-apiserver's `RequestScope`).
#[derive(Clone, Debug)]
pub struct RequestScope {
    pub(super) resource: Arc<ApiResource>,
    pub(super) version: usize,
}

impl RequestScope {
    /// Returns the resource.
    pub fn resource(&self) -> &Arc<ApiResource> {
        &self.resource
    }

    /// Returns the version.
    pub fn version(&self) -> &Version {
        self.resource.versions.get(self.version).expect("a scope is made from the index of a version")
    }

    /// Returns the `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        self.resource.api_version(&self.version().name)
    }
}
