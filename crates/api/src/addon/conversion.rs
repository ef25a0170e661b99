//! Converts between v1alpha1, which is stored, and v1beta1, which OCM's controllers read and write.
//!
//! Writing v1beta1 is a read-modify-write of the stored v1alpha1 object, so a field that a conversion drops is
//! lost. These conversions drop only what OCM's conversion drops too:
//!
//! | field of v1alpha1 | in v1beta1 |
//! |---|---|
//! | CMA `spec.addOnConfiguration`, MCA `status.addOnConfiguration` | dropped |
//! | MCA `status.configReferences[].{namespace,name}` | dropped; restored from `desiredConfig` |
//! | MCA `subject.organizationUnit` of a client of the API server | dropped |
//! | MCA `status.kubeClientDriver` without a client of the API server | dropped |
//!
//! Templates and deployment configurations are the same in both versions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::v1alpha1::{self, ConfigMeta, ConfigReferent, Subject};
use super::v1beta1::{
    self, CustomSignerConfig, CustomSignerSubject, DefaultConfig, KubeClientConfig, KubeClientSubject,
    RegistrationType,
};
use crate::{Manifest, Unknown, names};

/// The reason an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unconvertible {
    /// No conversion exists between the two versions.
    #[error("there is no conversion of {kind} from {from} to {to}")]
    NoConversion {
        /// Kind of the object.
        kind: String,
        /// Its API version.
        from: String,
        /// The requested API version.
        to: String,
    },
    /// The object does not match its kind.
    #[error("not a {kind}: {reason}")]
    Malformed {
        /// Kind of the object.
        kind: String,
        /// The message from serde.
        reason: String,
    },
}

/// Converts an object of the group to another API version.
///
/// # Errors
/// Fails if the object does not match its kind, or if the kind does not have this version.
pub fn convert(object: &Manifest, api_version: &str) -> Result<Manifest, Unconvertible> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, from) = (text("kind"), text("apiVersion"));
    let no_conversion =
        || Unconvertible::NoConversion { kind: kind.into(), from: from.into(), to: api_version.into() };
    let version = |api_version: &str| {
        api_version.strip_prefix(names::ADDON_GROUP).and_then(|v| v.strip_prefix('/')).map(str::to_owned)
    };
    let (old, new) =
        (version(from).ok_or_else(no_conversion)?, version(api_version).ok_or_else(no_conversion)?);
    match (kind, old.as_str(), new.as_str()) {
        (_, old, new) if old == new => Ok(object.clone()),
        ("ClusterManagementAddOn", "v1alpha1", "v1beta1") => {
            through::<v1alpha1::ClusterManagementAddOn, v1beta1::ClusterManagementAddOn>(object, kind)
        }
        ("ClusterManagementAddOn", "v1beta1", "v1alpha1") => {
            through::<v1beta1::ClusterManagementAddOn, v1alpha1::ClusterManagementAddOn>(object, kind)
        }
        ("ManagedClusterAddOn", "v1alpha1", "v1beta1") => {
            through::<v1alpha1::ManagedClusterAddOn, v1beta1::ManagedClusterAddOn>(object, kind)
        }
        ("ManagedClusterAddOn", "v1beta1", "v1alpha1") => {
            through::<v1beta1::ManagedClusterAddOn, v1alpha1::ManagedClusterAddOn>(object, kind)
        }
        ("AddOnTemplate" | "AddOnDeploymentConfig", "v1alpha1" | "v1beta1", "v1alpha1" | "v1beta1") => {
            let mut converted = object.clone();
            converted.insert("apiVersion".into(), api_version.into());
            Ok(converted)
        }
        _ => Err(no_conversion()),
    }
}

fn through<A: DeserializeOwned, B: From<A> + serde::Serialize>(
    object: &Manifest,
    kind: &str,
) -> Result<Manifest, Unconvertible> {
    let malformed =
        |error: serde_json::Error| Unconvertible::Malformed { kind: kind.into(), reason: error.to_string() };
    let typed: A = serde_json::from_value(Value::Object(object.clone())).map_err(malformed)?;
    serde_json::to_value(B::from(typed)).and_then(serde_json::from_value).map_err(malformed)
}

impl From<v1alpha1::ClusterManagementAddOn> for v1beta1::ClusterManagementAddOn {
    fn from(old: v1alpha1::ClusterManagementAddOn) -> Self {
        let spec = old.spec;
        Self {
            metadata: old.metadata,
            spec: v1beta1::ClusterManagementAddOnSpec {
                add_on_meta: spec.add_on_meta,
                default_configs: spec.supported_configs.into_iter().map(DefaultConfig::from).collect(),
                install_strategy: spec.install_strategy,
                unknown: spec.unknown,
            },
            status: old.status.map(|status| v1beta1::ClusterManagementAddOnStatus {
                default_config_references: status.default_config_references,
                install_progressions: status.install_progressions,
                unknown: status.unknown,
            }),
            root: old.root.cast(),
        }
    }
}

impl From<v1beta1::ClusterManagementAddOn> for v1alpha1::ClusterManagementAddOn {
    fn from(new: v1beta1::ClusterManagementAddOn) -> Self {
        let spec = new.spec;
        Self {
            metadata: new.metadata,
            spec: v1alpha1::ClusterManagementAddOnSpec {
                add_on_meta: spec.add_on_meta,
                add_on_configuration: None,
                supported_configs: spec.default_configs.into_iter().map(ConfigMeta::from).collect(),
                install_strategy: spec.install_strategy,
                unknown: spec.unknown,
            },
            status: new.status.map(|status| v1alpha1::ClusterManagementAddOnStatus {
                default_config_references: status.default_config_references,
                install_progressions: status.install_progressions,
                unknown: status.unknown,
            }),
            root: new.root.cast(),
        }
    }
}

/// In v1beta1, a kind without a default configuration has one with a reserved name.
impl From<ConfigMeta> for DefaultConfig {
    fn from(old: ConfigMeta) -> Self {
        let ConfigMeta { group, resource, default_config, unknown } = old;
        let (namespace, name) = match default_config {
            Some(ConfigReferent { namespace, name, unknown: _ }) => (namespace, name),
            None => (String::new(), names::NO_DEFAULT_CONFIG.into()),
        };
        Self { group, resource, namespace, name, unknown }
    }
}

impl From<DefaultConfig> for ConfigMeta {
    fn from(new: DefaultConfig) -> Self {
        let DefaultConfig { group, resource, namespace, name, unknown } = new;
        let named = !name.is_empty() && name != names::NO_DEFAULT_CONFIG;
        let default_config = named.then(|| ConfigReferent { namespace, name, unknown: Unknown::new() });
        Self { group, resource, default_config, unknown }
    }
}

impl From<v1alpha1::ManagedClusterAddOn> for v1beta1::ManagedClusterAddOn {
    fn from(old: v1alpha1::ManagedClusterAddOn) -> Self {
        let v1alpha1::ManagedClusterAddOnSpec { install_namespace, configs, unknown } = old.spec;
        let mut metadata = old.metadata;
        if !install_namespace.is_empty() {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(names::V1ALPHA1_INSTALL_NAMESPACE_ANNOTATION.into(), install_namespace);
        }
        Self {
            metadata,
            spec: v1beta1::ManagedClusterAddOnSpec { configs, unknown },
            status: old.status.map(v1beta1::ManagedClusterAddOnStatus::from),
            root: old.root.cast(),
        }
    }
}

impl From<v1beta1::ManagedClusterAddOn> for v1alpha1::ManagedClusterAddOn {
    fn from(new: v1beta1::ManagedClusterAddOn) -> Self {
        let v1beta1::ManagedClusterAddOnSpec { configs, unknown } = new.spec;
        let mut metadata = new.metadata;
        let install_namespace =
            take_annotation(&mut metadata, names::V1ALPHA1_INSTALL_NAMESPACE_ANNOTATION).unwrap_or_default();
        Self {
            metadata,
            spec: v1alpha1::ManagedClusterAddOnSpec { install_namespace, configs, unknown },
            status: new.status.map(v1alpha1::ManagedClusterAddOnStatus::from),
            root: new.root.cast(),
        }
    }
}

fn take_annotation(metadata: &mut ObjectMeta, key: &str) -> Option<String> {
    let annotations = metadata.annotations.as_mut()?;
    let value = annotations.remove(key);
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    value
}

/// Copies the driver to every registration with the API server.
impl From<v1alpha1::ManagedClusterAddOnStatus> for v1beta1::ManagedClusterAddOnStatus {
    fn from(old: v1alpha1::ManagedClusterAddOnStatus) -> Self {
        let driver = old.kube_client_driver;
        let registrations = old.registrations.into_iter().map(|registration| {
            let mut registration = v1beta1::RegistrationConfig::from(registration);
            if let Some(client) = &mut registration.kube_client {
                client.driver.clone_from(&driver);
            }
            registration
        });
        Self {
            conditions: old.conditions,
            related_objects: old.related_objects,
            add_on_meta: old.add_on_meta,
            supported_configs: old.supported_configs,
            config_references: old
                .config_references
                .into_iter()
                .map(v1beta1::ConfigReference::from)
                .collect(),
            namespace: old.namespace,
            registrations: registrations.collect(),
            health_check: old.health_check,
            unknown: old.unknown,
        }
    }
}

/// Takes the driver from the first registration with the API server.
impl From<v1beta1::ManagedClusterAddOnStatus> for v1alpha1::ManagedClusterAddOnStatus {
    fn from(new: v1beta1::ManagedClusterAddOnStatus) -> Self {
        let clients = new
            .registrations
            .iter()
            .filter(|registration| registration.r#type == RegistrationType::KubeClient);
        let kube_client_driver =
            clients.filter_map(|r| r.kube_client.as_ref()).next().and_then(|client| client.driver.clone());
        Self {
            conditions: new.conditions,
            related_objects: new.related_objects,
            add_on_meta: new.add_on_meta,
            add_on_configuration: None,
            supported_configs: new.supported_configs,
            config_references: new
                .config_references
                .into_iter()
                .map(v1alpha1::ConfigReference::from)
                .collect(),
            namespace: new.namespace,
            registrations: new.registrations.into_iter().filter_map(old_registration).collect(),
            health_check: new.health_check,
            kube_client_driver,
            unknown: new.unknown,
        }
    }
}

impl From<v1alpha1::ConfigReference> for v1beta1::ConfigReference {
    fn from(old: v1alpha1::ConfigReference) -> Self {
        Self {
            group: old.group,
            resource: old.resource,
            last_observed_generation: old.last_observed_generation,
            desired_config: old.desired_config,
            last_applied_config: old.last_applied_config,
            unknown: old.unknown,
        }
    }
}

impl From<v1beta1::ConfigReference> for v1alpha1::ConfigReference {
    fn from(new: v1beta1::ConfigReference) -> Self {
        let (namespace, name) =
            new.desired_config.as_ref().map(|c| (c.namespace.clone(), c.name.clone())).unwrap_or_default();
        Self {
            group: new.group,
            resource: new.resource,
            namespace,
            name,
            last_observed_generation: new.last_observed_generation,
            desired_config: new.desired_config,
            last_applied_config: new.last_applied_config,
            unknown: new.unknown,
        }
    }
}

impl From<v1alpha1::RegistrationConfig> for v1beta1::RegistrationConfig {
    fn from(old: v1alpha1::RegistrationConfig) -> Self {
        let v1alpha1::RegistrationConfig { signer_name, subject, unknown } = old;
        if signer_name == names::KUBE_CLIENT_SIGNER {
            let subject = subject.map(|Subject { user, groups, organization_units: _, unknown }| {
                KubeClientSubject { user, groups, unknown }
            });
            let kube_client = Some(KubeClientConfig { subject, driver: None, unknown: Unknown::new() });
            return Self { r#type: RegistrationType::KubeClient, kube_client, custom_signer: None, unknown };
        }
        let subject = subject.map(|s| CustomSignerSubject {
            user: s.user,
            groups: s.groups,
            organization_units: s.organization_units,
            unknown: s.unknown,
        });
        let custom_signer = Some(CustomSignerConfig { signer_name, subject, unknown: Unknown::new() });
        Self { r#type: RegistrationType::CustomSigner, kube_client: None, custom_signer, unknown }
    }
}

/// Converts a registration. Returns None if it names no signer, which v1alpha1 cannot express.
fn old_registration(new: v1beta1::RegistrationConfig) -> Option<v1alpha1::RegistrationConfig> {
    let v1beta1::RegistrationConfig { r#type, kube_client, custom_signer, unknown } = new;
    let (signer_name, subject) = if r#type == RegistrationType::KubeClient {
        let subject = kube_client.and_then(|client| client.subject);
        let subject = subject.map(|s| Subject {
            user: s.user,
            groups: s.groups,
            organization_units: Vec::new(),
            unknown: s.unknown,
        });
        (names::KUBE_CLIENT_SIGNER.to_owned(), subject)
    } else {
        let CustomSignerConfig { signer_name, subject, unknown: _ } = custom_signer?;
        let subject = subject.map(|s| Subject {
            user: s.user,
            groups: s.groups,
            organization_units: s.organization_units,
            unknown: s.unknown,
        });
        (signer_name, subject)
    };
    Some(v1alpha1::RegistrationConfig { signer_name, subject, unknown })
}

#[cfg(test)]
mod tests;
