//! Deletes objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use object::{Key, Object};

use super::admission::{Admission, AdmissionOperation};
use super::collection::ObjectId;
use super::metadata::{FOREGROUND, ORPHAN};
use super::slice::Slice;
use super::{
    ApiError, ApiResource, DeleteOptions, Deleted, GroupResource, ListOptions, Propagation, ResourcePath,
    Store, metadata,
};

impl Store {
    /// Deletes an object, or marks it as terminating if finalizers or dependents block its deletion.
    ///
    /// # Errors
    /// Returns 404 if the object does not exist, 409 if a precondition fails, 403 for a namespace that every
    /// cluster has.
    pub fn delete(
        &mut self,
        target: &ResourcePath,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Deleted, ApiError> {
        let (collection, scope) = self.scope(target)?;
        if !target.subresource.is_empty() {
            super::subresource::known(&scope, target)?;
            return Err(ApiError::method_not_allowed_on(target));
        }
        let (resource, id, key) = (collection.resource.clone(), collection.resource.id(), target.key());
        let old = collection.objects.get(&key).cloned().ok_or_else(|| ApiError::not_found(target))?;
        check_preconditions(&scope.resource().kind, target, options, &old)?;
        let is_namespace = id == GroupResource::namespaces();
        if is_namespace && matches!(key.name.as_str(), "default" | "kube-system" | "kube-public") {
            return Err(ApiError::forbidden(target, "this namespace may not be deleted"));
        }
        self.admit(&Admission {
            operation: AdmissionOperation::Delete,
            target,
            scope: &scope,
            user: &options.user,
            dry_run: options.dry_run,
            object: None,
            old: Some(&*self.through(&scope, &old)?),
            propagation: options.propagation,
        })?;
        if options.dry_run {
            let new = going(&resource, &old, options.propagation, now);
            let deleted = if is_finalized(&resource, &new) {
                Deleted::Gone(old)
            } else {
                Deleted::Terminating(Arc::new(new))
            };
            return self.shown(&scope, deleted);
        }
        let deleted = self
            .terminate(&(id, key), options.propagation, now)
            .ok_or_else(|| ApiError::not_found(target))?;
        self.shown(&scope, deleted)
    }

    fn shown(
        &self,
        scope: &super::request_scope::RequestScope,
        deleted: Deleted,
    ) -> Result<Deleted, ApiError> {
        Ok(match deleted {
            Deleted::Gone(object) => Deleted::Gone(self.through(scope, &object)?),
            Deleted::Terminating(object) => Deleted::Terminating(self.through(scope, &object)?),
        })
    }

    /// Deletes the object at a key, or marks it if its deletion is blocked; returns `None` if there is no object.
    pub(super) fn terminate(
        &mut self,
        id: &ObjectId,
        propagation: Option<Propagation>,
        now: Timestamp,
    ) -> Option<Deleted> {
        let (id, key) = id;
        let collection = self.collections.get(id)?;
        let (resource, old) = (collection.resource.clone(), collection.objects.get(key)?.clone());
        let new = going(&resource, &old, propagation, now);
        if is_finalized(&resource, &new) {
            return self.remove(id, key).map(Deleted::Gone);
        }
        let object = if new == *old { Some(old) } else { self.commit(id, key, Some(new)) };
        object.map(Deleted::Terminating)
    }

    /// Returns the objects to delete with a collection, which are those that a list would return.
    ///
    /// # Errors
    /// Returns the errors of [`Store::list`], and 405 for collections that cannot be deleted.
    pub fn collection_to_delete(
        &self,
        target: &ResourcePath,
        list: &ListOptions,
    ) -> Result<super::List, ApiError> {
        let (collection, _) = self.scope(target)?;
        let everywhere = collection.resource.namespaced && target.namespace.is_empty();
        if everywhere || !collection.resource.has_collection_delete() {
            return Err(ApiError::method_not_allowed());
        }
        self.list(target, list)
    }

    /// Deletes the first of these objects, in a short slice; returns how many.
    ///
    /// # Errors
    /// Returns the errors of [`Store::delete`]. An object that is already gone, or whose deletion is blocked, is
    /// not an error.
    pub fn delete_some(
        &mut self,
        target: &ResourcePath,
        objects: &[Arc<Object>],
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<usize, ApiError> {
        let (mut slice, mut count) = (Slice::default(), 0);
        for object in objects {
            match self.delete(&target.clone().at(&object.key()), options, now) {
                Err(error) if error.code() != 404 => return Err(error),
                Ok(_) | Err(_) => {}
            }
            count += 1;
            slice.touched(object);
            if slice.is_over() {
                break;
            }
        }
        Ok(count)
    }

    fn definition_of(&self, target: &ResourcePath) -> Option<&Arc<Object>> {
        self.collections
            .get(&GroupResource::definitions())?
            .objects
            .get(&Key::cluster(format!("{}.{}", target.resource, target.group)))
    }

    /// Removes an object from its collection.
    pub(super) fn remove(&mut self, id: &GroupResource, key: &Key) -> Option<Arc<Object>> {
        self.commit(id, key, None)
    }

    /// Rejects objects in namespaces, or of kinds, that are missing or terminating.
    pub(super) fn namespace_admits(
        &self,
        request: &super::write_request::WriteRequest<'_>,
        target: &ResourcePath,
    ) -> Result<(), ApiError> {
        if request.scope.resource().is_custom()
            && self.definition_of(target).is_some_and(|definition| definition.is_terminating())
        {
            let target = ResourcePath { name: String::new(), ..target.clone() };
            return Err(ApiError::forbidden(
                &target,
                "create not allowed while custom resource definition is terminating",
            ));
        }
        if !request.scope.resource().namespaced {
            return Ok(());
        }
        let namespace = self
            .collections
            .get(&GroupResource::namespaces())
            .and_then(|collection| collection.objects.get(&Key::cluster(&target.namespace)));
        match namespace {
            None => Err(ApiError::not_found(
                &ResourcePath::resource("", "v1", "namespaces").named(&target.namespace),
            )),
            Some(namespace) if namespace.is_terminating() => Err(ApiError::namespace_terminating(target)),
            Some(_) => Ok(()),
        }
    }
}

fn check_preconditions(
    kind: &str,
    target: &ResourcePath,
    options: &DeleteOptions,
    old: &Object,
) -> Result<(), ApiError> {
    let as_kind = ResourcePath { resource: kind.into(), ..target.clone() };
    let (uid, version) = (&options.uid, &options.resource_version);
    if !uid.is_empty() && uid != old.uid() {
        let found = old.uid();
        let detail = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(&as_kind, &detail));
    }
    if !version.is_empty() && version != old.resource_version() {
        let found = old.resource_version();
        let detail = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        );
        return Err(ApiError::conflict(&as_kind, &detail));
    }
    Ok(())
}

/// Returns true if nothing blocks the removal of a terminating object.
pub(super) fn is_finalized(resource: &ApiResource, object: &Object) -> bool {
    let is_held = resource.id() == GroupResource::namespaces()
        && object.at(&["spec", "finalizers"]).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    !is_held && metadata::strings(object, "finalizers").is_empty()
}

/// Returns an object that is marked as terminating, because something blocks its removal.
fn going(resource: &ApiResource, old: &Object, propagation: Option<Propagation>, now: Timestamp) -> Object {
    let mut new = old.clone();
    if let Some(propagation) = propagation {
        set_propagation(&mut new, propagation);
    }
    mark(&mut new, now);
    let namespace = resource.id() == GroupResource::namespaces();
    if namespace {
        new.field_mut("status").insert("phase".into(), "Terminating".into());
    }
    if namespace || resource.id() == GroupResource::definitions() {
        // Upstream deletes these two kinds separately, without a grace period and without increasing the
        // generation.
        new.metadata_mut().remove("deletionGracePeriodSeconds");
        if let Some(generation) = old.at(&["metadata", "generation"]) {
            new.metadata_mut().insert("generation".into(), generation.clone());
        }
    }
    new
}

fn set_propagation(object: &mut Object, propagation: Propagation) {
    let mut finalizers = metadata::strings(object, "finalizers");
    finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        object.metadata_mut().remove("finalizers");
    } else {
        object.metadata_mut().insert("finalizers".into(), finalizers.into());
    }
}

/// Marks an object as terminating, once. This increases the generation.
fn mark(object: &mut Object, now: Timestamp) {
    if object.is_terminating() {
        return;
    }
    let generation = object.generation();
    let meta = object.metadata_mut();
    if generation > 0 {
        meta.insert("generation".into(), (generation + 1).into());
    }
    meta.insert("deletionTimestamp".into(), metadata::time(now));
    meta.insert("deletionGracePeriodSeconds".into(), Value::from(0));
    debug_assert!(object.is_terminating(), "{}", json!(object));
}
