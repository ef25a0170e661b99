//! Commit statuses on services that host repositories.
//!
//! | service | request |
//! |---|---|
//! | GitHub | `POST /repos/OWNER/REPO/statuses/SHA` ("Create a commit status") |
//! | Gitea, Forgejo | the same, below `/api/v1` |
//! | GitLab | `POST /api/v4/projects/PATH/statuses/SHA` ("Set commit pipeline status") |

use std::sync::Arc;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::transport::{ApiResponse, Session, SessionLimits, TransportLimits, post};
use super::{Credentials, Egress, Error, Remote};
use object::text;

/// The maximum length of a description in characters, a limit of GitHub.
const DESCRIPTION: usize = 140;
/// The maximum length of quoted response text, in characters.
const QUOTED: usize = 200;
/// The pause in seconds if a service asks for one without a duration.
const PAUSE: i64 = 60;
/// The longest pause in seconds. GitHub's rate limit is hourly.
const LONGEST_PAUSE: i64 = 3600;

/// The API of a git service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// GitHub and GitHub Enterprise Server.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea and Forgejo.
    Gitea,
}

/// A status of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRequest {
    /// The API of the service.
    pub provider: Provider,
    /// The address of the API; empty for the default on the repository's host.
    pub address: String,
    pub repository: Remote,
    /// The commit id.
    pub commit: String,
    /// The name of the status.
    pub context: String,
    /// The state: pending, success or failure.
    pub state: String,
    /// A one-line description.
    pub description: String,
}

impl StatusRequest {
    /// Sends the status, and blocks until the service has responded.
    ///
    /// # Errors
    /// Returns [`Error::Url`] or [`Error::Credentials`] before sending, [`Error::Auth`] or
    /// [`Error::StatusRejected`] if the service rejects the request, [`Error::Throttled`] if it is rate
    /// limited, and [`Error::Unreachable`] without a response.
    pub fn send(
        &self,
        credentials: Credentials,
        egress: Egress,
        cancel: CancellationToken,
        now: Timestamp,
    ) -> Result<(), Error> {
        let endpoint = self.endpoint()?;
        let arrivals = Arc::default();
        let transport = TransportLimits::default();
        let limits = SessionLimits { transport, egress, arrivals: &arrivals };
        let session = Session::new(endpoint.clone(), credentials, limits, cancel)?;
        let mut answer = post(&session, &self.body(), |token| self.headers(token))?;
        answer.body = session.hide(&String::from_utf8_lossy(&answer.body)).into();
        self.judge(&endpoint, &answer, now)
    }

    /// Returns the address to send the status to.
    pub(super) fn endpoint(&self) -> Result<Remote, Error> {
        let Self { provider, address, repository, commit, .. } = self;
        let refuse = |reason: &str| Error::Url(format!("the commit status is refused: {reason}"));
        let host =
            repository.host().ok_or_else(|| refuse("a repository of this machine has no git service"))?;
        let path = repository.path().trim_matches('/').trim_end_matches(".git");
        let api = match (address.trim_end_matches('/'), provider) {
            ("", Provider::GitHub) if host == "github.com" => "https://api.github.com".to_owned(),
            ("", Provider::GitHub) => format!("https://{host}/api/v3"),
            ("", Provider::GitLab) => format!("https://{host}/api/v4"),
            ("", Provider::Gitea) => format!("https://{host}/api/v1"),
            (address, _) => address.to_owned(),
        };
        let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let parts: Vec<&str> = path.split('/').collect();
        let project = match (provider, parts.as_slice()) {
            (_, parts) if !path.chars().all(is_safe) || parts.contains(&"..") => None,
            (Provider::GitHub | Provider::Gitea, [.., owner, name]) => Some(format!("repos/{owner}/{name}")),
            (Provider::GitLab, [_, _, ..]) => Some(format!("projects/{}", parts.join("%2F"))),
            (_, _) => None,
        };
        let project =
            project.ok_or_else(|| refuse("the path of spec.url does not have the form OWNER/REPO"))?;
        let endpoint = Remote::parse(&format!("{api}/{project}/statuses/{commit}"));
        let endpoint = endpoint.ok().filter(|endpoint| endpoint.address(443).is_some());
        endpoint.ok_or_else(|| {
            refuse("its address is not the address of an API, such as https://git.example.com/api/v4")
        })
    }

    fn body(&self) -> String {
        let Self { provider, context, state, description, .. } = self;
        let description = text::plain(description, DESCRIPTION);
        let body = match (provider, state.as_str()) {
            (Provider::GitLab, "failure") => {
                json!({"state": "failed", "name": context, "description": description})
            }
            (Provider::GitLab, state) => json!({"state": state, "name": context, "description": description}),
            (Provider::GitHub | Provider::Gitea, state) => {
                json!({"state": state, "context": context, "description": description})
            }
        };
        body.to_string()
    }

    fn headers(&self, token: &str) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
        let (name, login, accept) = match self.provider {
            Provider::GitHub => (AUTHORIZATION, format!("Bearer {token}"), "application/vnd.github+json"),
            Provider::Gitea => (AUTHORIZATION, format!("token {token}"), "application/json"),
            Provider::GitLab => {
                (HeaderName::from_static("private-token"), token.to_owned(), "application/json")
            }
        };
        let mut login = HeaderValue::from_str(&login)
            .map_err(|_| Error::Credentials("the token of the Secret is malformed".into()))?;
        login.set_sensitive(true);
        let json = HeaderValue::from_static("application/json");
        Ok(vec![(name, login), (ACCEPT, HeaderValue::from_static(accept)), (CONTENT_TYPE, json)])
    }

    /// Evaluates the response of the service.
    fn judge(&self, endpoint: &Remote, answer: &ApiResponse, now: Timestamp) -> Result<(), Error> {
        let ApiResponse { status, headers, body } = answer;
        let url = endpoint.to_string();
        let reason = || {
            let message = serde_json::from_slice::<Value>(body).ok().and_then(|body| {
                let message = body.get("message").or_else(|| body.get("error"))?;
                Some(message.as_str().map_or_else(|| message.to_string(), str::to_owned))
            });
            let message = message.map(|message| format!(", {}", text::plain(&message, QUOTED)));
            format!("HTTP status {status}{}", message.unwrap_or_default())
        };
        let seconds = |name: &str| headers.get(name)?.to_str().ok()?.parse::<i64>().ok();
        // GitHub also reports rate limits with 403.
        let reset = seconds("x-ratelimit-reset").filter(|_| seconds("x-ratelimit-remaining") == Some(0));
        let pause = seconds("retry-after").or_else(|| reset.map(|at| at.saturating_sub(now.as_second())));
        match status.as_u16() {
            200..=299 => Ok(()),
            429 | 403 | 503 if pause.is_some() || status.as_u16() == 429 => {
                let pause = pause.unwrap_or(PAUSE).clamp(1, LONGEST_PAUSE);
                let until = Timestamp::from_second(now.as_second().saturating_add(pause)).unwrap_or(now);
                Err(Error::Throttled { url, until })
            }
            // GitLab rejects a transition from pending to pending, but the status is already correct.
            400 if self.provider == Provider::GitLab && reason().contains("Cannot transition status") => {
                Ok(())
            }
            401 | 403 | 404 => Err(Error::Auth { url, reason: reason() }),
            400..=499 => Err(Error::StatusRejected { url, reason: reason() }),
            _ => Err(Error::unreachable(&url, &reason())),
        }
    }
}
