//! Limits the time and size of responses, and reads the `Retry-After` of refusals.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Bytes};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, Service};

use super::super::REQUEST_TIMEOUT;
use super::connections::is_stream;

/// The largest response: a page of 500 objects of 16 KiB, or several of the largest objects in etcd. The client
/// reads longer lists in smaller pages. A response takes three times as much memory while it is read, and all
/// kinds are listed at once when a process starts.
const ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// The largest refusal. kube-apiserver's refusals list every invalid field of an object.
const REFUSAL_BYTES: usize = 1024 * 1024;

/// The reason why a response was not read completely.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("the API server did not respond within {REQUEST_TIMEOUT:?}")]
    Late,
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
}

/// Returns true if a response exceeded the size limit.
pub(crate) fn is_too_large(error: &kube::Error) -> bool {
    let kube::Error::Service(error) = error else { return false };
    matches!(error.downcast_ref(), Some(AnswerError::TooLarge(_)))
}

/// Returns how long a server that refused a request wants no requests.
pub(crate) fn retry_after(error: &kube::Error) -> Duration {
    let kube::Error::Api(status) = error else { return Duration::ZERO };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into())
}

/// A service that rejects responses beyond the limits. For a watch or a log, its reader limits the body.
#[derive(Clone)]
pub(super) struct Answers<S>(S);

impl<S> Answers<S> {
    pub(super) fn new(inner: S) -> Self {
        Self(inner)
    }
}

impl<S, B> Service<Request<Body>> for Answers<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_stream = is_stream(&request);
        let sent = self.0.call(request);
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        Box::pin(async move {
            let response = timeout_at(deadline, sent).await.map_err(|_| AnswerError::Late)?;
            let (head, body) = response.map_err(Into::into)?.into_parts();
            let is_refusal = head.status.is_client_error() || head.status.is_server_error();
            if is_stream && !is_refusal {
                return Ok(Response::from_parts(head, body.map_err(Into::into).boxed_unsync()));
            }
            let limit = if is_refusal { REFUSAL_BYTES } else { ANSWER_BYTES };
            let collected = timeout_at(deadline, Limited::new(body, limit).collect());
            let collected = collected.await.map_err(|_| AnswerError::Late)?.map_err(|error| {
                match error.is::<LengthLimitError>() {
                    true => AnswerError::TooLarge(limit).into(),
                    false => error,
                }
            })?;
            let mut bytes = collected.to_bytes();
            if let Some(status) = is_refusal.then(|| refusal(head.status, &head.headers, &bytes)).flatten() {
                bytes = status.into();
            }
            let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
            Ok(Response::from_parts(head, body))
        })
    }
}

/// Returns the refusal with the time in the `Retry-After` header, which kube's errors do not include. A server
/// that is too busy to create a `Status` sends only that header.
fn refusal(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Vec<u8>> {
    // No API server sends a date, the other form of this header.
    let seconds: u32 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    let parsed = serde_json::from_slice::<Value>(body)
        .ok()
        .filter(|parsed| parsed.get("kind").is_some_and(|kind| kind == "Status"));
    let mut status: Status =
        parsed.and_then(|parsed| serde_json::from_value(parsed).ok()).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(body);
            Status::failure(text.trim(), code.canonical_reason().unwrap_or_default()).with_code(code.as_u16())
        });
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    if details.retry_after_seconds == 0 {
        details.retry_after_seconds = seconds;
    }
    serde_json::to_vec(&status).ok()
}

#[cfg(test)]
#[path = "tests/answers.rs"]
mod tests;
