//! Downloads charts: from classic repositories, which have an `index.yaml`, and from OCI registries.
//!
//! A commit names the repository of a chart, so a login is sent only to the host that it is for. Charts from a
//! registry are verified by their digest, and charts from a classic repository if its index has a digest.

use std::fmt::{Display, Formatter};

use http::HeaderName;
use http::header::AUTHORIZATION;
use hyper::body::Bytes;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::registry::{Downloads, Registry, parse_manifest, verified};
use super::registry_logins::host_of;
use super::{Credentials, Error};

/// The maximum size of an archive, which is the limit for files in a repository.
const MAX_ARCHIVE: usize = 8 << 20;
/// The maximum size of an index. One with 300 charts and all their versions has 20 MiB.
const MAX_INDEX: usize = 32 << 20;

/// The media types of a chart (Helm's `pkg/registry/constants.go`).
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
pub(super) const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// A chart in a repository of charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartSource {
    /// The address of the repository: `https://…` or `oci://…`.
    repository: String,
    name: String,
    version: String,
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
    /// Returns [`Error::ChartAuth`] if the server requires another login, [`Error::HostKey`] or
    /// [`Error::Credentials`] if it cannot be verified, and otherwise [`Error::Chart`].
    pub fn fetch(&self, downloads: &Downloads) -> Result<Vec<u8>, Error> {
        let Self { repository, name, version } = self;
        let login = downloads.credentials.login_of_host(repository);
        let fetched = match repository.strip_prefix("oci://") {
            Some(registry) => registry_chart(downloads, &format!("{registry}/{name}"), version, login),
            None => self.classic_chart(downloads, login),
        };
        fetched.map(Vec::from).map_err(|error| self.failure(&downloads.credentials, error))
    }

    /// Adds the chart to an error. A server may repeat the login in its answer, so it is redacted.
    fn failure(&self, credentials: &Credentials, error: Error) -> Error {
        let (chart, here) = (self.to_string(), host_of(&self.repository));
        match error {
            Error::Auth { url, reason } if host_of(&url) == here => {
                let reason = match credentials.login_of_host(&self.repository) {
                    Some(_) => format!("{here} refuses the login: {reason}"),
                    None => format!("{here} requires a login"),
                };
                Error::ChartAuth { chart, host: here, reason }
            }
            Error::Auth { url, reason } => {
                let there = credentials.hide(&host_of(&url));
                let reason =
                    format!("{there} refuses access, and the login is sent only to {here}: {reason}");
                Error::Chart { chart, reason }
            }
            Error::HostKey { url, reason } => Error::HostKey { url: credentials.hide(&url), reason },
            Error::Credentials(_) => error,
            error => Error::Chart { chart, reason: credentials.hide(&error.to_string()) },
        }
    }

    fn classic_chart(&self, downloads: &Downloads, login: Option<String>) -> Result<Bytes, Error> {
        let Self { repository, name, version } = self;
        let refuse = |reason: &str| Error::Content(reason.to_owned());
        let index = format!("{repository}/index.yaml");
        let index = downloads.content(&index, &authorization(login.as_deref()), MAX_INDEX)?;
        let entry = find(&index, name, version).map_err(Error::Content)?;
        let url = entry.urls.unwrap_or_default().into_iter().next();
        let url = url.ok_or_else(|| refuse("its entry in index.yaml has no URL"))?;
        let url = if url.contains("://") { url } else { format!("{repository}/{url}") };
        // As in Helm without `--pass-credentials`.
        let archive_login = login.filter(|_| host_of(&url) == host_of(repository));
        if let Some(chart) = url.strip_prefix("oci://") {
            let chart = chart.rsplit_once(':');
            let (chart, tag) = chart.ok_or_else(|| refuse("its URL in index.yaml has no version"))?;
            return registry_chart(downloads, chart, tag, archive_login);
        }
        let archive = downloads.content(&url, &authorization(archive_login.as_deref()), MAX_ARCHIVE)?;
        let digest = entry.digest.unwrap_or_default();
        let digest = digest.strip_prefix("sha256:").unwrap_or(&digest);
        if digest.is_empty() { Ok(archive) } else { verified(archive, digest) }
    }
}

/// Returns the headers of a request with a login.
fn authorization(login: Option<&str>) -> Vec<(HeaderName, String)> {
    login.map(|login| (AUTHORIZATION, login.to_owned())).into_iter().collect()
}

/// Downloads a chart of an OCI registry. `chart` is its host and path.
fn registry_chart(
    downloads: &Downloads,
    chart: &str,
    version: &str,
    login: Option<String>,
) -> Result<Bytes, Error> {
    // Tags cannot contain `+`; Helm replaces it.
    let tag = version.replace('+', "_");
    let registry = Registry::new(downloads, chart, login)?;
    let manifest = parse_manifest(&registry.manifest(&tag)?.bytes).ok();
    let manifest = manifest.filter(|manifest| manifest.config.media_type == CONFIG);
    let mut layers = manifest.into_iter().flat_map(|manifest| manifest.layers);
    let layer = layers.find(|layer| layer.media_type == CONTENT);
    let layer = layer.ok_or_else(|| Error::Content(format!("{chart}:{tag} is not a Helm chart")))?;
    registry.blob(&layer, MAX_ARCHIVE)
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
