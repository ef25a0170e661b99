//! Reconstructs the hub from a report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::error::PreviewError;
use super::fleet::get;
use super::play::of_same_source;
use super::runner::Runner;
use super::scope::PreviewScope;
use super::snapshot::{HubSnapshot, SEED, complete};
use api::crds;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, Revision};
use api::names::{CONFIG_REPO_ANNOTATION, CONFIG_REPO_MANAGER};
use engine::plural::counted;
use engine::sync::{ObjectId, recorded};
use object::tree::Checkout;
use object::{Gvk, Key, Object};
use store::{Patch, ResourcePath, Store, WriteOptions};

/// A hub reconstructed from a report.
#[derive(Debug)]
pub struct ReportedHub {
    /// The hub's objects.
    pub snapshot: HubSnapshot,
    /// The commits that the ConfigRepo and the others of the same source had applied.
    pub applied: BTreeMap<Key, String>,
    /// Warnings about what the report lacks.
    pub warnings: Vec<String>,
}

/// Reconstructs the hub from a report. The plan first applies the commits that were applied on the hub. Therefore
/// an object that is in the inventories but not in the report only needs a placeholder, which the commit fills or
/// a deletion removes.
pub fn of_report(mut objects: Vec<Object>, repo: &Key, now: Timestamp) -> ReportedHub {
    let typed = |object: &Object| object.to_typed::<ConfigRepoInventory>().ok();
    let parts: Vec<ConfigRepoInventory> =
        objects.iter().filter(|it| it.gvk() == Gvk::of::<ConfigRepoInventory>()).filter_map(typed).collect();
    let is_repo = |object: &&Object| object.gvk() == Gvk::of::<ConfigRepo>() && object.key() == *repo;
    let found = objects.iter().find(is_repo).and_then(|object| object.to_typed::<ConfigRepo>().ok());
    let all = objects.iter().filter(|object| object.gvk() == Gvk::of::<ConfigRepo>());
    let all = all.filter_map(|object| object.to_typed::<ConfigRepo>().ok());
    let mut inventory: BTreeMap<ObjectId, (String, Key)> = BTreeMap::new();
    let mut commits: BTreeMap<Key, String> = BTreeMap::new();
    for repo in found.iter().flat_map(|found| of_same_source(all.clone(), found)) {
        let owned = recorded(&repo, &parts).into_iter();
        inventory.extend(owned.map(|(id, version)| (id, (version, Key::of(&repo)))));
        let key = Key::of(&repo);
        let applied = repo.status.and_then(|status| status.applied).map(|applied| applied.commit);
        commits.extend(applied.filter(|commit| !commit.is_empty()).map(|commit| (key, commit)));
    }
    let known: BTreeSet<ObjectId> = objects.iter().map(|object| ObjectId::of(&object.reference())).collect();
    let missing: BTreeMap<_, _> = inventory.iter().filter(|(id, _)| !known.contains(*id)).collect();
    let is_owned = |it: &&mut Object| inventory.contains_key(&ObjectId::of(&it.reference()));
    let has_owners = |it: &Object| it.at(&["metadata", "managedFields"]).is_some();
    let mut unowned: Vec<&mut Object> =
        objects.iter_mut().filter(is_owned).filter(|object| !has_owners(object)).collect();
    let warnings = without_owners(&unowned).into_iter().collect();
    if !unowned.is_empty() {
        let mut scratch = Store::new(SEED, now);
        crate::definitions::install(&mut scratch, crds::hub(), now);
        unowned.iter_mut().for_each(|object| own(&mut scratch, object, now));
    }
    objects.extend(missing.into_iter().filter_map(|(id, (version, repo))| place(id, version, repo)));
    for object in &mut objects {
        // A report contains no times for field owners, so use the creation time of the object, as an API server
        // does.
        let metadata = object.metadata_mut();
        let created = metadata.entry("creationTimestamp").or_insert_with(|| json!(now)).clone();
        let owners = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
            owner.entry("time").or_insert_with(|| created.clone());
        }
    }
    let without_uid = objects.iter().filter(|object| object.uid().is_empty());
    let without_uid = without_uid.map(|object| object.kind().to_owned()).collect();
    // A preview shares complete objects, and copies the others.
    objects.iter_mut().enumerate().for_each(|(index, object)| complete(object, index));
    let objects = objects.into_iter().map(Arc::new).collect();
    let snapshot = HubSnapshot { objects, without_uid, ..HubSnapshot::default() };
    ReportedHub { snapshot, applied: commits, warnings }
}

/// Returns a warning about objects whose owners the report does not name, as in reports of earlier versions.
fn without_owners(objects: &[&mut Object]) -> Option<String> {
    let first = objects.first()?.reference();
    Some(format!(
        "the report does not record the field owners of {}, such as {first}, so the plan may show other owners' fields as removed; \
         the next report of an operator of this version does",
        counted(objects.len(), "object")
    ))
}

/// Returns a hub's objects right after commits were applied, before another controller has seen them. Given the
/// commits applied at the time of a report, this is the hub at that time.
///
/// # Errors
/// Fails if a ConfigRepo does not exist, or its controller never comes to rest.
pub fn with_commits(
    snapshot: &HubSnapshot,
    commits: &BTreeMap<Key, Arc<Checkout>>,
    now: Timestamp,
) -> Result<Vec<Arc<Object>>, PreviewError> {
    let mut hub = snapshot.load(&PreviewScope::All, now);
    let mut runner = Runner::for_commits(&hub);
    for (key, commit) in commits {
        let repo = get::<ConfigRepo>(&hub, key).ok_or_else(|| PreviewError::NoRepo(key.clone()))?;
        let at_once = json!({
            "healthTimeout": "0s", "dependsOn": null, "freezeWindows": null, "applyWindows": null,
            "planApproval": null,
        });
        let (target, patch) = (ResourcePath::of::<ConfigRepo>(key), Patch::Merge(json!({"spec": at_once})));
        let written = hub.patch(&target, &patch, &WriteOptions::manager("preview"), now);
        debug_assert!(written.is_ok(), "{key}: {written:?}");
        runner.fetch(&repo, commit, now);
    }
    runner.settle(&mut hub, now)?;
    Ok(HubSnapshot::new(&hub).objects)
}

/// Returns the ConfigRepos whose objects at these commits equal the objects that they had applied, judging by the
/// hashes in their statuses.
///
/// # Errors
/// Fails if a ConfigRepo does not exist, or its controller never comes to rest.
pub fn same_as_applied(
    snapshot: &HubSnapshot,
    commits: &BTreeMap<Key, Arc<Checkout>>,
    now: Timestamp,
) -> Result<BTreeSet<Key>, PreviewError> {
    let (before, after) = (applied(&snapshot.objects), applied(&with_commits(snapshot, commits, now)?));
    let is_same = |(repo, commit): &(&Key, &Arc<Checkout>)| {
        let both = before.get(*repo).zip(after.get(*repo));
        both.is_some_and(|(old, new)| new.commit == commit.revision && new.digest == old.digest)
    };
    Ok(commits.iter().filter(is_same).map(|(repo, _)| repo.clone()).collect())
}

/// Returns the revision that each ConfigRepo had applied.
fn applied(objects: &[Arc<Object>]) -> BTreeMap<Key, Revision> {
    let repos = objects.iter().filter(|object| object.gvk() == Gvk::of::<ConfigRepo>());
    let revision =
        |object: &Arc<Object>| Some((object.key(), object.to_typed::<ConfigRepo>().ok()?.status?.applied?));
    repos.filter_map(revision).collect()
}

/// Makes the ConfigRepo the owner of the fields of an object whose owners the report does not name. An apply then
/// removes the owned fields that are no longer in the commit.
fn own(scratch: &mut Store, object: &mut Object, now: Timestamp) {
    let options = WriteOptions::manager(CONFIG_REPO_MANAGER).forced();
    let reference = object.reference();
    let mut applied = object.clone();
    applied.0.remove("status");
    let identity = ["name", "namespace", "labels", "annotations"];
    applied.metadata_mut().retain(|field, _| identity.contains(&field.as_str()));
    let namespace = Key::cluster(reference.key.namespace.as_str());
    let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}});
    let place = (ResourcePath::of::<Namespace>(&namespace), place);
    let written = scratch.target(&reference).map(|target| (target, applied.into_value()));
    for (target, value) in (!namespace.name.is_empty()).then_some(place).into_iter().chain(written) {
        // If the scratch store rejects an object, its fields have no owner.
        let _ = scratch.patch(&target, &Patch::Apply(value), &options, now);
    }
    let target = scratch.target(&reference);
    let found = target.and_then(|target| scratch.get(&target).ok());
    if let Some(fields) = found.as_deref().and_then(|found| found.at(&["metadata", "managedFields"])) {
        object.metadata_mut().insert("managedFields".into(), fields.clone());
    }
}

/// Returns a placeholder without content for an object of the ConfigRepo.
fn place(id: &ObjectId, version: &str, repo: &Key) -> Option<Object> {
    let reference = id.at(version);
    let Key { namespace, name } = &reference.key;
    let annotations = json!({CONFIG_REPO_ANNOTATION: repo.to_string()});
    let api_version = reference.gvk.api_version();
    let metadata = json!({"name": name, "annotations": annotations});
    let value = json!({"apiVersion": api_version, "kind": reference.gvk.kind, "metadata": metadata});
    let mut object = Object::from_value(value).ok()?;
    if !namespace.is_empty() {
        object.metadata_mut().insert("namespace".into(), namespace.as_str().into());
    }
    Some(object)
}
