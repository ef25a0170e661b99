//! Writes objects: create, update and patch.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use object::{Key, Object, whole_numbers};

use super::builtin::Creation;
use super::prune::{self, Reading};
use super::request_scope::RequestScope;
use super::write_request::WriteRequest;
use super::{
    ApiError, FieldError, Generation, Patch, ResourcePath, Store, WriteOptions, Written, delete, limits,
    metadata, ownership, scale, subresource, validate,
};

/// The new owner of written fields: the writer for changed fields, or the owners in the entries of an apply.
enum Owning {
    Update,
    Apply(Vec<Value>),
}

impl Store {
    fn write_request<'a>(
        &self,
        target: &'a ResourcePath,
        options: &'a WriteOptions,
        now: Timestamp,
    ) -> Result<WriteRequest<'a>, ApiError> {
        let (_, scope) = self.scope(target)?;
        subresource::known(&scope, target)?;
        let not_enforced = scope.resource().builtin.and_then(|kind| kind.not_enforced).map(str::to_owned);
        let warnings = scope.version().deprecation.iter().cloned().chain(not_enforced).collect();
        Ok(WriteRequest {
            target,
            scope,
            options,
            now,
            warnings,
            reading: Reading::Body,
            creates_instead: false,
        })
    }

    /// Creates an object. `target` contains the resource and namespace, the body contains the object.
    ///
    /// # Errors
    /// Returns 400 for a body of another kind or namespace, 403 and 404 for a namespace that is terminating or
    /// missing, 409 if the name is taken, and 422 for invalid fields.
    pub fn create(
        &mut self,
        target: &ResourcePath,
        body: Object,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Written, ApiError> {
        let mut request = self.write_request(target, options, now)?;
        if !target.subresource.is_empty() {
            return Err(ApiError::method_not_allowed_on(target));
        }
        let object = request.read_body(body)?;
        self.insert(request, object, Owning::Update)
    }

    /// Replaces an object, or the part that the subresource covers.
    ///
    /// # Errors
    /// Returns the errors of [`Store::create`], 404 if the object does not exist, and 409 if the body has another
    /// version.
    pub fn update(
        &mut self,
        target: &ResourcePath,
        body: Object,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Written, ApiError> {
        let mut request = self.write_request(target, options, now)?;
        let Some(old) = self.current(&request)? else {
            if target.subresource.is_empty() {
                let mut object = request.read_body(body)?;
                if request.scope.resource().create_on_update {
                    request.creates_instead = true;
                    let sent = object.metadata_mut().remove("resourceVersion");
                    let mut written = self.insert(request, object, Owning::Update)?;
                    // Storing removes the version, so the result of a dry run gets the version that was sent.
                    if options.dry_run
                        && let Some(version) = sent.filter(|version| version != "")
                    {
                        let shown = Arc::make_mut(&mut written.object).metadata_mut();
                        shown.insert("resourceVersion".into(), version);
                    }
                    return Ok(written);
                }
            }
            return Err(ApiError::not_found(target));
        };
        if target.subresource == "scale" {
            let new = scale::write(&request, &old, &body)?;
            return self.scaled(request, &old, new);
        }
        if body.name().is_empty() {
            return Err(ApiError::bad_request("name must be provided"));
        }
        let new = request.read_body(body)?;
        if new.resource_version().is_empty() && !request.scope.resource().unconditional_update {
            let error =
                FieldError::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            return Err(ApiError::invalid(&target.group, &target.resource, new.name(), &[error]));
        }
        self.replace(request, &old, new, Owning::Update)
    }

    /// Patches an object, or the part that the subresource covers. An apply creates an absent object.
    ///
    /// # Errors
    /// Returns the errors of [`Store::update`]; 409 with one cause per field if an apply conflicts with other
    /// managers, 415 for a strategic merge of a custom resource, and 400 or 422 for patches that are malformed or
    /// do not fit the object.
    pub fn patch(
        &mut self,
        target: &ResourcePath,
        patch: &Patch,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Written, ApiError> {
        let mut request = self.write_request(target, options, now)?;
        let old = self.current(&request)?;
        if let Patch::Apply(config) = patch {
            return self.apply(request, old, config);
        }
        if matches!(patch, Patch::Strategic(_)) && request.scope.resource().is_custom() {
            return Err(super::patching::no_strategic_merge());
        }
        let old = old.ok_or_else(|| ApiError::not_found(target))?;
        let shown = if target.subresource == "scale" {
            Arc::new(scale::read(request.scope.version(), &old)?)
        } else {
            old.clone()
        };
        let patched = super::patching::patched(&request, &shown, patch)?;
        request.reading = Reading::Patched;
        if target.subresource == "scale" {
            let new = scale::write(&request, &old, &patched)?;
            return self.scaled(request, &old, new);
        }
        let new = request.read_body(patched)?;
        self.replace(request, &old, new, Owning::Update)
    }

    fn apply(
        &mut self,
        mut request: WriteRequest<'_>,
        old: Option<Arc<Object>>,
        config: &Value,
    ) -> Result<Written, ApiError> {
        if request.options.manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        if old.is_none() && !request.target.subresource.is_empty() {
            return Err(ApiError::not_found(request.target));
        }
        let mut config = config.clone();
        whole_numbers(&mut config);
        let config = Object::from_value(config)
            .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
        if config.at(&["metadata", "managedFields"]).is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        if config.gvk() != request.gvk() {
            let found = config.gvk();
            let message =
                format!("invalid object type: {}/{}, Kind={}", found.group, found.version, found.kind);
            return Err(ApiError::bad_request(message));
        }
        if config.name().is_empty() && old.is_none() {
            let message = format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                request.target.name
            );
            return Err(ApiError::bad_request(message));
        }
        request.reading = Reading::Apply;
        let named = config.clone();
        let config = request.read_body(config)?;
        let (name, uid) = (config.name().to_owned(), config.uid().to_owned());
        let applied = ownership::apply(&request, old.as_deref(), config, named)?;
        request.check_name(&name)?;
        match old {
            Some(old) => self.replace(request, &old, applied.object, Owning::Apply(applied.managed_fields)),
            None if !uid.is_empty() => {
                let message = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                Err(ApiError::conflict(request.target, &message))
            }
            None => {
                let mut object = applied.object;
                object.metadata_mut().remove("resourceVersion");
                request.creates_instead = true;
                self.insert(request, object, Owning::Apply(applied.managed_fields))
            }
        }
    }

    /// Stores an object with new replicas, and returns its Scale.
    fn scaled(
        &mut self,
        request: WriteRequest<'_>,
        old: &Arc<Object>,
        new: Object,
    ) -> Result<Written, ApiError> {
        let scope = request.scope.clone();
        let written = self.replace(request, old, new, Owning::Update)?;
        let shown = scale::read(scope.version(), &written.object)?;
        Ok(Written { object: Arc::new(shown), ..written })
    }

    /// Returns the stored object in the version of the request.
    fn current(&self, request: &WriteRequest<'_>) -> Result<Option<Arc<Object>>, ApiError> {
        let (collection, _) = self.scope(request.target)?;
        collection
            .objects
            .get(&request.target.key())
            .map(|object| self.through(&request.scope, object))
            .transpose()
    }

    fn insert(
        &mut self,
        mut request: WriteRequest<'_>,
        mut object: Object,
        owning: Owning,
    ) -> Result<Written, ApiError> {
        self.give_name(&request, &mut object);
        let key = Key::namespaced(request.target.namespace.clone(), object.name());
        let target = request.target.clone().named(&key.name);
        prune::fill_in(&request.scope, &mut object);
        self.prepare_for_create(&request, &mut object);
        self.namespace_admits(&request, &target)?;
        if !object.resource_version().is_empty() {
            return Err(ApiError::unexpected("resourceVersion should not be set on objects to be created"));
        }
        let resource = request.scope.resource().clone();
        limits::check_depth(&object)?;
        let mut errors = metadata::validate(&resource, &object);
        validate::check(&request.scope, &object, None, &mut errors);
        errors.extend(self.check_kind_rules(&request, None, &object)?);
        if !errors.is_empty() {
            return Err(ApiError::invalid_object(&resource, &key.name, &errors));
        }
        if request.creates_instead {
            self.authorize(&request.options.user, "create", &target)?;
        }
        self.evaluate_policies(&mut request, &target, None, &object)?;
        let (collection, _) = self.scope(request.target)?;
        if collection.objects.contains_key(&key) {
            return Err(ApiError::already_exists(&target));
        }
        let fields = match owning {
            Owning::Update => ownership::update(&request, None, &object),
            Owning::Apply(fields) => fields,
        };
        ownership::write(&mut object, fields);
        limits::check_size(&object)?;
        let object = if request.options.dry_run {
            Arc::new(object)
        } else {
            self.check_quota(&request, &key, None, &object)?;
            self.store_in(&request.scope, &key, object)?
        };
        Ok(Written { object, created: true, warnings: request.warnings })
    }

    fn replace(
        &mut self,
        mut request: WriteRequest<'_>,
        old: &Arc<Object>,
        mut new: Object,
        owning: Owning,
    ) -> Result<Written, ApiError> {
        let resource = request.scope.resource().clone();
        let target = request.target;
        if request.reading != Reading::Apply {
            request.check_uid(old, &new)?;
        }
        request.check_version(old, &new)?;
        metadata::keep_system_fields(old, &mut new);
        metadata::tidy(&mut new);
        let mut new = subresource::restrict(&request.scope, &target.subresource, old, new);
        prune::fill_in(&request.scope, &mut new);
        if let Some(kind) = resource.builtin {
            (kind.prepare_for_update)(&target.subresource, old, &mut new);
        }
        limits::check_depth(&new)?;
        let mut errors = metadata::validate_update(old, &new);
        errors.extend(metadata::validate(&resource, &new));
        validate::check(&request.scope, &new, Some(old), &mut errors);
        errors.extend(self.check_kind_rules(&request, Some(old), &new)?);
        if !errors.is_empty() {
            return Err(ApiError::invalid_object(&resource, old.name(), &errors));
        }
        self.evaluate_policies(&mut request, target, Some(old), &new)?;
        let fields = match owning {
            Owning::Update => ownership::update(&request, Some(old), &new),
            Owning::Apply(fields) => fields,
        };
        ownership::write(&mut new, fields);
        metadata::bump_generation(resource.generation, old, &mut new);
        new.metadata_mut().insert("resourceVersion".into(), old.resource_version().into());
        if new == **old {
            return Ok(Written { object: old.clone(), created: false, warnings: request.warnings });
        }
        limits::check_size(&new)?;
        let key = old.key();
        let object = if request.options.dry_run {
            Arc::new(new)
        } else if new.is_terminating() && delete::is_finalized(&resource, &new) {
            let object = self.store_in(&request.scope, &key, new)?;
            self.remove(&resource.id_of_storage(), &key);
            object
        } else {
            self.check_quota(&request, &key, Some(old), &new)?;
            self.store_in(&request.scope, &key, new)?
        };
        Ok(Written { object, created: false, warnings: request.warnings })
    }

    fn prepare_for_create(&mut self, request: &WriteRequest<'_>, object: &mut Object) {
        if request.scope.version().status {
            object.0.remove("status");
        }
        if let Some(kind) = request.scope.resource().builtin {
            let mut creation = Creation { user: &request.options.user, ids: &mut self.ids };
            (kind.prepare_for_create)(&mut creation, object);
        }
    }

    /// Returns the errors that the checks of its kind report for an object.
    fn check_kind_rules(
        &self,
        request: &WriteRequest<'_>,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<Vec<FieldError>, ApiError> {
        self.check_grant(&request.options.user, request.target, old, new)?;
        let mut errors = Vec::new();
        if let Some(kind) = request.scope.resource().builtin {
            if request.target.subresource.is_empty() {
                (kind.validate)(old, new, &mut errors);
            }
            if let Some(old) = old {
                (kind.validate_update)(old, new, &mut errors);
            }
        }
        Ok(errors)
    }

    fn give_name(&mut self, request: &WriteRequest<'_>, object: &mut Object) {
        let prefix =
            object.at(&["metadata", "generateName"]).and_then(Value::as_str).unwrap_or_default().to_owned();
        if object.name().is_empty() && !prefix.is_empty() {
            let prefix: String = prefix.chars().take(metadata::GENERATED_NAME_LIMIT).collect();
            let name = format!("{prefix}{}", self.ids.suffix());
            object.metadata_mut().insert("name".into(), name.into());
        }
        let uid = self.ids.uid();
        let meta = object.metadata_mut();
        for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            meta.remove(field);
        }
        if request.scope.resource().namespaced {
            meta.insert("namespace".into(), request.target.namespace.clone().into());
        }
        meta.insert("uid".into(), uid.into());
        meta.insert("creationTimestamp".into(), metadata::time(request.now));
        if request.scope.resource().generation != Generation::Never {
            meta.insert("generation".into(), 1.into());
        }
        metadata::tidy(object);
    }

    /// Stores an object in the version of the scope, and returns it in that version.
    fn store_in(&mut self, scope: &RequestScope, key: &Key, object: Object) -> Result<Arc<Object>, ApiError> {
        let resource = scope.resource();
        let id = resource.id_of_storage();
        let storage = self
            .collections
            .get(&id)
            .map(|collection| collection.resource.api_version(&collection.resource.storage));
        let stored = self.convert(object, resource, &storage.ok_or_else(ApiError::no_such_path)?)?;
        let stored = self.commit(&id, key, Some(stored)).ok_or_else(ApiError::no_such_path)?;
        self.through(scope, &stored)
    }
}
