//! git over https: one request for the list of references, and one for each further step (gitprotocol-http(5)).
//!
//! The transport follows redirects of the list of references on the same host, like git. It rejects a redirect
//! to another host, because the configuration does not name that host.

use std::io::{self, Read, Write};
use std::sync::Arc;

use git2::transport::Service;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};

use super::advertisement::Advertisement;
use super::client::{AGENT, exchange};
use super::pack::PackReader;
use super::refusal::{header, redirected, refusal};
use super::session::Part;
use super::{Session, login};
use crate::git::Error;

/// The maximum size of a request. A report is far smaller.
const MAX_REQUEST: usize = 64 << 20;

/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// One request and its response. libgit2 writes the request first, and then reads the response.
pub(super) struct Exchange {
    session: Arc<Session>,
    command: &'static str,
    part: Part,
    is_push: bool,
    request: Vec<u8>,
    body: Option<Incoming>,
    advertisement: Advertisement,
    /// The response to a fetch; `None` for others, which have no pack.
    answer: Option<PackReader>,
    /// Received bytes of the response that are not read yet.
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
        let is_push = matches!(service, Service::ReceivePack);
        let rest = Bytes::new();
        Self { session, command, part, is_push, request, body: None, advertisement, answer, rest }
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.body.is_none() {
            let request = std::mem::take(&mut self.request);
            self.session.sent(request.len());
            let sent = send(&self.session, self.part, self.command, request);
            self.body = Some(self.session.wait_for_answer(self.is_push, sent)?);
        }
        let (session, part, is_push) = (&self.session, self.part, self.is_push);
        let advertisement = &mut self.advertisement;
        while self.rest.is_empty() {
            let (Some(body), answer) = (&mut self.body, &mut self.answer) else { return Ok(0) };
            let next = session.wait_for_answer(is_push, async {
                let Some(frame) = body.frame().await else { return Ok(None) };
                let data = frame.map_err(|e| session.unreachable(e))?.into_data().unwrap_or_default();
                session.count(part, data.len())?;
                if part == Part::Advertisement {
                    return Ok(Some(Bytes::from(session.pass(advertisement, &data)?)));
                }
                if let Some(answer) = answer {
                    let passed = answer.take(&data).map_err(|error| session.refuse(&error))?;
                    return Ok(Some(Bytes::from(passed)));
                }
                if is_push {
                    session.keep_push_answer(&data);
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
        self.request.extend_from_slice(&self.session.request(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a request. If the server rejects a GitHub App token that was issued earlier, retries once with a new
/// token. Returns the body of the response.
async fn send(session: &Session, part: Part, command: &str, body: Vec<u8>) -> Result<Incoming, Error> {
    let body = Bytes::from(body);
    let has_token = session.credentials.github_app().is_some_and(|app| app.login().is_some());
    let mut answer = send_once(session, part, command, body.clone()).await?;
    if part == Part::Advertisement {
        answer = follow(session, command, answer).await?;
    }
    if has_token && answer.status() == StatusCode::UNAUTHORIZED {
        answer = send_once(session, part, command, body).await?;
    }
    let kind = match part {
        Part::Advertisement => "advertisement",
        Part::PackReader => "result",
    };
    check(session, answer, &format!("application/x-{command}-{kind}")).await
}

/// Follows redirects of the list of references.
async fn follow(
    session: &Session,
    command: &str,
    mut answer: Response<Incoming>,
) -> Result<Response<Incoming>, Error> {
    for _ in 0..MAX_REDIRECTS {
        if !answer.status().is_redirection() {
            return Ok(answer);
        }
        session.follow(redirected(session, answer.headers())?);
        answer = send_once(session, Part::Advertisement, command, Bytes::new()).await?;
    }
    Err(session.unreachable("it redirects too many times"))
}

/// Sends a request on a new connection. Drops a token that the server rejects.
async fn send_once(
    session: &Session,
    part: Part,
    command: &str,
    body: Bytes,
) -> Result<Response<Incoming>, Error> {
    let path = session.path();
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

/// Checks the response of a git server, and returns its body.
async fn check(session: &Session, answer: Response<Incoming>, expected: &str) -> Result<Incoming, Error> {
    let (head, body) = answer.into_parts();
    if head.status.is_redirection() {
        let reason = "it redirects a request after it served the list of references without a redirect";
        return Err(session.unreachable(reason));
    }
    if head.status != StatusCode::OK {
        return Err(refusal(session, &head, body).await);
    }
    let kind = header(&head.headers, CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(expected) {
        return Err(session.unreachable("its response is not from a git server over HTTP"));
    }
    // The request accepts no encoding, so an encoded response is invalid.
    match header(&head.headers, CONTENT_ENCODING) {
        "" | "identity" => Ok(body),
        encoding => Err(session.unreachable(format!("it encodes its response as {encoding:?}"))),
    }
}
