//! The health of a set's objects, from condition rules that agents evaluate.
//!
//! The existence of an object says nothing about its pods. The works of a set therefore get rules for each
//! object without rules from its author; OCM's agents support them too. These rules are not part of the
//! template: its hash, its snapshots and the comparison with live works exclude them. See
//! docs/design/rollout-health.md.

use crate::work::health::add_rules;
use api::names::WORKLOAD_HEALTH_ANNOTATION;
use api::work::v1::ManifestWorkSpec;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Metadata as _, Object};

/// The requirement for a work's success, unless its author has rules for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessNeeds {
    /// The objects are applied.
    Applied,
    /// The objects exist.
    Available,
    /// The objects are healthy.
    Healthy,
}

impl SuccessNeeds {
    /// Returns the requirement for the works of a set. `applied_suffices` is the setting of the policy.
    pub fn new(set: &ManifestWorkReplicaSet, applied_suffices: bool) -> Self {
        match (applied_suffices, set.annotation(WORKLOAD_HEALTH_ANNOTATION)) {
            (true, _) => Self::Applied,
            (false, Some("ignore")) => Self::Available,
            (false, _) => Self::Healthy,
        }
    }
}

/// Returns a template with added rules for objects without rules from the author.
pub(super) fn with_rules(spec: &ManifestWorkSpec) -> ManifestWorkSpec {
    let mut spec = spec.clone();
    let manifests = spec.workload.manifests.iter().map(|manifest| Object(manifest.clone()));
    add_rules(&mut spec.manifest_configs, manifests);
    spec
}
