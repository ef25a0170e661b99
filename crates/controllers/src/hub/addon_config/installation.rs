//! The installation of an add-on: the clusters to check, so that only changes cost time, and the clusters on which
//! a rollout installs it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::decide::DecidedAddOn;
use super::fleet::AddOnFleet;
use super::input::AddOnInput;
use crate::addon_creation::retry_at;
use engine::rollout::policy::RollOut;
use engine::rollout::{ClusterState, Input, Policy, RolloutDecision};

/// The state of an add-on's installation between plans.
#[derive(Default)]
pub(in crate::hub) struct Installation {
    basis: Option<InstallationBasis>,
    /// Clusters on which the next plan may have something to write.
    open: BTreeSet<String>,
}

/// The facts on which the installation depends on all clusters.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::hub) struct InstallationBasis {
    /// The owner of the add-ons.
    pub(in crate::hub) owner: OwnerReference,
    /// True if the add-on is installed immediately instead of at the cluster's turn.
    pub(in crate::hub) is_at_once: bool,
}

impl Installation {
    /// Makes the next plan check these clusters.
    pub(in crate::hub) fn look_at(&mut self, clusters: impl IntoIterator<Item = String>) {
        self.open.extend(clusters);
    }

    /// Returns the clusters to check: `all` if the basis has changed.
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

    /// Records that a cluster needs no write until something changes.
    pub(in crate::hub) fn set_done(&mut self, cluster: &str) {
        self.open.remove(cluster);
    }
}

impl AddOnInput {
    /// Collects the clusters on which a rollout installs the add-on now. A rejected installation is retried while
    /// the rollout continues.
    pub(super) fn install(
        &self,
        input: &Input,
        decision: &RolloutDecision,
        now: Timestamp,
        decided: &mut DecidedAddOn,
    ) {
        let is_rolled_out = |policy: &Policy| policy.roll_out == RollOut::InstallAndContent && !policy.paused;
        if !input.policy.as_ref().is_ok_and(is_rolled_out) {
            return;
        }
        let AddOnFleet { addons, unreadable, refused, .. } = &self.fleet;
        let is_started = |state: &ClusterState| {
            matches!(
                state,
                ClusterState::Starting
                    | ClusterState::Progressing { .. }
                    | ClusterState::TimedOut
                    | ClusterState::Returning { .. }
            )
        };
        for (name, assignment) in &decision.clusters {
            if !is_started(&assignment.state) || addons.contains_key(name) || unreadable.contains(name) {
                continue;
            }
            match retry_at(refused, name, now) {
                Some(at) => decided.retry = decided.retry.into_iter().chain([at]).min(),
                None => {
                    decided.installed.insert(name.clone());
                }
            }
        }
    }
}
