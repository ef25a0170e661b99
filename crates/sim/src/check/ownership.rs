//! Checks that controllers leave foreign objects alone and keep newer writes.

use serde_json::Value;

use super::{Author, CheckResult, Checker, Invariant, Violation, Write};
use api::gitops::v1alpha1::{ConfigRepo, Takeover};
use api::names::argo::ARGO_GROUP;
use api::names::{
    ADDON_NAME_LABEL, ADDON_TEMPLATE_NAME_LABEL, CONFIG_REPO_ANNOTATION, CONFIG_REPO_MANAGER,
    INSTALLED_BY_ANNOTATION, WORK_REPLICA_SET_LABEL,
};
use engine::sync::ObjectId;
use object::{Key, Object, ObjectRef};
use reconcile::{Action, Precondition};

/// The field in which a work requests its own deletion.
const WORK_TTL: [&str; 3] = ["spec", "deleteOption", "ttlSecondsAfterFinished"];

fn precondition(action: &Action) -> Option<(ObjectRef, Precondition)> {
    match action {
        Action::Patch { target, precondition, .. } | Action::Delete { target, precondition, .. } => {
            Some((target.clone(), precondition.clone()))
        }
        Action::Replace { object, .. } => {
            let resource_version = object.resource_version().to_owned();
            Some((object.reference(), Precondition { uid: object.uid().to_owned(), resource_version }))
        }
        Action::Apply { .. }
        | Action::Create { .. }
        | Action::Push(_)
        | Action::SetCommitStatus(_)
        | Action::Notify(_) => None,
    }
}

fn is_same(id: &ObjectId, target: &ObjectRef) -> bool {
    let ObjectId { group, kind, key } = id;
    (group, kind, &key.name) == (&target.gvk.group, &target.gvk.kind, &target.key.name)
}

impl Checker {
    /// Checks that a patch, replacement or deletion affects only the object that was read.
    pub(super) fn preconditions(&self, write: &Write, author: &Author<'_>) -> CheckResult {
        let Some((target, wanted)) = precondition(author.action) else { return Ok(()) };
        let Some(before) = write.before.as_ref().filter(|_| is_same(&write.id, &target)) else {
            return Ok(());
        };
        let broken = |reason: String| Err(Violation::new(Invariant::Preconditions, &write.id, reason));
        let (controller, live) = (author.controller, before.resource_version());
        let Precondition { uid, resource_version } = wanted;
        // A later step may patch what an earlier step of the same plan created.
        let is_new = self.created.contains(before.uid()) && !matches!(author.action, Action::Delete { .. });
        // A refresh patches an ApplicationSet by name, without reading it first.
        let is_refresh =
            (target.gvk.group.as_str(), target.gvk.kind.as_str()) == (ARGO_GROUP, "ApplicationSet");
        if uid.is_empty() && !is_new && !is_refresh {
            return broken(format!("{controller} names no uid"));
        }
        if !uid.is_empty() && uid != before.uid() {
            return broken(format!("{controller} means uid {uid} and hits {}", before.uid()));
        }
        if !resource_version.is_empty() && resource_version != live {
            return broken(format!("{controller} read version {resource_version} and overwrites {live}"));
        }
        Ok(())
    }

    /// Checks that a work's spec is changed only at the version that was read, because the change reaches a
    /// cluster. A repository may change the works that it applies.
    pub(super) fn fence(&self, write: &Write, author: &Author<'_>) -> CheckResult {
        let (Some(before), Some(after)) = (&write.before, &write.after) else { return Ok(()) };
        let is_changed = write.id.kind == "ManifestWork" && before.0.get("spec") != after.0.get("spec");
        if write.spoke.is_some() || author.controller == "config-repo" || !is_changed {
            return Ok(());
        }
        let version = match author.action {
            Action::Patch { precondition, .. } => precondition.resource_version.as_str(),
            Action::Apply { object, .. } | Action::Replace { object, .. } => object.resource_version(),
            Action::Create { .. }
            | Action::Delete { .. }
            | Action::Push(_)
            | Action::SetCommitStatus(_)
            | Action::Notify(_) => {
                return Ok(());
            }
        };
        if version.is_empty() {
            let reason = format!("{} changes the work whatever its version is", author.controller);
            return Err(Violation::new(Invariant::Preconditions, &write.id, reason));
        }
        Ok(())
    }

    /// Checks that a controller deletes only objects that a controller created, adopted or took over, and objects
    /// in the namespace of a cluster that is leaving.
    pub(super) fn deletion(&self, write: &Write, author: &Author<'_>) -> CheckResult {
        let Some(before) = &write.before else { return Ok(()) };
        let Action::Delete { target, .. } = author.action else { return Ok(()) };
        if !is_same(&write.id, target) {
            return Ok(());
        }
        let is_ours = match before.annotations().get(CONFIG_REPO_ANNOTATION) {
            Some(repo) => author.controller != "config-repo" || *repo == author.key.to_string(),
            None if author.controller == "config-repo" => false,
            None => {
                self.created.contains(before.uid())
                    || (author.controller == "cluster" && write.id.key.namespace == author.key.name)
                    || (author.controller == "work-ttl" && before.at(&WORK_TTL).is_some_and(Value::is_number))
                    || (author.controller == "replica-set" && is_generated(before, &author.key.name))
                    || (author.controller == "addon-takeover" && is_binding_of_ocm(before))
                    || before.annotations().contains_key(INSTALLED_BY_ANNOTATION)
                    || owners(before).any(|kind| kind == "AppliedManifestWork")
                    // The removal budget's check verifies the add-on's owner.
                    || (author.controller == "addon-install" && write.id.key.name == author.key.name)
            }
        };
        if !is_ours {
            let reason = format!("{} deletes an object of others", author.controller);
            return Err(Violation::new(Invariant::NothingUnownedIsDeleted, &write.id, reason));
        }
        if owners(before).filter(|kind| *kind == "AppliedManifestWork").count() > 1 {
            let reason = format!("{} deletes an object that another work owns too", author.controller);
            return Err(Violation::new(Invariant::NothingUnownedIsDeleted, &write.id, reason));
        }
        Ok(())
    }

    /// Checks that a repository takes over no field of a foreign object unless its user allows it.
    pub(super) fn overwrite(&self, write: &Write, author: &Author<'_>) -> CheckResult {
        let Action::Apply { manager: Some(manager), .. } = author.action else { return Ok(()) };
        let (Some(before), Some(after)) = (&write.before, &write.after) else { return Ok(()) };
        if manager != CONFIG_REPO_MANAGER {
            return Ok(());
        }
        let broken = |reason| Err(Violation::new(Invariant::NothingUnownedIsOverwritten, &write.id, reason));
        match before.annotations().get(CONFIG_REPO_ANNOTATION) {
            Some(repo) if *repo == author.key.to_string() => return Ok(()),
            Some(repo) if self.is_in_inventory(repo, &write.id) => {
                return broken(format!("{} takes it from {repo}", author.key));
            }
            Some(_) | None => {}
        }
        let repo: Option<ConfigRepo> = self.hub.typed(author.key);
        if repo.is_some_and(|repo| repo.spec.takeover == Takeover::Always) || keeps(before, after) {
            return Ok(());
        }
        broken(format!("{} changes an object of others", author.key))
    }

    fn is_in_inventory(&self, repo: &str, id: &ObjectId) -> bool {
        let Some((namespace, name)) = repo.split_once('/') else { return false };
        let repo: Option<ConfigRepo> = self.hub.typed(&Key::namespaced(namespace, name));
        repo.is_some_and(|repo| self.entries(&repo).contains_key(id))
    }
}

/// Returns true if OCM's controller created a work for a set.
fn is_generated(work: &Object, set: &str) -> bool {
    let name = work.at(&["metadata", "generateName"]).and_then(Value::as_str);
    name == Some(set) && work.labels().contains_key(WORK_REPLICA_SET_LABEL)
}

/// Returns true if OCM's template manager created a RoleBinding.
fn is_binding_of_ocm(object: &Object) -> bool {
    let labels = object.labels();
    let addon = labels.get(ADDON_NAME_LABEL).copied().unwrap_or_default();
    let names = ["role", "clusterrole"].map(|kind| format!("open-cluster-management:{addon}:{kind}:agent"));
    labels.contains_key(ADDON_TEMPLATE_NAME_LABEL) && names.iter().any(|name| name == object.name())
}

fn owners(object: &Object) -> impl Iterator<Item = &str> {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().filter_map(|owner| owner.get("kind")?.as_str())
}

/// Returns true if an object keeps every value it had, except those that the API server maintains.
fn keeps(before: &Object, after: &Object) -> bool {
    before.0.iter().all(|(field, value)| match field.as_str() {
        "metadata" => ["labels", "annotations", "ownerReferences", "finalizers"]
            .iter()
            .all(|part| contains(after.at(&["metadata", part]), before.at(&["metadata", part]))),
        "status" => true,
        _ => contains(after.0.get(field), Some(value)),
    })
}

fn contains(after: Option<&Value>, before: Option<&Value>) -> bool {
    match (after, before) {
        (_, None) => true,
        (Some(Value::Object(after)), Some(Value::Object(before))) => {
            before.iter().all(|(field, value)| contains(after.get(field), Some(value)))
        }
        (after, before) => after == before,
    }
}
