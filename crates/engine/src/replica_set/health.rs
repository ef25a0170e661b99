//! The health of the workloads of a set, by condition rules that their agents evaluate.
//!
//! That an object exists says nothing about its pods. So the works of a set whose author has no condition
//! rules get rules for their workloads, which OCM's agents know too. They are no part of the template: its
//! hash, its snapshots and the comparison with live works leave them out. See docs/design/rollout-states.md.

use crate::resource::identifier;
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
    /// The workloads among them are healthy.
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

/// Returns a template with rules for its workloads. One with rules of its author stays as it is.
pub(super) fn with_rules(spec: &ManifestWorkSpec) -> ManifestWorkSpec {
    let mut spec = spec.clone();
    let manifests = spec.workload.manifests.iter().map(|manifest| identifier(&Object(manifest.clone())));
    add_rules(&mut spec.manifest_configs, manifests);
    spec
}
