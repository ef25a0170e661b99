//! Determines the add-ons and ManifestWorkReplicaSets that a preview plays.
//!
//! A fleet has as many objects of an add-on as it has clusters, and most commits touch few add-ons. A preview
//! leaves out the others: it does not load their objects on clusters, and the rollout controllers do not see them.
//! It starts with none and replays with those that the commit touched, until a play touches no further ones. A
//! commit touches an add-on or set if
//!
//! - it writes or deletes it, or one of its objects on clusters,
//! - it writes or deletes an object that the add-on names, such as its template,
//! - one of its placements selects another cluster, or puts a cluster into another group,
//! - a ConfigRepo holds its deletion.
//!
//! Everything else that may affect add-ons, such as a RolloutPolicy, touches all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::changes;
use super::fleet::{PreviewWorkload, all, decisions, get, objects};
use super::runner::Sides;
use super::snapshot::HubSnapshot;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::cluster::v1beta2::ManagedClusterSet;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::{
    ADDON_FEATURE_LABEL_PREFIX, ADDON_GROUP, CLUSTER_GROUP, CONFIG_REPO_ANNOTATION, GITOPS_GROUP, WORK_GROUP,
};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::sync::ObjectId;
use object::{Gvk, Key, Metadata as _, Object};
use reconcile::Representation;
use store::Store;

/// A selection of add-ons and sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviewScope {
    /// All workloads.
    All,
    /// Only these workloads.
    Only(BTreeSet<PreviewWorkload>),
}

impl Default for PreviewScope {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl PreviewScope {
    pub(super) fn has(&self, workload: &PreviewWorkload) -> bool {
        match self {
            Self::All => true,
            Self::Only(workloads) => workloads.contains(workload),
        }
    }

    /// Returns this scope plus another scope's workloads; `None` if it already contains them.
    pub(super) fn grown(&self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::All, _) => None,
            (Self::Only(_), Self::All) => Some(Self::All),
            (Self::Only(own), Self::Only(other)) => {
                (!other.is_subset(own)).then(|| Self::Only(own.union(&other).cloned().collect()))
            }
        }
    }

    /// Returns true if an object is loaded. Objects of a ConfigRepo are always loaded because an inventory names
    /// them, and works that define a kind because the cluster's other works may contain objects of it.
    pub(super) fn loads(&self, object: &Object) -> bool {
        let left_out = PreviewWorkload::on_cluster(object).is_some_and(|workload| !self.has(&workload));
        !left_out || object.annotations().contains_key(CONFIG_REPO_ANNOTATION) || defines_a_kind(object)
    }

    /// Returns true if the controllers see an object. The controller that applies commits reads whole objects and
    /// sees all of them.
    pub(super) fn shows(&self, object: &Object, representation: Representation) -> bool {
        representation == Representation::Whole
            || PreviewWorkload::from_object(object).is_none_or(|workload| self.has(&workload))
    }
}

fn defines_a_kind(work: &Object) -> bool {
    let manifests = work.at(&["spec", "workload", "manifests"]).and_then(Value::as_array);
    manifests.into_iter().flatten().any(|manifest| manifest["kind"] == "CustomResourceDefinition")
}

/// The effect of a written object.
enum Effect {
    /// No effect, or one visible in placements.
    Nothing,
    /// This workload changes.
    Of(PreviewWorkload),
    /// The workloads on clusters selected by the placement may change.
    Placed,
    /// The add-ons that name the object may change.
    Named,
    /// Every workload may change.
    All,
}

/// The result of a play.
pub(super) struct Played<'a> {
    pub(super) snapshot: &'a HubSnapshot,
    pub(super) before: &'a Store,
    pub(super) after: &'a Store,
    /// The objects that the commit wrote or deleted.
    pub(super) applied: &'a BTreeMap<ObjectId, Sides>,
}

impl Played<'_> {
    /// Returns the add-ons and sets that the play touched.
    pub(super) fn touched(&self) -> PreviewScope {
        if self.selects_by_add_on() || self.is_leaving() {
            return PreviewScope::All;
        }
        let mut touched = BTreeSet::new();
        let mut placements = self.moved();
        for (id, sides) in self.applied.iter().filter(|(id, sides)| changes::object(id, sides).is_some()) {
            match self.effect(id, sides) {
                Effect::Nothing => {}
                Effect::Of(workload) => {
                    touched.insert(workload);
                }
                Effect::Placed => {
                    placements.insert(id.key.clone());
                }
                Effect::Named => touched.extend(self.naming(&id.key.name)),
                Effect::All => return PreviewScope::All,
            }
        }
        touched.extend(self.placed_by(&placements));
        touched.extend(self.held());
        PreviewScope::Only(touched)
    }

    /// Returns the add-ons and sets whose deletions are held. The clusters that would lose them may be the reason.
    fn held(&self) -> impl Iterator<Item = PreviewWorkload> {
        let held = all::<ConfigRepo>(self.after).filter_map(|repo| repo.status?.held_deletions);
        let objects = held.flat_map(|held| held.objects);
        objects.filter_map(|entry| PreviewWorkload::from_id(&ObjectId::from_entry(&entry).0))
    }

    fn effect(&self, id: &ObjectId, sides: &Sides) -> Effect {
        let mut both = sides.0.iter().chain(&sides.1);
        if let Some(workload) = both.find_map(|object| PreviewWorkload::from_object(object)) {
            return Effect::Of(workload);
        }
        match (id.group.as_str(), id.kind.as_str()) {
            (ADDON_GROUP, "AddOnTemplate" | "AddOnDeploymentConfig") => Effect::Named,
            (WORK_GROUP, "ManifestWork")
            | (CLUSTER_GROUP, "ManagedClusterSet" | "ManagedClusterSetBinding" | "AddOnPlacementScore") => {
                Effect::Nothing
            }
            (CLUSTER_GROUP, "ManagedCluster") if differs_in_labels_alone(sides) => Effect::Nothing,
            (CLUSTER_GROUP, "Placement") => Effect::Placed,
            ("", "Namespace") => match sides {
                (_, Some(_)) if !self.is_cluster(&id.key.name) => Effect::Nothing,
                _ => Effect::All,
            },
            ("apiextensions.k8s.io" | GITOPS_GROUP, _) => Effect::All,
            (group, _) if group.ends_with("open-cluster-management.io") => Effect::All,
            // An add-on may have a configuration of any kind.
            _ => Effect::Named,
        }
    }

    /// Returns true if anything is selected by the labels that clusters carry for their add-ons.
    fn selects_by_add_on(&self) -> bool {
        let selectors = [objects::<Placement>(self.after), objects::<ManagedClusterSet>(self.after)].concat();
        let is_it = |text: &str| text.contains(ADDON_FEATURE_LABEL_PREFIX);
        selectors.iter().filter_map(|object| object.0.get("spec")).any(|spec| has_text(spec, &is_it))
    }

    /// Returns true if a cluster is being deleted; its deletion waits for its add-ons and works.
    fn is_leaving(&self) -> bool {
        objects::<ManagedCluster>(self.before).iter().any(|cluster| cluster.is_terminating())
    }

    fn is_cluster(&self, namespace: &str) -> bool {
        get::<ManagedCluster>(self.before, &Key::cluster(namespace)).is_some()
    }

    /// Returns the placements whose clusters or decision groups changed.
    fn moved(&self) -> BTreeSet<Key> {
        let (before, after) = (decisions(self.before), decisions(self.after));
        let keys = before.keys().chain(after.keys());
        keys.filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
    }

    /// Returns the add-ons that name an object.
    fn naming(&self, name: &str) -> BTreeSet<PreviewWorkload> {
        let is_it = |text: &str| text == name;
        let add_ons = objects::<ClusterManagementAddOn>(self.after);
        let add_ons = add_ons.iter().filter(|add_on| add_on.0.values().any(|part| has_text(part, &is_it)));
        let kind = Gvk::of::<ManagedClusterAddOn>().kind;
        let on_clusters = self.snapshot.objects.iter().filter(|object| object.kind() == kind);
        let names_it = |configs: &Value| has_text(configs, &is_it);
        let on_clusters = on_clusters.filter(|add_on| add_on.at(&["spec", "configs"]).is_some_and(names_it));
        let read = add_ons.chain(on_clusters).filter_map(|object| PreviewWorkload::from_object(object));
        read.chain(self.snapshot.left_out.naming(name).cloned()).collect()
    }

    /// Returns the add-ons and sets that use one of these placements.
    fn placed_by(&self, placements: &BTreeSet<Key>) -> BTreeSet<PreviewWorkload> {
        let add_ons = all::<ClusterManagementAddOn>(self.after).filter(|add_on| {
            let mut named = add_on.spec.install_strategy.placements.iter();
            named
                .any(|placement| placements.contains(&Key::namespaced(&placement.namespace, &placement.name)))
        });
        let sets = all::<ManifestWorkReplicaSet>(self.after).filter(|set| {
            let mut named = set.spec.placement_refs.iter();
            named.any(|placement| placements.contains(&Key::namespaced(set.namespace(), &placement.name)))
        });
        let add_ons = add_ons.map(|add_on| PreviewWorkload::AddOn(add_on.name().to_owned()));
        add_ons.chain(sets.map(|set| PreviewWorkload::ReplicaSet(Key::of(&set).to_string()))).collect()
    }
}

/// Returns true if a cluster differs only in labels and taints, which affect add-ons only through placements.
fn differs_in_labels_alone(sides: &Sides) -> bool {
    let (Some(before), Some(after)) = sides else { return false };
    let rest = |object: &Arc<Object>| {
        let mut spec = object.0.get("spec").cloned().unwrap_or_default();
        spec.as_object_mut().map(|spec| spec.remove("taints"));
        let annotations =
            object.annotations().into_iter().filter(|(name, _)| !name.starts_with(GITOPS_GROUP));
        let annotations = annotations.map(|(name, value)| (name.to_owned(), value.to_owned()));
        (object.is_terminating(), annotations.collect::<BTreeMap<_, _>>(), spec)
    };
    rest(before) == rest(after)
}

/// Returns true if a value contains a matching text as a key or as a value.
fn has_text(value: &Value, is_it: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_it(text),
        Value::Array(items) => items.iter().any(|item| has_text(item, is_it)),
        Value::Object(fields) => fields.iter().any(|(key, value)| is_it(key) || has_text(value, is_it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
