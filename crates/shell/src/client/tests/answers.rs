//! Tests late and long responses and refusals, with a paused clock.

use futures::{AsyncBufReadExt as _, StreamExt as _};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, LogParams};
use kube::{Client, Error};
use serde_json::json;
use tower::service_fn;

use super::*;

type Bytewise = UnsyncBoxBody<Bytes, BoxError>;

fn full(bytes: impl Into<Bytes>) -> Bytewise {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns a body that begins but never continues.
fn unfinished() -> Bytewise {
    let first = futures::stream::once(async { Ok(Frame::data(Bytes::from_static(b"{}\n"))) });
    StreamBody::new(first.chain(futures::stream::pending())).boxed_unsync()
}

/// Sends a request for a path to a server that responds with `make()`; returns the result.
async fn ask(path: &str, make: fn() -> Option<Response<Bytewise>>) -> kube::Result<String> {
    let service = service_fn(move |_: Request<Body>| async move {
        match make() {
            Some(response) => Ok::<_, BoxError>(response),
            None => std::future::pending().await,
        }
    });
    let client = Client::new(Answers::new(service), "default");
    client.request_text(Request::get(path).body(Vec::new()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_answered_to_its_end_fails() {
    let started = Instant::now();
    let answers: [fn() -> Option<Response<Bytewise>>; 2] = [|| None, || Some(Response::new(unfinished()))];
    for answer in answers {
        let error = ask("/api/v1/pods", answer).await.unwrap_err();
        assert_eq!(error.to_string(), "ServiceError: the API server did not respond within 30s");
    }
    assert_eq!(started.elapsed(), 2 * REQUEST_TIMEOUT);
    // The head of a watch response has the same time limit; its body has none.
    let unanswered = ask("/api/v1/pods?watch=true", || None).await;
    assert!(unanswered.is_err());
    assert_eq!(started.elapsed(), 3 * REQUEST_TIMEOUT);
    let watched = ask("/api/v1/pods?limit=1&watch=true", || Some(Response::new(unfinished())));
    assert!(tokio::time::timeout(10 * REQUEST_TIMEOUT, watched).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_log_is_read_as_it_arrives() {
    let service = service_fn(|_: Request<Body>| async { Ok::<_, BoxError>(Response::new(unfinished())) });
    let pods: kube::Api<Pod> =
        kube::Api::namespaced(Client::new(Answers::new(service), "default"), "default");
    for follow in [true, false] {
        let parameters = LogParams { follow, ..LogParams::default() };
        let mut lines = pods.log_stream("a", &parameters).await.unwrap().lines();
        assert_eq!(lines.next().await.unwrap().unwrap(), "{}");
        assert!(tokio::time::timeout(10 * REQUEST_TIMEOUT, lines.next()).await.is_err(), "the log goes on");
    }
    let pod = pods.get("log").await.unwrap_err();
    assert_eq!(pod.to_string(), "ServiceError: the API server did not respond within 30s");
}

#[tokio::test]
async fn a_response_that_is_too_long_is_not_read() {
    let endless = || {
        let block = Bytes::from(vec![b' '; 1 << 20]);
        let blocks = futures::stream::repeat_with(move || Ok(Frame::data(block.clone())));
        Some(Response::new(StreamBody::new(blocks).boxed_unsync()))
    };
    let error = ask("/api/v1/pods", endless).await.unwrap_err();
    assert!(is_too_large(&error), "{error}");
}

/// Returns the page that a query requests from a list of seven ConfigMaps of 3 MiB.
fn page_of(query: &str) -> Response<Bytewise> {
    let number = |name: &str| -> Option<usize> {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let (limit, from) = (number("limit").unwrap(), number("continue").unwrap_or_default());
    let to = (from + limit).min(7);
    let text = "x".repeat(3 << 20);
    let items: Vec<_> =
        (from..to).map(|i| json!({"metadata": {"name": i.to_string()}, "data": {"text": text}})).collect();
    let token = if to < 7 { to.to_string() } else { String::new() };
    Response::new(full(json!({"metadata": {"continue": token}, "items": items}).to_string()))
}

#[tokio::test]
async fn a_list_of_large_objects_is_read_in_pages_that_fit() {
    let service = service_fn(|request: Request<Body>| async move {
        Ok::<_, BoxError>(page_of(request.uri().query().unwrap_or_default()))
    });
    let maps: kube::Api<ConfigMap> = kube::Api::all(Client::new(Answers::new(service), "default"));
    let listed = crate::list_all(&maps, ListParams::default()).await.unwrap();
    let names: Vec<_> = listed.into_iter().filter_map(|map| map.metadata.name).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6"]);
}

#[tokio::test]
async fn a_refusal_says_when_to_retry() {
    fn refused(body: &'static str) -> Option<Response<Bytewise>> {
        let response = Response::builder().status(429).header("retry-after", "7");
        Some(response.body(full(body)).unwrap())
    }
    // API Priority and Fairness responds in plain text; other refusals are a Status with details.
    let plain = ask("/", || refused("Too many requests, please try again later.\n")).await.unwrap_err();
    assert_eq!(retry_after(&plain), Duration::from_secs(7));
    let Error::Api(status) = &plain else { panic!("{plain}") };
    assert_eq!((status.code, status.message.as_str()), (429, "Too many requests, please try again later."));

    let refusal = ask("/", || {
        refused(r#"{"kind": "Status", "code": 429, "message": "no", "details": {"retryAfterSeconds": 3}}"#)
    });
    let refusal = refusal.await.unwrap_err();
    assert_eq!(retry_after(&refusal), Duration::from_secs(3));
}
