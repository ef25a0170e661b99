//! Tests of works, from manifests and live objects to writes and status.

mod decide;
mod executor;
mod inventory;
mod manifest;
mod merge;
mod rules;
mod status;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::Served;
use api::work::v1::ManifestWork;
use object::Object;

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

/// Returns the owner reference of a work.
fn owner() -> OwnerReference {
    OwnerReference {
        api_version: "work.open-cluster-management.io/v1".into(),
        kind: "AppliedManifestWork".into(),
        name: "hub-w".into(),
        uid: "u".into(),
        ..OwnerReference::default()
    }
}

fn work(spec: Value) -> ManifestWork {
    let metadata = json!({"name": "w", "namespace": "c", "generation": 2});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Returns a kind that is served as a namespaced resource.
fn served(resource: &str) -> Served {
    Served::As { resource: resource.into(), namespaced: true }
}
