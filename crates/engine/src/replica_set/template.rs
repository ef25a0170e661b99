//! The template of a set, and its snapshots by hash.
//!
//! A cluster keeps its template until the rollout assigns it another one, and a rollback returns to an older
//! one. So the templates that clusters run are kept beside the set. See docs/hazards.md#edit-in-place and
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

/// Returns the template without the `creationTimestamp: null` that Go writes, so that two templates of the
/// same meaning are equal, and without the rules for the health of its workloads that works get.
pub fn content(spec: &ManifestWorkSpec) -> ManifestWorkSpec {
    let mut spec = spec.clone();
    without_rules(&mut spec.manifest_configs);
    for manifest in &mut spec.workload.manifests {
        drop_null_times(manifest);
    }
    spec
}

/// Drops it from an object, its spec and its template. The dropped places decide the hash, so another place
/// cannot be added without a rollout of every set that has it.
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

/// Returns the address of a template's [`content`].
pub fn hash(content: &ManifestWorkSpec) -> Hash {
    let fields = serde_json::to_value(content).unwrap_or_default();
    Hash(content_hash(fields.as_object().unwrap_or(&Map::new())))
}

/// Returns the key of the snapshot of a template.
fn snapshot_key(set: &Key, hash: &Hash) -> Key {
    Key::namespaced(&set.namespace, format!("{}.{}", set.name, hash.0))
}

/// Returns the snapshot of a template; its owner is its set.
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

/// Returns the hash and the template of a snapshot of a set; `None` if the content does not match the name.
pub fn snapshot_spec(set: &Key, revision: &ControllerRevision) -> Option<(Hash, ManifestWorkSpec)> {
    let named = revision.name().strip_prefix(&set.name)?.strip_prefix('.')?;
    let spec: ManifestWorkSpec = snapshot::spec(revision).ok()?;
    let hash = hash(&spec);
    (hash.0 == named).then_some((hash, spec))
}
