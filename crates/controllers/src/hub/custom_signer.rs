//! Certificates of signers that the templates of add-ons name.
//!
//! The template says which agents may get one and which authority signs it. The hub decides which templates
//! count for a cluster: the status of the ClusterManagementAddOn and the spec of the ManagedClusterAddOn name
//! them. The status of the ManagedClusterAddOn allows nothing, because the agent may write it.
//! See docs/hazards.md#any-subject.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use super::csr_user;
use crate::placement_reads::selection;
use api::addon::v1alpha1::{
    AddOnTemplateSpec, ClusterManagementAddOn, DefaultConfigReference, ManagedClusterAddOn, RegistrationType,
    SigningCa, Subject,
};
use engine::addon::config::Config;
use engine::addon::{config_refs, registration, snapshot, spec_hash};
use engine::registration::csr::{self, Certificate};
use object::{Key, Metadata as _};
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

/// Returns the signer of a request of an add-on's agent; `None` if no template of its cluster allows exactly
/// this request.
///
/// # Errors
/// The add-on, its templates or its placements could not be read.
pub fn signing(request: &CertificateSigningRequest, view: &impl View) -> Read<Option<Signing>> {
    match csr_user::requested(request, view)? {
        Some(Certificate::Custom { cluster, addon, subject }) => {
            signer_for(&cluster, &addon, &subject, &request.spec.signer_name, view)
        }
        None | Some(Certificate::Cluster { .. } | Certificate::AddOn { .. }) => Ok(None),
    }
}

/// Returns the signer for `subject`, which the agent of an add-on on a cluster asks for.
pub(super) fn signer_for(
    cluster: &str,
    addon: &str,
    subject: &csr::RequestedSubject,
    signer: &str,
    view: &impl View,
) -> Read<Option<Signing>> {
    let Some(installed) = view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, addon))? else {
        return Ok(None);
    };
    let mut templates = templates(&installed, view)?;
    // Several may allow the subject. Then the authority is that of the template that the cluster runs.
    let assigned = config_refs::assigned(&installed).unwrap_or_default();
    templates.sort_by_key(|template| !assigned.contains(template));
    for template in &templates {
        let Some(snapshot) = view.get::<ControllerRevision>(&snapshot::key(addon, template))? else {
            continue;
        };
        let Ok(spec) = snapshot::spec::<AddOnTemplateSpec>(&snapshot) else { continue };
        let registrations = spec.registration.iter();
        let mut custom = registrations
            .filter(|registration| registration.r#type == RegistrationType::CustomSigner)
            .filter_map(|registration| registration.custom_signer.as_ref());
        let Some(custom) = custom.find(|custom| custom.signer_name == signer) else { continue };
        let registered =
            custom.subject.clone().unwrap_or_else(|| registration::default_subject(cluster, addon));
        let registered: Subject = registered.completed(cluster, addon);
        if subject.is(&registered) {
            let dns_name = format!("{addon}.addon.open-cluster-management.io");
            return Ok(Some(Signing { authority: custom.signing_ca.clone(), dns_name }));
        }
    }
    Ok(None)
}

/// Returns the templates that the hub gives an add-on on a cluster: the cluster's own or, without one, those
/// of the last placement that selects the cluster, wanted and last known as good, or else the default.
///
/// A placement that is not settled may select the cluster, so its templates count too.
fn templates(installed: &ManagedClusterAddOn, view: &impl View) -> Read<Vec<Config>> {
    let own = config_refs::named(&installed.spec.configs, &[]).into_iter().find(config_refs::is_template);
    if let Some(mut own) = own {
        let object = config_refs::config_object(&own).map(|object| view.observed(&object)).transpose()?;
        own.hash = object.flatten().map(|object| spec_hash::spec_hash(&object)).unwrap_or_default();
        return Ok(vec![own]);
    }
    let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(installed.name()))?;
    let Some(status) = cma.as_ref().and_then(|cma| cma.status.as_ref()) else { return Ok(Vec::new()) };
    let mut references = Vec::new();
    let mut is_selected = false;
    for progression in status.install_progressions.iter().rev() {
        let placement = Key::namespaced(&progression.namespace, &progression.name);
        let selection = selection(&placement, view)?;
        is_selected = selection.clusters().any(|cluster| cluster == installed.namespace());
        if is_selected || !selection.settled {
            references.extend(progression.config_references.iter().flat_map(|r| {
                let hashes = [&r.desired_config, &r.last_known_good_config].into_iter().flatten();
                hashes.map(|hash| config_refs::hashed(&r.group, &r.resource, hash))
            }));
        }
        if is_selected {
            break;
        }
    }
    if !is_selected {
        let defaults = status.default_config_references.iter();
        let hashed = |r: &DefaultConfigReference| {
            Some(config_refs::hashed(&r.group, &r.resource, r.desired_config.as_ref()?))
        };
        references.extend(defaults.filter_map(hashed));
    }
    references.retain(config_refs::is_template);
    Ok(references)
}
