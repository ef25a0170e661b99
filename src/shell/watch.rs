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

use super::client::{is_too_large, retry_after};
use super::metrics::Metrics;
use super::said;
use object::Key;
use reconcile::{Backoff, FailureKind, Representation, WatchEvent, WatchedKind};

/// Objects per page of a list: 500 objects of 4 KiB are 2 MiB. Fewer are asked for where an answer would be too long.
const PAGE: u32 = 500;
/// How long one watch request lasts before it is renewed (seconds); shorter than the idle timeout of common proxies.
const WATCH_SECONDS: u32 = 290;
/// Patience beyond that before a silent connection counts as lost.
const WATCH_GRACE: Duration = Duration::from_secs(10);

/// A collection to watch.
pub(super) struct Target {
    pub client: Client,
    pub kind: Arc<WatchedKind>,
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
#[serde(default)]
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

/// Lists and watches until it is dropped, or until the server no longer serves the collection.
pub(super) async fn watch(target: Target, metrics: &Metrics, mut tell: impl FnMut(WatchEvent) + Send) {
    let mut failures = 0;
    loop {
        let mut left_alone = Duration::ZERO;
        match list(&target).await {
            Ok((listed, resource_version)) => {
                failures = 0;
                tell(listed);
                let ended = follow(&target, resource_version, &mut tell).await;
                debug!(kind = %target.kind.gvk, reason = %ended, "the watch ended; listing again");
            }
            Err(Error::Api(status)) if status.is_not_found() => return,
            Err(error) => {
                failures += 1;
                left_alone = retry_after(&error);
                warn!(kind = %target.kind.gvk, error = said(&error), "cannot list; nothing that depends on it is decided until this ends");
            }
        }
        metrics.watch_restarted(&target.kind.gvk);
        let wait =
            if failures == 0 { Backoff::CONFLICT } else { Backoff::wait(FailureKind::Unavailable, failures) };
        tokio::time::sleep(wait.unsigned_abs().max(left_alone)).await;
    }
}

async fn list(target: &Target) -> Result<(WatchEvent, String), Error> {
    let mut objects = Vec::new();
    let mut params = ListParams {
        limit: Some(PAGE),
        field_selector: selector(&target.fields),
        label_selector: selector(&target.labels),
        ..ListParams::default()
    };
    loop {
        let request = Request::new(&target.path);
        let request = match target.kind.representation {
            Representation::Typed | Representation::Whole => request.list(&params),
            Representation::Metadata => request.list_metadata(&params),
        };
        let request = request.map_err(Error::BuildRequest)?;
        let text = match target.client.request_text(request).await {
            Err(error) if is_too_large(&error) && params.limit > Some(1) => {
                params.limit = params.limit.map(|limit| limit / 2);
                continue;
            }
            answered => answered?,
        };
        let page: Page<'_> = serde_json::from_str(&text).map_err(Error::SerdeError)?;
        objects.extend(page.items.into_iter().map(|item| target.kind.decode(item.get())));
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            Some(_) | None => {
                let resource_version = page.metadata.resource_version.unwrap_or_default();
                let listed = WatchEvent::Listed { objects, resource_version: resource_version.clone() };
                return Ok((listed, resource_version));
            }
        }
    }
}

/// Follows changes until the watch cannot go on; says why.
async fn follow(target: &Target, mut resource_version: String, tell: &mut impl FnMut(WatchEvent)) -> String {
    loop {
        let params = WatchParams {
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            field_selector: selector(&target.fields),
            label_selector: selector(&target.labels),
            ..WatchParams::default()
        };
        let request = Request::new(&target.path);
        let request = match target.kind.representation {
            Representation::Typed | Representation::Whole => request.watch(&params, &resource_version),
            Representation::Metadata => request.watch_metadata(&params, &resource_version),
        };
        let mut request = match request {
            Ok(request) => request,
            Err(error) => return error.to_string(),
        };
        // A compressed watch would be held back until a block of it is full.
        request
            .headers_mut()
            .insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        let stream = match target.client.request_stream(request).await {
            Ok(stream) => stream,
            Err(error) => return error.to_string(),
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
fn take(target: &Target, line: &str, tell: &mut impl FnMut(WatchEvent)) -> Result<Option<String>, String> {
    let event: Event<'_> = serde_json::from_str(line).map_err(|e| format!("unreadable event: {e}"))?;
    let identity = || serde_json::from_str::<Identity>(event.object.get()).unwrap_or_default().metadata;
    match event.event_type {
        "ADDED" | "MODIFIED" => {
            tell(WatchEvent::Applied(target.kind.decode(event.object.get())));
            Ok(Some(identity().resource_version))
        }
        "DELETED" => {
            let IdentityMeta { namespace, name, resource_version } = identity();
            let key = Key::namespaced(namespace, name);
            tell(WatchEvent::Deleted { key, resource_version: resource_version.clone() });
            Ok(Some(resource_version))
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
