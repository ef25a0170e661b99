//! GET requests to servers of charts, with the limits of fetches.

use http::header::{HOST, LOCATION, USER_AGENT};
use http::{HeaderName, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;

use super::Session;
use super::api::ApiResponse;
use super::client::{AGENT, exchange};
use super::refusal::{header, path_on_host};
use super::session::Part;
use crate::git::Error;

/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// Sends a GET request for a path with a query to the remote of a session, and follows redirects on the same host. A
/// redirect to another host is returned.
///
/// # Errors
/// Fails if the server does not respond, redirects too often, or its response is larger than `limit`.
pub(in crate::git) fn get(
    session: &Session,
    target: &str,
    headers: &[(HeaderName, String)],
    limit: usize,
) -> Result<ApiResponse, Error> {
    let mut target = target.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let answer = get_once(session, &target, headers, limit)
            .map_err(|error| session.explain(&git2::Error::from_str(&error.to_string())))?;
        match redirect_on_host(session, &answer) {
            Some(next) => target = next,
            None => return Ok(answer),
        }
    }
    Err(session.unreachable("it redirects too many times"))
}

fn get_once(
    session: &Session,
    target: &str,
    headers: &[(HeaderName, String)],
    limit: usize,
) -> std::io::Result<ApiResponse> {
    let (head, mut body) = session.wait(async {
        let remote = &session.remote;
        let mut request = Request::get(target).header(HOST, remote.authority()).header(USER_AGENT, AGENT);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::new())).map_err(|e| session.unreachable(e))?;
        Ok(exchange(session, remote, request).await?.into_parts())
    })?;
    let mut bytes = Vec::new();
    while let Some(data) = session.wait(async {
        let Some(frame) = body.frame().await else { return Ok(None) };
        let data = frame.map_err(|e| session.unreachable(e))?.into_data().unwrap_or_default();
        session.count(Part::PackReader, data.len())?;
        if bytes.len() + data.len() > limit {
            return Err(Error::Content(format!("{} sends more than {limit} bytes", session.remote)));
        }
        Ok(Some(data))
    })? {
        bytes.extend_from_slice(&data);
    }
    Ok(ApiResponse { status: head.status, headers: head.headers, body: bytes.into() })
}

/// Returns the path and query of a redirect on the same host.
fn redirect_on_host(session: &Session, answer: &ApiResponse) -> Option<String> {
    let target = path_on_host(session, header(&answer.headers, LOCATION))?;
    answer.status.is_redirection().then(|| target.split('#').next().unwrap_or_default().to_owned())
}
