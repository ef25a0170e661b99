//! The memory quota of a store and how namespaces share it.
//!
//! It matches etcd's quota (`--quota-backend-bytes`), but counts bytes of memory instead of disk. Writes that need
//! more are rejected; reads, deletions and writes that need no more memory continue. Unlike with etcd, no
//! namespace can use up the space of the others.

use std::collections::BTreeMap;

use object::{Key, Object};

use super::collection::weight_of;
use super::write_request::WriteRequest;
use super::{ApiError, GroupResource, Store, rbac};

/// The part of the quota that is reserved for Events: one eighth. Almost everyone may create them, they live for
/// an hour, and nothing depends on them.
const EVENTS: usize = 8;

/// The memory of the objects of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    events: Pool,
    others: Pool,
}

/// Memory that namespaces share. Cluster-scoped objects count as one namespace.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// The size in bytes; `None` if unlimited.
    size: Option<usize>,
    used: usize,
    used_by: BTreeMap<String, usize>,
}

impl Usage {
    fn pool(&mut self, id: &GroupResource) -> &mut Pool {
        if id.group.is_empty() && id.resource == "events" { &mut self.events } else { &mut self.others }
    }

    /// Records a write.
    pub(super) fn note(
        &mut self,
        (id, key): &(GroupResource, Key),
        old: Option<&Object>,
        new: Option<&Object>,
    ) {
        let weight = |object: Option<&Object>| object.map_or(0, weight_of);
        let pool = self.pool(id);
        let used = pool.used_by.entry(key.namespace.clone()).or_default();
        let (before, after) = (weight(old), weight(new));
        *used = (*used + after).saturating_sub(before);
        pool.used = (pool.used + after).saturating_sub(before);
        if *used == 0 {
            pool.used_by.remove(&key.namespace);
        }
    }
}

impl Pool {
    /// Returns true if a namespace may use `more` bytes. It may as long as the remaining free space is at least
    /// what the namespace then uses. So a single namespace gets half of the pool, `n` namespaces get `1/(n + 1)`
    /// each, and there is always room for another. Administrators may use all free space.
    fn has_space(&self, namespace: &str, more: usize, is_administrator: bool) -> bool {
        let Some(size) = self.size else { return true };
        let Some(free) = size.checked_sub(self.used + more) else { return false };
        let used = self.used_by.get(namespace).copied().unwrap_or_default();
        is_administrator || used + more <= free
    }
}

impl Store {
    /// Limits the memory of all objects to approximately `bytes`.
    pub fn set_quota(&mut self, bytes: usize) {
        self.usage.events.size = Some(bytes / EVENTS);
        self.usage.others.size = Some(bytes - bytes / EVENTS);
    }

    /// Rejects a write that exceeds the quota, with etcd's message.
    pub(super) fn check_quota(
        &mut self,
        request: &WriteRequest<'_>,
        key: &Key,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        let pool = self.usage.pool(&request.scope.resource().id_of_storage());
        if pool.size.is_none() {
            return Ok(());
        }
        let more = weight_of(new).saturating_sub(old.map_or(0, weight_of));
        if more == 0 || pool.has_space(&key.namespace, more, rbac::is_master(&request.options.user)) {
            return Ok(());
        }
        Err(ApiError::unexpected("etcdserver: mvcc: database space exceeded"))
    }
}
