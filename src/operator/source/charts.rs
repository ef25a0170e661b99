//! The remote charts of commits. They are downloaded once, verified against the digests in the status, and kept on
//! disk, so that commits render while a repository of charts is down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::mirrors::{FetchError, Mirrors};
use crate::git::{Blobs, ChartSource, Credentials, Downloads, Error};
use api::gitops::v1alpha1::{ChartRepositories, ConfigRepo, RemoteChart, SecretRef};
use controllers::hub::config_repo::chart_digest;
use object::Metadata as _;
use object::tree::Checkout;
use reconcile::Source;

/// The maximum size of all charts of a ConfigRepo, which are in memory.
const MAX_CHART_BYTES: usize = 64 << 20;
/// The time limit for the downloads of a fetch. The next fetch continues.
const DOWNLOADS_TIMEOUT: Duration = Duration::from_secs(300);

type Archives = BTreeMap<String, Arc<[u8]>>;

impl Mirrors {
    /// Fetches the commit that a ConfigRepo follows, and the remote charts in its status.
    pub(super) async fn fetch_with_charts(
        &self,
        repo: &ConfigRepo,
        before: &Source,
    ) -> Result<Arc<Checkout>, FetchError> {
        let (checkout, failure) = match self.fetch(repo, before).await {
            Ok(checkout) => (checkout, None),
            Err(FetchError { checkout: Some(checkout), error }) => (checkout, Some(error)),
            Err(failed) => return Err(failed),
        };
        let (checkout, chart_failure) = self.with_charts(repo, before, checkout).await;
        match failure.or(chart_failure) {
            None => Ok(checkout),
            Some(error) => Err(FetchError { checkout: Some(checkout), error }),
        }
    }

    /// Adds the charts in the status of a ConfigRepo to a commit. Also returns the first failure.
    async fn with_charts(
        &self,
        repo: &ConfigRepo,
        before: &Source,
        checkout: Arc<Checkout>,
    ) -> (Arc<Checkout>, Option<Error>) {
        let charts = repo.status.as_ref().map(|status| status.charts.clone()).unwrap_or_default();
        let last = before.checkout.as_ref();
        let fetched = last.map(|last| last.tree.charts().clone()).unwrap_or_default();
        let known: Archives = charts.iter().filter_map(|one| pinned(one, &fetched)).collect();
        let has_all = known.len() == charts.len() && known.len() == fetched.len();
        if let Some(last) = last.filter(|last| last.revision == checkout.revision && has_all) {
            // A Secret that is deleted is reported before it is needed.
            let is_private = repo.spec.charts.is_some() && !charts.is_empty();
            let failure = if is_private { self.chart_credentials(repo).await.err() } else { None };
            return (Arc::clone(last), failure);
        }
        let (archives, failure) = match self.archives(repo, charts, known.clone()).await {
            Ok(archives) => archives,
            Err(error) => (known, Some(error)),
        };
        let mut checkout = Arc::unwrap_or_clone(checkout);
        checkout.tree.set_charts(archives);
        (Arc::new(checkout), failure)
    }

    /// Returns the archives of charts, and the first failure. Takes a place for a fetch.
    async fn archives(
        &self,
        repo: &ConfigRepo,
        charts: Vec<RemoteChart>,
        known: Archives,
    ) -> Result<(Archives, Option<Error>), Error> {
        let (namespace, cancel) = (repo.namespace(), CancellationToken::new());
        let store = Store {
            blobs: self.blobs("charts", namespace),
            until: Instant::now() + DOWNLOADS_TIMEOUT,
            downloads: self.downloads(self.chart_credentials(repo).await?, &cancel),
        };
        self.in_place(namespace, cancel, move || store.archives(charts, &known)).await
    }

    /// Reads the logins for charts, and the certificate authorities and the proxy of their servers.
    async fn chart_credentials(&self, repo: &ConfigRepo) -> Result<Credentials, Error> {
        let key = |secret: &SecretRef| secret.key(repo.namespace());
        let secret = repo.spec.secret_ref.as_ref().map(key);
        let repository = self.secrets.credentials(secret.as_ref()).await?;
        match &repo.spec.charts {
            // A login for the repository is not one for charts, which a commit names.
            None => Ok(repository.without_login()),
            Some(ChartRepositories { secret_ref, unknown: _ }) => {
                Credentials::for_charts(&self.secrets.read(&key(secret_ref)).await?, &repository)
            }
        }
    }
}

/// The archives of a namespace. Namespaces do not share archives, because a login may be in only one of them.
struct Store {
    blobs: Blobs,
    /// No download starts after this time.
    until: Instant,
    downloads: Downloads,
}

impl Store {
    fn archives(&self, charts: Vec<RemoteChart>, known: &Archives) -> (Archives, Option<Error>) {
        let (mut archives, mut failure, mut bytes) = (Archives::new(), None, 0_usize);
        for one in charts {
            let archive = match known.get(&one.chart) {
                Some(archive) => Ok(Arc::clone(archive)),
                None => self.archive(&one),
            };
            let archive = archive.and_then(|archive| {
                bytes = bytes.saturating_add(archive.len());
                let reason =
                    format!("the charts of the ConfigRepo have more than {} MiB", MAX_CHART_BYTES >> 20);
                if bytes > MAX_CHART_BYTES {
                    Err(Error::Chart { chart: one.chart.clone(), reason })
                } else {
                    Ok(archive)
                }
            });
            match archive {
                Ok(archive) => {
                    archives.insert(one.chart, archive);
                }
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        (archives, failure)
    }

    /// Reads an archive from disk, or downloads it.
    fn archive(&self, one: &RemoteChart) -> Result<Arc<[u8]>, Error> {
        if let Some(archive) = self.blobs.read(&one.digest) {
            return Ok(archive.into());
        }
        let refuse = |reason: String| Error::Chart { chart: one.chart.clone(), reason };
        let source =
            ChartSource::parse(&one.chart).ok_or_else(|| refuse("its reference is invalid".into()))?;
        if Instant::now() > self.until {
            return Err(refuse("the downloads take too long; the next fetch continues".into()));
        }
        let archive = source.fetch(&self.downloads)?;
        let digest = chart_digest(&archive);
        if !one.digest.is_empty() && one.digest != digest {
            return Err(refuse(format!(
                "its content was swapped: the repository serves {digest} for a version that was {}; a change needs a new version",
                one.digest
            )));
        }
        info!(chart = one.chart, digest, "fetched a chart");
        if let Err(error) = self.blobs.write(&archive) {
            warn!(chart = one.chart, %error, "cannot store a chart on disk");
        }
        Ok(archive.into())
    }
}

/// Returns the archive of a chart, if it is what was fetched first, or if none was.
fn pinned(one: &RemoteChart, fetched: &Archives) -> Option<(String, Arc<[u8]>)> {
    let archive = fetched.get(&one.chart)?;
    let is_pinned = one.digest.is_empty() || one.digest == chart_digest(archive);
    is_pinned.then(|| (one.chart.clone(), Arc::clone(archive)))
}

#[cfg(test)]
#[path = "tests/charts.rs"]
pub(super) mod tests;
