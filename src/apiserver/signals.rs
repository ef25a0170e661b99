use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use store::GroupResource;

/// Wakes the watches of a resource.
#[derive(Debug, Default)]
pub(super) struct Signals {
    by_resource: Mutex<BTreeMap<GroupResource, watch::Sender<u64>>>,
    all: watch::Sender<u64>,
}

impl Signals {
    /// Returns a receiver that changes with every later write to the resource.
    pub(super) fn subscribe(&self, resource: &GroupResource) -> watch::Receiver<u64> {
        self.senders().entry(resource.clone()).or_default().subscribe()
    }

    /// Returns a receiver that changes with every later write.
    pub(super) fn subscribe_all(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// Announces that these writes are visible.
    pub(super) fn notify<'a>(&self, written: impl Iterator<Item = (&'a GroupResource, u64)>) {
        let senders = self.senders();
        for (resource, revision) in written {
            self.all.send_replace(revision);
            if let Some(sender) = senders.get(resource) {
                sender.send_replace(revision);
            }
        }
    }

    fn senders(&self) -> MutexGuard<'_, BTreeMap<GroupResource, watch::Sender<u64>>> {
        self.by_resource.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
