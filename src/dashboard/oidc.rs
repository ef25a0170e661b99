//! Login with OpenID Connect, by the authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1;
//! RFC 7636).
//!
//! The dashboard only obtains the ID token. The API server of the hub verifies it, like any other token.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use super::paging::encoded;
use crate::pki::fill_random;
use object::text::plain;

/// The path of the page that the provider sends the visitor back to.
pub(super) const CALLBACK: &str = "/oidc-callback";
/// The cookie with the secrets of a login that has begun. The provider's site may send the visitor back with it
/// (`SameSite=Lax`), and only to this host.
const COOKIE: &str = "__Host-wheelwright-login";
/// The time for a login, in seconds.
const LOGIN_TIME: u32 = 600;
/// The timeout for a request to the provider.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response of the provider in bytes.
const MAX_RESPONSE: usize = 256 << 10;
/// The maximum number of concurrent requests to the provider.
const REQUESTS: usize = 8;
/// The maximum length of an error of the provider, in characters.
const ERROR: usize = 300;

/// The options of a login with OpenID Connect.
#[derive(Debug, Default)]
pub struct OidcOptions {
    /// The URL of the provider, which starts with `https://`.
    pub issuer: String,
    /// The client that the API server expects in the ID token (`aud`).
    pub client_id: String,
    /// The secret of the client; `None` for a public client.
    pub client_secret: Option<String>,
    /// The scopes in addition to `openid`, such as `email` and `groups`.
    pub extra_scopes: Vec<String>,
}

/// The login with one provider.
pub(super) struct Oidc {
    options: OidcOptions,
    provider: OnceCell<Provider>,
    requests: Semaphore,
}

/// The part of a provider's metadata that the flow needs (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug, Deserialize)]
struct Provider {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// The query with which the provider sends the visitor back.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Callback {
    code: String,
    state: String,
    error: String,
    error_description: String,
}

/// A login that has begun.
pub(super) struct Begun {
    /// The page of the provider.
    pub(super) location: String,
    /// The value of the header `Set-Cookie`.
    pub(super) cookie: String,
}

/// The reason why a login fails.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoginError {
    /// The browser did not begin this login, or too long ago.
    Unknown,
    /// The provider refuses the login or does not respond.
    Provider(String),
}

impl Oidc {
    pub(super) fn new(options: OidcOptions) -> Self {
        Self { options, provider: OnceCell::new(), requests: Semaphore::new(REQUESTS) }
    }

    /// Begins a login. `host` is the host of the dashboard.
    pub(super) async fn begin(&self, host: &str) -> Result<Begun, LoginError> {
        let provider = self.provider().await?;
        let (state, verifier) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        let scopes: Vec<&str> =
            ["openid"].into_iter().chain(self.options.extra_scopes.iter().map(String::as_str)).collect();
        let query = query(&[
            ("response_type", "code"),
            ("client_id", &self.options.client_id),
            ("redirect_uri", &redirect(host)),
            ("scope", &scopes.join(" ")),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let endpoint = &provider.authorization_endpoint;
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        Ok(Begun {
            location: format!("{endpoint}{separator}{query}"),
            cookie: format!(
                "{COOKIE}={state}.{verifier}; Path=/; Max-Age={LOGIN_TIME}; Secure; HttpOnly; SameSite=Lax"
            ),
        })
    }

    /// Ends a login, and returns the ID token. `cookies` are the cookies of the request.
    pub(super) async fn end<'c>(
        &self,
        host: &str,
        callback: &Callback,
        cookies: impl IntoIterator<Item = (&'c str, &'c str)>,
    ) -> Result<String, LoginError> {
        let cookie = cookies.into_iter().find(|(name, _)| *name == COOKIE);
        let (state, verifier) =
            cookie.and_then(|(_, value)| value.split_once('.')).ok_or(LoginError::Unknown)?;
        if state != callback.state {
            return Err(LoginError::Unknown);
        }
        if !callback.error.is_empty() {
            return Err(refused(&callback.error, &callback.error_description));
        }
        self.exchange(host, &callback.code, verifier).await
    }

    /// Exchanges a code for an ID token (OpenID Connect Core 1.0, section 3.1.3).
    async fn exchange(&self, host: &str, code: &str, verifier: &str) -> Result<String, LoginError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Tokens {
            id_token: String,
            error: String,
            error_description: String,
        }
        let (provider, OidcOptions { client_id, client_secret, .. }) =
            (self.provider().await?, &self.options);
        let redirect = redirect(host);
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", verifier),
            ("client_id", client_id),
        ];
        let mut request = Request::builder()
            .method(Method::POST)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let methods = &provider.token_endpoint_auth_methods_supported;
        match client_secret {
            // A provider that names no methods supports this one.
            Some(secret) if methods.is_empty() || methods.iter().any(|one| one == "client_secret_basic") => {
                let login = STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(secret)));
                request = request.header(header::AUTHORIZATION, format!("Basic {login}"));
            }
            Some(secret) => fields.push(("client_secret", secret)),
            None => {}
        }
        let (status, tokens) = self.send(&provider.token_endpoint, request, query(&fields)).await?;
        let Tokens { id_token, error, error_description } = parsed(&tokens).unwrap_or_default();
        match id_token {
            _ if !error.is_empty() => Err(refused(&error, &error_description)),
            token if status.is_success() && !token.is_empty() => Ok(token),
            _ => {
                Err(LoginError::Provider(format!("it returns no ID token (HTTP status {})", status.as_u16())))
            }
        }
    }

    /// Returns the provider's metadata, which are read once.
    async fn provider(&self) -> Result<&Provider, LoginError> {
        self.provider.get_or_try_init(|| self.discover()).await
    }

    async fn discover(&self) -> Result<Provider, LoginError> {
        let issuer = &self.options.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let (status, body) = self.send(&url, Request::builder(), String::new()).await?;
        let invalid = |reason: String| LoginError::Provider(format!("{url}: {reason}"));
        if !status.is_success() {
            return Err(invalid(format!("HTTP status {}", status.as_u16())));
        }
        let provider: Provider = parsed(&body).map_err(invalid)?;
        if provider.issuer != *issuer {
            let other = plain(&provider.issuer, ERROR);
            return Err(invalid(format!("it is the provider {other}, not {issuer}")));
        }
        Ok(provider)
    }

    /// Sends a request to the provider.
    async fn send(
        &self,
        url: &str,
        request: axum::http::request::Builder,
        body: String,
    ) -> Result<(StatusCode, Bytes), LoginError> {
        let failed = |reason: String| LoginError::Provider(format!("{}: {reason}", plain(url, ERROR)));
        let sent = async {
            let _permit = self.requests.acquire().await.map_err(|error| error.to_string())?;
            let uri: Uri = url.parse().map_err(|_| "it is not a URL".to_owned())?;
            let (Some("https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
                return Err("it is not an https:// address".to_owned());
            };
            let server =
                Uri::builder().scheme("https").authority(authority.clone()).path_and_query("/").build();
            let config = kube::Config::new(server.map_err(|error| error.to_string())?);
            let client = kube::Client::try_from(config).map_err(|error| error.to_string())?;
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            let request = request.header(header::ACCEPT, "application/json").uri(path);
            let request = request.body(Body::from(body.into_bytes())).map_err(|error| error.to_string())?;
            let (head, body) = client
                .send(request)
                .await
                .map_err(|error| format!("{:#}", anyhow::Error::new(error)))?
                .into_parts();
            let body = Limited::new(body, MAX_RESPONSE).collect().await.map_err(|error| error.to_string())?;
            Ok((head.status, body.to_bytes()))
        };
        let sent = timeout(TIMEOUT, sent).await.unwrap_or_else(|_| Err("no response in 10 s".into()));
        sent.map_err(failed)
    }
}

/// Returns the address that the provider must know for the client.
fn redirect(host: &str) -> String {
    format!("https://{host}{CALLBACK}")
}

fn refused(error: &str, description: &str) -> LoginError {
    let separator = if description.is_empty() { "" } else { ": " };
    LoginError::Provider(plain(&format!("{error}{separator}{description}"), ERROR))
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("its response is not the expected JSON: {error}"))
}

fn query(fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    fields.join("&")
}

/// Returns 256 random bits in 43 characters.
fn random() -> Result<String, LoginError> {
    let mut bytes = [0; 32];
    fill_random(&mut bytes).map_err(|error| LoginError::Provider(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
