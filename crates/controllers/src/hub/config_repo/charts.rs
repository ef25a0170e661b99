//! Requests the remote charts of a commit, and pins their content.
//!
//! The status lists the charts. The source controller fetches them and adds them to the tree of the commit. The first
//! content of a version is recorded, so that the same commit always renders the same objects.

use sha2::{Digest as _, Sha256};

use api::gitops::v1alpha1::{ConfigRepo, RemoteChart};
use engine::sync::Problem;
use object::hex;
use object::tree::FileTree;

/// Maximum number of remote charts. The definition has the same limit.
const MAX_CHARTS: usize = 64;

/// Returns the problem of a commit that refers to too many remote charts.
pub(super) fn too_many(charts: &[String]) -> Option<Problem> {
    let count = charts.len();
    let message = format!("the commit refers to {count} remote charts, and at most {MAX_CHARTS} are allowed");
    (count > MAX_CHARTS).then(|| Problem::of_commit("TooManyCharts", message))
}

/// Returns the charts that were requested earlier.
pub(super) fn requested(repo: &ConfigRepo) -> Vec<String> {
    recorded(repo).map(|one| one.chart.clone()).collect()
}

/// Returns the record of charts: the digests of those that were fetched, now or earlier.
pub(super) fn record(repo: &ConfigRepo, charts: &[String], tree: &FileTree) -> Vec<RemoteChart> {
    let record = |chart: &String| {
        let known = recorded(repo).find(|one| one.chart == *chart).cloned();
        let mut one = known.unwrap_or_else(|| RemoteChart { chart: chart.clone(), ..RemoteChart::default() });
        if let Some(archive) = tree.charts().get(chart).filter(|_| one.digest.is_empty()) {
            one.digest = chart_digest(archive);
        }
        one
    };
    charts.iter().map(record).collect()
}

fn recorded(repo: &ConfigRepo) -> impl Iterator<Item = &RemoteChart> {
    repo.status.iter().flat_map(|status| &status.charts)
}

/// Returns the digest of a chart's archive, as in [`RemoteChart::digest`].
pub fn chart_digest(archive: &[u8]) -> String {
    format!("sha256:{}", hex(Sha256::digest(archive)))
}
