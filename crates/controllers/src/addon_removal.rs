//! Decides which clusters lose an add-on because no placement selects them any longer, or because the add-on is
//! being deleted.
//!
//! The budget counts the removals within its window, so they are recorded in the status of a RolloutPolicy before
//! they are made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, json};

use crate::addon_creation::is_by_placements;
use crate::addon_reads;
use crate::placement_reads::{group_size, is_unreachable, selection};
use crate::rollout_policy::{self, RolloutOwner, count, entries, policy_for, recent, still_counting};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::RemovalStatus;
use api::names::{
    ADDON_NAME_LABEL, CONFIG_REPO_ANNOTATION, DEFAULT_ROLLOUT_POLICY, INSTALLED_BY_ANNOTATION,
    REMOVAL_DECIDED_ANNOTATION,
};
use api::work::v1::ManifestWork;
use engine::addon::hosting::addon_of;
use engine::plural::counted;
use engine::rollout::cluster::{Group, Instance};
use engine::rollout::policy::RollOut;
use engine::rollout::removal::{RemovalDecision, RemovalInput, RemovalOrder, remove, within_window};
use engine::rollout::strategy::Progressive;
use engine::rollout::{Size, Strategy};
use object::{Key, Kind, Metadata as _};
use reconcile::{Action, Plan, Query, Read, View};

/// The removal of an add-on from the clusters that no placement selects any longer, or from all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The decision of the engine.
    pub decision: RemovalDecision,
    /// Clusters that lose the add-on after the clusters before them have lost it. With the policy
    /// `InstallAndContent`, the removal follows the order of the strategy, in batches of at most the removal
    /// budget.
    pub later: Vec<String>,
    /// The RolloutPolicy in which a person approves.
    pub policy: String,
    /// The reason that the policy holds all removals; `None` if only the budget may hold some.
    pub hold: Option<&'static str>,
    /// True if the ClusterManagementAddOn is being deleted, so that all clusters lose the add-on.
    pub is_deletion: bool,
}

/// Describes what the clusters that keep the add-on wait for.
impl Display for Removal {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let clusters = counted(self.decision.kept.len(), "cluster");
        if self.is_deletion {
            write!(f, "the add-on is being deleted; its removal from {clusters} is on hold")?;
        } else {
            write!(
                f,
                "the removal of the add-on from {clusters} that no placement selects any longer is on hold"
            )?;
        }
        if let Some(token) = &self.decision.approval {
            write!(f, "; to allow it, add {token} to spec.approved of RolloutPolicy {}", self.policy)?;
        }
        if let Some(hold) = self.hold {
            write!(f, ": RolloutPolicy {} {hold}", self.policy)?;
        }
        if let Some(until) = self.decision.recheck {
            write!(f, ", or wait until {until}")?;
        }
        Ok(())
    }
}

/// An add-on on the clusters of a hub, and the clusters that should have it.
#[derive(Clone, Copy)]
pub(super) struct Installed<'a> {
    pub(super) add_on: &'a str,
    /// The add-on on the clusters that have it; selected clusters may be left out.
    pub(super) addons: &'a [Arc<ManagedClusterAddOn>],
    /// The clusters that a placement selects.
    pub(super) selected: &'a BTreeSet<String>,
    /// The deletion of the ClusterManagementAddOn. Like the garbage collector, it also removes the add-ons that
    /// people installed.
    pub(super) deletion: Option<AddOnDeletion>,
}

/// The deletion of a ClusterManagementAddOn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddOnDeletion {
    /// The removal budget limits it.
    Budgeted,
    /// A person approved the commit that deletes the add-on.
    Approved,
}

/// Returns true if the removal of a cluster's add-on has been decided but waits for other clusters.
fn is_going(addon: &ManagedClusterAddOn) -> bool {
    addon.annotation(REMOVAL_DECIDED_ANNOTATION).is_some()
}

/// Marks the add-ons that are removed later, and those whose removal a person approved. The approval covers all of
/// them together, so it no longer matches once the first is removed. The mark survives a failed deletion and a
/// restart.
pub(super) fn mark(removal: &Removal, addons: &[Arc<ManagedClusterAddOn>]) -> Vec<Action> {
    let decided: BTreeSet<&str> =
        removal.later.iter().chain(&removal.decision.approved).map(String::as_str).collect();
    let unmarked = addons.iter().filter(|addon| decided.contains(addon.namespace()) && !is_going(addon));
    unmarked.map(|addon| mark_decided(addon.as_ref())).collect()
}

/// Records on an add-on or a work that its removal has been decided.
pub(super) fn mark_decided<K: Kind>(object: &K) -> Action {
    let mark = json!({"annotations": {REMOVAL_DECIDED_ANNOTATION: "true"}});
    Action::patch(object, Map::from_iter([("metadata".to_owned(), mark)]))
}

/// Returns true if a placement installed the cluster's add-on. The operator removes no other add-ons.
pub(super) fn is_by_placement(addon: &ManagedClusterAddOn) -> bool {
    addon.annotation(INSTALLED_BY_ANNOTATION).is_some() && !is_by_commit(addon)
}

/// Returns true if a ConfigRepo applies the cluster's add-on. Otherwise, the ConfigRepo would install it again after
/// its removal.
pub(super) fn is_by_commit(addon: &ManagedClusterAddOn) -> bool {
    addon.annotation(CONFIG_REPO_ANNOTATION).is_some()
}

/// Returns true if a cluster is being deleted. This removes its add-ons without counting them in any budget.
fn is_cluster_leaving(cluster: &str, view: &impl View) -> Read<bool> {
    let cluster = view.get_readable::<ManagedCluster>(&Key::cluster(cluster))?;
    Ok(cluster.is_some_and(|cluster| cluster.is_terminating()))
}

impl Installed<'_> {
    /// Decides about the clusters that no placement selects any longer.
    pub(super) fn removal(&self, view: &impl View, now: Timestamp) -> Read<Removal> {
        let (policy, granted) = policy_for(RolloutOwner::AddOn(self.add_on), view)?;
        let recent = recent(&rollout_policy::removals_of(self.add_on, view)?.recent);
        let window = policy.as_ref().map(|policy| within_window(&recent, policy, now)).unwrap_or_default();
        let is_ours = |addon: &&Arc<ManagedClusterAddOn>| self.deletion.is_some() || is_by_placement(addon);
        let ours = self.addons.iter().filter(is_ours);
        let have: BTreeSet<&str> = ours.clone().map(|addon| addon.namespace()).collect();
        let others: BTreeSet<&str> = have
            .iter()
            .copied()
            .chain(window.keys().map(String::as_str))
            .filter(|cluster| !self.selected.contains(*cluster))
            .collect();
        let total = self.selected.len() + others.len();
        let mut left = BTreeMap::new();
        for addon in ours {
            let goes_or_stays = addon.is_terminating() || self.selected.contains(addon.namespace());
            if !goes_or_stays && !is_cluster_leaving(addon.namespace(), view)? {
                let is_decided = self.deletion == Some(AddOnDeletion::Approved) || is_going(addon);
                let instance = Instance { uid: addon.uid().to_owned(), is_decided };
                left.insert(addon.namespace().to_owned(), instance);
            }
        }
        let owner = self.add_on;
        let input =
            RemovalInput { owner, left: &left, total, recent: &recent, policy: &policy, granted: &granted };
        let mut decision = remove(&input, now);
        let mut later = Vec::new();
        if let Ok(policy) = &policy
            && policy.roll_out == RollOut::InstallAndContent
            && !decision.removed.is_empty()
        {
            let leaving = self.leaving(view)?;
            let batch = policy.removals.of(total).max(1).saturating_sub(leaving.len());
            let order = RemovalOrder::of(&self.placements(view)?, total);
            let next: BTreeSet<String> =
                order.next(&decision.removed, &leaving).into_iter().take(batch).collect();
            (decision.removed, later) =
                decision.removed.into_iter().partition(|cluster| next.contains(cluster));
        }
        let hold = match &policy {
            Ok(policy) if policy.paused => Some("is paused"),
            Ok(_) => None,
            Err(_) => Some("is not valid"),
        };
        let object = rollout_policy::object_for(RolloutOwner::AddOn(self.add_on), view)?;
        let policy =
            object.map_or_else(|| DEFAULT_ROLLOUT_POLICY.to_owned(), |policy| policy.name().to_owned());
        Ok(Removal { decision, later, policy, hold, is_deletion: self.deletion.is_some() })
    }

    /// Returns the strategy of each placement and, if the add-on is being deleted, its groups: a cluster that no
    /// placement selects is in no group.
    ///
    /// If a Placement does not exist, the groups come from its remaining decisions. With an invalid strategy,
    /// clusters lose the add-on one by one, because the allowed number is unknown.
    fn placements(&self, view: &impl View) -> Read<Vec<(Strategy, Vec<Group>)>> {
        let cma = view.get_readable::<ClusterManagementAddOn>(&Key::cluster(self.add_on))?;
        let cma = cma.filter(|cma| is_by_placements(cma));
        let (mut placements, mut taken) = (Vec::new(), BTreeSet::new());
        for named in cma.iter().flat_map(|cma| &cma.spec.install_strategy.placements) {
            let key = Key::namespaced(&named.namespace, &named.name);
            let size = view.get::<Placement>(&key)?.as_deref().and_then(group_size);
            let one_by_one = Progressive { concurrency: Some(Size::Count(1)), ..Progressive::default() };
            let strategy =
                Strategy::read(&named.rollout_strategy, size).unwrap_or(Strategy::Progressive(one_by_one));
            let mut groups = Vec::new();
            if self.deletion.is_some() {
                let selection = selection(&key, view)?;
                groups = selection.without(&taken);
                taken.extend(selection.clusters().map(str::to_owned));
            }
            placements.push((strategy, groups));
        }
        Ok(placements)
    }

    /// Returns the reachable clusters from which the add-on is not completely removed yet. An unreadable cluster
    /// counts as unreachable, as in a rollout, and so does a cluster with an unreadable add-on.
    fn leaving(&self, view: &impl View) -> Read<BTreeSet<String>> {
        let on_clusters = addon_reads::of_clusters(self.add_on, view)?;
        let (leaving, staying): (Vec<_>, Vec<_>) =
            on_clusters.addons.iter().partition(|addon| addon.is_terminating());
        let unreadable = on_clusters.unreadable.iter().map(String::as_str);
        let stays: BTreeSet<&str> = staying.iter().map(|addon| addon.namespace()).chain(unreadable).collect();
        let mut clusters: BTreeSet<String> =
            leaving.iter().map(|addon| addon.namespace().to_owned()).collect();
        let works = view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, self.add_on))?;
        let left_over = works.iter().filter_map(|work| addon_of(work)).map(|addon| addon.namespace);
        clusters.extend(left_over.filter(|cluster| !stays.contains(cluster.as_str())));
        let mut answering = BTreeSet::new();
        for cluster in clusters {
            let managed = view.get_readable::<ManagedCluster>(&Key::cluster(&cluster))?;
            if managed.is_some_and(|managed| !is_unreachable(&managed)) {
                answering.insert(cluster);
            }
        }
        Ok(answering)
    }

    /// Records the decision before any add-on is removed. If there is no policy for the record, the plan only
    /// creates one, which wakes the key.
    ///
    /// Returns true if the removals may follow.
    pub(super) fn record(
        &self,
        removal: &Removal,
        plan: &mut Plan,
        view: &impl View,
        now: Timestamp,
    ) -> Read<bool> {
        let RemovalDecision { removed: _, counted, approved: _, kept, approval, recheck: _ } =
            &removal.decision;
        let before = rollout_policy::removals_of(self.add_on, view)?;
        let (policy, _) = policy_for(RolloutOwner::AddOn(self.add_on), view)?;
        let mut recent = still_counting(recent(&before.recent), &policy, now);
        // An expired entry alone does not cause a write.
        let current = RemovalStatus { recent: entries(&recent), ..before };
        count(&mut recent, counted, now);
        let wanted = RemovalStatus {
            add_on: self.add_on.to_owned(),
            held: i32::try_from(kept.len()).unwrap_or(i32::MAX),
            approval: approval.clone().unwrap_or_default(),
            recent: entries(&recent),
            ..RemovalStatus::default()
        };
        if wanted == current {
            return Ok(true);
        }
        let Some(object) = rollout_policy::object_for(RolloutOwner::AddOn(self.add_on), view)? else {
            plan.step([rollout_policy::create_default()]);
            return Ok(false);
        };
        for step in rollout_policy::remember_removals(&object, &wanted, view)? {
            plan.step(step);
        }
        Ok(true)
    }
}
