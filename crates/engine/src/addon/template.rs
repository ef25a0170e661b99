//! Renders the manifests of an add-on for one cluster from an AddOnTemplate and an AddOnDeploymentConfig.

mod decorate;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use api::addon::v1alpha1::{
    AddOnDeploymentConfigSpec, AddOnTemplateSpec, ContainerResourceRequirements, CustomizedVariable,
    ImageMirror, NodePlacement, RegistrationSpec, RegistrationType,
};
use api::names::DEFAULT_ADDON_NAMESPACE;
use decorate::Decoration;
use object::Object;
use object::text::clip;

/// The maximum total size of the values that a template and its configuration insert into the manifests of one
/// cluster: twice the size of the largest template that etcd stores. A value counts at each place where it is
/// inserted.
const VALUE_BYTES: usize = 3 << 20;

/// The maximum number of comparisons of containers with mirrors and patterns for one cluster. This is enough for
/// 100 containers with 1,600 mirrors or a few hundred short patterns. A comparison matches one byte against a
/// mirror or against 512 bytes of a compiled pattern.
const COMPARISONS: usize = 10_000_000;

/// The maximum number of characters of a text in an error.
const SHOWN: usize = 200;

/// The input for rendering the manifests of one cluster.
#[derive(Clone, Copy, Debug)]
pub struct TemplateInput<'a> {
    /// The name of the add-on.
    pub addon: &'a str,
    /// The name of the cluster.
    pub cluster: &'a str,
    /// The template that the rollout assigned.
    pub template: &'a AddOnTemplateSpec,
    /// The deployment configuration that the rollout assigned.
    pub config: Option<&'a AddOnDeploymentConfigSpec>,
    /// The registries annotation of the cluster. Registries in the configuration take precedence.
    pub registries: Option<&'a str>,
}

/// The reason that a template cannot be rendered. The user has to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A variable is opened but not closed.
    #[error("manifest {index} of the template: unclosed variable in \"{text}\": add }}}}")]
    Unclosed {
        /// The index of the manifest in the template.
        index: usize,
        /// The beginning of the string.
        text: String,
    },
    /// The registries annotation of the cluster is not JSON.
    #[error("the annotation open-cluster-management.io/image-registries of the cluster is invalid: {0}")]
    Registries(String),
    /// A container identifier in the resource requirements is invalid.
    #[error("invalid ContainerID: {0}")]
    ContainerId(String),
    /// The proxy certificates are not base64.
    #[error("proxyConfig.caBundle of the configuration is not base64: {0}")]
    CaBundle(String),
    /// The template and configuration expand to too many bytes of values.
    #[error("the values in the cluster's manifests exceed {VALUE_BYTES} bytes")]
    TooLarge,
    /// There are too many containers for the number of mirrors and patterns.
    #[error(
        "matching the registries and resource requirements of the configuration with the containers of the template takes more than {COMPARISONS} comparisons"
    )]
    TooMuchWork,
    /// A workload does not have the schema of Kubernetes, so that additions would overwrite its content.
    #[error("{field} of {workload} in the template is not {wanted}; write it as Kubernetes defines it")]
    Shape {
        /// The resource and name of the workload, and the container if it is a container field.
        workload: String,
        field: &'static str,
        /// The expected value.
        wanted: &'static str,
    },
    /// A registration of type CustomSigner has no signer.
    #[error("custom signer is nil")]
    NoSigner,
}

/// The remaining bytes and comparisons for the manifests of a cluster.
struct Room {
    bytes: usize,
    comparisons: usize,
}

impl Room {
    /// Deducts the size of a value before it is written.
    ///
    /// # Errors
    /// Fails if no bytes are left.
    fn take(&mut self, bytes: usize) -> Result<(), TemplateError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(TemplateError::TooLarge)?;
        Ok(())
    }

    /// Deducts the comparisons of a text with mirrors or patterns before they are made.
    ///
    /// # Errors
    /// Fails if not enough comparisons are left.
    fn compare(&mut self, text: &str, with: usize) -> Result<(), TemplateError> {
        let comparisons = with.saturating_mul(text.len() + 1);
        self.comparisons = self.comparisons.checked_sub(comparisons).ok_or(TemplateError::TooMuchWork)?;
        Ok(())
    }
}

/// A mirror of images.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Registry {
    /// The prefix of the mirrored images; empty for all images.
    #[serde(default)]
    pub source: String,
    /// The text that replaces the prefix.
    #[serde(default)]
    pub mirror: String,
}

#[derive(serde::Deserialize)]
struct RegistriesAnnotation {
    #[serde(default)]
    registries: Vec<Registry>,
}

/// Renders the manifests of one cluster in template order. Added objects come last.
///
/// # Errors
/// Fails if the template or configuration is invalid, or if its values expand too much. In that case nothing is
/// rendered.
pub fn render(input: &TemplateInput<'_>) -> Result<Vec<Object>, TemplateError> {
    let namespace = install_namespace(input.config);
    let variables = variables(input, namespace);
    let decoration = decoration(input, namespace, &variables)?;
    let mut room = Room { bytes: VALUE_BYTES, comparisons: COMPARISONS };
    let mut objects = Vec::new();
    // The module `registration` handles the rest.
    let AddOnTemplateSpec { addon_name: _, agent_spec, registration: _, unknown: _ } = input.template;
    for (index, manifest) in agent_spec.workload.manifests.iter().enumerate() {
        let mut substitution = Substitution { variables: &variables, index, room: &mut room };
        let mut object = Object(substitution.map(manifest)?);
        decorate::workload(&mut object, &decoration, &mut room)?;
        objects.push(object);
    }
    decorate::place(&mut objects, namespace);
    if let Some(mut bundle) = decorate::ca_bundle(input.addon, &decoration, &objects) {
        decorate::place(std::slice::from_mut(&mut bundle), namespace);
        objects.push(bundle);
    }
    Ok(objects)
}

/// Returns the namespace of the add-on's agents and their credentials.
///
/// The configuration may name it. Otherwise it is the namespace of the first Deployment in the template, or of
/// the first DaemonSet.
pub(crate) fn agent_namespace<'a>(
    template: &'a AddOnTemplateSpec,
    config: Option<&'a AddOnDeploymentConfigSpec>,
) -> &'a str {
    let configured = install_namespace(config);
    if !configured.is_empty() {
        return configured;
    }
    let of_kind = |kind: &str| {
        let workload = template.agent_spec.workload.manifests.iter().find(|m| is_apps(m, kind))?;
        workload.get("metadata")?.get("namespace")?.as_str().filter(|namespace| !namespace.is_empty())
    };
    of_kind("Deployment").or_else(|| of_kind("DaemonSet")).unwrap_or(DEFAULT_ADDON_NAMESPACE)
}

fn is_apps(manifest: &Map<String, Value>, kind: &str) -> bool {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
    text("kind") == kind && text("apiVersion").starts_with("apps/")
}

pub(super) fn install_namespace(config: Option<&AddOnDeploymentConfigSpec>) -> &str {
    config.map(|config| config.agent_install_namespace.as_str()).unwrap_or_default()
}

/// Returns the variables by name. As in OCM, user variables replace defaults, and cluster variables replace
/// both.
pub(super) fn variables(input: &TemplateInput<'_>, namespace: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    if input.template.registration.is_some() {
        variables
            .insert("HUB_KUBECONFIG".to_owned(), format!("{}/kubeconfig", decorate::HUB_KUBECONFIG_PATH));
    }
    let user = input.config.into_iter().flat_map(|config| &config.customized_variables);
    variables
        .extend(user.map(|CustomizedVariable { name, value, unknown: _ }| (name.clone(), value.clone())));
    variables.insert("CLUSTER_NAME".to_owned(), input.cluster.to_owned());
    if !namespace.is_empty() {
        variables.insert("INSTALL_NAMESPACE".to_owned(), namespace.to_owned());
    }
    variables
}

fn decoration(
    input: &TemplateInput<'_>,
    namespace: &str,
    variables: &BTreeMap<String, String>,
) -> Result<Decoration, TemplateError> {
    let preset = ["HUB_KUBECONFIG", "CLUSTER_NAME", "INSTALL_NAMESPACE"];
    let known = |name: &&str| match *name {
        "HUB_KUBECONFIG" => input.template.registration.is_some(),
        "INSTALL_NAMESPACE" => !namespace.is_empty(),
        _ => true,
    };
    let env = preset
        .into_iter()
        .filter(known)
        .filter_map(|name| Some((name.to_owned(), variables.get(name)?.clone())));
    let volumes = credentials(input.addon, input.template.registration.as_deref().unwrap_or_default())?;
    let mut decoration =
        Decoration { addon: input.addon.to_owned(), env: env.collect(), volumes, ..Decoration::default() };
    if let Some(annotation) = input.registries {
        let parsed: RegistriesAnnotation =
            serde_json::from_str(annotation).map_err(|e| TemplateError::Registries(e.to_string()))?;
        decoration.registries = parsed.registries;
    }
    let Some(config) = input.config else { return Ok(decoration) };
    let AddOnDeploymentConfigSpec {
        registries,
        node_placement,
        proxy_config,
        resource_requirements,
        // Other functions read these: `variables` and `install_namespace`.
        customized_variables: _,
        agent_install_namespace: _,
        unknown: _,
    } = config;
    if !registries.is_empty() {
        let registry = |ImageMirror { mirror, source, unknown: _ }: &ImageMirror| Registry {
            source: source.clone(),
            mirror: mirror.clone(),
        };
        decoration.registries = registries.iter().map(registry).collect();
    }
    if let Some(NodePlacement { node_selector, tolerations, unknown: _ }) = node_placement {
        decoration.node_selector = (!node_selector.is_empty()).then(|| decorate::json(node_selector));
        decoration.tolerations = (!tolerations.is_empty()).then(|| decorate::json(tolerations));
    }
    decoration.set_proxy(proxy_config)?;
    let mut bytes = decorate::MAX_PATTERNS;
    for ContainerResourceRequirements { container_id, resources, unknown: _ } in resource_requirements {
        let resources = decorate::json(resources);
        decoration.resources.push(decorate::ResourceRule::parse(container_id, resources, &mut bytes)?);
    }
    Ok(decoration)
}

/// Returns the volumes for the secrets that registrations create on the cluster.
fn credentials(
    addon: &str,
    registrations: &[RegistrationSpec],
) -> Result<Vec<decorate::SecretVolume>, TemplateError> {
    let mut volumes: Vec<decorate::SecretVolume> = Vec::new();
    for registration in registrations {
        let volume = if registration.r#type == RegistrationType::CustomSigner {
            let signer = &registration.custom_signer.as_ref().ok_or(TemplateError::NoSigner)?.signer_name;
            let path = signer.replace('/', "-");
            decorate::SecretVolume {
                name: format!("cert-{}", path.replace('.', "-")),
                secret: format!("{addon}-{path}-client-cert"),
                path: format!("/managed/{path}"),
            }
        } else {
            decorate::SecretVolume {
                name: "hub-kubeconfig".into(),
                secret: format!("{addon}-hub-kubeconfig"),
                path: decorate::HUB_KUBECONFIG_PATH.into(),
            }
        };
        if !volumes.contains(&volume) {
            volumes.push(volume);
        }
    }
    Ok(volumes)
}

/// Replaces `{{NAME}}` in every string of a manifest, including keys. As in OCM, an unknown name is replaced by
/// the empty string.
///
/// OCM replaces variables in the JSON text, so a value with a quotation mark breaks the manifest or adds fields
/// to it. Replacing inside the strings gives the same result for every other value. See
/// docs/hazards.md#template-injection.
struct Substitution<'a> {
    variables: &'a BTreeMap<String, String>,
    /// The index of the manifest in the template.
    index: usize,
    room: &'a mut Room,
}

impl Substitution<'_> {
    fn value(&mut self, value: &Value) -> Result<Value, TemplateError> {
        Ok(match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.text(text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => Value::Object(self.map(fields)?),
        })
    }

    fn map(&mut self, fields: &Map<String, Value>) -> Result<Map<String, Value>, TemplateError> {
        fields.iter().map(|(field, value)| Ok((self.text(field)?, self.value(value)?))).collect()
    }

    fn text(&mut self, text: &str) -> Result<String, TemplateError> {
        self.room.take(text.len())?;
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, tagged)) = rest.split_once("{{") {
            let unclosed = || TemplateError::Unclosed { index: self.index, text: clip(text, SHOWN) };
            let (name, after) = tagged.split_once("}}").ok_or_else(unclosed)?;
            let value = self.variables.get(name).map(String::as_str).unwrap_or_default();
            self.room.take(value.len())?;
            result.push_str(before);
            result.push_str(value);
            rest = after;
        }
        result.push_str(rest);
        Ok(result)
    }
}

#[cfg(test)]
#[path = "template/tests.rs"]
mod tests;
