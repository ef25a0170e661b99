//! The remote charts of the commits in a plan.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::anyhow;

use crate::cli::CommandError;
use crate::cli::charts::Charts;
use crate::cli::local_tree::add_charts;
use api::gitops::v1alpha1::ConfigRepo;
use controllers::hub::config_repo::{chart_digest, directories};
use object::tree::{Checkout, FileTree, TreeEntry};
use object::{Key, KeyFiles};
use render::Parameters;

/// Returns a commit with the remote charts that ConfigRepos need to render it.
///
/// # Errors
/// Fails if a chart cannot be downloaded, or its content is not what the operator fetched first.
pub(super) fn with_charts(
    checkout: &Arc<Checkout>,
    repos: &[ConfigRepo],
    keys: &BTreeMap<Key, Result<KeyFiles, String>>,
    charts: &RefCell<Charts>,
) -> Result<Arc<Checkout>, CommandError> {
    if !may_need_charts(&checkout.tree) {
        return Ok(Arc::clone(checkout));
    }
    let Checkout { revision, mut tree } = Checkout::clone(checkout);
    for repo in repos {
        let parameters = Parameters { keys: keys.get(&Key::of(repo)).cloned(), ..Parameters::default() };
        // The plan reports a directory that does not exist.
        let directories = directories(&repo.spec, &tree).unwrap_or_default();
        add_charts(&mut tree, &directories, &parameters, &mut charts.borrow_mut())?;
        let pinned = repo.status.iter().flat_map(|status| &status.charts);
        for one in pinned.filter(|one| !one.digest.is_empty()) {
            let Some(archive) = tree.charts().get(&one.chart) else { continue };
            let digest = chart_digest(archive);
            if digest != one.digest {
                let (chart, was) = (&one.chart, &one.digest);
                return Err(CommandError::hinted(
                    anyhow!(
                        "the content of the chart {chart} was swapped: its repository serves {digest}, but the operator fetched {was}"
                    ),
                    "a change of a chart needs a new version",
                ));
            }
        }
    }
    Ok(Arc::new(Checkout { revision, tree }))
}

/// Returns true if a file of a tree mentions charts. Otherwise, rendering the tree for its charts is a waste.
fn may_need_charts(tree: &FileTree) -> bool {
    tree.below("").any(|(_, entry)| match entry {
        TreeEntry::File(bytes) => std::str::from_utf8(bytes)
            .is_ok_and(|text| text.contains("helmCharts") || text.contains("HelmChartInflationGenerator")),
        TreeEntry::Link(_) | TreeEntry::Submodule | TreeEntry::Large { .. } => false,
    })
}
