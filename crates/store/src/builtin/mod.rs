//! The kinds that every API machine knows without a definition.
//!
//! Spokes are API machines too, so the workload kinds are here: accepted with their schemas and the defaults that matter. Nothing
//! acts on them.

pub(super) mod check;
pub(super) mod defaults;
pub(super) mod events;
pub(super) mod kinds;
pub(super) mod schemas;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::{GroupResource, Resources};

static RESOURCES: LazyLock<Resources> = LazyLock::new(|| {
    kinds::kinds().into_iter().map(|resource| (resource.id(), Arc::new(resource))).collect()
});

static FACETS: LazyLock<Resources> = LazyLock::new(|| {
    let events = kinds::events_of_their_own_group();
    BTreeMap::from([(events.id(), Arc::new(events))])
});

/// The built-in resources; made once, shared by all stores.
pub(super) fn resources() -> Resources {
    RESOURCES.clone()
}

/// Resources that show the objects of another one: events are served by two groups.
pub(super) fn facets() -> Resources {
    FACETS.clone()
}

/// Where the objects of a resource are stored.
pub(super) fn storage_of(group: &str, resource: &str) -> GroupResource {
    let group = if (group, resource) == ("events.k8s.io", "events") { "" } else { group };
    GroupResource::new(group, resource)
}
