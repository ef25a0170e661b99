//! The clusters that the installation of an add-on has to look at, so that it costs what changed.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The memory of the installation of an add-on.
#[derive(Default)]
pub(in crate::hub) struct Installation {
    basis: Option<InstallationBasis>,
    /// Clusters on which the next plan may have something to write.
    open: BTreeSet<String>,
}

/// The facts that the installation on all clusters depends on.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::hub) struct InstallationBasis {
    /// The owner of the add-ons.
    pub(in crate::hub) owner: OwnerReference,
    /// Whether the add-on is installed at once, not when the turn of the cluster comes.
    pub(in crate::hub) is_at_once: bool,
}

impl Installation {
    /// Has the next plan look at clusters.
    pub(in crate::hub) fn look_at(&mut self, clusters: impl IntoIterator<Item = String>) {
        self.open.extend(clusters);
    }

    /// Returns the clusters to look at: `all` if the basis is another one.
    pub(in crate::hub) fn due(
        &mut self,
        basis: &InstallationBasis,
        all: impl FnOnce() -> BTreeSet<String>,
    ) -> BTreeSet<String> {
        if self.basis.as_ref() != Some(basis) {
            *self = Self { basis: Some(basis.clone()), open: all() };
        }
        self.open.clone()
    }

    /// Records that nothing is to be written on a cluster until something changes.
    pub(in crate::hub) fn set_done(&mut self, cluster: &str) {
        self.open.remove(cluster);
    }
}
