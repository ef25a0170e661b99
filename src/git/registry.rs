//! Pulls from OCI registries (distribution-spec, "Pull"), and other downloads over https.
//!
//! Content is verified by its digest before anybody parses it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, LINK, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, StatusCode};
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::transport::{ApiResponse, Arrivals, Session, SessionLimits, TransportLimits, get, header};
use super::{Credentials, Egress, Error, Remote};
use object::hex;

/// The maximum size of a manifest, as in registries.
const MAX_MANIFEST: usize = 4 << 20;
/// The maximum size of a response with a token.
const MAX_TOKEN: usize = 64 << 10;
/// The maximum size of a page of tags. A tag has at most 128 bytes.
const MAX_TAGS: usize = 1 << 20;
/// The maximum number of pages of tags, with 1,000 tags each, and of pages of referrers.
const MAX_PAGES: usize = 50;
const MAX_REFERRER_PAGES: usize = 10;
/// The time limit for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause for a registry with too many requests that requests no specific pause, and the longest one.
const PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The connections for downloads.
#[derive(Debug)]
pub struct Downloads {
    /// The certificate authorities and the proxy for all servers, and the client certificate for one of them. Callers
    /// choose the login for a host.
    pub credentials: Credentials,
    /// The addresses that connections may be opened to.
    pub egress: Egress,
    /// Ends downloads.
    pub cancel: CancellationToken,
    /// Limits the bytes in flight.
    pub(crate) arrivals: Arc<Arrivals>,
}

/// A repository in a registry.
pub(super) struct Registry<'a> {
    downloads: &'a Downloads,
    /// The address of the repository in the registry's API.
    base: String,
    path: &'a str,
    /// The header `Authorization` for token services, and for registries without one.
    login: Option<String>,
    /// The header `Authorization` that the registry asked for.
    authorization: RefCell<Option<String>>,
}

/// The bytes of a manifest, and their digest.
pub(super) struct ManifestBytes {
    pub(super) digest: String,
    pub(super) bytes: Bytes,
}

#[derive(Deserialize)]
pub(super) struct Manifest {
    pub(super) config: Descriptor,
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    size: usize,
    /// Empty outside of indexes.
    #[serde(default)]
    pub(super) artifact_type: String,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Issued {
    #[serde(alias = "access_token")]
    token: String,
}

#[derive(Deserialize)]
struct Tags {
    /// Null if the repository has none.
    tags: Option<Vec<String>>,
}

/// Parses a manifest.
///
/// # Errors
/// Returns [`Error::Content`] if it is not the manifest of one artifact.
pub(super) fn parse_manifest(bytes: &[u8]) -> Result<Manifest, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let reason = object::text::plain(&error.to_string(), 100);
        Error::Content(format!("its manifest does not describe a single artifact: {reason}"))
    })
}

/// Returns the SHA-256 digest of content, as registries write it.
pub(super) fn digest_of(content: &[u8]) -> String {
    format!("sha256:{}", hex(Sha256::digest(content)))
}

/// Returns content if it has a SHA-256 digest, in hexadecimal digits.
pub(super) fn verified(content: Bytes, digest: &str) -> Result<Bytes, Error> {
    let actual = hex(Sha256::digest(&content));
    if actual == digest {
        return Ok(content);
    }
    Err(Error::Content(format!("its content has the digest sha256:{actual}, not sha256:{digest}")))
}

/// Returns the hexadecimal digits of a SHA-256 digest.
pub(super) fn sha256_hex(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:")?;
    let is_hex = hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then_some(hex)
}

impl<'a> Registry<'a> {
    /// Returns a repository. `address` is its host and path.
    pub(super) fn new(
        downloads: &'a Downloads,
        address: &'a str,
        login: Option<String>,
    ) -> Result<Self, Error> {
        let no_path = || Error::Content("its address has no path".into());
        let (host, path) = address.split_once('/').ok_or_else(no_path)?;
        let host = if host == "docker.io" { "registry-1.docker.io" } else { host };
        let base = format!("https://{host}/v2/{path}");
        Ok(Self { downloads, base, path, login, authorization: RefCell::default() })
    }

    /// Downloads a manifest by its tag or digest.
    ///
    /// # Errors
    /// It does not exist, or has another digest.
    pub(super) fn manifest(&self, reference: &str) -> Result<ManifestBytes, Error> {
        let url = format!("{}/manifests/{reference}", self.base);
        let accept = (ACCEPT, format!("{MANIFEST}, {INDEX}"));
        let answer = self.get(&url, &[accept], MAX_MANIFEST, Downloads::get)?;
        if answer.status == StatusCode::NOT_FOUND {
            let (what, url) = (format!("{reference} (HTTP status {})", answer.status), self.base.clone());
            return Err(Error::MissingRef { what, url, known: String::new() });
        }
        let bytes = ok(&self.base, answer)?;
        let bytes = match sha256_hex(reference) {
            Some(digest) => verified(bytes, digest)?,
            None => bytes,
        };
        Ok(ManifestBytes { digest: digest_of(&bytes), bytes })
    }

    /// Downloads content of a manifest.
    ///
    /// # Errors
    /// It is larger than `limit`, or has another digest.
    pub(super) fn blob(&self, of: &Descriptor, limit: usize) -> Result<Bytes, Error> {
        let Descriptor { digest, size, .. } = of;
        if *size > limit {
            let reason = format!("its content has {size} bytes, and at most {limit} are allowed");
            return Err(Error::Content(reason));
        }
        let unknown = || Error::Content("its content has no SHA-256 digest".into());
        let hex = sha256_hex(digest).ok_or_else(unknown)?;
        let url = format!("{}/blobs/{digest}", self.base);
        let answer = self.get(&url, &[], *size, Downloads::get_elsewhere)?;
        verified(ok(&self.base, answer)?, hex)
    }

    /// Lists the tags.
    ///
    /// # Errors
    /// The repository does not exist, or has too many tags.
    pub(super) fn tags(&self) -> Result<Vec<String>, Error> {
        let (mut tags, mut query) = (Vec::new(), "n=1000".to_owned());
        for _ in 0..MAX_PAGES {
            let url = format!("{}/tags/list?{query}", self.base);
            let answer = self.get(&url, &[], MAX_TAGS, Downloads::get)?;
            let next = next_page(&answer);
            let page: Tags = serde_json::from_slice(&ok(&self.base, answer)?)
                .map_err(|_| Error::Content(format!("{} lists its tags in no known format", self.base)))?;
            tags.extend(page.tags.unwrap_or_default());
            match next {
                Some(next) => query = next,
                None => return Ok(tags),
            }
        }
        Err(Error::Content(format!("{} has more than {MAX_PAGES} pages of tags", self.base)))
    }

    /// Lists the manifests that refer to a manifest and are wanted (distribution-spec, "Listing Referrers"). Stops after
    /// more than `most`.
    ///
    /// # Errors
    /// There are too many pages.
    pub(super) fn referrers(
        &self,
        digest: &str,
        most: usize,
        is_wanted: impl Fn(&Descriptor) -> bool,
    ) -> Result<Vec<Descriptor>, Error> {
        let list = format!("{}/referrers/{digest}", self.base);
        let (mut found, mut url) = (Vec::new(), list.clone());
        for _ in 0..MAX_REFERRER_PAGES {
            let answer = self.get(&url, &[(ACCEPT, INDEX.to_owned())], MAX_MANIFEST, Downloads::get)?;
            let next = next_page(&answer);
            let index = match ok(&self.base, answer) {
                Ok(body) => serde_json::from_slice(&body).ok(),
                // The login is valid, because the caller has read the manifest.
                Err(Error::Content(_) | Error::Auth { .. }) => None,
                Err(error) => return Err(error),
            };
            let index = match index {
                Some(index) => index,
                None => self.tagged_referrers(digest)?,
            };
            found.extend(index.manifests.into_iter().filter(&is_wanted));
            match next {
                Some(query) if found.len() <= most => url = format!("{list}?{query}"),
                _ => return Ok(found),
            }
        }
        Err(Error::Content(format!("{} has more than {MAX_REFERRER_PAGES} pages of referrers", self.base)))
    }

    /// Returns the referrers that clients list at a tag if the registry does not have the API (distribution-spec,
    /// "Referrers Tag Schema"). Anything else at the tag counts as no referrers.
    fn tagged_referrers(&self, digest: &str) -> Result<Index, Error> {
        match self.manifest(&digest.replace(':', "-")) {
            Ok(index) => Ok(serde_json::from_slice(&index.bytes).unwrap_or_default()),
            Err(Error::MissingRef { .. }) => Ok(Index::default()),
            Err(error) => Err(error),
        }
    }

    /// Sends a request, and once more after a login if the registry asks for one.
    fn get(
        &self,
        url: &str,
        headers: &[(HeaderName, String)],
        limit: usize,
        get: impl Fn(&Downloads, &str, &[(HeaderName, String)], usize) -> Result<ApiResponse, Error>,
    ) -> Result<ApiResponse, Error> {
        let authorized = || {
            let authorization = self.authorization.borrow().clone();
            let headers = headers.iter().cloned();
            headers.chain(authorization.map(|value| (AUTHORIZATION, value))).collect::<Vec<_>>()
        };
        let answer = get(self.downloads, url, &authorized(), limit)?;
        if answer.status != StatusCode::UNAUTHORIZED || self.authorization.borrow().is_some() {
            return Ok(answer);
        }
        let authorization = self.authorization(header(&answer.headers, WWW_AUTHENTICATE))?;
        *self.authorization.borrow_mut() = Some(authorization);
        get(self.downloads, url, &authorized(), limit)
    }

    /// Returns the header `Authorization` for a challenge, with a token for pulls if there is a token service
    /// (distribution's `spec/auth/token.md`).
    fn authorization(&self, challenge: &str) -> Result<String, Error> {
        let refuse = |reason: &str| Error::Auth { url: self.base.clone(), reason: reason.to_owned() };
        let Some(parameters) = challenge.strip_prefix("Bearer ") else {
            return self.login.clone().ok_or_else(|| refuse("it needs a login"));
        };
        let parameter = |name: &str| {
            let (_, rest) = parameters.split_once(&format!("{name}=\""))?;
            rest.split('"').next().map(str::to_owned)
        };
        let no_realm = || Error::Content("its registry does not say where to get a token".into());
        let realm = parameter("realm").ok_or_else(no_realm)?;
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let scope = encoded(&format!("repository:{}:pull", self.path));
        let service = encoded(&parameter("service").unwrap_or_default());
        let separator = if realm.contains('?') { '&' } else { '?' };
        let url = format!("{realm}{separator}service={service}&scope={scope}");
        let login: Vec<_> = self.login.iter().map(|login| (AUTHORIZATION, login.clone())).collect();
        let issued = ok(&self.base, self.downloads.get(&url, &login, MAX_TOKEN)?)?;
        let Issued { token } = serde_json::from_slice(&issued)
            .map_err(|_| Error::Content("the response of its token service has no token".into()))?;
        Ok(format!("Bearer {token}"))
    }
}

impl Downloads {
    /// Downloads content.
    pub(super) fn content(
        &self,
        url: &str,
        headers: &[(HeaderName, String)],
        limit: usize,
    ) -> Result<Bytes, Error> {
        ok(url, self.get_elsewhere(url, headers, limit)?)
    }

    /// Sends a request. Follows one redirect to a host that the operator's flag `--git-hosts` names, without the
    /// headers.
    fn get_elsewhere(
        &self,
        url: &str,
        headers: &[(HeaderName, String)],
        limit: usize,
    ) -> Result<ApiResponse, Error> {
        let answer = self.get(url, headers, limit)?;
        if !answer.status.is_redirection() {
            return Ok(answer);
        }
        let location = header(&answer.headers, LOCATION);
        let address = Remote::parse(location.split(['?', '#']).next().unwrap_or_default());
        let host = address.ok().and_then(|remote| remote.address(443).map(|at| at.host.to_owned()));
        let from = without_query(url);
        let invalid = || Error::Content(format!("{from} redirects to an invalid address"));
        let host = host.ok_or_else(invalid)?;
        if !self.egress.names(&host) {
            return Err(Error::Content(format!(
                "{from} redirects to another host; to allow this, name it with the operator's flag --git-hosts={host}"
            )));
        }
        let answer = self.get(location, &[], limit)?;
        // The caller would answer the challenge of the other host with the login of the first one.
        if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let status = answer.status;
            return Err(Error::Content(format!(
                "{from} redirects to {host}, which gets no login and responds with HTTP status {status}"
            )));
        }
        Ok(answer)
    }

    fn get(&self, url: &str, headers: &[(HeaderName, String)], limit: usize) -> Result<ApiResponse, Error> {
        let (address, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
        let remote = Remote::parse(address)?;
        if !address.starts_with("https://") {
            return Err(Error::Url(format!("{address} is not an https:// address")));
        }
        let target = match query {
            Some(query) => format!("{}?{query}", remote.path()),
            None => remote.path().to_owned(),
        };
        let transport = TransportLimits { total: REQUEST_TIMEOUT, ..TransportLimits::default() };
        let limits = SessionLimits { transport, egress: self.egress.clone(), arrivals: &self.arrivals };
        let credentials = self.credentials.for_download(remote.host());
        let session = Session::new(remote, credentials, limits, self.cancel.clone())?;
        get(&session, &target, headers, limit)
    }
}

/// Returns the query of the next page of a list. The header is `<PATH?QUERY>; rel="next"`. Only the query is used, so a
/// page cannot lead elsewhere.
fn next_page(answer: &ApiResponse) -> Option<String> {
    let (link, _) = header(&answer.headers, LINK).split_once('>')?;
    Some(link.split_once('?')?.1.to_owned())
}

/// Returns the part of a URL to show. The query of a signed URL is a secret.
fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

/// Returns the body of a successful response.
fn ok(url: &str, answer: ApiResponse) -> Result<Bytes, Error> {
    let (status, url) = (answer.status, without_query(url).to_owned());
    let reason = format!("HTTP status {status}");
    match status {
        StatusCode::OK => Ok(answer.body),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Error::Auth { url, reason }),
        StatusCode::TOO_MANY_REQUESTS => {
            let pause = header(&answer.headers, RETRY_AFTER).parse().map_or(PAUSE, Duration::from_secs);
            Err(Error::Busy { url, reason, pause: pause.min(LONGEST_PAUSE) })
        }
        _ if status.is_server_error() => Err(Error::Unreachable { url, reason }),
        _ => Err(Error::Content(format!("{url} responds with {reason}"))),
    }
}
