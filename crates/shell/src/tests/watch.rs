//! Tests watches of API servers that misbehave, with a paused clock.

use std::collections::VecDeque;
use std::sync::Mutex;

use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use object::Object;
use reconcile::{
    Command, Controller, Dispatcher, DispatcherLimits, Plan, Read, Register as _, View, Watches,
};
use serde_json::json;
use tower::BoxError;

use super::super::budget::MEMORY;
use super::super::freshness::Contact;
use super::super::lines::Lines;
use super::*;

#[path = "own_writes.rs"]
mod own_writes;
#[path = "refusals.rs"]
mod refusals;

/// A controller that only needs a watch of one kind.
struct Idle;

impl Controller for Idle {
    const NAME: &'static str = "idle";
    type Primary = ConfigMap;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        Ok(Plan::nothing())
    }
}

/// The response of a server to a request.
enum Reply {
    /// An empty list at a resource version.
    Listed(u32),
    /// An empty page of a list that continues.
    Continues,
    /// A stream of these lines, which stays open.
    Streams(Bytes),
    /// A stream with a bookmark every minute for half an hour, which then breaks.
    Bookmarks,
    /// A stream that ends at once.
    Ends,
    /// A refusal with this code, and the seconds until the server wants the next request.
    Refused(u16, u32),
    /// A broken connection.
    Breaks,
}

/// The requests that were sent, and the events that followed.
#[derive(Default)]
struct Log {
    /// For each request: true if it was a watch, the time, and the version to start from.
    requests: Vec<(bool, Duration, String)>,
    /// When the kind was reported as stale.
    stale: Vec<Duration>,
    restored: usize,
    listed: usize,
    /// The reported reasons for refusals.
    refused: Vec<String>,
}

impl Log {
    fn count(&self, watches: bool) -> usize {
        self.requests.iter().filter(|(is_watch, ..)| *is_watch == watches).count()
    }
}

/// Returns a dispatcher and the kind that it watches.
fn watching() -> (Dispatcher, Arc<WatchedKind>) {
    let mut dispatcher =
        Dispatcher::new(DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 }, false);
    dispatcher.add::<Idle>();
    let mut commands = VecDeque::from(dispatcher.due(Timestamp::UNIX_EPOCH));
    loop {
        if let Command::Watch(kind) = commands.pop_front().expect("the kind is watched") {
            return (dispatcher, kind);
        }
    }
}

/// Returns the response to a request, given the numbers of earlier lists and watches.
type AnswerFn = fn(is_watch: bool, before: (usize, usize)) -> Reply;

/// Watches a server for `time`.
async fn watched(time: Duration, answer: AnswerFn) -> Log {
    watched_on(&Contact::default(), time, answer).await
}

/// Watches a server for `time`, while other kinds of it are watched.
async fn watched_on(contact: &Contact, time: Duration, answer: AnswerFn) -> Log {
    let (log, started) = (Arc::new(Mutex::new(Log::default())), Instant::now());
    let service = tower::service_fn({
        let log = Arc::clone(&log);
        move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let is_watch = query.contains("watch=true");
            let mut log = log.lock().unwrap();
            let before = (log.count(false), log.count(true));
            let from =
                query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap_or_default();
            log.requests.push((is_watch, started.elapsed(), from.into()));
            let answer = respond(answer(is_watch, before));
            async move { answer }
        }
    });
    let (_, kind) = watching();
    let target = WatchTarget {
        client: Client::new(service, "default"),
        kind,
        path: "/api/v1/configmaps".into(),
        fields: String::new(),
        labels: String::new(),
        is_known: Box::new(|_, _| false),
        memory: &MEMORY,
    };
    let metrics = Metrics::default();
    contact.wrote(&written());
    let mut freshness = Freshness::new(contact);
    let recorded = Arc::clone(&log);
    let tell = |event| match event {
        WatcherEvent::Stale => recorded.lock().unwrap().stale.push(started.elapsed()),
        WatcherEvent::Listed { .. } => recorded.lock().unwrap().listed += 1,
        WatcherEvent::Restored => recorded.lock().unwrap().restored += 1,
        WatcherEvent::Refused(reason) => recorded.lock().unwrap().refused.push(reason),
        WatcherEvent::Applied(_) | WatcherEvent::Deleted { .. } => {}
    };
    let _ = timeout(time, watch(target, &metrics, &mut freshness, tell)).await;
    std::mem::take(&mut log.lock().unwrap())
}

fn respond(answer: Reply) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    let json = |code: u16, text: String| {
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
        Ok(Response::builder().status(code).body(body)?)
    };
    match answer {
        Reply::Listed(at) => {
            json(200, format!(r#"{{"metadata": {{"resourceVersion": "{at}"}}, "items": []}}"#))
        }
        Reply::Continues => {
            json(200, r#"{"metadata": {"resourceVersion": "7", "continue": "on"}, "items": []}"#.into())
        }
        Reply::Refused(code, seconds) => {
            let details = format!(r#"{{"retryAfterSeconds": {seconds}}}"#);
            json(
                code,
                format!(r#"{{"kind": "Status", "code": {code}, "message": "no", "details": {details}}}"#),
            )
        }
        Reply::Ends => json(200, String::new()),
        Reply::Breaks => Err("the connection broke".into()),
        Reply::Streams(lines) => {
            let first = futures::stream::once(async move { Ok(Frame::data(lines)) });
            Ok(Response::new(StreamBody::new(first.chain(futures::stream::pending())).boxed_unsync()))
        }
        Reply::Bookmarks => {
            let minutes = futures::stream::iter(0..=30).then(|minute| async move {
                sleep(MINUTE).await;
                let line = Frame::data(Bytes::from_static(BOOKMARK));
                (minute < 30).then_some(line).ok_or_else(|| "the connection broke".into())
            });
            Ok(Response::new(StreamBody::new(minutes).boxed_unsync()))
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const BOOKMARK: &[u8] =
    b"{\"type\": \"BOOKMARK\", \"object\": {\"metadata\": {\"resourceVersion\": \"9\"}}}\n";

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_watches_for_a_while_is_left_alone_for_that_while() {
    let busy: AnswerFn = |watch, _| if watch { Reply::Refused(429, 5) } else { Reply::Listed(7) };
    let log = watched(Duration::from_secs(10), busy).await;
    assert_eq!((log.count(false), log.count(true) <= 2), (1, true), "{:?}", log.requests);
    assert!(log.requests.iter().all(|(is_watch, _, from)| !is_watch || from == "7"), "{:?}", log.requests);
    assert_eq!(watched(10 * MINUTE, busy).await.stale.len(), 1, "in the end the kind counts as not read");
}

#[tokio::test(start_paused = true)]
async fn a_list_continues_after_a_busy_server_refused_a_page() {
    let log = watched(MINUTE, |is_watch, (lists, _)| match (is_watch, lists) {
        (true, _) => Reply::Streams(Bytes::from_static(BOOKMARK)),
        (false, 0) => Reply::Continues,
        (false, 1..4) => Reply::Refused(429, 5),
        (false, _) => Reply::Listed(9),
    });
    let log = log.await;
    let lists: Vec<_> =
        log.requests.iter().filter(|(is_watch, ..)| !is_watch).map(|(_, at, _)| at.as_secs()).collect();
    assert_eq!((lists, log.listed), (vec![0, 0, 5, 10, 15], 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_watches_do_not_last_is_asked_ever_less() {
    for answer in [
        (|is_watch, _| if is_watch { Reply::Ends } else { Reply::Listed(7) }) as AnswerFn,
        |is_watch, _| if is_watch { Reply::Breaks } else { Reply::Listed(7) },
        |is_watch, _| if is_watch { Reply::Refused(403, 0) } else { Reply::Listed(7) },
        |is_watch, _| if is_watch { Reply::Streams(Bytes::from_static(b"{}\n")) } else { Reply::Listed(7) },
        |_, _| Reply::Refused(500, 0),
    ] {
        let log = watched(10 * MINUTE, answer).await;
        assert!((15..70).contains(&log.requests.len()), "{:?}", log.requests);
        assert!(log.count(false) > 1, "an answer without a word says nothing: {:?}", log.requests);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_resumes_from_its_last_version() {
    let log = watched(10 * MINUTE, |is_watch, _| match is_watch {
        true => Reply::Streams(Bytes::from_static(BOOKMARK)),
        false => Reply::Listed(9),
    });
    let log = log.await;
    assert_eq!(log.listed, 1, "one object is read to see that nothing went back: {:?}", log.requests);
    assert_eq!(log.count(true), 7, "{:?}", log.requests);
    assert!(log.requests.iter().skip(2).all(|(is_watch, _, from)| !is_watch || from == "9"));
}

/// Returns the response to our own write.
fn written() -> Object {
    Object::from_value(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "resourceVersion": "6" } })).unwrap()
}

/// The watch was down when the object was written, and starts again after the restore.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_an_own_write_before_it_shows_a_restore() {
    let older = watched(MINUTE, |_, _| Reply::Listed(5)).await;
    assert_eq!(older.restored, 1, "{:?}", older.requests);
    let same = watched(MINUTE, |_, _| Reply::Listed(6)).await;
    assert_eq!(same.restored, 0, "{:?}", same.requests);
}

/// After etcd is restored from a backup, the server continues from an earlier version.
#[tokio::test(start_paused = true)]
async fn a_kind_is_listed_again_when_the_resource_version_goes_back() {
    let silent = watched(2 * MINUTE, |is_watch, (lists, _)| match (is_watch, lists) {
        (true, _) => Reply::Streams(Bytes::new()),
        (false, 0) => Reply::Listed(100),
        (false, _) => Reply::Listed(50),
    });
    let silent = silent.await;
    assert_eq!((silent.listed, silent.count(true)), (2, 2), "{:?}", silent.requests);
    assert_eq!(silent.restored, 1, "the other kinds of the server are listed again too");

    let result = watched(MINUTE, |is_watch, (lists, watches)| match (is_watch, lists + watches) {
        (false, 0) => Reply::Listed(100),
        (false, _) => Reply::Listed(50),
        (true, 1) => Reply::Streams(Bytes::from_static(
            b"{\"type\": \"BOOKMARK\", \"object\": {\"metadata\": {\"resourceVersion\": \"50\"}}}\n",
        )),
        (true, _) => Reply::Streams(Bytes::new()),
    });
    let result = result.await;
    assert_eq!((result.listed, result.count(true)), (2, 2), "{:?}", result.requests);

    // The versions are higher than in the first list, and lower than in the watch.
    let counted_on = watched(2 * MINUTE, |is_watch, (lists, watches)| match (is_watch, lists + watches) {
        (false, 0) => Reply::Listed(100),
        (false, _) => Reply::Listed(150),
        (true, 1) => Reply::Streams(Bytes::from_static(
            b"{\"type\": \"BOOKMARK\", \"object\": {\"metadata\": {\"resourceVersion\": \"200\"}}}\n",
        )),
        (true, _) => Reply::Streams(Bytes::new()),
    });
    let counted_on = counted_on.await;
    assert_eq!((counted_on.listed, counted_on.restored), (2, 1), "{:?}", counted_on.requests);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_can_no_longer_be_listed_is_stale_after_five_minutes() {
    let refused = watched(60 * MINUTE, |is_watch, (lists, _)| match (is_watch, lists) {
        (true, _) => Reply::Breaks,
        (false, 0) => Reply::Listed(7),
        (false, _) => Reply::Refused(403, 0),
    });
    let refused = refused.await;
    assert_eq!(refused.stale.len(), 1, "{:?}", refused.stale);
    assert!(refused.stale[0] >= 5 * MINUTE && refused.stale[0] <= 7 * MINUTE, "{:?}", refused.stale);

    // A server that does not respond at all makes nothing stale.
    let away = watched(60 * MINUTE, |is_watch, (lists, _)| match (is_watch, lists) {
        (false, 0) => Reply::Listed(7),
        (_, _) => Reply::Breaks,
    });
    assert!(away.await.stale.is_empty());
}

/// Lists and watches without changes for about half an hour, then responds differently.
fn quiet(is_watch: bool, is_served: bool, watch: Reply, then: Reply) -> Reply {
    match (is_served, is_watch) {
        (true, true) => watch,
        (true, false) => Reply::Listed(7),
        (false, _) => then,
    }
}

/// Another kind of the server changes constantly, so the server was last heard from just before it went away.
#[tokio::test(start_paused = true)]
async fn a_kind_in_which_nothing_changes_is_as_current_as_its_watch() {
    let rows: [(AnswerFn, usize); 4] = [
        (|watch, (_, before)| quiet(watch, before < 1, Reply::Bookmarks, Reply::Breaks), 0),
        (|watch, (_, before)| quiet(watch, before < 20, Reply::Streams(Bytes::new()), Reply::Breaks), 0),
        (|watch, (_, before)| quiet(watch, before < 60, Reply::Ends, Reply::Breaks), 0),
        (|watch, (_, before)| quiet(watch, before < 1, Reply::Bookmarks, Reply::Refused(500, 0)), 1),
    ];
    for (answer, stale) in rows {
        let contact = Contact::default();
        let another = async {
            let mut another = Freshness::new(&contact);
            for _ in 0..31 {
                another.confirmed();
                sleep(MINUTE).await;
            }
        };
        let (log, ()) = futures::future::join(watched_on(&contact, 60 * MINUTE, answer), another).await;
        assert_eq!(log.stale.len(), stale, "{:?}", log.stale);
        assert!(log.stale.iter().all(|at| (35 * MINUTE..37 * MINUTE).contains(at)), "{:?}", log.stale);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_without_end_is_not_read() {
    let log = watched(MINUTE, |is_watch, _| match is_watch {
        true => Reply::Streams(Bytes::from(vec![b' '; 17 << 20])),
        false => Reply::Listed(7),
    });
    let log = log.await;
    assert!(log.listed > 1, "{:?}", log.requests);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_endless_pages_is_abandoned() {
    let log = watched(MINUTE, |is_watch, (lists, _)| match is_watch {
        true => Reply::Streams(Bytes::new()),
        false if lists < 3000 => Reply::Continues,
        false => Reply::Listed(7),
    });
    let log = log.await;
    let lists: Vec<Duration> = log.requests.iter().filter(|(is_watch, ..)| !is_watch).map(|r| r.1).collect();
    assert_eq!(lists[2048], Duration::ZERO, "the first list");
    assert!(lists[2049] > Duration::ZERO, "the list is tried again after a wait");
    assert_eq!((lists.len(), log.listed), (3001, 1));
}

#[test]
fn an_empty_list_of_metadata_has_null_for_its_items() {
    let page: Page<'_> =
        serde_json::from_str(r#"{"metadata": {"resourceVersion": "7"}, "items": null}"#).unwrap();
    let items = page.items.into_iter().flatten().count();
    assert_eq!((items, page.metadata.resource_version.as_deref()), (0, Some("7")));
}

/// Feeds arbitrary bytes as the responses of a server: a page of a list, or lines of a watch.
#[test]
fn any_bytes_are_an_answer_to_a_watch_or_refused() {
    let event = |kind: &str, version: &str| {
        let metadata =
            json!({ "namespace": "a", "name": "m", "resourceVersion": version, "labels": { "k": "v" } });
        let object =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "a": "b" } });
        json!({ "type": kind, "object": object })
    };
    let events = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"].map(|kind| event(kind, "8").to_string());
    let page = json!({ "metadata": { "resourceVersion": "7", "continue": "" }, "items": [event("", "6")["object"]] });
    let gone = json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410, "message": "too old" } });
    let wrong =
        json!({ "type": "ADDED", "object": { "metadata": { "name": "m", "labels": [] }, "data": 1 } });
    let seeds = [page.to_string(), events.join("\n"), gone.to_string(), format!("{page}\n{wrong}")];
    let run = |bytes: &[u8]| {
        let (mut dispatcher, kind) = watching();
        let unknown: IsKnownFn = Box::new(|_, _| false);
        let mut delivered = 0;
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok((objects, metadata)) =
                read_page(&kind, &mut Admitted::new(&MEMORY), &String::from_utf8_lossy(line))
            {
                let resource_version = metadata.resource_version.unwrap_or_default();
                delivered = objects.len();
                let listed = WatcherEvent::Listed { objects, resource_version };
                dispatcher.watched(&kind, listed, Timestamp::UNIX_EPOCH);
            }
            let event =
                take(&kind, &mut Admitted::new(&MEMORY), &unknown, line).ok().and_then(|(event, _)| event);
            delivered += usize::from(event.is_some());
            event.into_iter().for_each(|event| dispatcher.watched(&kind, event, Timestamp::UNIX_EPOCH));
        }
        let unreadable: usize = dispatcher.cached().iter().map(|(_, count)| count.unreadable).sum();
        assert!(unreadable <= delivered, "{unreadable} of {delivered} objects cannot be read");
    };
    let words =
        ["\"resourceVersion\":", "\"type\":", "\"object\":", "null", "\n", "18446744073709551616", "{", "["];
    let seeds = seeds.map(String::into_bytes);
    crate::fuzz::Target { name: "answer_to_a_watch", run: &run, seeds: &seeds, words: &words }.fuzz();
}

#[test]
fn an_object_over_the_budget_is_named_and_others_are_read() {
    let (_, kind) = watching();
    let memory = Memory::new(0);
    let map = |namespace: &str, name: String, bytes: usize| json!({"metadata": {"namespace": namespace, "name": name}, "data": {"a": "x".repeat(bytes)}});
    let mut items: Vec<_> = (0..10).map(|index| map("loud", format!("m{index}"), 1 << 20)).collect();
    items.extend([map("loud", "small".into(), 10), map("calm", "m".into(), 1 << 20)]);
    let page = json!({"metadata": {"resourceVersion": "7"}, "items": items}).to_string();
    let (objects, _) = read_page(&kind, &mut Admitted::new(&memory), &page).unwrap();
    let refused = objects.into_iter().filter_map(|decoded| match decoded {
        Decoded::Unreadable(refused) => Some(refused),
        Decoded::Object(_) => None,
    });
    let refused: Vec<_> = refused.map(|refused| (refused.key.to_string(), refused.reason)).collect();
    // 1/16 of 64 MiB has room for three objects.
    assert_eq!(refused.len(), 7, "{refused:?}");
    assert!(
        refused.iter().all(|(key, reason)| key.starts_with("loud/m") && reason.contains("KiB of memory")),
        "{refused:?}"
    );
}
