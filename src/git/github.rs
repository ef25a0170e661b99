//! GitHub Apps: the app's key signs a proof that requests a token. For an hour, the token can read or write the
//! repositories of one installation.
//!
//! See "Authenticating as a GitHub App installation" in GitHub's documentation.

use std::fmt::{Debug, Formatter};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;

use super::{Error, Remote};

/// The address of GitHub's API. GitHub Enterprise Server has `https://HOST/api/v3`.
const PUBLIC_API: &str = "https://api.github.com";
/// A new token is requested this long before the old one expires. A fetch takes at most five minutes.
const MARGIN: SignedDuration = SignedDuration::from_mins(10);
/// The lifetime of the app's proof. GitHub accepts at most ten minutes.
const PROOF_LIFETIME: SignedDuration = SignedDuration::from_mins(8);
/// Proofs are backdated by this much, for a server whose clock is behind.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

/// The keys of the Secret.
#[derive(Clone, Debug)]
pub(super) struct AppKeys {
    pub(super) app: String,
    pub(super) installation: String,
    pub(super) private_key: String,
    /// The address of the API; `None` for github.com.
    pub(super) api: Option<String>,
}

/// A GitHub App, installed for the owner of repositories.
#[derive(Clone)]
pub(super) struct GithubApp {
    app: String,
    private_key: String,
    /// The address that issues tokens.
    issuer: Remote,
    /// The current time.
    now: Timestamp,
    /// The last token, shared by all clones of the app.
    token: Arc<Mutex<Option<Token>>>,
}

/// A token of an installation.
#[derive(Clone)]
struct Token {
    text: String,
    expires: Timestamp,
}

/// Apps are equal if they have the same id and key. The token does not matter.
impl PartialEq for GithubApp {
    fn eq(&self, other: &Self) -> bool {
        let Self { app, private_key, issuer, now: _, token: _ } = self;
        (app, private_key, issuer) == (&other.app, &other.private_key, &other.issuer)
    }
}

impl Eq for GithubApp {}

/// Shows neither the key nor the token.
impl Debug for GithubApp {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GithubApp")
            .field("app", &self.app)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl GithubApp {
    /// Reads the keys of a Secret.
    ///
    /// # Errors
    /// [`Error::Credentials`] names the invalid key.
    pub(super) fn read(keys: AppKeys) -> Result<Self, Error> {
        let AppKeys { app, installation, private_key, api } = keys;
        let refuse =
            |key: &str, reason: &str| Error::Credentials(format!("key {key} of the Secret {reason}"));
        if !app.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') {
            return Err(refuse("githubAppID", "is neither the id nor the client id of a GitHub App"));
        }
        if !installation.chars().all(|c| c.is_ascii_digit()) {
            return Err(refuse("githubAppInstallationID", "is not a number"));
        }
        key_pair(&private_key)?;
        let api = api.as_deref().unwrap_or(PUBLIC_API).trim_end_matches('/');
        let issuer = Remote::parse(&format!("{api}/app/installations/{installation}/access_tokens"));
        let issuer = issuer.ok().filter(|issuer| issuer.address(443).is_some());
        let wanted = "is not the address of an API, such as https://github.example.com/api/v3";
        let issuer = issuer.ok_or_else(|| refuse("githubAppBaseURL", wanted))?;
        Ok(Self { app, private_key, issuer, now: Timestamp::UNIX_EPOCH, token: Arc::default() })
    }

    /// Sets the current time.
    pub(super) fn at(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Reuses the token from an earlier read of the same Secret.
    pub(super) fn keep_token_of(&mut self, before: &Self) {
        if self == before {
            self.token = Arc::clone(&before.token);
        }
    }

    /// Returns the address that issues tokens.
    pub(super) fn issuer(&self) -> &Remote {
        &self.issuer
    }

    /// Returns the login with the last token, unless that expires soon.
    pub(super) fn login(&self) -> Option<String> {
        self.token().map(|token| format!("x-access-token:{token}"))
    }

    /// Returns the last token, unless it expires soon.
    pub(super) fn token(&self) -> Option<String> {
        let token = self.token.lock().expect("no thread panics while it holds the token").clone()?;
        let ends = token.expires.saturating_sub(MARGIN).ok()?;
        (self.now < ends).then_some(token.text)
    }

    /// Stores a new token.
    pub(super) fn keep(&self, text: String, expires: Timestamp) {
        *self.token.lock().expect("no thread panics while it holds the token") =
            Some(Token { text, expires });
    }

    /// Drops a token that a server rejected.
    pub(super) fn forget(&self) {
        *self.token.lock().expect("no thread panics while it holds the token") = None;
    }

    /// Returns the proof that requests a token: a JSON Web Token (RFC 7519), signed with RS256.
    ///
    /// # Errors
    /// Returns [`Error::Credentials`] if the key cannot sign.
    pub(super) fn proof(&self) -> Result<String, Error> {
        let seconds = |time: Result<Timestamp, _>| time.map_or(0, Timestamp::as_second);
        let claims = json!({
            "iat": seconds(self.now.checked_sub(CLOCK_SKEW)),
            "exp": seconds(self.now.checked_add(PROOF_LIFETIME)),
            "iss": self.app,
        });
        let header = json!({"alg": "RS256", "typ": "JWT"});
        let encoded = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let message = encoded.join(".");
        let pair = key_pair(&self.private_key)?;
        let mut signature = vec![0; pair.public().modulus_len()];
        let signed = pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature);
        signed.map_err(|_| unusable("it cannot sign"))?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn unusable(reason: &str) -> Error {
    Error::Credentials(format!("key githubAppPrivateKey of the Secret cannot be used: {reason}"))
}

fn key_pair(pem: &str) -> Result<RsaKeyPair, Error> {
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unusable("it is not a PEM key"))?;
    let pair = match &der {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(unusable("it is no RSA key")),
    };
    pair.map_err(|error| unusable(&error.to_string()))
}
