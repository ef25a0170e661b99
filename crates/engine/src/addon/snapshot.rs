//! Stores the contents of configurations by hash. A cluster therefore gets an edit of a configuration only when
//! the rollout assigns it, and a rollback can find the earlier content. See docs/hazards.md#edit-in-place and
//! docs/hazards.md#no-rollback.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Map, Value};

use super::config::Config;
use super::error::AddOnError;
use api::names::{ADDON_NAME_LABEL, SYSTEM_NAMESPACE};
use object::Key;

/// Returns the key of the snapshot of a configuration.
pub fn key(addon: &str, config: &Config) -> Key {
    Key::namespaced(SYSTEM_NAMESPACE, format!("{addon}.{}.{}", config.kind.resource, config.hash))
}

/// Returns the snapshot of a configuration's content.
pub fn snapshot(addon: &str, config: &Config, content: Map<String, Value>) -> ControllerRevision {
    let key = key(addon, config);
    let labels = BTreeMap::from([(ADDON_NAME_LABEL.to_owned(), addon.to_owned())]);
    let metadata = ObjectMeta {
        namespace: Some(key.namespace),
        name: Some(key.name),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    ControllerRevision { metadata, data: RawExtension(Value::Object(content)), revision: Some(1) }
}

/// Parses the `spec` in a snapshot.
///
/// # Errors
/// Fails if the content has the wrong type.
pub fn spec<T: serde::de::DeserializeOwned>(snapshot: &ControllerRevision) -> Result<T, AddOnError> {
    let name = snapshot.metadata.name.as_deref().unwrap_or_default();
    let spec = snapshot.data.0.get("spec").cloned().unwrap_or_default();
    serde_json::from_value(spec)
        .map_err(|error| AddOnError::Snapshot { name: name.to_owned(), reason: error.to_string() })
}
