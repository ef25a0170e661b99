//! Requests the remote charts of a commit, and pins their content.
//!
//! The status lists the charts. The source controller fetches those and adds them to the tree of the commit. The first
//! content of a version is recorded, so that the same commit always renders the same objects.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::gate::Gate;
use api::gitops::v1alpha1::{ConfigRepo, RemoteChart};
use engine::sync::Problem;
use object::hex;
use object::tree::FileTree;

/// Maximum number of remote charts. The definition has the same limit.
const MAX_CHARTS: usize = 64;

/// Decides about a commit that refers to remote charts that are not all in its tree.
pub(super) fn gate(charts: &[String]) -> Gate {
    if charts.len() <= MAX_CHARTS {
        return Gate::Fetching(charts.to_vec());
    }
    let count = charts.len();
    let message = format!("the commit refers to {count} remote charts, and at most {MAX_CHARTS} are allowed");
    Gate::Refused(vec![Problem::of_commit("TooManyCharts", message)])
}

/// Returns the charts that were requested earlier.
pub(super) fn requested(repo: &ConfigRepo) -> Vec<String> {
    recorded(repo).map(|one| one.chart.clone()).collect()
}

/// Returns the charts that are not in a tree.
pub(super) fn missing<'a>(charts: &'a [String], tree: &FileTree) -> Vec<&'a str> {
    let missing = charts.iter().filter(|chart| !tree.charts().contains_key(*chart));
    missing.map(String::as_str).collect()
}

/// Returns the record of charts: the digests of those that were fetched, now or earlier.
pub(super) fn record(repo: &ConfigRepo, charts: &[String], tree: &FileTree) -> Vec<RemoteChart> {
    let recorded: BTreeMap<&str, &RemoteChart> =
        recorded(repo).map(|one| (one.chart.as_str(), one)).collect();
    let record = |chart: &String| {
        let mut one = recorded.get(chart.as_str()).map_or_else(
            || RemoteChart { chart: chart.clone(), ..RemoteChart::default() },
            |one| RemoteChart::clone(one),
        );
        if let Some(archive) = tree.charts().get(chart).filter(|_| one.digest.is_empty()) {
            one.digest = format!("sha256:{}", hex(Sha256::digest(archive)));
        }
        one
    };
    charts.iter().map(record).collect()
}

fn recorded(repo: &ConfigRepo) -> impl Iterator<Item = &RemoteChart> {
    repo.status.iter().flat_map(|status| &status.charts)
}
