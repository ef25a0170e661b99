//! An add-on on the clusters of a hub, as its plans know it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::config_problem::ConfigProblem;
use super::hashes::ConfigHashes;
use super::open_clusters::OpenClusters;
use crate::addon_reads::{self, key_of_addon};
use crate::fleets::{Fleet, Fleets};
use crate::placement_reads::{Selections, are_same, is_unreachable, taken};
use crate::rollout_driver::CachedRollout;
use api::addon::v1alpha1::{ClusterManagementAddOn, ConfigSpecHash, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::{Condition, Conditions as _, find_condition};
use api::gitops::v1alpha1::RefusedAddOn;
use api::names::addon_conditions::{CONFIGURED, DEGRADED};
use engine::addon::check::CheckOptions;
use engine::addon::config::Config;
use engine::addon::hosting::hosting_cluster;
use engine::addon::{progress, selection::Selection};
use engine::replica_set::ReportedErrors;
use engine::report;
use engine::rollout::RolloutDecision;
use engine::rollout::cluster::Hash;
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Query, Read, View};

/// The index of the controllers that decide about add-ons.
pub(in crate::hub) type AddOnFleets = Fleets<AddOnFleet>;

impl Fleet for AddOnFleet {
    type Workload = ClusterManagementAddOn;
    type Content = ManagedClusterAddOn;

    fn workload_of(addon: &ManagedClusterAddOn) -> Option<Key> {
        Some(key_of_addon(addon))
    }

    fn changed(&mut self) -> &mut BTreeSet<String> {
        &mut self.changed
    }
}

/// An add-on on the clusters of a hub.
#[derive(Default)]
pub(in crate::hub) struct AddOnFleet {
    is_read: bool,
    /// Clusters that changed since the last decision.
    changed: BTreeSet<String>,
    /// The add-on on each existing cluster that has it.
    pub(in crate::hub) addons: BTreeMap<String, Arc<ManagedClusterAddOn>>,
    /// Unreachable clusters, with or without the add-on.
    pub(super) unreachable: BTreeSet<String>,
    /// Clusters that are unreadable or have an unreadable add-on; they are unreachable too.
    pub(in crate::hub) unreadable: BTreeSet<String>,
    /// Clusters whose add-on does not report that its configurations are decided.
    pub(super) unconfigured: BTreeSet<String>,
    /// The errors that clusters report about the add-on.
    errors: BTreeMap<String, String>,
    /// The clusters on which the API server rejects the add-on, as of the last decision.
    pub(super) refused: BTreeMap<String, RefusedAddOn>,
    pub(super) content_hashes: ConfigHashes,
    /// The number of add-on entries that name each hash.
    pub(super) hashes: BTreeMap<String, usize>,
    /// The number of add-ons with a hosting cluster.
    hosted: usize,
    /// The problems found in sets of configurations. The address of a set contains the hashes of all contents.
    pub(super) checked: BTreeMap<(String, CheckOptions), Option<ConfigProblem>>,
    /// The configurations that add-ons on individual clusters name.
    own: BTreeMap<ObjectRef, OwnConfig>,
    pub(in crate::hub) selections: Selections,
    selected_by: Vec<Arc<Selection>>,
    /// The clusters that a placement selects.
    pub(in crate::hub) selected: BTreeSet<String>,
    /// The clusters that have the add-on but that no placement selects.
    pub(super) unselected: BTreeSet<String>,
    /// By placement: the clusters that later placements select.
    pub(super) taken: Vec<Arc<BTreeSet<String>>>,
    /// The rollouts, by placement.
    pub(super) rollouts: BTreeMap<Key, CachedAddOnRollout>,
    /// The clusters without a placement that are undecided, or that do not yet run and report the decision.
    pub(super) rest: OpenClusters<RolloutBasis>,
    /// The clusters on which the add-on may have to be installed, or an owner changed.
    pub(in crate::hub) installation: OpenClusters<InstallationBasis>,
    /// The clusters for reports, sorted by name.
    pub(super) reported: Vec<ReportedCluster>,
}

/// Maximum number of sets whose problems are cached. Each edit makes a new set.
const MAX_CHECKED: usize = 4096;

/// A cluster in a report, and the add-on that it was read from.
pub(super) struct ReportedCluster {
    pub(super) addon: Option<Arc<ManagedClusterAddOn>>,
    pub(super) cluster: Arc<report::WorkloadCluster>,
}

/// The facts on which the installation depends on all clusters.
#[derive(PartialEq)]
pub(in crate::hub) struct InstallationBasis {
    /// The owner of the add-ons.
    pub(in crate::hub) owner: OwnerReference,
    /// True if the add-on is installed immediately instead of at the cluster's turn.
    pub(in crate::hub) is_at_once: bool,
}

/// A configuration that add-ons on individual clusters name.
#[derive(Default)]
struct OwnConfig {
    /// The configuration, with the hash of its content.
    config: Config,
    content: Option<Arc<Object>>,
    clusters: BTreeSet<String>,
}

/// The rollout on the clusters of a placement.
pub(super) type CachedAddOnRollout = CachedRollout<RolloutBasis, ClusterConfigs>;

/// The configurations of a placement's clusters.
#[derive(Default)]
pub(super) struct ClusterConfigs {
    /// The configurations for the hashes of the rollout.
    pub(super) contents: BTreeMap<Hash, Vec<Config>>,
    /// Clusters that the rollout skips because a configuration does not exist.
    pub(super) incomplete: BTreeMap<String, ConfigProblem>,
}

/// The input that all clusters of a placement share, or all clusters without a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RolloutBasis {
    pub(super) has_template: bool,
    pub(super) is_strict: bool,
    pub(super) defaults: Vec<Config>,
    pub(super) configs: Vec<Config>,
    pub(super) good: Option<Vec<Config>>,
}

impl AddOnFleet {
    /// Reads the changes and returns the affected clusters; empty if everything is read for the first time.
    pub(in crate::hub) fn update(&mut self, add_on: &str, view: &impl View) -> Read<BTreeSet<String>> {
        let unreadable = addon_reads::unreadable(add_on, view)?;
        if !self.is_read {
            self.is_read = true;
            self.unreadable = unreadable;
            let clusters = view.list_readable::<ManagedCluster>(Query::ALL)?;
            let names: BTreeSet<String> = clusters.iter().map(|cluster| cluster.name().to_owned()).collect();
            for name in names.union(&self.unreadable.clone()) {
                self.refresh(name, add_on, view)?;
            }
            return Ok(BTreeSet::new());
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.extend(unreadable.symmetric_difference(&self.unreadable).cloned());
        self.unreadable = unreadable;
        for name in &changed {
            self.refresh(name, add_on, view)?;
        }
        Ok(changed)
    }

    /// Reads the changes, and leaves them to the next decision to process.
    pub(super) fn read(&mut self, add_on: &str, view: &impl View) -> Read<()> {
        self.changed = self.update(add_on, view)?;
        Ok(())
    }

    /// Reads a cluster and its add-on.
    fn refresh(&mut self, cluster: &str, add_on: &str, view: &impl View) -> Read<()> {
        if let Some(old) = self.addons.remove(cluster) {
            self.count(&old, false);
        }
        for own in self.own.values_mut() {
            own.clusters.remove(cluster);
        }
        self.errors.remove(cluster);
        let managed = view.get_readable::<ManagedCluster>(&Key::cluster(cluster))?;
        let is_unreadable = self.unreadable.contains(cluster);
        let is_silent = is_unreadable || managed.as_deref().is_some_and(is_unreachable);
        set(&mut self.unreachable, cluster, is_silent);
        let addon = match managed {
            None if !is_unreadable => None,
            _ => view.get_readable::<ManagedClusterAddOn>(&Key::namespaced(cluster, add_on))?,
        };
        let is_unconfigured = addon.as_deref().is_some_and(|addon| !is_configured(addon));
        set(&mut self.unconfigured, cluster, is_unconfigured);
        set(&mut self.unselected, cluster, addon.is_some() && !self.selected.contains(cluster));
        if let Some(addon) = addon {
            self.count(&addon, true);
            if let Some(degraded) = addon.condition(DEGRADED).filter(|degraded| Condition::is_true(degraded))
            {
                self.errors.insert(cluster.to_owned(), degraded.message.clone());
            }
            self.addons.insert(cluster.to_owned(), addon);
        }
        Ok(())
    }

    /// Updates the clusters on which the API server rejects the add-on. Returns the clusters whose record changed.
    pub(super) fn take_refused(&mut self, refused: BTreeMap<String, RefusedAddOn>) -> BTreeSet<String> {
        let before = std::mem::replace(&mut self.refused, refused);
        let clusters = before.keys().chain(self.refused.keys());
        clusters.filter(|name| before.get(*name) != self.refused.get(*name)).cloned().collect()
    }

    /// Returns the errors that the clusters of a rollout report about their assigned configurations.
    pub(super) fn errors_of(&self, decision: &RolloutDecision) -> ReportedErrors<'_> {
        let is_of = |cluster: &str| {
            let assignment = decision.clusters.get(cluster);
            assignment.is_some_and(|assignment| report::has_turn(&assignment.state))
        };
        let errors = self.errors.iter().filter(|(cluster, _)| is_of(cluster));
        ReportedErrors::of(errors.map(|(cluster, error)| (cluster.as_str(), error.as_str())))
    }

    /// Returns true if any cluster has the add-on on a hosting cluster.
    pub(super) fn is_hosted(&self) -> bool {
        self.hosted > 0
    }

    /// Caches the problem of a set of configurations.
    pub(super) fn remember(&mut self, set: (String, CheckOptions), problem: Option<ConfigProblem>) {
        if self.checked.len() >= MAX_CHECKED {
            self.checked.clear();
        }
        self.checked.insert(set, problem);
    }

    /// Adds an add-on's hosting cluster and the hashes in its status to the counts, or subtracts them.
    fn count(&mut self, addon: &ManagedClusterAddOn, is_there: bool) {
        if hosting_cluster(addon).is_some() {
            self.hosted = if is_there { self.hosted + 1 } else { self.hosted.saturating_sub(1) };
        }
        let references = addon.status.iter().flat_map(|status| &status.config_references);
        let named = references
            .flat_map(|r| [&r.desired_config, &r.last_applied_config])
            .flatten()
            .map(|ConfigSpecHash { spec_hash, .. }| spec_hash.clone());
        let recorded = progress::last_good(addon).into_iter().flatten().map(|config| config.hash);
        for spec_hash in named.chain(recorded) {
            let count = self.hashes.entry(spec_hash.clone()).or_default();
            if is_there {
                *count += 1;
            } else {
                *count = count.saturating_sub(1);
            }
            if *count == 0 {
                self.hashes.remove(&spec_hash);
            }
        }
    }

    /// Updates the selected clusters from the placements' selections, in the order of the placements.
    pub(in crate::hub) fn select(&mut self, selections: &[Arc<Selection>]) {
        if are_same(&self.selected_by, selections) {
            return;
        }
        self.selected_by = selections.to_vec();
        let (taken, selected) = taken(selections.iter().rev());
        let before = std::mem::replace(&mut self.selected, selected);
        self.taken = taken.into_iter().rev().collect();
        self.installation.look_at(before.symmetric_difference(&self.selected).cloned());
        let unselected: BTreeSet<String> =
            self.addons.keys().filter(|cluster| !self.selected.contains(*cluster)).cloned().collect();
        self.rest.look_at(unselected.difference(&self.unselected).cloned());
        self.unselected = unselected;
    }

    /// Returns the readable add-ons on clusters that no placement selects.
    pub(in crate::hub) fn unselected_addons(&self) -> Vec<Arc<ManagedClusterAddOn>> {
        let readable = self.unselected.difference(&self.unreadable);
        readable.filter_map(|cluster| self.addons.get(cluster).cloned()).collect()
    }

    /// Records a configuration that the add-on of a cluster names.
    pub(super) fn names_own(
        &mut self,
        cluster: &str,
        object: ObjectRef,
        config: &Config,
        content: Option<Arc<Object>>,
    ) {
        let own = self.own.entry(object).or_default();
        (own.config, own.content) = (config.clone(), content);
        own.clusters.insert(cluster.to_owned());
    }

    /// Returns the configurations that add-ons on individual clusters name, with their content, and adds clusters
    /// with a changed configuration to `changed`.
    pub(super) fn own_contents(
        &mut self,
        changed: &mut BTreeSet<String>,
        view: &impl View,
    ) -> Read<Vec<(Config, Arc<Object>)>> {
        self.own.retain(|_, own| !own.clusters.is_empty());
        self.content_hashes.truncate();
        let mut contents = Vec::new();
        for (object, own) in &self.own {
            let content = view.observed(object)?;
            if content.as_ref().map(Arc::as_ptr) != own.content.as_ref().map(Arc::as_ptr) {
                changed.extend(own.clusters.iter().cloned());
            } else if let Some(content) = content {
                contents.push((own.config.clone(), content));
            }
        }
        Ok(contents)
    }
}

fn set(names: &mut BTreeSet<String>, name: &str, is_in: bool) {
    if is_in {
        names.insert(name.to_owned());
    } else {
        names.remove(name);
    }
}

/// Returns true if the status says that the configurations are decided.
fn is_configured(addon: &ManagedClusterAddOn) -> bool {
    let mut conditions: Vec<_> = addon
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .filter(|condition| condition.type_ == CONFIGURED)
        .cloned()
        .collect();
    let before = find_condition(&conditions, CONFIGURED).cloned();
    let now = before.as_ref().map(|condition| condition.last_transition_time.0).unwrap_or_default();
    progress::configured(&mut conditions, true, now);
    before.is_some() && before.as_ref() == find_condition(&conditions, CONFIGURED)
}
