//! Certificates of signers that the templates of add-ons name.
//!
//! The template says which agents may get one and which authority signs it. The status of the add-on does not
//! count, because the cluster writes it.
//! See docs/hazards.md#any-subject.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use api::addon::v1alpha1::{AddOnTemplateSpec, ManagedClusterAddOn, RegistrationType, SigningCa, Subject};
use engine::addon::{config_refs, registration, snapshot};
use engine::registration::csr::{self, Ask, ask};
use object::Key;
use reconcile::{Read, View};

/// The authority that signs a request, and the limits on the certificate beside its subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Signing {
    /// The secret with the certificate and the key of the authority; the namespace is empty for that of the
    /// operator.
    pub authority: SigningCa,
    /// The only name that the certificate may have.
    pub dns_name: String,
}

/// The signer of a request of an add-on's agent; `None` if the template of its add-on does not allow exactly
/// this request.
///
/// # Errors
/// The add-on or its template could not be read.
/// Where the add-on or its template could not be read.
pub fn signing(request: &CertificateSigningRequest, view: &impl View) -> Read<Option<Signing>> {
    match ask(request) {
        Some(Ask::Custom { cluster, addon, subject }) => {
            asked(&cluster, &addon, &subject, &request.spec.signer_name, view)
        }
        None | Some(Ask::Cluster { .. } | Ask::Addon { .. }) => Ok(None),
    }
}

/// The signer for `subject`, which the agent of an add-on on a cluster asks for.
pub(super) fn asked(
    cluster: &str,
    addon: &str,
    subject: &csr::Subject,
    signer: &str,
    view: &impl View,
) -> Read<Option<Signing>> {
    let Some(installed) = view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, addon))? else {
        return Ok(None);
    };
    let configs = config_refs::assigned(&installed).unwrap_or_default();
    let Some(template) = configs.iter().find(|config| config_refs::is_template(config)) else {
        return Ok(None);
    };
    let Some(template) = view.get::<ControllerRevision>(&snapshot::key(addon, template))? else {
        return Ok(None);
    };
    let Ok(template) = snapshot::spec::<AddOnTemplateSpec>(&template) else { return Ok(None) };
    let registrations = template.registration.iter();
    let mut custom = registrations
        .filter(|registration| registration.r#type == RegistrationType::CustomSigner)
        .filter_map(|registration| registration.custom_signer.as_ref());
    let Some(custom) = custom.find(|custom| custom.signer_name == signer) else { return Ok(None) };
    let registered = custom.subject.clone().unwrap_or_else(|| registration::default_subject(cluster, addon));
    let registered: Subject = registered.completed(cluster, addon);
    let dns_name = format!("{addon}.addon.open-cluster-management.io");
    Ok(subject.is(&registered).then(|| Signing { authority: custom.signing_ca.clone(), dns_name }))
}
