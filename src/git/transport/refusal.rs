//! HTTP responses that are not from git: redirects and rejections, with their text.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use super::Session;
use crate::git::Error;

/// The maximum number of bytes to read from a page.
const MAX_PAGE: usize = 16 << 10;
/// The pause for a server with too many requests that requests no specific pause.
const PAUSE: Duration = Duration::from_mins(1);
/// The longest pause that a server may request.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// The end of the URL of a list of references.
const LIST: &str = "/info/refs";

/// Returns the text of a header; empty if there is none.
pub(in crate::git) fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the path of the repository in a redirect on the same host.
///
/// # Errors
/// Fails if the redirect points to another host, which the configuration does not name, or not to a repository.
pub(super) fn redirected(session: &Session, headers: &HeaderMap) -> Result<String, Error> {
    let location = header(headers, LOCATION);
    let address = location.split(['?', '#']).next().unwrap_or_default();
    let Some(repository) = address.strip_suffix(LIST) else {
        let reason = format!("it redirects to {address:?}, which is not the address of a repository");
        return Err(Error::Auth { url: session.remote.to_string(), reason: session.hide(&reason) });
    };
    path_on_host(session, repository).map(str::to_owned).ok_or_else(|| {
        session.unreachable(format!("it redirects to {repository:?}; if that is right, make it the URL"))
    })
}

/// Returns the path of an address on the host of a session; `None` if it is on another host.
pub(super) fn path_on_host<'a>(session: &Session, address: &'a str) -> Option<&'a str> {
    let scheme = session.remote.url().split("://").next().unwrap_or_default();
    let here = format!("{scheme}://{}", session.remote.authority());
    let path = match address.split_at_checked(here.len()) {
        Some((host, path)) if host.eq_ignore_ascii_case(&here) => path,
        _ => address,
    };
    (path.starts_with('/') && !path.starts_with("//")).then_some(path)
}

/// Returns the error for a status other than 200.
pub(super) async fn refusal(session: &Session, head: &Parts, body: Incoming) -> Error {
    let (status, url) = (head.status, session.remote.to_string());
    let words = words(&head.headers, body).await.map(|words| format!(": {words}")).unwrap_or_default();
    let reason = object::text::plain(&session.hide(&format!("HTTP status {status}{words}")), 300);
    let seconds = header(&head.headers, RETRY_AFTER).parse().ok().map(Duration::from_secs);
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND => Error::Auth { url, reason },
        StatusCode::FORBIDDEN if seconds.is_none() => Error::Auth { url, reason },
        StatusCode::PAYLOAD_TOO_LARGE => Error::RequestTooLarge { url },
        StatusCode::TOO_MANY_REQUESTS => {
            Error::Busy { url, reason, pause: seconds.unwrap_or(PAUSE).min(LONGEST_PAUSE) }
        }
        _ => match seconds {
            Some(pause) => Error::Busy { url, reason, pause: pause.min(LONGEST_PAUSE) },
            None => session.unreachable(reason),
        },
    }
}

/// Returns the message of a page: its text, or the title of HTML.
async fn words(headers: &HeaderMap, body: Incoming) -> Option<String> {
    let page = Limited::new(body, MAX_PAGE).collect().await.ok()?.to_bytes();
    let page = String::from_utf8_lossy(&page);
    let kind = header(headers, CONTENT_TYPE).split(';').next()?.trim().to_ascii_lowercase();
    let words = match kind.as_str() {
        "text/plain" => &page,
        "text/html" => page.split_once("<title>")?.1.split_once("</title>")?.0,
        _ => return None,
    };
    Some(words.trim().to_owned()).filter(|words| !words.is_empty())
}
