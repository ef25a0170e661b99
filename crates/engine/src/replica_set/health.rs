//! The health of the objects of a set, by condition rules that their agents evaluate.
//!
//! That an object exists says nothing about its pods. So the works of a set get rules for each object that its
//! author does not judge, which OCM's agents know too. They are no part of the template: its hash, its
//! snapshots and the comparison with live works leave them out. See
//! docs/design/rollout-health.md.

use crate::work::health::add_rules;
use api::names::WORKLOAD_HEALTH_ANNOTATION;
use api::work::v1::ManifestWorkSpec;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Metadata as _, Object};

/// What a success of a work needs, where its author has no rules for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessNeeds {
    /// The objects are applied.
    Applied,
    /// The objects exist.
    Available,
    /// They are healthy.
    Healthy,
}

impl SuccessNeeds {
    /// Returns what the works of a set need, where a policy lets applied objects suffice or not.
    pub fn of(set: &ManifestWorkReplicaSet, applied_suffices: bool) -> Self {
        match (applied_suffices, set.annotation(WORKLOAD_HEALTH_ANNOTATION)) {
            (true, _) => Self::Applied,
            (false, Some("ignore")) => Self::Available,
            (false, _) => Self::Healthy,
        }
    }
}

/// Returns a template with rules for those of its objects whose author has none.
pub(super) fn with_rules(spec: &ManifestWorkSpec) -> ManifestWorkSpec {
    let mut spec = spec.clone();
    let manifests = spec.workload.manifests.iter().map(|manifest| Object(manifest.clone()));
    add_rules(&mut spec.manifest_configs, manifests);
    spec
}
