//! The quota of the store: how much memory its objects may take, and whose they are.
//!
//! It is etcd's (`--quota-backend-bytes`), in bytes of memory instead of bytes on disk: a write that needs more
//! is refused, and reads, deletions and writes that need no more go on. Beyond etcd's, no namespace can use up the
//! space of the others.

use std::collections::BTreeMap;

use object::{Key, Object};

use super::collection::weight_of;
use super::write_request::WriteRequest;
use super::{ApiError, GroupResource, Store, rbac};

/// The part of the quota that Events have to themselves: an eighth. Almost everybody may create them, they live
/// for an hour, and nothing depends on them.
const EVENTS: usize = 8;

/// The memory of the objects of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    events: Pool,
    others: Pool,
}

/// Memory that namespaces share; the objects of the cluster count as one of them.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Bytes that it has; `None` for any number.
    size: Option<usize>,
    used: usize,
    held: BTreeMap<String, usize>,
}

impl Usage {
    fn pool(&mut self, id: &GroupResource) -> &mut Pool {
        if id.group.is_empty() && id.resource == "events" { &mut self.events } else { &mut self.others }
    }

    /// Notes a write.
    pub(super) fn note(
        &mut self,
        (id, key): &(GroupResource, Key),
        old: Option<&Object>,
        new: Option<&Object>,
    ) {
        let weight = |object: Option<&Object>| object.map_or(0, weight_of);
        let pool = self.pool(id);
        let held = pool.held.entry(key.namespace.clone()).or_default();
        let (before, after) = (weight(old), weight(new));
        *held = (*held + after).saturating_sub(before);
        pool.used = (pool.used + after).saturating_sub(before);
        if *held == 0 {
            pool.held.remove(&key.namespace);
        }
    }
}

impl Pool {
    /// Returns whether a namespace may take so many more bytes. It may while at least as much is free as it then
    /// has, so one alone gets half of the pool, `n` get `1/(n + 1)` each, and there is always a part for the next.
    /// Administrators may take all that is free.
    fn has_space(&self, namespace: &str, more: usize, is_administrator: bool) -> bool {
        let Some(size) = self.size else { return true };
        let Some(free) = size.checked_sub(self.used + more) else { return false };
        let held = self.held.get(namespace).copied().unwrap_or_default();
        is_administrator || held + more <= free
    }
}

impl Store {
    /// Limits the memory of the objects to about so many bytes.
    pub fn set_quota(&mut self, bytes: usize) {
        self.usage.events.size = Some(bytes / EVENTS);
        self.usage.others.size = Some(bytes - bytes / EVENTS);
    }

    /// Refuses a write that takes memory beyond the quota, in the words of etcd.
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
