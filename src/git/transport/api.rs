//! One request to the API of a git service or to a webhook, with the limits of fetches and pushes.

use http::header::{HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;

use super::client::{AGENT, exchange};
use super::{Session, login};
use crate::git::Error;

/// The maximum size of a response in bytes. A service repeats the status and its author.
const MAX_ANSWER: usize = 256 << 10;

pub(in crate::git) struct ApiResponse {
    pub(in crate::git) status: StatusCode,
    pub(in crate::git) headers: HeaderMap,
    pub(in crate::git) body: Bytes,
}

/// Sends a body to the remote of a session. `headers` gets the token in the credentials.
///
/// # Errors
/// Fails if the service does not respond, or the credentials have no token.
pub(in crate::git) fn post(
    session: &Session,
    body: &str,
    headers: impl FnOnce(&str) -> Result<Vec<(HeaderName, HeaderValue)>, Error>,
) -> Result<ApiResponse, Error> {
    session.run(async {
        let headers = headers(&login::token(session).await?)?;
        send(session, session.remote.path(), body, headers).await
    })
}

/// Sends a body to a path with a query at the remote of a session, without a token.
///
/// # Errors
/// Fails if the remote does not respond.
pub(in crate::git) fn post_without_token(
    session: &Session,
    target: &PathAndQuery,
    body: &str,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<ApiResponse, Error> {
    session.run(send(session, target.as_str(), body, headers))
}

async fn send(
    session: &Session,
    target: &str,
    body: &str,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<ApiResponse, Error> {
    let remote = &session.remote;
    let mut request = Request::post(target).header(HOST, remote.authority()).header(USER_AGENT, AGENT);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let body = Full::new(Bytes::from(body.to_owned()));
    let request = request.body(body).map_err(|e| session.unreachable(e))?;
    let (head, body) = exchange(session, remote, request).await?.into_parts();
    let body = Limited::new(body, MAX_ANSWER)
        .collect()
        .await
        .map_err(|e| session.unreachable(format!("its response cannot be read: {e}")))?
        .to_bytes();
    Ok(ApiResponse { status: head.status, headers: head.headers, body })
}
