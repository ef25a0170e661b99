//! Downloads charts: from classic repositories, which have an `index.yaml`, and from OCI registries.
//!
//! Repositories are read without credentials. Charts from a registry are verified by their digest, and charts
//! from a classic repository if its index has a digest.

use std::fmt::{Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderName, StatusCode};
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::transport::{ApiResponse, Arrivals, Session, SessionLimits, TransportLimits, get, header};
use super::{Credentials, Egress, Error, Remote};
use object::hex;

/// The maximum size of an archive, which is the limit for files in a repository.
const MAX_ARCHIVE: usize = 8 << 20;
/// The maximum size of an index. One with 300 charts and all their versions has 20 MiB.
const MAX_INDEX: usize = 32 << 20;
/// The maximum size of a manifest, as in registries.
const MAX_MANIFEST: usize = 4 << 20;
/// The maximum size of a response with a token.
const MAX_TOKEN: usize = 64 << 10;
/// The time limit for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The media types of a chart (Helm's `pkg/registry/constants.go`).
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// A chart in a repository of charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartSource {
    /// The address of the repository: `https://…` or `oci://…`.
    repository: String,
    name: String,
    version: String,
}

/// The connections for downloads.
pub struct ChartAccess {
    /// Credentials of the configuration's repository. Only its certificate authorities and proxy are used.
    pub credentials: Credentials,
    /// The addresses that connections may be opened to.
    pub egress: Egress,
    /// Ends downloads.
    pub cancel: CancellationToken,
    /// Limits the bytes in flight.
    pub(crate) arrivals: Arc<Arrivals>,
}

/// A version of a chart in the index of a classic repository.
#[derive(Deserialize)]
struct IndexEntry {
    version: String,
    urls: Option<Vec<String>>,
    digest: Option<String>,
}

/// Reads the entries at a path of keys, and skips the rest of an index.
struct EntriesAt<'a>(&'a [&'a str]);

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: usize,
}

#[derive(Deserialize)]
struct Issued {
    #[serde(alias = "access_token")]
    token: String,
}

impl Display for ChartSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { repository, name, version } = self;
        write!(f, "{repository}/{name}:{version}")
    }
}

impl ChartSource {
    /// Parses a reference `REPOSITORY/NAME:VERSION`.
    pub fn parse(reference: &str) -> Option<Self> {
        let (chart, version) = reference.rsplit_once(':')?;
        let (repository, name) = chart.rsplit_once('/')?;
        let is_known = ["https://", "oci://"].iter().any(|scheme| repository.starts_with(scheme));
        is_known.then(|| Self { repository: repository.into(), name: name.into(), version: version.into() })
    }

    /// Downloads the archive, and blocks until it is complete.
    ///
    /// # Errors
    /// Returns [`Error::Chart`] with the reason.
    pub fn fetch(&self, access: &ChartAccess) -> Result<Vec<u8>, Error> {
        let Self { repository, name, version } = self;
        let fetched = match repository.strip_prefix("oci://") {
            Some(registry) => access.registry_chart(&format!("{registry}/{name}"), version),
            None => self.classic_chart(access),
        };
        let archive = fetched.map_err(|reason| Error::Chart { chart: self.to_string(), reason })?;
        Ok(archive.into())
    }

    fn classic_chart(&self, access: &ChartAccess) -> Result<Bytes, String> {
        let Self { repository, name, version } = self;
        let index = access.content(&format!("{repository}/index.yaml"), &[], MAX_INDEX)?;
        let entry = find(&index, name, version)?;
        let url = entry.urls.unwrap_or_default().into_iter().next();
        let url = url.ok_or("its entry in index.yaml has no URL")?;
        if let Some(chart) = url.strip_prefix("oci://") {
            let (chart, tag) = chart.rsplit_once(':').ok_or("its URL in index.yaml has no version")?;
            return access.registry_chart(chart, tag);
        }
        let url = if url.contains("://") { url } else { format!("{repository}/{url}") };
        let archive = access.content(&url, &[], MAX_ARCHIVE)?;
        let digest = entry.digest.unwrap_or_default();
        let digest = digest.strip_prefix("sha256:").unwrap_or(&digest);
        if digest.is_empty() { Ok(archive) } else { verified(archive, digest) }
    }
}

/// Finds a version of a chart in an index. Like Helm, ignores a leading `v`.
fn find(index: &[u8], name: &str, version: &str) -> Result<IndexEntry, String> {
    // The budget allows an index of the maximum size.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 10_000_000, max_events: 40_000_000 },
    };
    let path = ["entries", name];
    let entries = serde_saphyr::with_deserializer_from_slice_with_options(index, options, |deserializer| {
        EntriesAt(&path).deserialize(deserializer)
    });
    let entries = entries.map_err(|error| {
        format!("index.yaml cannot be read: {}", object::text::plain(&error.to_string(), 200))
    })?;
    let entries = entries.ok_or_else(|| format!("index.yaml has no chart {name}"))?;
    let plain = |version: &str| version.strip_prefix('v').unwrap_or(version).to_owned();
    let found = entries.into_iter().find(|entry| plain(&entry.version) == plain(version));
    found.ok_or_else(|| format!("index.yaml has no version {version} of the chart {name}"))
}

impl<'de> DeserializeSeed<'de> for EntriesAt<'_> {
    type Value = Option<Vec<IndexEntry>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => Vec::deserialize(deserializer).map(Some),
            [_, ..] => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for EntriesAt<'_> {
    type Value = Option<Vec<IndexEntry>>;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        let [wanted, rest @ ..] = self.0 else { return Ok(found) };
        while let Some(key) = map.next_key::<String>()? {
            if key == *wanted {
                found = map.next_value_seed(EntriesAt(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Returns content if it has a SHA-256 digest.
fn verified(content: Bytes, digest: &str) -> Result<Bytes, String> {
    let actual = hex(Sha256::digest(&content));
    if actual == digest {
        return Ok(content);
    }
    Err(format!("its content has the digest sha256:{actual}, not sha256:{digest}"))
}

impl ChartAccess {
    /// Downloads a chart of an OCI registry (distribution-spec, "Pull"). `chart` is its host and path.
    fn registry_chart(&self, chart: &str, version: &str) -> Result<Bytes, String> {
        let (host, path) = chart.split_once('/').ok_or("its address has no path")?;
        let host = if host == "docker.io" { "registry-1.docker.io" } else { host };
        // Tags cannot contain `+`; Helm replaces it.
        let tag = version.replace('+', "_");
        let base = format!("https://{host}/v2/{path}");
        let mut headers = vec![(ACCEPT, MANIFEST.to_owned())];
        let mut answer = self.get(&format!("{base}/manifests/{tag}"), &headers, MAX_MANIFEST)?;
        if answer.status == StatusCode::UNAUTHORIZED {
            let token = self.token(header(&answer.headers, WWW_AUTHENTICATE), path)?;
            headers.push((AUTHORIZATION, format!("Bearer {token}")));
            answer = self.get(&format!("{base}/manifests/{tag}"), &headers, MAX_MANIFEST)?;
        }
        let manifest = ok(answer)?;
        let not_a_chart = || format!("{chart}:{tag} is not a Helm chart");
        let manifest: Manifest = serde_json::from_slice(&manifest).map_err(|_| not_a_chart())?;
        let layer = manifest.layers.into_iter().find(|layer| layer.media_type == CONTENT);
        let layer = layer.filter(|_| manifest.config.media_type == CONFIG).ok_or_else(not_a_chart)?;
        if layer.size > MAX_ARCHIVE {
            return Err(format!(
                "its archive has {} bytes, and at most {MAX_ARCHIVE} are allowed",
                layer.size
            ));
        }
        let digest = layer.digest.strip_prefix("sha256:").ok_or("its archive has no SHA-256 digest")?;
        headers.remove(0);
        let archive = self.content(&format!("{base}/blobs/{}", layer.digest), &headers, layer.size)?;
        verified(archive, digest)
    }

    /// Requests a token for anonymous pulls (distribution's `spec/auth/token.md`).
    fn token(&self, challenge: &str, path: &str) -> Result<String, String> {
        let parameters = challenge.strip_prefix("Bearer ").ok_or(PRIVATE)?;
        let parameter = |name: &str| {
            let (_, rest) = parameters.split_once(&format!("{name}=\""))?;
            rest.split('"').next().map(str::to_owned)
        };
        let realm = parameter("realm").ok_or("its registry does not say where to get a token")?;
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let scope = encoded(&format!("repository:{path}:pull"));
        let service = encoded(&parameter("service").unwrap_or_default());
        let separator = if realm.contains('?') { '&' } else { '?' };
        let url = format!("{realm}{separator}service={service}&scope={scope}");
        let Issued { token } = serde_json::from_slice(&ok(self.get(&url, &[], MAX_TOKEN)?)?)
            .map_err(|_| "the answer of its token service has no token")?;
        Ok(token)
    }

    /// Downloads public content. Follows one redirect to a host that the operator's flag `--git-hosts` names, without
    /// the headers.
    fn content(&self, url: &str, headers: &[(HeaderName, String)], limit: usize) -> Result<Bytes, String> {
        let answer = self.get(url, headers, limit)?;
        if !answer.status.is_redirection() {
            return ok(answer);
        }
        let location = header(&answer.headers, LOCATION);
        let address = Remote::parse(location.split(['?', '#']).next().unwrap_or_default());
        let host = address.ok().and_then(|remote| remote.address(443).map(|at| at.host.to_owned()));
        let host = host.ok_or_else(|| format!("{url} redirects to an invalid address"))?;
        if !self.egress.names(&host) {
            return Err(format!(
                "{url} redirects to another host; to allow this, name it with the operator's flag --git-hosts={host}"
            ));
        }
        ok(self.get(location, &[], limit)?)
    }

    fn get(&self, url: &str, headers: &[(HeaderName, String)], limit: usize) -> Result<ApiResponse, String> {
        let (address, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
        let remote = Remote::parse(address).map_err(|error| error.to_string())?;
        if !address.starts_with("https://") {
            return Err(format!("{address} is not an https:// address"));
        }
        let target = match query {
            Some(query) => format!("{}?{query}", remote.path()),
            None => remote.path().to_owned(),
        };
        let transport = TransportLimits { total: REQUEST_TIMEOUT, ..TransportLimits::default() };
        let limits = SessionLimits { transport, egress: self.egress.clone(), arrivals: &self.arrivals };
        let session = Session::new(remote, self.credentials.without_login(), limits, self.cancel.clone());
        session.and_then(|session| get(&session, &target, headers, limit)).map_err(|error| error.to_string())
    }
}

const PRIVATE: &str =
    "it needs a login, and private repositories of charts are not supported; commit the chart instead";

/// Returns the body of a successful response.
fn ok(answer: ApiResponse) -> Result<Bytes, String> {
    match answer.status {
        StatusCode::OK => Ok(answer.body),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(PRIVATE.to_owned()),
        status => Err(format!("HTTP status {status}")),
    }
}
