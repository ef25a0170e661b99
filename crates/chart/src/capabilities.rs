//! `.Capabilities`: the version of Kubernetes and the API versions that charts can query.

use crate::error::Error;
use crate::object::{Capabilities, KubeVersion};
use crate::semver::Version;

/// The version of Kubernetes that Helm v4.3.2 assumes without a cluster.
pub const KUBE_VERSION: &str = "1.37.0";

/// The API versions that Helm v4.3.2 assumes without a cluster, from client-go 0.37, without kinds.
const API_VERSIONS: [&str; 57] = [
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
    "apiextensions.k8s.io/v1beta1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1alpha1",
    "certificates.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "internal.apiserver.k8s.io/v1alpha1",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1alpha1",
    "rbac.authorization.k8s.io/v1beta1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1alpha3",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1beta2",
    "scheduling.k8s.io/v1",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storage.k8s.io/v1beta1",
    "storagemigration.k8s.io/v1",
    "storagemigration.k8s.io/v1beta1",
    "v1",
];

/// Returns the capabilities of a cluster of this version.
pub(crate) fn capabilities(kube_version: &str, more: &[String]) -> Result<Capabilities, Error> {
    let version = Version::parse(kube_version).map_err(|_| {
        Error::new(format!("invalid kube version '{kube_version}': invalid semantic version"))
            .hint("write it as 1.36.0")
    })?;
    let kube_version = KubeVersion {
        version: format!("v{version}"),
        major: version.major.to_string(),
        minor: version.minor.to_string(),
    };
    let api_versions = API_VERSIONS.iter().map(|version| (*version).to_owned()).chain(more.iter().cloned());
    Ok(Capabilities { kube_version, api_versions: api_versions.collect() })
}
