//! The template of a set, and its snapshots by hash.
//!
//! A cluster keeps its template until the rollout assigns another one, and a rollback returns to an older one.
//! The templates that clusters run are therefore stored alongside the set. See docs/hazards.md#edit-in-place and
//! docs/hazards.md#no-rollback.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Map, Value, json};

use crate::addon::snapshot;
use crate::addon::spec_hash::content_hash;
use crate::rollout::cluster::Hash;
use crate::work::health::without_rules;
use api::names::WORK_REPLICA_SET_LABEL;
use api::work::v1::ManifestWorkSpec;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Key, Metadata as _};

/// Returns the template without the `creationTimestamp: null` that Go writes, so that equivalent templates are
/// equal, and without the health rules that are added to works.
pub fn content(spec: &ManifestWorkSpec) -> ManifestWorkSpec {
    let mut spec = spec.clone();
    without_rules(&mut spec.manifest_configs);
    for manifest in &mut spec.workload.manifests {
        drop_null_times(manifest);
    }
    spec
}

/// Drops the null time from an object, its spec and its template. These places affect the hash, so adding
/// another one would cause a rollout of every set that uses it.
fn drop_null_times(fields: &mut Map<String, Value>) {
    if fields.get("creationTimestamp").is_some_and(Value::is_null) {
        fields.remove("creationTimestamp");
    }
    for name in ["metadata", "spec", "template"] {
        if let Some(Value::Object(fields)) = fields.get_mut(name) {
            drop_null_times(fields);
        }
    }
}

/// Returns the hash of a template's [`content`].
pub fn hash(content: &ManifestWorkSpec) -> Hash {
    let fields = serde_json::to_value(content).unwrap_or_default();
    Hash(content_hash(fields.as_object().unwrap_or(&Map::new())))
}

/// Returns the key of the snapshot of a template.
fn snapshot_key(set: &Key, hash: &Hash) -> Key {
    Key::namespaced(&set.namespace, format!("{}.{}", set.name, hash.0))
}

/// Returns the snapshot of a template, which its set owns.
pub fn snapshot(
    set: &ManifestWorkReplicaSet,
    hash: &Hash,
    spec: &ManifestWorkSpec,
    label: &str,
) -> ControllerRevision {
    let key = snapshot_key(&Key::of(set), hash);
    let metadata = ObjectMeta {
        namespace: Some(key.namespace),
        name: Some(key.name),
        labels: Some([(WORK_REPLICA_SET_LABEL.to_owned(), label.to_owned())].into()),
        owner_references: Some(vec![set.controller_reference()]),
        ..ObjectMeta::default()
    };
    ControllerRevision { metadata, data: RawExtension(json!({ "spec": spec })), revision: Some(1) }
}

/// Parses a snapshot of a set. Returns the hash and template; `None` if the content does not match the name.
pub fn snapshot_spec(set: &Key, revision: &ControllerRevision) -> Option<(Hash, ManifestWorkSpec)> {
    let named = revision.name().strip_prefix(&set.name)?.strip_prefix('.')?;
    let spec: ManifestWorkSpec = snapshot::spec(revision).ok()?;
    let hash = hash(&spec);
    (hash.0 == named).then_some((hash, spec))
}
