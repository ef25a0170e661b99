//! Create, update and patch.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use object::{Key, Object, whole_numbers};

use super::builtin::Creation;
use super::read::Lens;
use super::{
    ApiError, FieldError, FieldValidation, Generation, Patch, Store, Target, WriteOptions, Written, delete,
    metadata, ownership, prune, scale, subresource, validate,
};

/// A body may not be larger, as etcd would not take it (its default request limit).
const OBJECT_LIMIT: usize = 1_572_864;

/// What every step of one write needs to know.
pub(super) struct Call<'a> {
    pub(super) target: &'a Target,
    pub(super) lens: Lens,
    pub(super) options: &'a WriteOptions,
    pub(super) now: Timestamp,
    pub(super) warnings: Vec<String>,
    pub(super) reading: Reading,
}

/// Where the object that is read comes from; it decides how unknown fields are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The body of a request.
    Body,
    /// What a patch made of an object.
    Patched,
    /// A configuration to apply, which names no field that the schema does not know.
    Apply,
}

/// Whose the written fields become.
enum Owning {
    /// Those that changed become the writer's.
    Update,
    /// Those that were applied; the entries are computed already.
    Apply(Vec<Value>),
}

impl Store {
    fn call<'a>(
        &self,
        target: &'a Target,
        options: &'a WriteOptions,
        now: Timestamp,
    ) -> Result<Call<'a>, ApiError> {
        let (_, lens) = self.lens(target)?;
        subresource::known(&lens, &target.subresource)?;
        let warnings = lens.version().deprecation.iter().cloned().collect();
        Ok(Call { target, lens, options, now, warnings, reading: Reading::Body })
    }

    /// Creates an object; `target` names the resource and the namespace, the body the object.
    ///
    /// # Errors
    /// 400 for a body of another kind or namespace, 403 and 404 for a namespace that is going or missing, 409 where the name is taken,
    /// 422 for fields that are wrong.
    pub fn create(
        &mut self,
        target: &Target,
        body: Object,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Written, ApiError> {
        let mut call = self.call(target, options, now)?;
        if !target.subresource.is_empty() {
            return Err(ApiError::method_not_allowed());
        }
        let object = call.read_body(body)?;
        self.insert(call, object, Owning::Update)
    }

    /// Replaces an object, or the part of it that the subresource covers.
    ///
    /// # Errors
    /// As [`Store::create`], and 404 where there is no such object, 409 where it is not at the version the body says.
    pub fn update(
        &mut self,
        target: &Target,
        body: Object,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Written, ApiError> {
        let mut call = self.call(target, options, now)?;
        let Some(old) = self.current(&call)? else {
            if call.lens.resource().create_on_update && target.subresource.is_empty() {
                let object = call.read_body(body)?;
                return self.insert(call, object, Owning::Update);
            }
            return Err(ApiError::not_found(target));
        };
        if target.subresource == "scale" {
            let new = scale::write(call.lens.version(), &old, &body).ok_or_else(ApiError::no_such_path)?;
            return self.scaled(call, &old, new);
        }
        let new = call.read_body(body)?;
        if new.name().is_empty() {
            return Err(ApiError::bad_request("name must be provided"));
        }
        if new.resource_version().is_empty() && !call.lens.resource().unconditional_update {
            let error =
                FieldError::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            return Err(ApiError::invalid(&target.group, &target.resource, new.name(), &[error]));
        }
        self.replace(call, &old, new, Owning::Update)
    }

    /// Patches an object, or the part of it that the subresource covers; an apply creates what does not exist.
    ///
    /// # Errors
    /// As [`Store::update`], and 409 with one cause per field where an apply meets fields of other managers, 415 for a strategic merge
    /// of a custom resource, 400 and 422 for patches that cannot be read or do not fit the object.
    pub fn patch(
        &mut self,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Written, ApiError> {
        let mut call = self.call(target, options, now)?;
        let old = self.current(&call)?;
        if let Patch::Apply(config) = patch {
            return self.apply(call, old, config);
        }
        let old = old.ok_or_else(|| ApiError::not_found(target))?;
        let shown = if target.subresource == "scale" {
            Arc::new(scale::read(call.lens.version(), &old).ok_or_else(ApiError::no_such_path)?)
        } else {
            old.clone()
        };
        let patched = super::patching::patched(&call, &shown, patch)?;
        if target.subresource == "scale" {
            let new = scale::write(call.lens.version(), &old, &patched).ok_or_else(ApiError::no_such_path)?;
            return self.scaled(call, &old, new);
        }
        call.reading = Reading::Patched;
        let new = call.read_body(patched)?;
        self.replace(call, &old, new, Owning::Update)
    }

    fn apply(
        &mut self,
        mut call: Call<'_>,
        old: Option<Arc<Object>>,
        config: &Value,
    ) -> Result<Written, ApiError> {
        if call.options.manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        let mut config = config.clone();
        whole_numbers(&mut config);
        let config = Object::from_value(config)
            .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
        if config.at(&["metadata", "managedFields"]).is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        if config.gvk() != call.gvk() {
            let found = config.gvk();
            let why = format!("invalid object type: {}/{}, Kind={}", found.group, found.version, found.kind);
            return Err(ApiError::bad_request(why));
        }
        if config.name().is_empty() {
            let why = format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                call.target.name
            );
            return Err(ApiError::bad_request(why));
        }
        call.reading = Reading::Apply;
        let config = call.read_body(config)?;
        if old.is_none() && !call.target.subresource.is_empty() {
            return Err(ApiError::not_found(call.target));
        }
        let applied = ownership::apply(&call, old.as_deref(), &config)?;
        match old {
            Some(old) => self.replace(call, &old, applied.object, Owning::Apply(applied.managed_fields)),
            None => {
                let mut object = applied.object;
                object.metadata_mut().remove("resourceVersion");
                self.insert(call, object, Owning::Apply(applied.managed_fields))
            }
        }
    }

    /// Stores an object whose replicas were set, and shows it as a Scale.
    fn scaled(&mut self, call: Call<'_>, old: &Arc<Object>, new: Object) -> Result<Written, ApiError> {
        let lens = call.lens.clone();
        let written = self.replace(call, old, new, Owning::Update)?;
        let shown = scale::read(lens.version(), &written.object).ok_or_else(ApiError::no_such_path)?;
        Ok(Written { object: Arc::new(shown), ..written })
    }

    /// The stored object in the version of the call.
    fn current(&self, call: &Call<'_>) -> Result<Option<Arc<Object>>, ApiError> {
        let (shelf, _) = self.lens(call.target)?;
        shelf.objects.get(&call.target.key()).map(|object| self.through(&call.lens, object)).transpose()
    }

    fn insert(&mut self, call: Call<'_>, mut object: Object, owning: Owning) -> Result<Written, ApiError> {
        self.give_name(&call, &mut object);
        let key = Key::namespaced(call.target.namespace.clone(), object.name());
        let target = call.target.clone().named(&key.name);
        prune::fill_in(&call.lens, &mut object);
        self.prepare_for_create(&call, &mut object);
        self.namespace_admits(&call, &target)?;
        if !object.resource_version().is_empty() {
            return Err(ApiError::unexpected("resourceVersion should not be set on objects to be created"));
        }
        let resource = call.lens.resource().clone();
        let mut errors = metadata::validate(&resource, &object);
        errors.extend(validate::check(&call.lens, &object, None));
        errors.extend(self.check_kind_rules(&call, None, &object)?);
        if !errors.is_empty() {
            return Err(ApiError::invalid_object(&resource, &key.name, &errors));
        }
        let (shelf, _) = self.lens(call.target)?;
        if shelf.objects.contains_key(&key) {
            return Err(ApiError::already_exists(&target));
        }
        let fields = match owning {
            Owning::Update => ownership::update(&call, None, &object),
            Owning::Apply(fields) => fields,
        };
        ownership::write(&mut object, fields);
        within_limit(&object)?;
        let object =
            if call.options.dry_run { Arc::new(object) } else { self.store_in(&call.lens, &key, object)? };
        Ok(Written { object, created: true, warnings: call.warnings })
    }

    fn replace(
        &mut self,
        call: Call<'_>,
        old: &Arc<Object>,
        mut new: Object,
        owning: Owning,
    ) -> Result<Written, ApiError> {
        let resource = call.lens.resource().clone();
        let target = call.target;
        if call.reading != Reading::Apply {
            check_uid(&call, old, &new)?;
        }
        let expected = new.resource_version();
        if !expected.is_empty() && expected != "0" && expected != old.resource_version() {
            let why =
                "the object has been modified; please apply your changes to the latest version and try again";
            return Err(ApiError::conflict(target, why));
        }
        metadata::keep_system_fields(old, &mut new);
        metadata::tidy(&mut new);
        let mut new = subresource::restrict(&call.lens, &target.subresource, old, new);
        prune::fill_in(&call.lens, &mut new);
        if let Some(kind) = resource.builtin {
            (kind.prepare_for_update)(&target.subresource, old, &mut new);
        }
        let mut errors = metadata::validate_update(old, &new);
        errors.extend(metadata::validate(&resource, &new));
        errors.extend(validate::check(&call.lens, &new, Some(old)));
        errors.extend(self.check_kind_rules(&call, Some(old), &new)?);
        if !errors.is_empty() {
            return Err(ApiError::invalid_object(&resource, old.name(), &errors));
        }
        let fields = match owning {
            Owning::Update => ownership::update(&call, Some(old), &new),
            Owning::Apply(fields) => fields,
        };
        ownership::write(&mut new, fields);
        bump_generation(resource.generation, old, &mut new);
        new.metadata_mut().insert("resourceVersion".into(), old.resource_version().into());
        if new == **old {
            return Ok(Written { object: old.clone(), created: false, warnings: call.warnings });
        }
        within_limit(&new)?;
        let key = old.key();
        let object = if call.options.dry_run {
            Arc::new(new)
        } else if new.is_terminating() && delete::is_finalized(&resource, &new) {
            let object = self.store_in(&call.lens, &key, new)?;
            self.remove(&resource.id_of_storage(), &key);
            object
        } else {
            self.store_in(&call.lens, &key, new)?
        };
        Ok(Written { object, created: false, warnings: call.warnings })
    }

    fn prepare_for_create(&mut self, call: &Call<'_>, object: &mut Object) {
        if call.lens.version().status {
            object.0.remove("status");
        }
        if let Some(kind) = call.lens.resource().builtin {
            let mut creation = Creation { user: &call.options.user, ids: &mut self.ids };
            (kind.prepare_for_create)(&mut creation, object);
        }
    }

    /// What the rules of the kind find wrong with an object.
    fn check_kind_rules(
        &self,
        call: &Call<'_>,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<Vec<FieldError>, ApiError> {
        self.check_grant(&call.options.user, call.target, old, new)?;
        let mut errors = Vec::new();
        if let Some(kind) = call.lens.resource().builtin {
            if call.target.subresource.is_empty() {
                (kind.validate)(old, new, &mut errors);
            }
            if let Some(old) = old {
                (kind.validate_update)(old, new, &mut errors);
            }
        }
        Ok(errors)
    }

    fn give_name(&mut self, call: &Call<'_>, object: &mut Object) {
        let prefix =
            object.at(&["metadata", "generateName"]).and_then(Value::as_str).unwrap_or_default().to_owned();
        if object.name().is_empty() && !prefix.is_empty() {
            let prefix: String = prefix.chars().take(metadata::GENERATED_NAME_LIMIT).collect();
            let name = format!("{prefix}{}", self.ids.suffix());
            object.metadata_mut().insert("name".into(), name.into());
        }
        let uid = self.ids.uid();
        let meta = object.metadata_mut();
        for field in ["selfLink", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            meta.remove(field);
        }
        if call.lens.resource().namespaced {
            meta.insert("namespace".into(), call.target.namespace.clone().into());
        }
        meta.insert("uid".into(), uid.into());
        meta.insert("creationTimestamp".into(), metadata::time(call.now));
        if call.lens.resource().generation != Generation::Never {
            meta.insert("generation".into(), 1.into());
        }
        metadata::tidy(object);
    }

    /// Stores an object given in the version of a lens and returns it in that version.
    fn store_in(&mut self, lens: &Lens, key: &Key, object: Object) -> Result<Arc<Object>, ApiError> {
        let resource = lens.resource();
        let id = resource.id_of_storage();
        let storage = self.shelves.get(&id).map(|shelf| shelf.resource.api_version(&shelf.resource.storage));
        let stored = self.convert(&object, resource, &storage.ok_or_else(ApiError::no_such_path)?)?;
        let stored = self.commit(&id, key, Some(stored)).ok_or_else(ApiError::no_such_path)?;
        self.through(lens, &stored)
    }
}

impl Call<'_> {
    pub(super) fn gvk(&self) -> object::Gvk {
        object::Gvk::parse(&self.lens.api_version(), &self.lens.resource().kind)
    }

    /// Checks that a body belongs to the path, handles fields that the schema does not know, and fills in defaults.
    fn read_body(&mut self, mut object: Object) -> Result<Object, ApiError> {
        let (kind, api_version) = (self.lens.resource().kind.clone(), self.lens.api_version());
        object.0.values_mut().for_each(whole_numbers);
        self.check_kind(&mut object, &kind, &api_version)?;
        let (name, namespace) = (object.name(), object.namespace());
        if !self.target.name.is_empty() && !name.is_empty() && name != self.target.name {
            let why = format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.target.name
            );
            return Err(ApiError::bad_request(why));
        }
        if !namespace.is_empty() && namespace != self.target.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if self.lens.resource().namespaced && self.target.namespace.is_empty() {
            return Err(ApiError::method_not_allowed());
        }
        if !self.target.name.is_empty() && name.is_empty() {
            object.metadata_mut().insert("name".into(), self.target.name.clone().into());
        }
        if !self.lens.resource().is_custom()
            && let Some(why) =
                prune::mistyped(&self.lens.version().schema, &Value::Object(object.0.clone()), &kind)
        {
            let version = &self.lens.version().name;
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            )));
        }
        let unknown = prune::prune(&self.lens, &mut object);
        self.unknown_fields(&object, &unknown)?;
        Ok(object)
    }

    fn unknown_fields(&mut self, object: &Object, unknown: &[String]) -> Result<(), ApiError> {
        if unknown.is_empty() {
            return Ok(());
        }
        let (kind, version) = (object.kind(), &self.lens.version().name);
        if self.reading == Reading::Apply {
            let head = format!(
                "{}/{}; {}/{version}, Kind={kind}",
                object.namespace(),
                object.name(),
                self.target.group
            );
            let list: Vec<_> =
                unknown.iter().map(|path| format!(".{path}: field not declared in schema")).collect();
            return Err(ApiError::unexpected(format!(
                "failed to create typed patch object ({head}): {}",
                list.join("\n")
            )));
        }
        let fields: Vec<_> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        let strict = format!("strict decoding error: {}", fields.join(", "));
        match (self.options.field_validation, self.reading) {
            (FieldValidation::Ignore, _) => {}
            (FieldValidation::Warn, _) => self.warnings.extend(fields),
            (FieldValidation::Strict, Reading::Patched) => {
                let error =
                    FieldError::invalid("patch", &Value::Object(object.0.clone()).to_string().into(), strict);
                return Err(ApiError::invalid("", "", "", &[error]));
            }
            (FieldValidation::Strict, _) => {
                return Err(ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {strict}"
                )));
            }
        }
        Ok(())
    }

    fn check_kind(&self, object: &mut Object, kind: &str, api_version: &str) -> Result<(), ApiError> {
        if !self.lens.resource().is_custom() {
            for (field, value) in [("kind", kind), ("apiVersion", api_version)] {
                if object.0.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                    object.0.insert(field.into(), value.into());
                }
            }
        }
        let (found_kind, found_version) = (object.kind(), object.api_version());
        if found_kind == kind && found_version == api_version {
            return Ok(());
        }
        if found_kind.is_empty() {
            return Err(ApiError::bad_request("Object 'Kind' is missing"));
        }
        let version = &self.lens.version().name;
        if found_version != api_version {
            let why = format!(
                "the API version in the data ({found_version}) does not match the expected API version ({api_version})"
            );
            return Err(ApiError::bad_request(why));
        }
        Err(ApiError::bad_request(format!(
            "{found_kind} in version {version:?} cannot be handled as a {kind}"
        )))
    }
}

fn check_uid(call: &Call<'_>, old: &Object, new: &Object) -> Result<(), ApiError> {
    if new.uid().is_empty() || new.uid() == old.uid() {
        return Ok(());
    }
    let why =
        format!("Precondition failed: UID in precondition: {}, UID in object meta: {}", new.uid(), old.uid());
    Err(ApiError::conflict(call.target, &why))
}

fn within_limit(object: &Object) -> Result<(), ApiError> {
    let size = serde_json::to_vec(object).map_or(0, |bytes| bytes.len());
    if size <= OBJECT_LIMIT {
        Ok(())
    } else {
        Err(ApiError::too_large(format!("etcdserver: request is too large ({size} bytes)")))
    }
}

/// Counts a change of what is wanted; what is observed, and names and notes about the object, do not count.
fn bump_generation(rule: Generation, old: &Object, new: &mut Object) {
    let differs = |field: &str| old.0.get(field) != new.0.get(field);
    let mut fields = old
        .0
        .keys()
        .chain(new.0.keys())
        .filter(|field| !matches!(field.as_str(), "metadata" | "apiVersion" | "kind"));
    let changed = match rule {
        Generation::Never => return,
        Generation::Spec => fields.any(|field| field != "status" && differs(field)),
        Generation::All => fields.any(|field| differs(field)),
    };
    let generation = old.generation() + i64::from(changed);
    new.metadata_mut().insert("generation".into(), generation.into());
}
