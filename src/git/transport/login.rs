//! The login for a git server: the credentials in the Secret, or a token requested with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use jiff::Timestamp;
use serde::Deserialize;

use super::Session;
use super::client::{AGENT, exchange};
use crate::git::Error;
use crate::git::github::GithubApp;

/// The maximum size of a response with a token. GitHub lists the permissions in it.
const MAX_ANSWER: usize = 64 << 10;

/// The response to a request for a token.
#[derive(Deserialize)]
struct Issued {
    token: String,
    expires_at: Timestamp,
}

/// Returns the value of the `Authorization` header, if there are credentials.
pub(super) async fn authorization(session: &Session) -> Result<Option<String>, Error> {
    let Some(app) = session.credentials.github_app() else { return Ok(session.credentials.authorization()) };
    if app.login().is_none() {
        issue(session, app).await?;
    }
    Ok(app.login().map(|login| format!("Basic {}", STANDARD.encode(login))))
}

/// Returns the token for the API of a git service.
pub(super) async fn token(session: &Session) -> Result<String, Error> {
    let Some(app) = session.credentials.github_app() else {
        let token = session.credentials.token().map(str::to_owned);
        let missing = "the Secret of the commit status has no token, and no key of a GitHub App";
        return token.ok_or_else(|| Error::Credentials(missing.into()));
    };
    issue(session, app).await?;
    app.token().ok_or_else(|| session.unreachable("its token expires too soon"))
}

/// Requests a token.
async fn issue(session: &Session, app: &GithubApp) -> Result<(), Error> {
    let issuer = app.issuer();
    let refused = |reason: String| Error::Auth { url: issuer.to_string(), reason };
    let request = Request::post(issuer.path())
        .header(HOST, issuer.authority())
        .header(USER_AGENT, AGENT)
        .header(ACCEPT, "application/vnd.github+json")
        .header(AUTHORIZATION, format!("Bearer {}", app.proof()?));
    let request = request.body(Full::new(Bytes::new())).map_err(|e| refused(e.to_string()))?;
    let answer = exchange(session, issuer, request).await?;
    if answer.status() != StatusCode::CREATED {
        let status = answer.status();
        return Err(refused(format!(
            "HTTP status {status} for the GitHub App; check its id, its installation and its key"
        )));
    }
    let body = Limited::new(answer.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map_err(|e| refused(format!("its response cannot be read: {e}")))?
        .to_bytes();
    let Issued { token, expires_at } = serde_json::from_slice(&body)
        .map_err(|_| refused("its response is not the token of an installation".into()))?;
    if token.is_empty() || token.contains(|c: char| c.is_control()) {
        return Err(refused("its token is malformed".into()));
    }
    app.keep(token, expires_at);
    Ok(())
}
