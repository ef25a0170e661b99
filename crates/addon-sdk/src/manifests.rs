//! Renders objects from YAML files, with the variables and additions of an AddOnTemplate.

use serde_json::{Map, Value};

use crate::addon::Installation;
use api::addon::v1alpha1::{
    AddOnTemplateSpec, CustomizedVariable, RegistrationConfig, RegistrationSpec, RegistrationType,
};
use api::names::{IMAGE_REGISTRIES_ANNOTATION, KUBE_CLIENT_SIGNER};
use api::work::v1::{ManifestWorkSpec, ManifestsTemplate};
use engine::addon::template;
use object::{Metadata as _, Object};

/// Renders YAML documents for one cluster, as the manifests of an AddOnTemplate are rendered.
///
/// `{{NAME}}` inside a string becomes the value of a variable: `CLUSTER_NAME`, `INSTALL_NAMESPACE`,
/// `HUB_KUBECONFIG`, or one of [`Installation::values`]. Deployments and DaemonSets get the environment,
/// credentials, node placement, mirrors, proxy and resources that the AddOnDeploymentConfig sets.
///
/// # Errors
/// Fails if a file is not valid YAML, an object is incomplete, or a variable cannot be replaced.
pub fn render(files: &[&str], installation: &Installation<'_>) -> Result<Vec<Object>, String> {
    let mut manifests = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let options = serde_saphyr::options! { strict_booleans: false };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(file, options)
            .map_err(|error| format!("file {index} of the add-on is not valid YAML: {error}"))?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let object = Object::from_value(document);
            manifests.push(object.map_err(|error| format!("file {index} of the add-on: {error}"))?.0);
        }
    }
    let mut config = installation.config.clone();
    if !config.customized_variables.iter().any(|variable| variable.name == "INSTALL_NAMESPACE") {
        let (name, value) = ("INSTALL_NAMESPACE".to_owned(), installation.namespace().to_owned());
        config.customized_variables.push(CustomizedVariable { name, value, ..CustomizedVariable::default() });
    }
    let registrations = installation.addon.status.iter().flat_map(|status| &status.registrations);
    let input = template::TemplateInput {
        addon: installation.addon.name(),
        cluster: installation.cluster_name(),
        template: &template(installation.addon.name(), manifests, registrations.map(registration)),
        config: Some(&config),
        registries: installation.cluster.annotation(IMAGE_REGISTRIES_ANNOTATION),
    };
    template::render(&input).map_err(|error| error.to_string())
}

/// Returns a template with these manifests.
pub(crate) fn template(
    addon: &str,
    manifests: Vec<Map<String, Value>>,
    registrations: impl Iterator<Item = RegistrationSpec>,
) -> AddOnTemplateSpec {
    let workload = ManifestsTemplate { manifests, ..ManifestsTemplate::default() };
    let registrations: Vec<_> = registrations.collect();
    AddOnTemplateSpec {
        addon_name: addon.to_owned(),
        agent_spec: ManifestWorkSpec { workload, ..ManifestWorkSpec::default() },
        registration: (!registrations.is_empty()).then_some(registrations),
        ..AddOnTemplateSpec::default()
    }
}

/// Returns the status form of a template's registration.
fn registration(registration: &RegistrationConfig) -> RegistrationSpec {
    let custom_signer = (registration.signer_name != KUBE_CLIENT_SIGNER).then(|| {
        api::addon::v1alpha1::CustomSignerRegistration {
            signer_name: registration.signer_name.clone(),
            subject: registration.subject.clone(),
            ..Default::default()
        }
    });
    let type_ = match &custom_signer {
        Some(_) => RegistrationType::CustomSigner,
        None => RegistrationType::KubeClient,
    };
    RegistrationSpec { r#type: type_, custom_signer, ..RegistrationSpec::default() }
}
