//! Requests that one client sends on behalf of others, as OCM's gRPC server does for agents.
//!
//! OCM trusts a service account by its name. Here a ClusterRoleBinding names the subjects that may request for
//! others, so by default nobody may. This works only for certificates of add-ons; a cluster's identity is always
//! for the requester itself. See docs/hazards.md#named-requester.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};

use api::names::{CSR_USER_ANNOTATION, CSR_USER_BINDING};
use engine::registration::csr::{self, RequestedCertificate};
use object::{Key, Metadata as _};
use reconcile::{Read, View};

/// Parses the requested certificate; returns `None` if the request does not match.
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

/// Returns true if a binding names the requester.
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
