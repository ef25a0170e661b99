//! Limits concurrent fetches, so that a few slow remotes do not delay other repositories.
//!
//! For its first seconds, a fetch takes a place of its namespace and a place of the hub. After that, it takes
//! one of the namespace's few places for slow fetches. A server that trickles makes a fetch as long as the time
//! limit, and anybody who may create ConfigRepos may use any number of such servers. A fetch that finds no slow
//! place therefore keeps the first place of its namespace, and delays only that namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum number of concurrent fetches in their first seconds. Longer fetches mostly wait for their
/// server.
pub(super) const MAX_CONCURRENT_FETCHES: usize = 4;

/// The maximum number of concurrent fetches of one namespace in their first seconds. It always leaves a place
/// for other namespaces.
pub(super) const MAX_NAMESPACE_FETCHES: usize = MAX_CONCURRENT_FETCHES - 1;

/// The maximum number of slow concurrent fetches of one namespace. Each has a thread.
const MAX_SLOW_FETCHES: usize = 8;

/// The places of one operator.
pub(super) struct FetchPlaces {
    hub: Arc<Semaphore>,
    namespaces: Mutex<BTreeMap<String, Arc<NamespacePlaces>>>,
}

/// The places of one namespace.
struct NamespacePlaces {
    first: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

/// The places of one fetch.
pub(super) struct FetchPlace {
    places: Arc<NamespacePlaces>,
    namespace_place: OwnedSemaphorePermit,
    hub: Option<OwnedSemaphorePermit>,
}

impl FetchPlaces {
    pub(super) fn new() -> Self {
        Self { hub: Arc::new(Semaphore::new(MAX_CONCURRENT_FETCHES)), namespaces: Mutex::default() }
    }

    /// Waits for a place of the namespace, then for a place of the hub. Both are first come, first served.
    pub(super) async fn take(&self, namespace: &str) -> FetchPlace {
        let places = self.of(namespace);
        let first = Arc::clone(&places.first).acquire_owned().await;
        let namespace_place = first.expect("nothing closes the places");
        let hub = Arc::clone(&self.hub).acquire_owned().await.expect("nothing closes the places");
        FetchPlace { places, namespace_place, hub: Some(hub) }
    }

    fn of(&self, namespace: &str) -> Arc<NamespacePlaces> {
        let mut namespaces = self.namespaces.lock().expect("no task panics while it holds the map");
        namespaces.retain(|name, places| name == namespace || Arc::strong_count(places) > 1);
        let places = namespaces.entry(namespace.to_owned());
        let new = || NamespacePlaces {
            first: Arc::new(Semaphore::new(MAX_NAMESPACE_FETCHES)),
            slow: Arc::new(Semaphore::new(MAX_SLOW_FETCHES)),
        };
        Arc::clone(places.or_insert_with(|| Arc::new(new())))
    }
}

impl FetchPlace {
    /// Releases the place of the hub, and the first place of the namespace if it has a free place for a slow
    /// fetch.
    pub(super) fn hand_on(&mut self) {
        self.hub = None;
        if let Ok(slow) = Arc::clone(&self.places.slow).try_acquire_owned() {
            self.namespace_place = slow;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn slow_fetches_of_a_namespace_have_separate_places_and_a_limit() {
        let all = FetchPlaces::new();
        let take = |namespace: &str| {
            let mut taken = Box::pin(all.take(namespace));
            match taken.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(place) => Some(place),
                Poll::Pending => None,
            }
        };
        let mut slow = Vec::new();
        while let Some(mut place) = take("a") {
            place.hand_on();
            slow.push(place);
        }
        assert_eq!(slow.len(), MAX_SLOW_FETCHES + MAX_NAMESPACE_FETCHES);
        assert!(take("b").is_some(), "another namespace does not wait");
        slow.clear();
        assert!(take("a").is_some());
    }
}
