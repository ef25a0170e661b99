//! Requests that one client sends for others, as OCM's gRPC server does for agents.
//!
//! OCM trusts a service account by its name. Here a ClusterRoleBinding names who may ask for others, so
//! nobody may until an administrator says so. Only the certificates of add-ons are given that way: an identity of a
//! cluster is for the one who asks. See docs/hazards.md#named-requester.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};

use api::names::{CSR_USER_ANNOTATION, CSR_USER_BINDING};
use engine::registration::csr::{self, RequestedCertificate};
use object::{Key, Metadata as _};
use reconcile::{Read, View};

/// Reads the certificate that a request asks for; returns `None` where the request does not fit.
pub(super) fn requested(
    request: &CertificateSigningRequest,
    view: &impl View,
) -> Read<Option<RequestedCertificate>> {
    let Some(user) = request.annotation(CSR_USER_ANNOTATION) else { return Ok(csr::requested(request)) };
    let binding = view.get::<ClusterRoleBinding>(&Key::cluster(CSR_USER_BINDING))?;
    if !names(binding.as_deref(), request) {
        return Ok(csr::requested(request));
    }
    let mut asked = request.clone();
    asked.spec.username = Some(user.to_owned());
    let of_addon = |certificate: &RequestedCertificate| match certificate {
        RequestedCertificate::AddOn { .. } | RequestedCertificate::Custom { .. } => true,
        RequestedCertificate::Cluster { .. } => false,
    };
    Ok(csr::requested(&asked).filter(of_addon))
}

/// Returns whether a binding names the requester.
pub(super) fn names(binding: Option<&ClusterRoleBinding>, request: &CertificateSigningRequest) -> bool {
    let mut subjects = binding.into_iter().flat_map(|binding| binding.subjects.iter().flatten());
    subjects.any(|subject| is_requester(request, subject))
}

fn is_requester(request: &CertificateSigningRequest, subject: &Subject) -> bool {
    let user = request.spec.username.as_deref().unwrap_or_default();
    match subject.kind.as_str() {
        "User" => subject.name == user,
        "Group" => request.spec.groups.iter().flatten().any(|group| *group == subject.name),
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref().unwrap_or_default();
            user == format!("system:serviceaccount:{namespace}:{}", subject.name)
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "../tests/csr_user.rs"]
mod tests;
