//! Watch streams: one JSON event per line, until the client disconnects, the timeout expires or the server
//! stops.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::hub::{Hub, WATCH, apart};
use super::places::Place;
use super::request::{Accept, ApiRequest};
use super::respond::{self, HandlerResult};
use super::table;
use store::{ApiError, FieldError, ResourcePath, User, Watch, WatchEvent, WatchEventType};

/// The interval between bookmarks, as in kube-apiserver.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The lifetime of a watch without `timeoutSeconds`. kube-apiserver uses a random time of 30 to 60 minutes.
const MAX_WATCH_TIME: Duration = Duration::from_secs(45 * 60);

/// The bytes that are written ahead of the client, unless one event is longer.
const CHUNK: usize = WATCH / 2;

struct Events {
    hub: Arc<Hub>,
    watch: Watch,
    /// Events that are not written yet. If it is empty, `watch` is polled.
    queue: VecDeque<WatchEvent>,
    /// The memory of the initial objects, until all of them are written.
    present: Option<Place>,
    _place: Place,
    user: Arc<User>,
    /// The memory of a long chunk, until the client continues to read.
    memory: Option<Place>,
    changed: tokio::sync::watch::Receiver<u64>,
    accept: Accept,
    include: table::Include,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    over: bool,
}

pub(super) async fn answer(hub: &Arc<Hub>, request: &ApiRequest, target: &ResourcePath) -> HandlerResult {
    let options = request.watch_options();
    let bookmarks = request.query.is("allowWatchBookmarks");
    check_options(request)?;
    let timeout = request
        .query
        .number("timeoutSeconds")?
        .filter(|s| *s > 0)
        .map_or(MAX_WATCH_TIME, Duration::from_secs);
    let include = table::Include::read(request)?;
    // The watch starts and subscribes under one lock, so that no change is lost in between.
    let (reader, target) = (hub.clone(), target.clone());
    // The first poll reads all objects of the resource.
    let started = apart(move || {
        reader.read(|store| {
            let mut watch = store.watch(&target, &options)?;
            let changed = reader.subscribe(&watch.scope().resource().id());
            let first = store.poll(&mut watch)?;
            Ok((changed, watch, first))
        })
    });
    let body = match started.await {
        Ok((changed, watch, first)) => {
            let now = Instant::now();
            let bytes = first.iter().map(WatchEvent::weight).sum();
            let present =
                if bytes > WATCH { Some(hub.in_flight.answer(&request.user, bytes)?) } else { None };
            let events = Events {
                hub: hub.clone(),
                watch,
                present,
                queue: first.into_iter().filter(|event| is_wanted(event, bookmarks)).collect(),
                _place: hub.in_flight.watch(&request.user)?,
                user: request.user.clone(),
                memory: None,
                changed,
                accept: request.accept,
                include,
                bookmarks,
                next_bookmark: now + BOOKMARK_EVERY,
                deadline: now.checked_add(timeout).unwrap_or(now + MAX_WATCH_TIME),
                over: false,
            };
            Body::from_stream(stream(events))
        }
        // A revision that is too old is an event in the stream, not an error response. Clients handle both, and
        // kube-apiserver sends the event.
        Err(error @ ApiError { .. }) if error.code() == 410 => Body::from(error_line(&error)),
        Err(error) => return Err(error),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

fn is_wanted(event: &WatchEvent, bookmarks: bool) -> bool {
    bookmarks || event.type_ != WatchEventType::Bookmark
}

/// Checks the parameters of streaming lists (KEP-3157).
fn check_options(request: &ApiRequest) -> Result<(), ApiError> {
    let field = "resourceVersionMatch";
    let given = request.query.get(field).unwrap_or_default();
    let errors = match (request.query.get("sendInitialEvents"), given) {
        (None, "") | (Some(_), "NotOlderThan") => return Ok(()),
        (None, _) => {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            vec![FieldError::forbidden(field, detail)]
        }
        (Some(_), given) => {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            let mut errors = vec![FieldError::forbidden(field, detail)];
            if !given.is_empty() {
                errors.push(FieldError::unsupported(field, &given.into(), ["NotOlderThan"].into_iter()));
            }
            errors
        }
    };
    Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors))
}

fn stream(start: Events) -> impl Stream<Item = Result<Vec<u8>, std::convert::Infallible>> {
    futures::stream::unfold(start, |mut stream| async move {
        let lines = stream.next().await?;
        Some((Ok(lines), stream))
    })
}

impl Events {
    /// Returns the next lines; `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        while !self.over {
            self.memory = None;
            if !self.queue.is_empty() {
                return Some(self.chunk());
            }
            self.present = None;
            // Events that are not written yet stay in the history, which is limited.
            match self.hub.read(|store| store.poll_some(&mut self.watch, CHUNK)) {
                Ok((events, false)) if events.is_empty() => {}
                Ok((events, _)) => {
                    let bookmarks = self.bookmarks;
                    self.queue = events.into_iter().filter(|event| is_wanted(event, bookmarks)).collect();
                    continue;
                }
                Err(error) => {
                    self.over = true;
                    return Some(error_line(&error));
                }
            }
            let bookmark_at = if self.bookmarks { self.next_bookmark } else { self.deadline };
            tokio::select! {
                changed = self.changed.changed() => self.over = changed.is_err(),
                () = self.hub.stop.cancelled() => self.over = true,
                () = sleep_until(self.deadline.min(bookmark_at)) => {
                    let now = Instant::now();
                    self.over = now >= self.deadline;
                    if self.bookmarks && now >= self.next_bookmark {
                        self.next_bookmark = now + BOOKMARK_EVERY;
                        let bookmark = self.hub.read(|store| store.bookmark(&self.watch, false));
                        return Some(self.line(&bookmark));
                    }
                }
            }
        }
        None
    }

    fn chunk(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        while let Some(event) = self.queue.pop_front() {
            lines.extend(self.line(&event));
            if lines.len() >= CHUNK {
                break;
            }
        }
        // The initial objects are counted until all of them are written, and may use the user's whole share.
        if lines.len() > WATCH && self.present.is_none() {
            match self.hub.in_flight.answer(&self.user, lines.len()) {
                Ok(memory) => self.memory = Some(memory),
                Err(error) => {
                    self.over = true;
                    return error_line(&error);
                }
            }
        }
        lines
    }

    fn line(&self, event: &WatchEvent) -> Vec<u8> {
        match (self.accept, event.type_) {
            (Accept::Table, WatchEventType::Bookmark) => {
                json_event(event.type_, &table::bookmark(&event.object))
            }
            (Accept::Table, _) => {
                let scope = self.watch.scope();
                let seen = table::TableContext {
                    resource: scope.resource(),
                    version: scope.version(),
                    now: (self.hub.clock)(),
                };
                let metadata = json!({ "resourceVersion": event.object.resource_version() });
                json_event(event.type_, &table::of(&seen, &[&event.object], self.include, metadata))
            }
            (Accept::Metadata, _) => json_event(event.type_, &respond::partial(&event.object)),
            (Accept::Json | Accept::Discovery | Accept::MetadataList | Accept::None, _) => {
                json_event(event.type_, &*event.object)
            }
        }
    }
}

fn json_event(type_: WatchEventType, object: &impl serde::Serialize) -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Line<'a, T> {
        #[serde(rename = "type")]
        type_: &'a str,
        object: &'a T,
    }
    let mut line = serde_json::to_vec(&Line { type_: type_.as_str(), object })
        .expect("JSON objects have string keys, so they serialize");
    line.push(b'\n');
    line
}

fn error_line(error: &ApiError) -> Vec<u8> {
    let value: Value = json!({ "type": "ERROR", "object": respond::status_value(error) });
    format!("{value}\n").into_bytes()
}
