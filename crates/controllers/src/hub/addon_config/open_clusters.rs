//! The clusters on which a plan may have something to write, so that only changes cost time.

use std::collections::BTreeSet;

/// Clusters to check. If the facts on which all of them depend change, all are checked again.
pub(in crate::hub) struct OpenClusters<B> {
    basis: Option<B>,
    open: BTreeSet<String>,
}

impl<B> Default for OpenClusters<B> {
    fn default() -> Self {
        Self { basis: None, open: BTreeSet::new() }
    }
}

impl<B: PartialEq> OpenClusters<B> {
    /// Makes the next plan check these clusters.
    pub(in crate::hub) fn look_at(&mut self, clusters: impl IntoIterator<Item = String>) {
        self.open.extend(clusters);
    }

    /// Returns the clusters to check: `all` if the basis has changed.
    pub(in crate::hub) fn due(
        &mut self,
        basis: B,
        all: impl FnOnce() -> BTreeSet<String>,
    ) -> BTreeSet<String> {
        if self.basis.as_ref() != Some(&basis) {
            *self = Self { basis: Some(basis), open: all() };
        }
        self.open.clone()
    }

    /// Records that a cluster needs no write until something changes.
    pub(in crate::hub) fn set_done(&mut self, cluster: &str) {
        self.open.remove(cluster);
    }
}
