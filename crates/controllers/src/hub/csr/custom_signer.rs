//! Certificates from the signers in add-on templates.
//!
//! The template defines which agents may get a certificate and which CA signs it. The hub decides which templates
//! count for a cluster. See docs/hazards.md#any-subject.

use std::sync::Arc;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use super::addon_registration::Registration;
use super::user;
use api::addon::v1alpha1::{ManagedClusterAddOn, RegistrationType, SigningCa};
use engine::addon::registration::default_subject;
use engine::registration::csr::{self, RequestedCertificate};
use object::Metadata as _;
use reconcile::{Read, View};

/// The CA that signs a request, and the limits on the certificate in addition to its subject.
#[derive(Clone, Debug)]
pub struct Signing {
    /// The add-on on the cluster.
    pub addon: Arc<ManagedClusterAddOn>,
    /// The secret with the certificate and the key of the CA. An empty namespace means the operator's.
    pub authority: SigningCa,
    /// The only DNS name that the certificate may have.
    pub dns_name: String,
}

/// Returns the signer for a request of an add-on's agent; `None` if no template of its cluster allows exactly this
/// request.
///
/// # Errors
/// Fails if the add-on, its templates or its placements could not be read.
pub fn signing(request: &CertificateSigningRequest, view: &impl View) -> Read<Option<Signing>> {
    match user::requested(request, view)? {
        Some(RequestedCertificate::Custom { cluster, addon, subject }) => {
            let registration = Registration::read(&cluster, &addon, view)?;
            Ok(registration.and_then(|of| signer_for(&of, &subject, &request.spec.signer_name)))
        }
        None | Some(RequestedCertificate::Cluster { .. } | RequestedCertificate::AddOn { .. }) => Ok(None),
    }
}

/// Returns the signer for the `subject` that the agent of an add-on on a cluster requests.
pub(super) fn signer_for(
    Registration { addon, templates }: &Registration,
    subject: &csr::RequestedSubject,
    signer: &str,
) -> Option<Signing> {
    let (cluster, name) = (addon.namespace(), addon.name());
    // If several templates allow the subject, use the CA of the template that the cluster runs.
    templates.iter().find_map(|template| {
        let registrations = template.registration.iter().flatten();
        let mut custom = registrations
            .filter(|registration| registration.r#type == RegistrationType::CustomSigner)
            .filter_map(|registration| registration.custom_signer.as_ref());
        let custom = custom.find(|custom| custom.signer_name == signer)?;
        let registered = custom.subject.clone().unwrap_or_else(|| default_subject(cluster, name));
        subject.is(&registered.completed(cluster, name)).then(|| Signing {
            addon: Arc::clone(addon),
            authority: custom.signing_ca.clone(),
            dns_name: format!("{name}.addon.open-cluster-management.io"),
        })
    })
}
