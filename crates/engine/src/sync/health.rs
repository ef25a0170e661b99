//! The objects whose health the next stage may have to wait for.

use crate::health::ObjectHealth;
use api::names::GITOPS_GROUP;
use object::Object;

/// Returns true if an object that is applied now may become healthy later. `live` is the current object.
pub(super) fn takes_time(desired: &Object, live: Option<&Object>) -> bool {
    let is_repo = desired.gvk().group == GITOPS_GROUP && desired.kind() == "ConfigRepo";
    let reports = |live: &Object| {
        live.at(&["status", "observedGeneration"]).is_some() || live.condition("Ready").is_some()
    };
    is_repo || ObjectHealth::of(desired) != ObjectHealth::Current || live.is_some_and(reports)
}

#[cfg(test)]
#[path = "tests/health.rs"]
mod tests;
