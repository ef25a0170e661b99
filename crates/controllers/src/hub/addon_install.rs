//! Installs add-ons on the clusters that placements select, and removes them from clusters that no placement
//! selects any longer.
//!
//! All add-ons stay while a placement does not exist, is not scheduled, or moves clusters between pages. Removals
//! above the budget for a time window wait for an approval. An add-on that a person installed is removed only with
//! its ClusterManagementAddOn.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use super::addon_config::fleet::{AddOnFleet, AddOnFleets, InstallationBasis};
use crate::addon_creation::{install, is_by_placements, record_refused, report_refused, retry_at};
use crate::addon_deletion;
use crate::addon_reads;
use crate::addon_removal::{self, Installed, Removal, is_by_commit, is_by_placement};
use crate::placement_reads::is_unreachable;
use crate::rollout_policy::{self, RolloutOwner};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::{RemovalStatus, RollOut};
use api::names::{ADDON_NAME_LABEL, INSTALLED_BY_ANNOTATION, REMOVAL_DECIDED_ANNOTATION};
use api::work::v1::ManifestWork;
use engine::addon::config_refs;
use engine::addon::selection::Selection;
use object::{Key, Metadata as _, refers_to};
use reconcile::{
    Action, Change, Controller, Event, EventType, Executed, Plan, Query, Read, StatusWrite, View, Watches,
};

pub(crate) struct AddOnInstallController;

impl Controller for AddOnInstallController {
    const NAME: &'static str = "addon-install";
    type Primary = ClusterManagementAddOn;

    // A rollout writes the status whenever a cluster moves.
    fn concerns(change: &Change<ClusterManagementAddOn>) -> bool {
        change.differs_in(|cma| {
            let ObjectMeta { annotations, finalizers, deletion_timestamp, .. } = &cma.metadata;
            (&cma.spec, annotations, finalizers, deletion_timestamp)
        })
    }

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterAddOn>(|change, _| {
            let addon = change.latest().filter(|_| change.differs_in(|a| &a.metadata.owner_references));
            addon.map(addon_reads::key_of_addon).into_iter().collect()
        });
        // A batch of removals waits until the works of the previous batch are gone.
        watches.on::<ManifestWork>(|change, _| {
            let addon = change.old.as_ref().filter(|_| change.new.is_none());
            addon.and_then(|work| Some(Key::cluster(work.label(ADDON_NAME_LABEL)?))).into_iter().collect()
        });
        addon_reads::wake_on_placements(watches);
        // A decision may name a cluster before the cluster is in the cache.
        watches.on::<ManagedCluster>(|change, view| {
            let all = || view.keys::<ClusterManagementAddOn>(Query::ALL);
            if change.differs_in(|cluster| (cluster.is_terminating(), is_unreachable(cluster))) {
                all()
            } else {
                Vec::new()
            }
        });
        addon_reads::wake_on_readability(watches);
        addon_reads::wake_on_policies(watches);
        watches.keep::<AddOnFleets>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cma) = view.get::<ClusterManagementAddOn>(key)? else { return Ok(plan) };
        if cma.is_terminating() {
            return uninstall(&cma, view, now);
        }
        if !config_refs::is_managed(&cma) {
            return Ok(plan);
        }
        let hold = addon_deletion::hold(&cma, view)?;
        let is_held = hold.is_none();
        plan.step(hold);
        let add_on = &key.name;
        let mut fleet = view.index(|fleets: &mut AddOnFleets| fleets.take(key))?;
        let changed = fleet.update(add_on, view)?;
        let selections = select(&cma, &mut fleet, view, now)?;
        for at in selections.iter().filter_map(|selection| selection.settles) {
            plan.wake(at);
        }
        // With any other value, the rollout installs the add-on at the cluster's turn.
        let policies = rollout_policy::policies_for(RolloutOwner::AddOn(add_on), view)?;
        let policy = rollout_policy::choose(&policies, RolloutOwner::AddOn(add_on));
        let is_at_once = policies.iter().all(|policy| policy.spec.roll_out == RollOut::Content);
        let refused = rollout_policy::refused_of(policy.map(Arc::as_ref), add_on);
        let owner = cma.controller_reference();
        let basis = InstallationBasis { owner: owner.clone(), is_at_once };
        // In a single step, a write that the API server rejects on one cluster blocks no other cluster.
        let (mut writes, mut are_owned) = (Vec::new(), is_held && fleet.unreadable.is_empty());
        fleet.installation.look_at(changed);
        let all = || fleet.addons.keys().chain(&fleet.selected).cloned().collect();
        for cluster in fleet.installation.due(basis, all) {
            let is_selected = fleet.selected.contains(&cluster);
            let addon = fleet.addons.get(&cluster).filter(|_| !fleet.unreadable.contains(&cluster));
            let is_absent = !fleet.addons.contains_key(&cluster) && !fleet.unreadable.contains(&cluster);
            let is_wanted = is_absent && is_selected && is_at_once;
            if is_wanted && let Some(at) = retry_at(&refused, &cluster, now) {
                plan.wake(at);
                continue;
            }
            let managed = view.get_readable::<ManagedCluster>(&Key::cluster(&cluster))?;
            let owners = Owners { cma: &owner, cluster: managed.as_deref() };
            let adoption = addon.and_then(|addon| owners.adopt(addon, is_selected));
            are_owned &= adoption.is_none();
            let creation = if is_wanted { install(&cma, &cluster, view)? } else { None };
            if adoption.is_none() && creation.is_none() {
                fleet.installation.set_done(&cluster);
            }
            writes.extend(adoption.into_iter().chain(creation));
        }
        if is_by_placements(&cma) && selections.iter().all(|selection| selection.settled) {
            let addons = fleet.unselected_addons();
            let installed = Installed { add_on, addons: &addons, selected: &fleet.selected, deletion: None };
            writes.extend(remove(&mut plan, &cma, installed, view, now)?);
        }
        plan.step(writes);
        plan.step(are_owned.then(|| addon_deletion::may_be_in_foreground(&cma)).flatten());
        view.index(|fleets: &mut AddOnFleets| fleets.keep(key.clone(), fleet))?;
        Ok(plan)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        match record_refused(&key.name, done, view, now)? {
            Some(recorded) => Ok(Some(recorded)),
            None => report_refused(&key.name, done, view, now),
        }
    }
}

/// Removes the add-on from all clusters within the budget, then removes the finalizer of the
/// ClusterManagementAddOn.
fn uninstall(cma: &ClusterManagementAddOn, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let on_clusters = addon_reads::of_clusters(cma.name(), view)?;
    let deletion = addon_deletion::of(cma);
    if deletion.is_some() {
        let (addons, selected) = (&on_clusters.addons, &BTreeSet::new());
        let installed = Installed { add_on: cma.name(), addons, selected, deletion };
        let deletions = remove(&mut plan, cma, installed, view, now)?;
        plan.step(deletions);
    }
    plan.step(addon_deletion::release(cma, &on_clusters, view)?);
    Ok(plan)
}

/// Reads the clusters that the placements select.
fn select(
    cma: &ClusterManagementAddOn,
    fleet: &mut AddOnFleet,
    view: &impl View,
    now: Timestamp,
) -> Read<Vec<Arc<Selection>>> {
    let strategy = &cma.spec.install_strategy;
    let placements = if is_by_placements(cma) { strategy.placements.as_slice() } else { &[] };
    let keys = placements.iter().map(|placement| Key::namespaced(&placement.namespace, &placement.name));
    let selections: Vec<_> = keys.map(|key| fleet.selections.of(&key, view, now)).collect::<Read<_>>()?;
    fleet.select(&selections);
    Ok(selections)
}

/// The owners of a cluster's add-on.
struct Owners<'a> {
    /// The ClusterManagementAddOn, which is the controller.
    cma: &'a OwnerReference,
    /// The cluster, if it exists. While it is an owner, the garbage collector keeps the add-on if the
    /// ClusterManagementAddOn is deleted in the foreground.
    cluster: Option<&'a ManagedCluster>,
}

impl Owners<'_> {
    /// Sets the owners of an add-on, and marks the add-on if a placement selects the cluster.
    fn adopt(&self, addon: &ManagedClusterAddOn, is_selected: bool) -> Option<Action> {
        if addon.is_terminating() {
            return None;
        }
        let mut metadata = Map::new();
        if let Some(references) = self.missing(addon) {
            metadata.insert("ownerReferences".into(), json!(references));
        }
        let mut annotations = Map::new();
        if is_selected && !is_by_placement(addon) && !is_by_commit(addon) {
            annotations.insert(INSTALLED_BY_ANNOTATION.into(), "true".into());
        }
        if is_selected && addon.annotation(REMOVAL_DECIDED_ANNOTATION).is_some() {
            annotations.insert(REMOVAL_DECIDED_ANNOTATION.into(), Value::Null);
        }
        if !annotations.is_empty() {
            metadata.insert("annotations".into(), annotations.into());
        }
        let patch = Map::from_iter([("metadata".to_owned(), json!(metadata))]);
        (!metadata.is_empty()).then(|| Action::patch(addon, patch))
    }

    /// Returns the complete list of owner references if the add-on lacks one of these owners.
    fn missing(&self, addon: &ManagedClusterAddOn) -> Option<Vec<OwnerReference>> {
        let Self { cma, cluster } = self;
        let references = addon.metadata.owner_references.as_deref().unwrap_or_default();
        let has = |wanted: &OwnerReference| references.iter().any(|reference| reference.uid == wanted.uid);
        let is_controller =
            |reference: &OwnerReference| reference.uid == cma.uid && reference.controller == Some(true);
        // The garbage collector removes the reference to a cluster that is deleted in the foreground.
        let cluster =
            cluster.filter(|cluster| !cluster.is_terminating()).map(|cluster| cluster.owner_reference());
        if references.iter().any(is_controller) && cluster.as_ref().is_none_or(has) {
            return None;
        }
        // References from OCM have the API version v1beta1.
        let is_same = |reference: &OwnerReference| {
            refers_to::<ClusterManagementAddOn>(reference, &cma.name)
                || cluster
                    .as_ref()
                    .is_some_and(|cluster| refers_to::<ManagedCluster>(reference, &cluster.name))
        };
        let others = references.iter().filter(|reference| !is_same(reference)).cloned();
        Some(others.chain([OwnerReference::clone(cma)]).chain(cluster.clone()).collect())
    }
}

/// Records the add-ons to remove, within the budget, from clusters that no placement selects any longer. Returns
/// their deletions, which come after the record.
fn remove(
    plan: &mut Plan,
    cma: &ClusterManagementAddOn,
    installed: Installed<'_>,
    view: &impl View,
    now: Timestamp,
) -> Read<Vec<Action>> {
    let removal = installed.removal(view, now)?;
    if let Some(at) = removal.decision.recheck {
        plan.wake(at);
    }
    let before = rollout_policy::removals_of(installed.add_on, view)?;
    if !installed.record(&removal, plan, view, now)? {
        return Ok(Vec::new());
    }
    let removed: BTreeSet<&str> = removal.decision.removed.iter().map(String::as_str).collect();
    let removed = installed.addons.iter().filter(|addon| removed.contains(addon.namespace()));
    plan.step(addon_removal::mark(&removal, installed.addons));
    plan.events.extend(held_removal(cma, &removal, &before));
    Ok(removed.map(|addon| Action::delete(addon.as_ref())).collect())
}

/// Returns the event for held removals, unless the record already shows it.
fn held_removal(cma: &ClusterManagementAddOn, removal: &Removal, before: &RemovalStatus) -> Option<Event> {
    let (kept, approval) = (removal.decision.kept.len(), removal.decision.approval.as_deref());
    let was_reported =
        usize::try_from(before.held) == Ok(kept) && before.approval == approval.unwrap_or_default();
    (kept > 0 && !was_reported)
        .then(|| Event::new(cma, EventType::Warning, "RemovalHeld", "Remove", removal.to_string()))
}
