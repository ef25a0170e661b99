//! Installs add-ons where placements select clusters, and removes them where none does any more.
//!
//! Removal is never concluded from something missing: while a placement does not exist, is not scheduled or is between two states,
//! every add-on stays. Above the removal budget it waits for approval, and what a person installed by hand is never removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, json};

use crate::addon_reads::{self, placements_of};
use api::addon::v1alpha1::{
    ClusterManagementAddOn, InstallStrategyType, ManagedClusterAddOn, PlacementStrategy,
};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{ADDON_ANNOTATION_PREFIX, INSTALLED_BY_ANNOTATION};
use engine::addon::config_refs;
use engine::rollout::input::{Cluster, Group, GroupKey, Hash};
use engine::rollout::strategy::All;
use engine::rollout::{self, Input, Strategy};
use object::{Gvk, Key, Object, ObjectRef};
use reconcile::{Action, Controller, Note, NoteType, Plan, Read, View, Watches};

/// See the [module](self).
pub(crate) struct AddonInstallController;

impl Controller for AddonInstallController {
    const NAME: &'static str = "addon-install";
    type Primary = ClusterManagementAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterAddOn>(|change, _| {
            // Only coming and going matters here, and who owns it.
            let owners = |addon: &ManagedClusterAddOn| addon.metadata.owner_references.clone();
            let same =
                matches!((&change.old, &change.new), (Some(old), Some(new)) if owners(old) == owners(new));
            if same { Vec::new() } else { change.sides().take(1).map(addon_reads::key_of_addon).collect() }
        });
        addon_reads::wake_on_placements(watches);
        watches.read::<ManagedCluster>();
        watches.read::<RolloutPolicy>();
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        plan(key, view)
    }
}

fn plan(key: &Key, view: &impl View) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let Some(cma) = view.get::<ClusterManagementAddOn>(key)? else { return Ok(plan) };
    if cma.metadata.deletion_timestamp.is_some() || !config_refs::is_managed(&cma) {
        return Ok(plan);
    }
    let existing = addon_reads::of_clusters(&key.name, view)?;
    let by_placement = cma.spec.install_strategy.r#type == InstallStrategyType::Placements;
    let (selected, settled) = if by_placement {
        selected(&cma.spec.install_strategy.placements, view)?
    } else {
        (BTreeSet::new(), false)
    };
    plan.step(existing.iter().filter_map(|addon| adopt(addon, &cma, &selected)));
    let names: BTreeSet<&str> =
        existing.iter().filter_map(|addon| addon.metadata.namespace.as_deref()).collect();
    let mut created = Vec::new();
    for cluster in selected.iter().filter(|cluster| !names.contains(cluster.as_str())) {
        let managed = view.get::<ManagedCluster>(&Key::cluster(cluster))?;
        let living = managed.filter(|managed| managed.metadata.deletion_timestamp.is_none());
        created.extend(living.map(|managed| Action::create(Object::from_typed(&new_addon(&cma, &managed)))));
    }
    plan.step(created);
    if settled {
        remove(&mut plan, &cma, &existing, &selected, view)?;
    }
    Ok(plan)
}

/// The clusters that any placement selects, and whether every placement is settled.
fn selected(placements: &[PlacementStrategy], view: &impl View) -> Read<(BTreeSet<String>, bool)> {
    let (mut clusters, mut settled) = (BTreeSet::new(), true);
    for selection in placements_of(placements, view)? {
        settled &= selection.settled;
        clusters.extend(selection.clusters().map(str::to_owned));
    }
    Ok((clusters, settled))
}

fn owner(cma: &ClusterManagementAddOn) -> OwnerReference {
    let gvk = Gvk::of::<ClusterManagementAddOn>();
    OwnerReference {
        api_version: gvk.api_version(),
        kind: gvk.kind,
        name: cma.metadata.name.clone().unwrap_or_default(),
        uid: cma.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn new_addon(cma: &ClusterManagementAddOn, cluster: &ManagedCluster) -> ManagedClusterAddOn {
    let inherited = cluster
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(name, _)| name.starts_with(ADDON_ANNOTATION_PREFIX));
    let mut annotations: std::collections::BTreeMap<_, _> =
        inherited.map(|(k, v)| (k.clone(), v.clone())).collect();
    annotations.insert(INSTALLED_BY_ANNOTATION.into(), "true".into());
    let metadata = ObjectMeta {
        namespace: cluster.metadata.name.clone(),
        name: cma.metadata.name.clone(),
        annotations: Some(annotations),
        owner_references: Some(vec![owner(cma)]),
        ..ObjectMeta::default()
    };
    ManagedClusterAddOn { metadata, ..ManagedClusterAddOn::default() }
}

/// Makes an add-on of a cluster the add-on's, and the placements' where one selects the cluster.
fn adopt(
    addon: &ManagedClusterAddOn,
    cma: &ClusterManagementAddOn,
    selected: &BTreeSet<String>,
) -> Option<Action> {
    if addon.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let wanted = owner(cma);
    let references = addon.metadata.owner_references.clone().unwrap_or_default();
    // Another version of the group is the same owner; OCM writes v1beta1.
    let group = |reference: &OwnerReference| Gvk::parse(&reference.api_version, &reference.kind).group;
    let is_same =
        |r: &OwnerReference| (group(r), &r.kind, &r.name) == (group(&wanted), &wanted.kind, &wanted.name);
    let owned = references.iter().any(|r| is_same(r) && r.uid == wanted.uid && r.controller == Some(true));
    let is_selected = selected.contains(addon.metadata.namespace.as_deref().unwrap_or_default());
    let marked = addon
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(INSTALLED_BY_ANNOTATION));
    let mut metadata = Map::new();
    if !owned {
        let others = references.iter().filter(|reference| !is_same(reference));
        metadata.insert("ownerReferences".into(), json!(others.chain([&wanted]).collect::<Vec<_>>()));
    }
    if is_selected && !marked {
        metadata.insert("annotations".into(), json!({INSTALLED_BY_ANNOTATION: "true"}));
    }
    (!metadata.is_empty())
        .then(|| Action::patch(addon, Map::from_iter([("metadata".to_owned(), metadata.into())])))
}

/// Removes what placements installed where none selects the cluster any more, within the budget.
fn remove(
    plan: &mut Plan,
    cma: &ClusterManagementAddOn,
    existing: &[Arc<ManagedClusterAddOn>],
    selected: &BTreeSet<String>,
    view: &impl View,
) -> Read<()> {
    let name = cma.metadata.name.as_deref().unwrap_or_default();
    let ours = |addon: &&Arc<ManagedClusterAddOn>| {
        let marked = addon
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key(INSTALLED_BY_ANNOTATION));
        marked && addon.metadata.deletion_timestamp.is_none()
    };
    let ours: Vec<_> = existing.iter().filter(ours).collect();
    let cluster = |addon: &Arc<ManagedClusterAddOn>| addon.metadata.namespace.clone().unwrap_or_default();
    let (policy, granted) = addon_reads::policy(name, view)?;
    // The removal budget is the engine's; what it is asked here is only who left.
    let mut input = Input::new(Hash::default(), Ok(Strategy::All(All::default())));
    input.groups = vec![Group { key: GroupKey::default(), clusters: selected.iter().cloned().collect() }];
    input.clusters = ours
        .iter()
        .map(|addon| Cluster { name: cluster(addon), runs: Some(Hash::default()), ..Cluster::default() })
        .collect();
    (input.policy, input.granted) = (policy, granted);
    let decision = rollout::advance(&input, Timestamp::UNIX_EPOCH);
    plan.step(
        ours.iter()
            .filter(|addon| decision.removed.contains(&cluster(addon)))
            .map(|addon| Action::delete(addon.as_ref())),
    );
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
        plan.notes.push(Note {
            regarding: ObjectRef::of::<ClusterManagementAddOn>(Key::of(cma)),
            uid: cma.metadata.uid.clone().unwrap_or_default(),
            related: None,
            note_type: NoteType::Warning,
            reason: "RemovalHeld".into(),
            action: "Remove".into(),
            message,
        });
    }
    Ok(())
}
