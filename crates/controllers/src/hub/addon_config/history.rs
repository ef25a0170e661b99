//! Deletes snapshots of configurations to which no cluster can return.
//!
//! A snapshot is kept while a cluster is assigned it or last succeeded with it, while a placement rolls it out or
//! records it as good, and while it is the current content of a configuration. Of the others, the newest are kept,
//! as with the revisions of a Deployment.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;

use super::decide::DecidedAddOn;
use super::input::AddOnInput;
use crate::addon_reads;
use api::addon::v1alpha1::{ClusterManagementAddOn, ClusterManagementAddOnStatus, ConfigSpecHash};
use api::names::{ADDON_NAME_LABEL, SYSTEM_NAMESPACE};
use object::{Key, Metadata as _};
use reconcile::{Action, Query, Read, View};

/// Maximum number of unused snapshots per add-on, like `revisionHistoryLimit` of a Deployment.
const REVISION_HISTORY_LIMIT: usize = 10;

/// Returns the snapshots of an add-on.
fn of_addon(addon: &str, view: &impl View) -> Read<Vec<Arc<ControllerRevision>>> {
    view.list::<ControllerRevision>(Query::label(ADDON_NAME_LABEL, addon).within(SYSTEM_NAMESPACE))
}

/// Deletes the snapshots of an add-on that no longer exists on the hub or on any cluster.
pub(super) fn delete_all(addon: &str, view: &impl View) -> Read<Vec<Action>> {
    let snapshots = of_addon(addon, view)?;
    if snapshots.is_empty()
        || !addon_reads::keys_of_name(addon, view)?.is_empty()
        || view.exists::<ClusterManagementAddOn>(&Key::cluster(addon))?
    {
        return Ok(Vec::new());
    }
    Ok(snapshots.iter().map(|snapshot| Action::delete(snapshot.as_ref())).collect())
}

impl AddOnInput {
    /// Returns the unused snapshots beyond the limit; none if a cluster is unreadable or missing from a list,
    /// because it may use any snapshot.
    pub(super) fn truncate_history(
        &self,
        decided: &DecidedAddOn,
        status: &ClusterManagementAddOnStatus,
        view: &impl View,
    ) -> Read<Vec<Action>> {
        let mut revisions = of_addon(&self.name, view)?;
        if revisions.len() <= REVISION_HISTORY_LIMIT || !self.fleet.unreadable.is_empty() {
            return Ok(Vec::new());
        }
        let used = self.used(decided, status);
        let is_used = |snapshot: &Arc<ControllerRevision>| {
            let hash = snapshot.name().rsplit('.').next().unwrap_or_default();
            used.contains(hash) || self.fleet.hashes.contains_key(hash)
        };
        revisions.retain(|snapshot| !is_used(snapshot) && !snapshot.is_terminating());
        let age = |snapshot: &Arc<ControllerRevision>| {
            let created = snapshot.metadata.creation_timestamp.as_ref().map(|created| created.0);
            (std::cmp::Reverse(created), snapshot.name().to_owned())
        };
        revisions.sort_by_key(age);
        let surplus = revisions.get(REVISION_HISTORY_LIMIT..).unwrap_or_default();
        let known = self.fleet.addons.len();
        if surplus.is_empty() || known == 0 || known != addon_reads::keys_of_name(&self.name, view)?.len() {
            return Ok(Vec::new());
        }
        Ok(surplus.iter().map(|snapshot| Action::delete(snapshot.as_ref())).collect())
    }

    /// Returns the hashes in use, except those that the add-ons of clusters name.
    fn used(&self, decided: &DecidedAddOn, status: &ClusterManagementAddOnStatus) -> BTreeSet<String> {
        let present = self.contents.keys().chain(decided.assigned.values().flatten());
        let mut used: BTreeSet<String> = present.map(|config| config.hash.clone()).collect();
        let mut name = |entries: [&Option<ConfigSpecHash>; 3]| {
            used.extend(entries.into_iter().flatten().map(|entry| entry.spec_hash.clone()));
        };
        let progressions = [Some(status), self.cma.status.as_ref()].into_iter().flatten();
        for reference in progressions.flat_map(|s| &s.install_progressions).flat_map(|p| &p.config_references)
        {
            name([
                &reference.desired_config,
                &reference.last_applied_config,
                &reference.last_known_good_config,
            ]);
        }
        used
    }
}
