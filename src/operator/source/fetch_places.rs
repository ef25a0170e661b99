//! The places for concurrent fetches, so that the slow remotes of one namespace delay no other namespace.
//!
//! A fetch takes a place of its namespace for its whole time, and a place of the hub for its first seconds.
//! A server that trickles makes a fetch as long as the limit allows, and whoever may create ConfigRepos may
//! name any number of such servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of concurrent fetches in their first seconds. Those that last longer mostly wait for their server.
pub(super) const MAX_CONCURRENT_FETCHES: usize = 4;

/// Number of concurrent fetches of one namespace. It leaves a place to the others at any time.
pub(super) const MAX_NAMESPACE_FETCHES: usize = MAX_CONCURRENT_FETCHES - 1;

/// The places of one operator.
pub(super) struct FetchPlaces {
    hub: Arc<Semaphore>,
    namespaces: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// The places of one fetch.
pub(super) struct FetchPlace {
    _namespace: OwnedSemaphorePermit,
    hub: Option<OwnedSemaphorePermit>,
}

impl FetchPlaces {
    pub(super) fn new() -> Self {
        Self { hub: Arc::new(Semaphore::new(MAX_CONCURRENT_FETCHES)), namespaces: Mutex::default() }
    }

    /// Waits for a place of the namespace, and then for one of the hub. Both are first come, first served.
    pub(super) async fn take(&self, namespace: &str) -> FetchPlace {
        let places = self.of(namespace).acquire_owned().await;
        let _namespace = places.expect("nothing closes the places");
        let hub = Arc::clone(&self.hub).acquire_owned().await.expect("nothing closes the places");
        FetchPlace { _namespace, hub: Some(hub) }
    }

    fn of(&self, namespace: &str) -> Arc<Semaphore> {
        let mut namespaces = self.namespaces.lock().expect("no task panics while it holds the map");
        namespaces.retain(|name, places| name == namespace || Arc::strong_count(places) > 1);
        let places = namespaces.entry(namespace.to_owned());
        Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(MAX_NAMESPACE_FETCHES))))
    }
}

impl FetchPlace {
    /// Hands the place of the hub to the next fetch. The namespace keeps its own.
    pub(super) fn hand_on(&mut self) {
        self.hub = None;
    }
}
