//! Reads the objects that plans look up: one by one, or many of a collection with one list.
//!
//! When it starts, an agent looks up every object of its works. Listing their collections takes a fraction of the
//! requests. But a collection may be full of other objects. So a list that is too long for the number of wanted
//! objects is abandoned, and only wanted objects are kept from a page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt as _, stream};
use kube::Error;
use kube::core::Request;
use kube::core::params::ListParams;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tracing::debug;

use super::lookup::{look_up, served_now};
use super::watch::Page;
use super::{Resources, message};
use object::{Gvk, Object, ObjectRef, Stored as _};
use reconcile::{Failure, Lookup, LookupAnswer, ObjectText};

/// The maximum number of object requests in flight, as for writes.
const READS_IN_FLIGHT: usize = 32;
/// The minimum number of wanted objects for a list.
const WORTH_A_LIST: usize = 4;
/// The maximum number of listed objects per wanted object. Beyond it, separate requests are cheaper.
const LISTED_FOR_ONE: usize = 20;
/// Objects per page: 500 objects of 4 KiB are 2 MiB. If a response exceeds 8 MiB, the objects are read one by one.
const PAGE: usize = 500;

/// The kind and namespace that identify a collection.
pub(super) type CollectionId = (Gvk, String);
/// Lookups with their answers.
pub(super) type LookedUp = Vec<(Lookup, Result<LookupAnswer, Failure>)>;

/// The objects to read. At most one task reads a collection; further requests form its next batch.
pub(super) struct Reads {
    waiting: Mutex<BTreeMap<CollectionId, Vec<ObjectRef>>>,
    requests: Semaphore,
    /// Allows one list at a time, because a page may have 8 MiB.
    list: Semaphore,
}

impl Default for Reads {
    fn default() -> Self {
        let (requests, list) = (Semaphore::new(READS_IN_FLIGHT), Semaphore::new(1));
        Self { waiting: Mutex::default(), requests, list }
    }
}

impl Reads {
    /// Adds an object; returns its collection if no task is reading it yet.
    pub(super) fn add(&self, object: ObjectRef) -> Option<CollectionId> {
        let collection = (object.gvk.clone(), object.key.namespace.clone());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batch) = waiting.get_mut(&collection) {
            batch.push(object);
            return None;
        }
        waiting.insert(collection.clone(), vec![object]);
        Some(collection)
    }

    /// Takes the objects of a collection. If there are none, the task of the collection must end.
    fn take(&self, collection: &CollectionId) -> Option<Vec<ObjectRef>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = std::mem::take(waiting.get_mut(collection)?);
        if batch.is_empty() {
            waiting.remove(collection);
            return None;
        }
        Some(batch)
    }

    /// Reads the objects of a collection, including those added while it runs.
    pub(super) async fn read(
        &self,
        resources: &Resources,
        collection: &CollectionId,
        tell: impl Fn(LookedUp),
    ) {
        while let Some(batch) = self.take(collection) {
            let named = batch.into_iter().map(|object| (object.key.name.clone(), object));
            let mut left: BTreeMap<String, ObjectRef> = named.collect();
            if left.len() >= WORTH_A_LIST
                && let Ok(_slot) = self.list.acquire().await
                && let Err(error) = list(resources, collection, &mut left, &tell).await
            {
                debug!(kind = %collection.0, error = message(&error), "cannot list; reading the objects one by one");
            }
            let one = |object: ObjectRef| async {
                let lookup = Lookup::Object(object);
                let slot = self.requests.acquire().await;
                let answer = look_up(resources, &lookup).await;
                drop(slot);
                tell(vec![(lookup, answer)]);
            };
            stream::iter(left.into_values()).map(one).buffer_unordered(READS_IN_FLIGHT).collect::<()>().await;
        }
    }
}

/// Lists a collection and removes the objects that it finds from `left`; removes all if the list is complete.
async fn list(
    resources: &Resources,
    (gvk, namespace): &CollectionId,
    left: &mut BTreeMap<String, ObjectRef>,
    tell: &impl Fn(LookedUp),
) -> Result<(), Error> {
    let path = served_now(resources, gvk).await?.collection(namespace);
    let mut worth = left.len() * LISTED_FOR_ONE;
    let mut params = ListParams::default();
    loop {
        params.limit = u32::try_from(worth.min(PAGE)).ok();
        let request = Request::new(&path).list(&params).map_err(Error::BuildRequest)?;
        let text = resources.client().request_text(request).await?;
        let page: Page<'_> = serde_json::from_str(&text).map_err(Error::SerdeError)?;
        let items = page.items.unwrap_or_default();
        let found = items
            .iter()
            .filter_map(|item| wanted(item, left).transpose())
            .collect::<serde_json::Result<Vec<Object>>>()
            .map_err(Error::SerdeError)?;
        tell(found.into_iter().filter_map(|object| answer(left, object)).collect());
        worth = worth.saturating_sub(items.len());
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        let more = page.metadata.remaining_item_count.and_then(|count| usize::try_from(count).ok());
        match token {
            None => {
                let absent = std::mem::take(left).into_values();
                tell(absent.map(|object| (Lookup::Object(object), Ok(LookupAnswer::Object(None)))).collect());
                return Ok(());
            }
            Some(_) if left.is_empty() || worth < more.unwrap_or(1) => return Ok(()),
            token => params.continue_token = token,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Name,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

/// Parses an item of a list if it is wanted.
fn wanted(item: &RawValue, left: &BTreeMap<String, ObjectRef>) -> serde_json::Result<Option<Object>> {
    let Named { metadata } = serde_json::from_str(item.get())?;
    left.contains_key(&metadata.name).then(|| ObjectText::new(item.get()).object()).transpose()
}

/// Returns the answer for an object, and removes it from `left`.
fn answer(
    left: &mut BTreeMap<String, ObjectRef>,
    object: Object,
) -> Option<(Lookup, Result<LookupAnswer, Failure>)> {
    let target = left.remove(object.name())?;
    let object = object.trim(&target.gvk);
    Some((Lookup::Object(target), Ok(LookupAnswer::Object(Some(Arc::new(object))))))
}

#[cfg(test)]
#[path = "tests/reads.rs"]
mod tests;
