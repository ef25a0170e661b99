//! Lists and watches one kind.
//!
//! `kube::runtime::watcher` hides the resource versions of its lists. The caches need them to distinguish an
//! object that was deleted while no watch ran from one that was written later. So this module implements the
//! protocol itself: it lists in pages, watches from there, and lists again if the server has dropped the version
//! (410), its versions went back, or the connection failed.
//!
//! A watch that ends early restarts after a wait that doubles, with jitter. A server that is too busy gets no
//! request before the time that it specifies.

use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::budget::{Admitted, Memory, SMALL};
use super::client::retry_after;
use super::freshness::Freshness;
use super::message;
use super::metrics::Metrics;
use super::pages::{PAGE, Refusals};
use super::restarts::Restarts;
use object::{Gvk, Key, version};
use reconcile::{Decoded, ObjectText, Representation, WatchedKind, WatcherEvent};

/// The longest list, in bytes: 300,000 add-ons of 7 KiB.
const LIST_BYTES: usize = 2 << 30;
/// The minimum size that a page counts for. It stops a server whose pages never end after 2,048 pages. With 500
/// small objects per page, that is a million objects.
const PAGE_BYTES: usize = 1 << 20;
/// The maximum size that a page counts for. Large pages contain few objects, and objects over budget are not kept.
const MAX_PAGE_BYTES: usize = 4 << 20;
/// The longest event. etcd accepts objects of 1.5 MiB and API servers accept requests of 3 MiB; JSON may be longer
/// than both.
const EVENT_BYTES: u64 = 16 << 20;
/// The seconds after which a watch request is renewed. It is shorter than the idle timeout of common proxies.
const WATCH_SECONDS: u32 = 290;
/// A watch that sends nothing for this long has failed. API servers send a bookmark every minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The time for which a refusal to list causes no warning, because the hub creates the roles of an agent after its
/// certificate.
const GRACE: Duration = Duration::from_secs(10);

/// A collection to watch.
pub(super) struct WatchTarget {
    pub client: Client,
    pub kind: Arc<WatchedKind>,
    pub path: String,
    /// The field selector; empty for none.
    pub fields: String,
    /// The label selector; empty for none.
    pub labels: String,
    pub is_known: IsKnownFn,
    /// The process's budget for large objects.
    pub memory: &'static Memory,
}

/// Returns true if the version of a created or changed object is known, so that the rest of the object need not be
/// parsed.
pub(super) type IsKnownFn = Box<dyn Fn(&Key, u64) -> bool + Send + Sync>;

#[derive(Deserialize)]
pub(super) struct Page<'a> {
    pub(super) metadata: ListMeta,
    /// `null` in an empty list of metadata, because Go writes a nil slice that way.
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The end of a watch.
struct WatchEnd {
    reason: String,
    /// The version to resume the watch from; `None` to list the kind again.
    resume: Option<String>,
    /// The error with which the server refused the watch.
    refused: Option<Error>,
}

impl WatchEnd {
    fn list_again(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), resume: None, refused: None }
    }

    fn resume(reason: impl Into<String>, from: String) -> Self {
        Self { reason: reason.into(), resume: Some(from), refused: None }
    }
}

/// Lists and watches until it is dropped, or until the server no longer serves the collection.
pub(super) async fn watch(
    target: WatchTarget,
    metrics: &Metrics,
    freshness: &mut Freshness<'_>,
    mut tell: impl FnMut(WatcherEvent) + Send,
) {
    let (mut restarts, mut from, mut newest) = (Restarts::default(), None, 0);
    let (mut restores, began) = (freshness.restores(), Instant::now());
    let mut admitted = Admitted::new(target.memory);
    loop {
        if restores.has_changed().unwrap_or_default() {
            // The watch of another kind noticed a restore, so the versions of this kind are invalid too.
            restores.mark_unchanged();
            (from, newest) = (None, 0);
        }
        let known = freshness.written(&target.kind.gvk).max(newest);
        let begun = match from.take() {
            Some(resource_version) => Ok(resource_version),
            None => list(&target, &mut admitted).await.map(|(listed, resource_version)| {
                let at = version(&resource_version);
                if at < known {
                    let (kind, from, to) = (&target.kind.gvk, known, at);
                    warn!(%kind, from, to, "resource versions went back, as after a restore from a backup; listing every kind again");
                    metrics.versions_went_back(kind);
                    tell(WatcherEvent::Restored);
                    freshness.restored();
                    restores.mark_unchanged();
                }
                newest = at;
                freshness.confirmed();
                debug!(kind = %target.kind.gvk, version = at, "listed");
                tell(listed);
                resource_version
            }),
        };
        let wait = match begun {
            Ok(resource_version) => {
                let since = Instant::now();
                let mut hear = |event: Option<WatcherEvent>| {
                    freshness.confirmed();
                    event.into_iter().for_each(&mut tell);
                };
                let followed = tokio::select! {
                    ended = follow(&target, &mut admitted, resource_version, &mut newest, &mut hear) => ended,
                    _ = restores.changed() => {
                        (from, newest) = (None, 0);
                        continue;
                    }
                };
                let WatchEnd { reason, resume, refused } = followed;
                debug!(kind = %target.kind.gvk, %reason, lists = resume.is_none(), "the watch ended");
                from = resume;
                if refused.as_ref().is_some_and(|error| freshness.failed(error)) {
                    tell(WatcherEvent::Stale);
                }
                restarts.after(since.elapsed(), refused.as_ref().map(retry_after).unwrap_or_default())
            }
            Err(Error::Api(status)) if status.is_not_found() => return,
            Err(error) => {
                log_failed_list(&target.kind.gvk, &error, began.elapsed());
                if freshness.failed(&error) {
                    tell(WatcherEvent::Stale);
                }
                if matches!(&error, Error::Api(status) if matches!(status.code, 403 | 405)) {
                    tell(WatcherEvent::Refused(message(&error)));
                }
                restarts.after(Duration::ZERO, retry_after(&error))
            }
        };
        metrics.watch_restarted(&target.kind.gvk);
        tokio::select! {
            () = sleep(wait) => {}
            _ = restores.changed() => (from, newest) = (None, 0),
        }
    }
}

/// Logs that a kind cannot be listed, `after` the first try. The permission may arrive a moment later, for example
/// when an agent joins.
fn log_failed_list(kind: &Gvk, error: &Error, after: Duration) {
    let is_forbidden = matches!(error, Error::Api(status) if status.code == 403);
    let reason = message(error);
    if is_forbidden && after < GRACE {
        info!(%kind, error = reason, "cannot list yet");
    } else {
        warn!(%kind, error = reason, "cannot list");
    }
}

async fn list(target: &WatchTarget, admitted: &mut Admitted<'_>) -> Result<(WatcherEvent, String), Error> {
    let (mut objects, mut bytes) = (Vec::new(), 0);
    admitted.clear();
    let mut refusals = Refusals::default();
    let mut params = ListParams {
        limit: Some(PAGE),
        field_selector: selector(&target.fields),
        label_selector: selector(&target.labels),
        ..ListParams::default()
    };
    loop {
        let answer = page(target, &params).await;
        let Some(text) = refusals.of(answer, &mut params).await? else { continue };
        refusals = Refusals::default();
        bytes += text.len().clamp(PAGE_BYTES, MAX_PAGE_BYTES);
        if bytes > LIST_BYTES {
            let pages = LIST_BYTES / PAGE_BYTES;
            let reason = format!("the list has more than {LIST_BYTES} bytes or {pages} pages");
            return Err(Error::Service(reason.into()));
        }
        let (of_page, metadata) = read_page(&target.kind, admitted, &text).map_err(Error::SerdeError)?;
        objects.extend(of_page);
        match metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            Some(_) | None => {
                let resource_version = metadata.resource_version.unwrap_or_default();
                let listed = WatcherEvent::Listed { objects, resource_version: resource_version.clone() };
                return Ok((listed, resource_version));
            }
        }
    }
}

fn read_page(
    kind: &WatchedKind,
    admitted: &mut Admitted<'_>,
    text: &str,
) -> serde_json::Result<(Vec<Decoded>, ListMeta)> {
    let page: Page<'_> = serde_json::from_str(text)?;
    let objects =
        page.items.into_iter().flatten().map(|item| read(kind, admitted, &ObjectText::new(item.get())));
    Ok((objects.collect(), page.metadata))
}

/// Parses an object if the memory budget has room for it.
fn read(kind: &WatchedKind, admitted: &mut Admitted<'_>, object: &ObjectText<'_>) -> Decoded {
    let decoded = kind.decode_rest(object);
    match admitted.admit(&object.key, kind.weight(object, &decoded, SMALL)) {
        Ok(()) => decoded,
        Err(error) => kind.refuse(object, error),
    }
}

async fn page(target: &WatchTarget, params: &ListParams) -> Result<String, Error> {
    let request = Request::new(&target.path);
    let request = match target.kind.representation {
        Representation::Typed | Representation::Whole => request.list(params),
        Representation::Metadata => request.list_metadata(params),
    };
    target.client.request_text(request.map_err(Error::BuildRequest)?).await
}

/// Returns the current resource version of the server.
async fn present(target: &WatchTarget) -> Result<u64, Error> {
    let text = page(target, &ListParams { limit: Some(1), ..ListParams::default() }).await?;
    let page: Page<'_> = serde_json::from_str(&text).map_err(Error::SerdeError)?;
    Ok(version(&page.metadata.resource_version.unwrap_or_default()))
}

/// Follows changes until the watch ends. `newest` is the newest version that the watch has delivered. `hear`
/// receives every sign that the cache is current: the changes, and `None` if nothing has changed.
async fn follow(
    target: &WatchTarget,
    admitted: &mut Admitted<'_>,
    mut at: String,
    newest: &mut u64,
    hear: &mut impl FnMut(Option<WatcherEvent>),
) -> WatchEnd {
    let stream = match open(target, &at).await {
        Ok(stream) => stream,
        Err(error) => {
            if matches!(&error, Error::Api(status) if matches!(status.code, 403 | 405)) {
                warn!(kind = %target.kind.gvk, error = message(&error), "cannot watch; listing the kind repeatedly instead");
            }
            let is_busy = matches!(&error, Error::Api(status) if status.code == 429);
            return WatchEnd { reason: message(&error), resume: is_busy.then_some(at), refused: Some(error) };
        }
    };
    let mut stream = std::pin::pin!(stream);
    let mut is_heard = false;
    loop {
        let mut line = Vec::new();
        match timeout(IDLE_TIMEOUT, next_line(&mut stream, &mut line)).await {
            // A proxy that responds with nothing must not be mistaken for a server without changes.
            Ok(Ok(())) if line.is_empty() && !is_heard => {
                return WatchEnd::list_again("the watch ended without sending anything");
            }
            Ok(Ok(())) if line.is_empty() => {
                hear(None);
                return WatchEnd::resume("the server ended the watch", at);
            }
            Ok(Ok(())) => match take(&target.kind, admitted, &target.is_known, &line) {
                Ok((event, newer)) => {
                    is_heard = true;
                    hear(event);
                    // A restored server continues from an earlier version, and does not report the lost writes.
                    if is_older(&newer, &at) {
                        return WatchEnd::list_again("the resource version went back");
                    }
                    *newest = version(&newer).max(*newest);
                    at = newer;
                }
                Err(reason) => return WatchEnd::list_again(reason),
            },
            Ok(Err(error)) => return WatchEnd::list_again(error.to_string()),
            Err(_) => {
                return match present(target).await {
                    Ok(present) if present >= version(&at) => {
                        hear(None);
                        WatchEnd::resume("it sent nothing for too long", at)
                    }
                    Ok(_) => WatchEnd::list_again(
                        "it sent nothing for too long, and the resource version went back",
                    ),
                    Err(error) => WatchEnd::list_again(format!(
                        "the watch sent nothing for too long: {}",
                        message(&error)
                    )),
                };
            }
        }
    }
}

fn is_older(newer: &str, at: &str) -> bool {
    let newer = version(newer);
    newer != 0 && newer < version(at)
}

async fn open(target: &WatchTarget, at: &str) -> Result<impl AsyncBufRead + use<>, Error> {
    let params = WatchParams {
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        field_selector: selector(&target.fields),
        label_selector: selector(&target.labels),
        ..WatchParams::default()
    };
    let request = Request::new(&target.path);
    let request = match target.kind.representation {
        Representation::Typed | Representation::Whole => request.watch(&params, at),
        Representation::Metadata => request.watch_metadata(&params, at),
    };
    let mut request = request.map_err(Error::BuildRequest)?;
    // A server would hold back a compressed watch until a block is full.
    let identity = http::HeaderValue::from_static("identity");
    request.headers_mut().insert(http::header::ACCEPT_ENCODING, identity);
    target.client.request_stream(request).await
}

/// Reads a line; an empty one is the end of the stream.
async fn next_line(stream: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<()> {
    stream.take(EVENT_BYTES).read_until(b'\n', line).await?;
    if !line.is_empty() && !line.ends_with(b"\n") {
        let reason = match u64::try_from(line.len()) {
            Ok(EVENT_BYTES) => format!("an event has more than {EVENT_BYTES} bytes"),
            Ok(_) | Err(_) => "the connection broke in the middle of an event".into(),
        };
        return Err(std::io::Error::other(reason));
    }
    Ok(())
}

/// Parses a line. Returns the change (`None` for a bookmark or a known version) and the resource version to
/// continue from, or the reason why the watch ends.
fn take(
    kind: &WatchedKind,
    admitted: &mut Admitted<'_>,
    is_known: &IsKnownFn,
    line: &[u8],
) -> Result<(Option<WatcherEvent>, String), String> {
    let event: RawEvent<'_> = serde_json::from_slice(line).map_err(|e| format!("unreadable event: {e}"))?;
    let object = || ObjectText::new(event.object.get());
    match event.event_type {
        "ADDED" | "MODIFIED" => {
            let object = object();
            let is_known = is_known(&object.key, version(&object.resource_version));
            let applied = (!is_known).then(|| WatcherEvent::Applied(read(kind, admitted, &object)));
            Ok((applied, object.resource_version))
        }
        "DELETED" => {
            let ObjectText { key, resource_version, .. } = object();
            admitted.forget(&key);
            let deleted = WatcherEvent::Deleted { key, resource_version: resource_version.clone() };
            Ok((Some(deleted), resource_version))
        }
        "BOOKMARK" => Ok((None, object().resource_version)),
        _ => {
            let status: Status = serde_json::from_str(event.object.get()).unwrap_or_default();
            Err(format!("{} ({})", status.message, status.code))
        }
    }
}

fn selector(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
#[path = "tests/watch.rs"]
mod tests;
