//! Computes the differences between the hub before and after a commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fleet::{self, PreviewWorkload, all, decisions, get, workloads};
use super::results::{
    Batch, ChangeType, EarlierRollout, HeldRemoval, IncompleteRollout, ObjectChange, PlacementPreview,
    RolloutChanges, WorkChange, WorkloadPreview,
};
use super::runner::Sides;
use super::scope::PreviewScope;
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::condition::{Condition, Conditions as _, find_condition};
use api::gitops::v1alpha1::{RemovalStatus, RolloutPolicy};
use api::names::addon_conditions::PROGRESSING;
use api::names::replica_set_conditions::PLACEMENT_ROLLED_OUT;
use api::names::{CONFIG_REPO_ANNOTATION, PLAIN_SECRET, SECRET_ANNOTATION};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::addon::progress::COMPLETED;
use engine::changes::field_changes;
use engine::plural::counted;
use engine::sync::ObjectId;
use engine::work::manifests_at;
use object::{Key, Metadata as _, Object};
use serde_json::Value;
use store::Store;

/// Maximum number of objects that a warning names.
const MAX_NAMED: usize = 5;

/// Returns the objects that are created, changed and deleted. A write that leaves the content unchanged does not
/// count.
pub(super) fn objects(applied: &BTreeMap<ObjectId, Sides>) -> Vec<ObjectChange> {
    applied.iter().filter_map(|(id, sides)| object(id, sides)).collect()
}

/// Returns an object's change; `None` if the content is the same.
pub(super) fn object(id: &ObjectId, (before, after): &Sides) -> Option<ObjectChange> {
    let after = after.as_ref().filter(|after| !after.is_terminating());
    let (change, fields) = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => (ChangeType::Created, Vec::new()),
        (Some(_), None) => (ChangeType::Deleted, Vec::new()),
        (Some(before), Some(after)) => (ChangeType::Changed, field_changes(before, after)),
    };
    let (old, new) = (before.as_ref().and_then(owner), after.and_then(owner));
    let repo = new.clone().or_else(|| old.clone()).unwrap_or_default();
    let moved_from = old.filter(|old| new.is_some_and(|new| new != *old)).unwrap_or_default();
    let is_same = change == ChangeType::Changed && fields.is_empty() && moved_from.is_empty();
    (!is_same).then(|| ObjectChange { object: id.to_string(), change, repo, moved_from, fields })
}

/// Returns a warning that names the objects that the commit writes with plaintext Secrets for clusters; `None` if
/// there are none.
pub(super) fn plaintext(applied: &BTreeMap<ObjectId, Sides>) -> Option<String> {
    let written = applied.iter().filter(|(id, sides)| object(id, sides).is_some());
    let written = written.filter_map(|(_, (_, after))| after.as_deref());
    let names = written
        .filter(|object| has_plaintext(object))
        .map(|object| format!("{} {}", object.kind(), object.key()));
    let names: Vec<String> = names.collect();
    let shown = names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let rest = names.len().saturating_sub(MAX_NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    (!names.is_empty()).then(|| {
        format!(
            "the hub stores the Secrets of {} in plaintext: {shown}{more}; set spec.secrets: Sealed in the ConfigRepo, or annotate the \
             Secrets with {SECRET_ANNOTATION}: {PLAIN_SECRET}",
            counted(names.len(), "object")
        )
    })
}

/// Returns true if an object has plaintext Secrets for clusters.
fn has_plaintext(object: &Object) -> bool {
    let manifests = manifests_at(&object.gvk()).and_then(|at| object.at(&["spec"])?.pointer(at)?.as_array());
    seal::has_plaintext(manifests.into_iter().flatten().filter_map(Value::as_object))
}

/// Returns the ConfigRepo that owns an object.
fn owner(object: &Arc<Object>) -> Option<String> {
    object.annotations().get(CONFIG_REPO_ANNOTATION).map(|owner| (*owner).to_owned())
}

/// Returns the placements whose clusters change.
pub(super) fn placements(before: &Store, after: &Store) -> Vec<PlacementPreview> {
    let (before, after) = (decisions(before), decisions(after));
    let none = BTreeMap::new();
    let keys: BTreeSet<&Key> = before.keys().chain(after.keys()).collect();
    let all = keys.into_iter().map(|key| {
        let (old, new) = (before.get(key).unwrap_or(&none), after.get(key).unwrap_or(&none));
        PlacementPreview {
            placement: key.to_string(),
            clusters: new.len(),
            enter: new.keys().filter(|name| !old.contains_key(*name)).cloned().collect(),
            leave: old.keys().filter(|name| !new.contains_key(*name)).cloned().collect(),
        }
    });
    all.filter(|placement| !placement.enter.is_empty() || !placement.leave.is_empty()).collect()
}

/// Returns the add-ons and sets that change on some cluster.
pub(super) fn changed_workloads(
    before: &Store,
    after: &Store,
    mut batches: BTreeMap<PreviewWorkload, Vec<Batch>>,
) -> [Vec<WorkloadPreview>; 2] {
    let (before, after) = (workloads(before), workloads(after));
    let none = BTreeSet::new();
    let [mut add_ons, mut replica_sets] = [Vec::new(), Vec::new()];
    let all: BTreeSet<PreviewWorkload> =
        before.keys().chain(after.keys()).chain(batches.keys()).cloned().collect();
    for workload in all {
        let (old, new) = (before.get(&workload).unwrap_or(&none), after.get(&workload).unwrap_or(&none));
        let enter: Vec<String> = new.difference(old).cloned().collect();
        let leave: Vec<String> = old.difference(new).cloned().collect();
        let batches = batches.remove(&workload).unwrap_or_default();
        if enter.is_empty() && leave.is_empty() && batches.is_empty() {
            continue;
        }
        match workload {
            PreviewWorkload::AddOn(name) => add_ons.push(WorkloadPreview { name, enter, leave, batches }),
            PreviewWorkload::ReplicaSet(name) => {
                replica_sets.push(WorkloadPreview { name, enter, leave, batches })
            }
        }
    }
    [add_ons, replica_sets]
}

/// Returns the works that change. Clusters with the same change share an entry.
pub(super) fn works(before: &Store, after: &Store) -> Vec<WorkChange> {
    let by_key = |hub: &Store| -> BTreeMap<Key, Arc<Object>> {
        let works = fleet::objects::<ManifestWork>(hub).into_iter().filter(|work| !work.is_terminating());
        works.map(|work| (work.key(), work)).collect()
    };
    let read = |work: Option<&Arc<Object>>| work.and_then(|work| work.to_typed::<ManifestWork>().ok());
    let (before, after) = (by_key(before), by_key(after));
    let keys: BTreeSet<&Key> = before.keys().chain(after.keys()).collect();
    let mut found: Vec<WorkChange> = Vec::new();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        // Both stores share the works that nobody wrote, which are most works in a large fleet.
        if old.map(Arc::as_ptr) == new.map(Arc::as_ptr) {
            continue;
        }
        let (old, new) = (read(old), read(new));
        if old.as_ref().map(|work| &work.spec) == new.as_ref().map(|work| &work.spec) {
            continue;
        }
        let change = match (&old, &new) {
            (None, _) => ChangeType::Created,
            (Some(_), None) => ChangeType::Deleted,
            (Some(_), Some(_)) => ChangeType::Changed,
        };
        let objects = objects(&manifests(old.as_ref(), new.as_ref()));
        let same = |it: &&mut WorkChange| it.work == key.name && it.change == change && it.objects == objects;
        match found.iter_mut().find(same) {
            Some(same) => same.clusters.push(key.namespace.clone()),
            None => found.push(WorkChange {
                work: key.name.clone(),
                change,
                objects,
                clusters: vec![key.namespace.clone()],
            }),
        }
    }
    found
}

fn manifests(old: Option<&ManifestWork>, new: Option<&ManifestWork>) -> BTreeMap<ObjectId, Sides> {
    let mut sides: BTreeMap<ObjectId, Sides> = BTreeMap::new();
    let objects = |work: Option<&ManifestWork>| {
        let manifests = work.map(|work| work.spec.workload.manifests.clone()).unwrap_or_default();
        manifests.into_iter().map(|manifest| Arc::new(Object(manifest)))
    };
    for object in objects(old) {
        let id = ObjectId::of(&object.reference());
        sides.entry(id).or_default().0 = Some(object);
    }
    for object in objects(new) {
        let id = ObjectId::of(&object.reference());
        sides.entry(id).or_default().1 = Some(object);
    }
    sides
}

/// Returns a scope's add-on removals that are waiting for approval.
pub(super) fn removals(hub: &Store, scope: &PreviewScope) -> Vec<HeldRemoval> {
    let is_played = |removal: &RemovalStatus| scope.has(&PreviewWorkload::AddOn(removal.add_on.clone()));
    let held = all::<RolloutPolicy>(hub).flat_map(|policy| {
        let removals = policy.status.clone().unwrap_or_default().removals.into_iter();
        removals.filter(|removal| !removal.approval.is_empty() && is_played(removal)).map(move |removal| {
            HeldRemoval {
                policy: policy.name().to_owned(),
                add_on: removal.add_on,
                clusters: removal.held,
                approval: removal.approval,
            }
        })
    });
    held.collect()
}

/// Returns a scope's incomplete rollouts.
pub(super) fn outcomes(hub: &Store, scope: &PreviewScope) -> Vec<IncompleteRollout> {
    let mut open = Vec::new();
    let add_ons = all::<ClusterManagementAddOn>(hub);
    for cma in add_ons.filter(|cma| scope.has(&PreviewWorkload::AddOn(cma.name().to_owned()))) {
        for progression in cma.status.iter().flat_map(|status| &status.install_progressions) {
            let condition = find_condition(&progression.conditions, PROGRESSING);
            open.extend(condition.filter(|condition| condition.reason != COMPLETED).map(|condition| {
                IncompleteRollout {
                    add_on: cma.name().to_owned(),
                    replica_set: String::new(),
                    placement: format!("{}/{}", progression.namespace, progression.name),
                    message: condition.message.clone(),
                }
            }));
        }
    }
    let sets = all::<ManifestWorkReplicaSet>(hub);
    for set in sets.filter(|set| scope.has(&PreviewWorkload::ReplicaSet(Key::of(set).to_string()))) {
        let condition = set.condition(PLACEMENT_ROLLED_OUT).filter(|condition| !condition.is_true());
        open.extend(condition.map(|Condition { reason, message, .. }| IncompleteRollout {
            add_on: String::new(),
            replica_set: Key::of(&set).to_string(),
            placement: String::new(),
            message: if message.is_empty() { reason.clone() } else { message.clone() },
        }));
    }
    open
}

/// Returns the rollouts that were incomplete before a commit, and how the commit changes them.
pub(super) fn earlier(before: &Store, after: &Store) -> Vec<EarlierRollout> {
    let of = |rollout: IncompleteRollout| EarlierRollout {
        changes: match rollout.replica_set.as_str() {
            "" => changes_of_add_on(&rollout, before, after),
            set => changes_of_set(set, before, after),
        },
        rollout,
    };
    outcomes(before, &PreviewScope::All).into_iter().map(of).collect()
}

fn changes_of_add_on(rollout: &IncompleteRollout, before: &Store, after: &Store) -> RolloutChanges {
    let read = |hub: &Store| {
        let cma = get::<ClusterManagementAddOn>(hub, &Key::cluster(rollout.add_on.as_str()))?;
        let cma = Some(cma).filter(|cma| !cma.is_terminating())?;
        let is_it = |namespace: &str, name: &str| format!("{namespace}/{name}") == rollout.placement;
        let mut placements = cma.spec.install_strategy.placements.iter();
        let strategy = placements.find(|it| is_it(&it.namespace, &it.name))?.rollout_strategy.clone();
        let mut progressions = cma.status.iter().flat_map(|status| &status.install_progressions);
        let progression = progressions.find(|it| is_it(&it.namespace, &it.name))?;
        let desired = progression.config_references.iter().map(|one| one.desired_config.clone());
        Some((desired.collect::<Vec<_>>(), strategy))
    };
    changed_part(read(before), read(after))
}

fn changes_of_set(set: &str, before: &Store, after: &Store) -> RolloutChanges {
    let read = |hub: &Store| {
        let (namespace, name) = set.split_once('/')?;
        let set = get::<ManifestWorkReplicaSet>(hub, &Key::namespaced(namespace, name))?;
        let set = Some(set).filter(|set| !set.is_terminating())?;
        Some((set.spec.manifest_work_template, set.spec.placement_refs))
    };
    changed_part(read(before), read(after))
}

/// Compares the revision and the strategy of a rollout.
fn changed_part<R: PartialEq, S: PartialEq>(before: Option<(R, S)>, after: Option<(R, S)>) -> RolloutChanges {
    match (before, after) {
        (_, None) => RolloutChanges::End,
        (Some((before, _)), Some((after, _))) if before != after => RolloutChanges::Revision,
        (Some((_, before)), Some((_, after))) if before != after => RolloutChanges::Strategy,
        (_, Some(_)) => RolloutChanges::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use object::Random;
    use serde_json::{Value, json};
    use store::{JournalEntry, Patch, ResourcePath, WriteOptions};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn write(hub: &mut Store, name: &str, text: &str, labels: &Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"},
            "data": {"text": text}});
        let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": name, "namespace": "c1", "labels": labels}, "spec": {"workload": {"manifests": [map]}}});
        let target = ResourcePath::of::<ManifestWork>(&Key::namespaced("c1", name));
        hub.patch(&target, &Patch::Apply(work), &WriteOptions::manager("test").forced(), NOW).unwrap();
    }

    /// Returns a hub with equal objects that shares no data with the original.
    fn unshared(hub: &Store) -> Store {
        let copied = |entry: JournalEntry| JournalEntry {
            object: entry.object.map(|it| Arc::new(Object::clone(&it))),
            ..entry
        };
        let (definitions, others): (Vec<JournalEntry>, Vec<JournalEntry>) = hub
            .snapshot()
            .map(copied)
            .partition(|entry| entry.resource.resource == "customresourcedefinitions");
        Store::restore(1, definitions.into_iter().chain(others), 0, NOW)
    }

    #[test]
    fn the_works_that_change_are_those_whose_content_differs_however_many_are_shared() {
        let mut random = Random::new(7);
        for _ in 0..20 {
            let mut before = Store::new(1, NOW);
            crate::definitions::install(&mut before, api::crds::hub(), NOW);
            let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c1"}});
            let target = ResourcePath::of::<k8s_openapi::api::core::v1::Namespace>(&Key::cluster("c1"));
            before.patch(&target, &Patch::Apply(place), &WriteOptions::manager("test"), NOW).unwrap();
            for number in 0..6 {
                write(&mut before, &format!("w{number}"), "one", &json!({}));
            }
            let mut after = before.clone();
            for _ in 0..5 {
                let text = if random.chance(500) { "one" } else { "two" };
                let label = if random.chance(500) { "one" } else { "two" };
                write(&mut after, &format!("w{}", random.below(9)), text, &json!({"label": label}));
            }
            let found = works(&before, &after);
            assert_eq!(found, works(&unshared(&before), &unshared(&after)));
            assert!(found.iter().all(|work| !work.objects.is_empty()), "{found:?}");
        }
    }
}
