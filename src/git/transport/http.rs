//! git over https: one request for the list of references, and one for each further part
//! (gitprotocol-http(5)).
//!
//! The transport follows no redirect, because a redirect leads to a host that the configuration does not
//! name.

use std::io::{self, Read, Write};
use std::sync::Arc;

use git2::transport::Service;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};

use super::advertisement::Advertisement;
use super::client::{AGENT, exchange};
use super::pack::PackReader;
use super::session::Part;
use super::{Session, login};
use crate::git::Error;

/// Most bytes of a request. A report is far smaller.
const MAX_REQUEST: usize = 64 << 20;

/// One request and its answer. libgit2 writes the request first, and then reads the answer.
pub(super) struct Exchange {
    session: Arc<Session>,
    command: &'static str,
    part: Part,
    request: Vec<u8>,
    body: Option<Incoming>,
    advertisement: Advertisement,
    /// The answer to a fetch; `None` for others, which have no pack.
    answer: Option<PackReader>,
    /// The part of the answer that arrived and was not read yet.
    rest: Bytes,
}

impl Exchange {
    pub(super) fn new(session: Arc<Session>, service: Service, command: &'static str) -> Self {
        let part = match service {
            Service::UploadPackLs | Service::ReceivePackLs => Part::Advertisement,
            Service::UploadPack | Service::ReceivePack => Part::PackReader,
        };
        let answer = match service {
            Service::UploadPack => Some(PackReader::new()),
            Service::UploadPackLs | Service::ReceivePackLs | Service::ReceivePack => None,
        };
        let (request, advertisement) = (Vec::new(), session.advertisement());
        Self { session, command, part, request, body: None, advertisement, answer, rest: Bytes::new() }
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.body.is_none() {
            let request = std::mem::take(&mut self.request);
            self.session.sent(request.len());
            let sent = send(&self.session, self.part, self.command, request);
            self.body = Some(self.session.wait_to_connect(sent)?);
        }
        let (session, part, advertisement) = (&self.session, self.part, &mut self.advertisement);
        while self.rest.is_empty() {
            let (Some(body), answer) = (&mut self.body, &mut self.answer) else { return Ok(0) };
            let next = session.wait(async {
                let Some(frame) = body.frame().await else { return Ok(None) };
                let data = frame.map_err(|e| session.unreachable(e))?.into_data().unwrap_or_default();
                session.count(part, data.len())?;
                if part == Part::Advertisement {
                    return Ok(Some(Bytes::from(session.pass(advertisement, &data)?)));
                }
                if let Some(answer) = answer {
                    answer.take(&data).map_err(|why| session.refuse(&why))?;
                }
                Ok(Some(data))
            })?;
            match next {
                Some(data) => self.rest = data,
                None => return Ok(0),
            }
        }
        let length = self.rest.len().min(buffer.len());
        let taken = self.rest.split_to(length);
        for (to, from) in buffer.iter_mut().zip(taken) {
            *to = from;
        }
        Ok(length)
    }
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.request.len() + bytes.len() > MAX_REQUEST {
            return Err(io::Error::other(format!("a request is larger than {} MiB", MAX_REQUEST >> 20)));
        }
        self.request.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a request, and again with a new token of the GitHub App if the server refuses the one that was
/// requested earlier. Returns the body of the answer.
async fn send(session: &Session, part: Part, command: &str, body: Vec<u8>) -> Result<Incoming, Error> {
    let body = Bytes::from(body);
    let has_token = session.credentials.github_app().is_some_and(|app| app.login().is_some());
    let mut answer = send_once(session, part, command, body.clone()).await?;
    if has_token && answer.status() == StatusCode::UNAUTHORIZED {
        answer = send_once(session, part, command, body).await?;
    }
    let kind = match part {
        Part::Advertisement => "advertisement",
        Part::PackReader => "result",
    };
    check(session, &answer, &format!("application/x-{command}-{kind}"))?;
    Ok(answer.into_body())
}

/// Sends a request over a connection of its own. A token that the server refuses is not used again.
async fn send_once(
    session: &Session,
    part: Part,
    command: &str,
    body: Bytes,
) -> Result<Response<Incoming>, Error> {
    let path = session.remote.path().trim_end_matches('/');
    let (method, path) = match part {
        Part::Advertisement => (Method::GET, format!("{path}/info/refs?service={command}")),
        Part::PackReader => (Method::POST, format!("{path}/{command}")),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, session.remote.authority())
        .header(USER_AGENT, AGENT);
    if part == Part::PackReader {
        request = request.header(CONTENT_TYPE, format!("application/x-{command}-request"));
    }
    if let Some(login) = login::authorization(session).await? {
        request = request.header(AUTHORIZATION, login);
    }
    let request = request.body(Full::new(body)).map_err(|e| session.unreachable(e))?;
    let answer = exchange(session, &session.remote, request).await?;
    if answer.status() == StatusCode::UNAUTHORIZED
        && let Some(app) = session.credentials.github_app()
    {
        app.forget();
    }
    Ok(answer)
}

fn check(session: &Session, answer: &Response<Incoming>, expected: &str) -> Result<(), Error> {
    let (status, url) = (answer.status(), session.remote.to_string());
    let header = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    if status.is_redirection() {
        let to = header(answer.headers(), LOCATION);
        return Err(session.unreachable(format!("it redirects to {to:?}; if that is right, make it the URL")));
    }
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND) {
        return Err(Error::Auth { url, why: format!("HTTP status {status}") });
    }
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return Err(Error::RequestTooLarge { url });
    }
    if status != StatusCode::OK {
        return Err(session.unreachable(format!("HTTP status {status}")));
    }
    if header(answer.headers(), CONTENT_TYPE) != expected {
        return Err(session.unreachable("its answer is not that of a git server over HTTP"));
    }
    // The request accepts no encoding, so an encoded answer is refused.
    match header(answer.headers(), CONTENT_ENCODING).as_str() {
        "" | "identity" => Ok(()),
        encoding => Err(session.unreachable(format!("it encodes its answer as {encoding:?}"))),
    }
}
