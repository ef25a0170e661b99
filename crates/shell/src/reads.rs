//! Reads the objects that plans ask for: one by one, or many of a collection with one list.
//!
//! At its start, an agent asks for every object of its works. A list of their collection costs a fraction of
//! as many requests. But a collection may be full of objects of others. So a list that is too long for the
//! wanted objects is given up on, and only wanted objects are kept of a page.

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

/// The limit of requests for objects in flight, as for writes.
const READS_IN_FLIGHT: usize = 32;
/// The fewest objects that are looked for with a list.
const WORTH_A_LIST: usize = 4;
/// The most objects that are listed for each one that is looked for: a request for it costs as much.
const LISTED_FOR_ONE: usize = 20;
/// Objects per page: 500 objects of 4 KiB are 2 MiB. An answer beyond 8 MiB is not read; then the objects
/// are read one by one.
const PAGE: usize = 500;

/// The kind and the namespace of the objects of a collection.
pub(super) type CollectionId = (Gvk, String);
/// Lookups with their answers.
pub(super) type LookedUp = Vec<(Lookup, Result<LookupAnswer, Failure>)>;

/// The objects that are to be read. At most one task reads those of a collection: what is asked for meanwhile
/// is its next batch.
pub(super) struct Reads {
    waiting: Mutex<BTreeMap<CollectionId, Vec<ObjectRef>>>,
    requests: Semaphore,
    /// One list at a time: a page may have 8 MiB.
    list: Semaphore,
}

impl Default for Reads {
    fn default() -> Self {
        let (requests, list) = (Semaphore::new(READS_IN_FLIGHT), Semaphore::new(1));
        Self { waiting: Mutex::default(), requests, list }
    }
}

impl Reads {
    /// Adds an object; returns its collection if no task reads that yet.
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

    /// Takes the objects of a collection; without any, the task of the collection has to end.
    fn take(&self, collection: &CollectionId) -> Option<Vec<ObjectRef>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = std::mem::take(waiting.get_mut(collection)?);
        if batch.is_empty() {
            waiting.remove(collection);
            return None;
        }
        Some(batch)
    }

    /// Reads the objects of a collection, and those that are added meanwhile.
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
                debug!(kind = %collection.0, error = message(&error), "cannot list; reading one by one");
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

/// Lists a collection, and takes what it finds from `left`, and everything if the list comes to its end.
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
        let found = items.iter().filter_map(|item| wanted(item, left).transpose());
        let found = found.collect::<serde_json::Result<Vec<Object>>>().map_err(Error::SerdeError)?;
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

/// Reads an item of a list if it is looked for.
fn wanted(item: &RawValue, left: &BTreeMap<String, ObjectRef>) -> serde_json::Result<Option<Object>> {
    let Named { metadata } = serde_json::from_str(item.get())?;
    left.contains_key(&metadata.name).then(|| ObjectText::new(item.get()).object()).transpose()
}

/// Returns the answer that an object is, and takes its lookup from `left`.
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
