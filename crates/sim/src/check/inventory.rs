//! Checks that ownership is recorded before an object is created and until its deletion was observed.

use serde_json::Value;

use super::{CheckResult, Checker, Invariant, Violation, Write};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, DeletionPolicy};
use api::names::argo::SYNC_OPTIONS_ANNOTATION;
use api::names::{CONFIG_REPO_ANNOTATION, GITOPS_GROUP, PRUNE_ANNOTATION, WORK_GROUP};
use api::work::v1::{AppliedManifestWork, AppliedResource};
use engine::sync::{self, Inventory, ObjectId};
use object::{Key, Object};
use store::GroupResource;

impl Checker {
    /// Returns the objects that a repository owns.
    pub(super) fn entries(&self, repo: &ConfigRepo) -> Inventory {
        let parts: Vec<ConfigRepoInventory> = self
            .hub
            .of_kind(GITOPS_GROUP, "ConfigRepoInventory")
            .filter_map(|part| part.to_typed().ok())
            .collect();
        sync::recorded(repo, &parts)
    }

    /// Checks that an inventory lists an object before its repository creates it.
    pub(super) fn creation(&self, write: &Write) -> CheckResult {
        let (None, Some(object)) = (&write.before, &write.after) else { return Ok(()) };
        let broken =
            |reason: String| Err(Violation::new(Invariant::InventoryNamesEveryObject, &write.id, reason));
        let repo = object.annotations().get(CONFIG_REPO_ANNOTATION).and_then(|repo| repo.split_once('/'));
        if let Some((namespace, name)) = repo {
            let key = Key::namespaced(namespace, name);
            let owner: Option<ConfigRepo> = self.hub.typed(&key);
            if !owner.is_some_and(|repo| self.entries(&repo).contains_key(&write.id)) {
                return broken(format!("it is created before the inventory of ConfigRepo {key} names it"));
            }
        }
        let mirror = self.mirror(write);
        for (owner, uid) in applied_works(object) {
            let applied: Option<AppliedManifestWork> = mirror.typed(&Key::cluster(owner));
            let applied = applied.filter(|applied| applied.metadata.uid.as_deref() == Some(uid));
            let listed = applied.iter().filter_map(|applied| applied.status.as_ref());
            let resource = mirror.resource(&write.id.group, &write.id.kind).unwrap_or_default();
            if !listed
                .flat_map(|status| &status.applied_resources)
                .any(|entry| names(entry, &write.id, resource))
            {
                return broken(format!("it is created before AppliedManifestWork {owner} lists it"));
            }
        }
        Ok(())
    }

    /// Checks that an object dropped from an inventory is deleted or has another owner.
    pub(super) fn inventory(&self, write: &Write) -> CheckResult {
        match (write.id.group.as_str(), write.id.kind.as_str()) {
            (GITOPS_GROUP, "ConfigRepo") => self.repository(write),
            (GITOPS_GROUP, "ConfigRepoInventory") => self.part(write),
            (WORK_GROUP, "AppliedManifestWork") => self.applied_work(write),
            _ => Ok(()),
        }
    }

    /// Checks that a status that drops its old inventory lists the entries in its new inventories.
    fn repository(&self, write: &Write) -> CheckResult {
        let Some(Ok(before)) = write.before.as_ref().map(|object| object.to_typed::<ConfigRepo>()) else {
            return Ok(());
        };
        let after = write.after.as_ref().and_then(|object| object.to_typed::<ConfigRepo>().ok());
        // A deleted repository's inventories are deleted with it.
        let entries = after.as_ref().map_or_else(Inventory::new, |repo| self.entries(repo));
        let before_that = self.entries(&before);
        let is_deleted = after.is_none() || before.metadata.deletion_timestamp.is_some();
        self.forgets(&before, is_deleted, before_that.keys().filter(|id| !entries.contains_key(id)))
    }

    fn part(&self, write: &Write) -> CheckResult {
        let Some(Ok(before)) = write.before.as_ref().map(|it| it.to_typed::<ConfigRepoInventory>()) else {
            return Ok(());
        };
        let key = sync::owner(&before).map(|owner| Key::namespaced(&write.id.key.namespace, &owner.name));
        let Some(repo) = key.and_then(|key| self.hub.typed::<ConfigRepo>(&key)) else { return Ok(()) };
        let entries = self.entries(&repo);
        let listed = sync::recorded(&repo, [&before]);
        let is_deleted = repo.metadata.deletion_timestamp.is_some();
        self.forgets(&repo, is_deleted, listed.keys().filter(|id| !entries.contains_key(id)))
    }

    fn forgets<'a>(
        &self,
        repo: &ConfigRepo,
        is_deleted: bool,
        forgotten: impl Iterator<Item = &'a ObjectId>,
    ) -> CheckResult {
        let (key, spec) = (Key::of(repo), &repo.spec);
        let releases_all = spec.mode == ConfigRepoMode::Observe
            || !spec.prune
            || (is_deleted && spec.deletion_policy == DeletionPolicy::Orphan);
        for id in forgotten.filter(|_| !releases_all) {
            let Some(object) = self.hub.get(id) else { continue };
            let annotations = object.annotations();
            let is_ours = annotations.get(CONFIG_REPO_ANNOTATION) == Some(&key.to_string().as_str());
            let never_pruned = annotations.get(PRUNE_ANNOTATION) == Some(&"disabled")
                || annotations.get(SYNC_OPTIONS_ANNOTATION).is_some_and(|options| {
                    let keeping: &[_] =
                        if is_deleted { &["Delete=false", "Delete=confirm"] } else { &["Prune=false"] };
                    options.split(',').any(|option| keeping.contains(&option.trim()))
                })
                || (id.kind == "ConfigRepo" && id.group == GITOPS_GROUP && id.key == key)
                || (id.kind == "Namespace" && id.key.name == key.namespace);
            if is_ours && !never_pruned {
                let reason = format!("ConfigRepo {key} forgets it while it exists");
                return Err(Violation::new(Invariant::InventoryNamesEveryObject, id, reason));
            }
        }
        Ok(())
    }

    fn applied_work(&self, write: &Write) -> CheckResult {
        let read =
            |side: &Option<std::sync::Arc<Object>>| side.as_ref()?.to_typed::<AppliedManifestWork>().ok();
        let (Some(before), after) = (read(&write.before), read(&write.after)) else { return Ok(()) };
        let identity = |entry: &AppliedResource| {
            (entry.group.clone(), entry.resource.clone(), entry.namespace.clone(), entry.name.clone())
        };
        let listed = |applied: &AppliedManifestWork| {
            applied.status.clone().map(|status| status.applied_resources).unwrap_or_default()
        };
        let remaining: Vec<_> = after.iter().flat_map(listed).map(|entry| identity(&entry)).collect();
        for entry in listed(&before).iter().filter(|entry| !remaining.contains(&identity(entry))) {
            let resource = GroupResource::new(entry.group.clone(), entry.resource.clone());
            let key = Key::namespaced(&entry.namespace, &entry.name);
            let Some(object) = self.mirror(write).of_resource(&resource, &key) else { continue };
            let uid = before.metadata.uid.as_deref().unwrap_or_default();
            if applied_works(object).any(|(_, owner)| owner == uid) {
                let reason = format!("AppliedManifestWork {} forgets it while it exists", write.id.key);
                return Err(Violation::new(Invariant::InventoryNamesEveryObject, object.reference(), reason));
            }
        }
        Ok(())
    }
}

/// Returns the names and uids of the applied works that own an object.
fn applied_works(object: &Object) -> impl Iterator<Item = (&str, &str)> {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().filter_map(|owner| {
        let field = |name: &str| owner.get(name).and_then(Value::as_str);
        (field("kind") == Some("AppliedManifestWork")).then_some(())?;
        Some((field("name")?, field("uid")?))
    })
}

fn names(entry: &AppliedResource, id: &ObjectId, resource: &str) -> bool {
    (&entry.group, entry.resource.as_str(), &entry.namespace, &entry.name)
        == (&id.group, resource, &id.key.namespace, &id.key.name)
}
