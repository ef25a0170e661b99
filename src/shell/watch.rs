//! List and watch of one kind.
//!
//! `kube::runtime::watcher` hides the resource version of its lists; the caches need it to tell an object that was deleted
//! while nobody watched from one that was written since. So this is the plain protocol: list in pages, watch from there, list
//! again when the server has forgotten the version (410) or the connection failed.

use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{REQUEST_TIMEOUT, said};
use object::{Gvk, Key, Stored};
use reconcile::{Backoff, Delta, FailureKind};

/// Objects per page of a list: 500 objects of 4 KiB are 2 MiB, far below what a server refuses.
const PAGE: u32 = 500;
/// How long one watch request lasts before it is renewed (seconds); shorter than the idle timeout of common proxies.
const WATCH_SECONDS: u32 = 290;
/// Patience beyond that before a silent connection counts as lost.
const WATCH_GRACE: Duration = Duration::from_secs(10);

/// What a watch tells its cache.
#[derive(Debug)]
pub(super) enum News<T> {
    /// A complete list, and the objects in it that do not fit their type.
    Listed { objects: Vec<Arc<T>>, unreadable: Vec<(Key, String)>, resource_version: String },
    /// One change.
    Changed(Delta<T>),
}

/// A collection to watch.
pub(super) struct Target {
    pub client: Client,
    pub gvk: Gvk,
    pub path: String,
    /// Field selector; empty for none.
    pub fields: String,
    /// Label selector; empty for none.
    pub labels: String,
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IdentityMeta {
    namespace: String,
    name: String,
    resource_version: String,
}

/// Where an object says who manages which of its fields.
#[derive(Deserialize)]
struct Managed<'a> {
    #[serde(borrow, default)]
    metadata: ManagedMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ManagedMeta<'a> {
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// Reads an object, without its managed fields where the cache drops them: they are a third of the object and half the cost.
fn read<T: Stored>(object: &RawValue) -> serde_json::Result<T> {
    let text = object.get();
    if T::KEEPS_APPLIED_FIELDS {
        return serde_json::from_str(text);
    }
    let managed =
        serde_json::from_str::<Managed<'_>>(text).ok().and_then(|managed| managed.metadata.managed_fields);
    let split = managed.and_then(|managed| {
        let start = managed.get().as_ptr().addr() - text.as_ptr().addr();
        Some((text.get(..start)?, text.get(start + managed.get().len()..)?))
    });
    match split {
        Some((before, after)) => serde_json::from_str(&[before, "null", after].concat()),
        None => serde_json::from_str(text),
    }
}

/// Watches until it is dropped; never gives up.
pub(super) async fn watch<T: Stored>(target: Target, mut tell: impl FnMut(News<T>) + Send) {
    let mut failures = 0;
    loop {
        match list(&target).await {
            Ok((news, resource_version)) => {
                failures = 0;
                tell(news);
                let ended = follow(&target, resource_version, &mut tell).await;
                debug!(kind = %target.gvk, reason = %ended, "watch ended, listing again");
            }
            Err(error) => {
                failures += 1;
                warn!(kind = %target.gvk, why = said(&error), "cannot list; nothing that depends on it will be decided until this ends");
            }
        }
        let wait =
            if failures == 0 { Backoff::CONFLICT } else { Backoff::wait(FailureKind::Unavailable, failures) };
        tokio::time::sleep(wait.unsigned_abs()).await;
    }
}

async fn list<T: Stored>(target: &Target) -> Result<(News<T>, String), Error> {
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    let mut params = ListParams {
        limit: Some(PAGE),
        field_selector: selector(&target.fields),
        label_selector: selector(&target.labels),
        ..ListParams::default()
    };
    loop {
        let request = Request::new(&target.path).list(&params).map_err(Error::BuildRequest)?;
        let text = timeout(REQUEST_TIMEOUT, target.client.request_text(request))
            .await
            .map_err(|e| Error::Service(e.into()))??;
        let page: Page<'_> = serde_json::from_str(&text).map_err(Error::SerdeError)?;
        for item in page.items {
            match read::<T>(item) {
                Ok(object) => objects.push(Arc::new(object.trim(&target.gvk))),
                Err(error) => unreadable.push((complain(target, item, &error), error.to_string())),
            }
        }
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            Some(_) | None => {
                let resource_version = page.metadata.resource_version.unwrap_or_default();
                return Ok((
                    News::Listed { objects, unreadable, resource_version: resource_version.clone() },
                    resource_version,
                ));
            }
        }
    }
}

/// Follows changes until the watch cannot go on; says why.
async fn follow<T: Stored>(
    target: &Target,
    mut resource_version: String,
    tell: &mut impl FnMut(News<T>),
) -> String {
    loop {
        let params = WatchParams {
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            field_selector: selector(&target.fields),
            label_selector: selector(&target.labels),
            ..WatchParams::default()
        };
        let mut request = match Request::new(&target.path).watch(&params, &resource_version) {
            Ok(request) => request,
            Err(error) => return error.to_string(),
        };
        // A compressed watch would be held back until a block of it is full.
        request
            .headers_mut()
            .insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        let stream = match timeout(REQUEST_TIMEOUT, target.client.request_stream(request)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "the server did not answer".into(),
        };
        let mut lines = std::pin::pin!(stream.lines());
        let patience = Duration::from_secs(WATCH_SECONDS.into()) + WATCH_GRACE;
        loop {
            match timeout(patience, lines.next()).await {
                Ok(Some(Ok(line))) => match take(target, &line, tell) {
                    Ok(Some(newer)) => resource_version = newer,
                    Ok(None) => {}
                    Err(ended) => return ended,
                },
                Ok(Some(Err(error))) => return error.to_string(),
                Ok(None) => break,
                Err(_) => return "the connection went silent".into(),
            }
        }
    }
}

/// Takes one event; the resource version to go on from, or why the watch is over.
fn take<T: Stored>(
    target: &Target,
    line: &str,
    tell: &mut impl FnMut(News<T>),
) -> Result<Option<String>, String> {
    let event: Event<'_> = serde_json::from_str(line).map_err(|e| format!("unreadable event: {e}"))?;
    let identity = || serde_json::from_str::<Identity>(event.object.get()).unwrap_or_default().metadata;
    match event.event_type {
        "ADDED" | "MODIFIED" => {
            let delta = match read::<T>(event.object) {
                Ok(object) => Delta::Seen(object.trim(&target.gvk)),
                Err(error) => Delta::Unreadable(complain(target, event.object, &error), error.to_string()),
            };
            tell(News::Changed(delta));
            Ok(Some(identity().resource_version))
        }
        "DELETED" => {
            let gone = identity();
            tell(News::Changed(Delta::Gone(
                Key::namespaced(gone.namespace, gone.name),
                gone.resource_version.clone(),
            )));
            Ok(Some(gone.resource_version))
        }
        "BOOKMARK" => Ok(Some(identity().resource_version)),
        _ => {
            let status: Status = serde_json::from_str(event.object.get()).unwrap_or_default();
            Err(format!("{} ({})", status.message, status.code))
        }
    }
}

fn selector(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn complain(target: &Target, object: &RawValue, error: &serde_json::Error) -> Key {
    let meta = serde_json::from_str::<Identity>(object.get()).unwrap_or_default().metadata;
    let key = Key::namespaced(meta.namespace, meta.name);
    warn!(kind = %target.gvk, object = %key, error = %error, "the object does not fit its type; what it belongs to is left as it is");
    key
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn managed_fields_are_left_out_wherever_they_stand_and_nothing_else_is() {
        for metadata in [
            r#"{"managedFields": [{"manager": "m", "fieldsV1": {"f:data": {"f:a": {}}}}], "name": "n"}"#,
            r#"{"name": "n", "managedFields": []}"#,
            r#"{"name": "n"}"#,
        ] {
            let text = format!(r#"{{"data": {{"managedFields": "[]"}}, "metadata": {metadata}}}"#);
            let read = read::<ConfigMap>(&RawValue::from_string(text).unwrap()).unwrap();
            assert_eq!((read.metadata.name.as_deref(), read.metadata.managed_fields), (Some("n"), None));
            assert_eq!(read.data.unwrap()["managedFields"], "[]");
        }
        assert!(read::<ConfigMap>(&RawValue::from_string(r#"{"metadata": 1}"#.into()).unwrap()).is_err());
    }
}
