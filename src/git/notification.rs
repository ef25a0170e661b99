//! Messages to receivers of notifications.
//!
//! Messages are signed as [Standard Webhooks](https://www.standardwebhooks.com) describes: the HMAC-SHA-256 of the ID, the
//! time and the body, with a key that both sides know. The connections follow the rules for git servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, StatusCode};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use ring::hmac::{self, HMAC_SHA256};
use tokio_util::sync::CancellationToken;

use super::transport::{ApiResponse, Session, SessionLimits, TransportLimits, post_without_token};
use super::{Credentials, Egress, Error, Remote};
use object::text::{self, REDACTED};

/// The start of a key.
const PREFIX: &str = "whsec_";
/// The minimum length of a key in bytes, as in Standard Webhooks.
const MIN_KEY: usize = 24;
/// The maximum length of quoted response text, in characters.
const QUOTED: usize = 200;
/// The minimum length of a value in a query that may be a token. A shorter one is a version or a mode.
const MIN_TOKEN: usize = 8;

/// A message for a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The ID of the message.
    pub id: String,
    /// The media type of the body.
    pub content_type: &'static str,
    /// True if the message is signed.
    pub is_signed: bool,
    pub body: String,
}

/// A receiver of notifications. The path and the query of its address are secret.
pub struct Receiver {
    /// The address without its query.
    address: Remote,
    target: PathAndQuery,
    key: Option<hmac::Key>,
    credentials: Credentials,
}

impl Receiver {
    /// Reads the data of a Secret.
    ///
    /// # Errors
    /// Returns [`Error::Url`] or [`Error::Credentials`], without the address and the key.
    pub fn from_secret(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let field = |name: &str| {
            let Some(value) = data.get(name) else { return Ok(None) };
            let text = std::str::from_utf8(&value.0);
            let text =
                text.map_err(|_| Error::Credentials(format!("key {name} of the Secret is not text")))?;
            Ok(Some(text.trim_end_matches(['\r', '\n'])))
        };
        let missing = || Error::Credentials("the Secret has no key address, the URL of the receiver".into());
        let text = field("address")?.ok_or_else(missing)?;
        let (place, query) = match text.split_once('?') {
            Some((place, query)) if !query.contains('#') => (place, Some(query)),
            _ => (text, None),
        };
        let address = Remote::parse(place)?;
        if !address.url().starts_with("http") {
            return Err(Error::Url("it does not start with https://".into()));
        }
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let target = PathAndQuery::try_from(format!("{}{query}", address.path()));
        let target = target.map_err(|_| Error::Url("its path or its query is malformed".into()))?;
        let key =
            field("key")?.map(|key| self::key(key).ok_or_else(|| Error::Credentials(INVALID_KEY.into())));
        Ok(Self { address, target, key: key.transpose()?, credentials: Credentials::for_receiver(data)? })
    }

    /// Returns the address without its query.
    pub fn address(&self) -> &Remote {
        &self.address
    }

    /// Sends a message, and blocks until the receiver has responded.
    ///
    /// # Errors
    /// Returns [`Error::Url`] or [`Error::Credentials`] before sending, [`Error::NotificationRejected`] if the receiver
    /// rejects the message, and [`Error::Unreachable`] if it does not accept it now. Texts may contain the address;
    /// [`Receiver::hide`] removes it.
    pub fn send(
        &self,
        message: &Webhook,
        egress: Egress,
        cancel: CancellationToken,
        now: Timestamp,
    ) -> Result<(), Error> {
        let headers = self.headers(message, now)?;
        let (arrivals, transport) = (Arc::default(), TransportLimits::default());
        let limits = SessionLimits { transport, egress, arrivals: &arrivals };
        let session = Session::new(self.address.clone(), self.credentials.clone(), limits, cancel)?;
        self.judge(&post_without_token(&session, &self.target, &message.body, headers)?)
    }

    /// Removes the path of the address from a text.
    pub fn hide(&self, text: &str) -> String {
        let url = self.address.url();
        text.replace(url, url.strip_suffix(self.address.path()).unwrap_or_default())
    }

    fn headers(&self, message: &Webhook, now: Timestamp) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
        let Webhook { id, content_type, is_signed, body } = message;
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static(content_type))];
        if *is_signed {
            let missing = "the Secret has no key named key, which signs the messages";
            let key = self.key.as_ref().ok_or_else(|| Error::Credentials(missing.into()))?;
            let time = now.as_second();
            let tag = hmac::sign(key, format!("{id}.{time}.{body}").as_bytes());
            let signature = format!("v1,{}", STANDARD.encode(tag));
            let signed = [("webhook-id", id.clone()), ("webhook-timestamp", time.to_string())];
            for (name, value) in signed.into_iter().chain([("webhook-signature", signature)]) {
                let value = HeaderValue::from_str(&value);
                let value =
                    value.map_err(|_| Error::Credentials("the ID of the message is malformed".into()))?;
                headers.push((HeaderName::from_static(name), value));
            }
        }
        Ok(headers)
    }

    /// Returns the parts of the address that a text must not quote, longest first.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let query = self.target.query().unwrap_or_default();
        let values = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        let tokens = [query].into_iter().chain(values).filter(|value| value.len() >= MIN_TOKEN);
        [self.target.as_str(), self.address.path()].into_iter().chain(tokens)
    }

    /// Evaluates the response of the receiver.
    fn judge(&self, ApiResponse { status, headers: _, body }: &ApiResponse) -> Result<(), Error> {
        let url = self.address.url();
        let said = self
            .secrets()
            .fold(String::from_utf8_lossy(body).into_owned(), |said, secret| said.replace(secret, REDACTED));
        // A page says less than the status.
        let quoted = match text::plain(&said, QUOTED) {
            said if said.is_empty() || said.starts_with('<') => String::new(),
            said => format!(", {said}"),
        };
        let reason = format!("HTTP status {}{quoted}", status.as_u16());
        match *status {
            status if status.is_success() => Ok(()),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(Error::unreachable(url, &reason))
            }
            status if status.is_server_error() => Err(Error::unreachable(url, &reason)),
            _ => Err(Error::NotificationRejected { url: url.to_owned(), reason }),
        }
    }
}

const INVALID_KEY: &str = "key `key` of the Secret is not whsec_ and at least 24 bytes in Base64; create one with whsec_$(openssl rand -base64 32)";

fn key(text: &str) -> Option<hmac::Key> {
    let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    (bytes.len() >= MIN_KEY).then(|| hmac::Key::new(HMAC_SHA256, &bytes))
}
