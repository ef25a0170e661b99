//! Certificates of signers that the templates of add-ons name.
//!
//! The template says which agents may get one and which authority signs it. The hub decides which templates
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

/// The authority that signs a request, and the limits on the certificate beside its subject.
#[derive(Clone, Debug)]
pub struct Signing {
    /// The add-on on the cluster.
    pub addon: Arc<ManagedClusterAddOn>,
    /// The secret with the certificate and the key of the authority; the namespace is empty for that of the
    /// operator.
    pub authority: SigningCa,
    /// The only name that the certificate may have.
    pub dns_name: String,
}

/// Returns the signer of a request of an add-on's agent; `None` if no template of its cluster allows exactly
/// this request.
///
/// # Errors
/// The add-on, its templates or its placements could not be read.
pub fn signing(request: &CertificateSigningRequest, view: &impl View) -> Read<Option<Signing>> {
    match user::requested(request, view)? {
        Some(RequestedCertificate::Custom { cluster, addon, subject }) => {
            let registration = Registration::read(&cluster, &addon, view)?;
            Ok(registration.and_then(|of| signer_for(&of, &subject, &request.spec.signer_name)))
        }
        None | Some(RequestedCertificate::Cluster { .. } | RequestedCertificate::AddOn { .. }) => Ok(None),
    }
}

/// Returns the signer for `subject`, which the agent of an add-on on a cluster asks for.
pub(super) fn signer_for(
    Registration { addon, templates }: &Registration,
    subject: &csr::RequestedSubject,
    signer: &str,
) -> Option<Signing> {
    let (cluster, name) = (addon.namespace(), addon.name());
    // Several may allow the subject. Then the authority is that of the template that the cluster runs.
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
