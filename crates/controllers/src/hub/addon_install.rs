//! Installs add-ons on the clusters that placements select, and removes them from clusters that no placement
//! selects any more.
//!
//! Every add-on stays while a placement does not exist, is not scheduled or moves clusters between pages.
//! Removals above the budget wait for an approval. The controller never removes an add-on that a person
//! installed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, json};

use crate::addon_reads::{self, OnClusters, placements_of};
use crate::rollout_policy::{RolloutOwner, policy_for};
use api::addon::v1alpha1::{
    ClusterManagementAddOn, InstallStrategyType, ManagedClusterAddOn, PlacementStrategy,
};
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_ANNOTATION_PREFIX, INSTALLED_BY_ANNOTATION};
use engine::addon::config_refs;
use engine::rollout::input::{Cluster, Group, GroupKey, Hash};
use engine::rollout::strategy::All;
use engine::rollout::{self, Input, Strategy};
use object::{Gvk, Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Controller, Event, EventType, Plan, Read, View, Watches};

pub(crate) struct AddonInstallController;

impl Controller for AddonInstallController {
    const NAME: &'static str = "addon-install";
    type Primary = ClusterManagementAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterAddOn>(|change, _| {
            let addon = change.latest().filter(|_| change.differs_in(|a| &a.metadata.owner_references));
            addon.map(addon_reads::key_of_addon).into_iter().collect()
        });
        addon_reads::wake_on_placements(watches);
        watches.read::<ManagedCluster>();
        addon_reads::wake_on_policies(watches);
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cma) = view.get::<ClusterManagementAddOn>(key)? else { return Ok(plan) };
        if cma.is_terminating() || !config_refs::is_managed(&cma) {
            return Ok(plan);
        }
        let OnClusters { addons: existing, unreadable } = addon_reads::of_clusters(&key.name, view)?;
        let (selected, is_settled) = match cma.spec.install_strategy.r#type {
            InstallStrategyType::Placements => selected(&cma.spec.install_strategy.placements, view)?,
            InstallStrategyType::Manual | InstallStrategyType::Other(_) => (BTreeSet::new(), false),
        };
        plan.step(existing.iter().filter_map(|addon| adopt(addon, &cma, &selected)));
        let installed: BTreeSet<&str> = existing.iter().map(|addon| addon.namespace()).collect();
        let is_absent =
            |cluster: &String| !installed.contains(cluster.as_str()) && !unreadable.contains(cluster);
        let mut created = Vec::new();
        for cluster in selected.iter().filter(|cluster| is_absent(cluster)) {
            let managed = view.get::<ManagedCluster>(&Key::cluster(cluster))?;
            let living = managed.filter(|managed| !managed.is_terminating());
            let addon = living.map(|managed| new_addon(&cma, &managed));
            created.extend(addon.map(|addon| Action::create(Object::from_typed(&addon))));
        }
        plan.step(created);
        if is_settled {
            remove(&mut plan, &cma, &existing, &selected, view)?;
        }
        Ok(plan)
    }
}

/// The clusters that at least one placement selects, and whether every placement is settled.
fn selected(placements: &[PlacementStrategy], view: &impl View) -> Read<(BTreeSet<String>, bool)> {
    let (mut clusters, mut settled) = (BTreeSet::new(), true);
    for selection in placements_of(placements, view)? {
        settled &= selection.settled;
        clusters.extend(selection.clusters().map(str::to_owned));
    }
    Ok((clusters, settled))
}

fn new_addon(cma: &ClusterManagementAddOn, cluster: &ManagedCluster) -> ManagedClusterAddOn {
    let inherited = cluster.metadata.annotations.iter().flatten();
    let inherited = inherited.filter(|(name, _)| name.starts_with(ADDON_ANNOTATION_PREFIX));
    let mut annotations: BTreeMap<String, String> =
        inherited.map(|(name, value)| (name.clone(), value.clone())).collect();
    annotations.insert(INSTALLED_BY_ANNOTATION.into(), "true".into());
    let metadata = ObjectMeta {
        namespace: cluster.metadata.name.clone(),
        name: cma.metadata.name.clone(),
        annotations: Some(annotations),
        owner_references: Some(vec![cma.controller_reference()]),
        ..ObjectMeta::default()
    };
    ManagedClusterAddOn { metadata, ..ManagedClusterAddOn::default() }
}

fn is_installed_by_placement(addon: &ManagedClusterAddOn) -> bool {
    addon.annotation(INSTALLED_BY_ANNOTATION).is_some()
}

/// Makes the ClusterManagementAddOn the controller of a cluster's add-on, and marks the add-on where a
/// placement selects the cluster.
fn adopt(
    addon: &ManagedClusterAddOn,
    cma: &ClusterManagementAddOn,
    selected: &BTreeSet<String>,
) -> Option<Action> {
    if addon.is_terminating() {
        return None;
    }
    let wanted = cma.controller_reference();
    let references = addon.metadata.owner_references.as_deref().unwrap_or_default();
    // Another version of the group is the same owner; OCM writes v1beta1.
    let group = |reference: &OwnerReference| Gvk::parse(&reference.api_version, &reference.kind).group;
    let is_same =
        |r: &OwnerReference| (group(r), &r.kind, &r.name) == (group(&wanted), &wanted.kind, &wanted.name);
    let is_owned = references.iter().any(|r| is_same(r) && r.uid == wanted.uid && r.controller == Some(true));
    let mut metadata = Map::new();
    if !is_owned {
        let others = references.iter().filter(|reference| !is_same(reference));
        metadata.insert("ownerReferences".into(), json!(others.chain([&wanted]).collect::<Vec<_>>()));
    }
    if selected.contains(addon.namespace()) && !is_installed_by_placement(addon) {
        metadata.insert("annotations".into(), json!({INSTALLED_BY_ANNOTATION: "true"}));
    }
    let patch = Map::from_iter([("metadata".to_owned(), json!(metadata))]);
    (!metadata.is_empty()).then(|| Action::patch(addon, patch))
}

/// Removes, within the budget, the add-ons that placements installed on clusters that no placement selects
/// any more.
fn remove(
    plan: &mut Plan,
    cma: &ClusterManagementAddOn,
    existing: &[Arc<ManagedClusterAddOn>],
    selected: &BTreeSet<String>,
    view: &impl View,
) -> Read<()> {
    let ours: Vec<_> =
        existing.iter().filter(|addon| is_installed_by_placement(addon) && !addon.is_terminating()).collect();
    let (policy, granted) = policy_for(RolloutOwner::AddOn(cma.name()), view)?;
    // The engine keeps the removal budget; this input has only the clusters that left.
    let mut input = Input::new(Hash::default(), Ok(Strategy::All(All::default())));
    input.groups = vec![Group { key: GroupKey::default(), clusters: selected.iter().cloned().collect() }];
    let cluster = |addon: &&Arc<ManagedClusterAddOn>| Cluster {
        name: addon.namespace().to_owned(),
        runs: Some(Hash::default()),
        ..Cluster::default()
    };
    input.clusters = ours.iter().map(cluster).collect();
    (input.policy, input.granted) = (policy, granted);
    let decision = rollout::advance(&input, Timestamp::UNIX_EPOCH);
    let removed: BTreeSet<&str> = decision.removed.iter().map(String::as_str).collect();
    let removed = ours.iter().filter(|addon| removed.contains(addon.namespace()));
    plan.step(removed.map(|addon| Action::delete(addon.as_ref())));
    if !decision.kept.is_empty() {
        let tokens = decision
            .approvals
            .iter()
            .map(|token| format!("; to allow it, add {token} to spec.approved of a RolloutPolicy"));
        let message = format!(
            "{} clusters are not selected any more; removing the add-on from all of them waits{}",
            decision.kept.len(),
            tokens.collect::<String>()
        );
        plan.events.push(Event {
            regarding: ObjectRef::of::<ClusterManagementAddOn>(Key::of(cma)),
            uid: cma.uid().to_owned(),
            related: None,
            event_type: EventType::Warning,
            reason: "RemovalHeld".into(),
            action: "Remove".into(),
            message,
        });
    }
    Ok(())
}
