//! What single kinds do on their writes, beyond what every kind does.

use serde_json::{Value, json};

use object::Object;

use super::read::Lens;
use super::write::Call;
use super::{ApiError, FieldError, Resource, Store, builtin, crd, metadata};

/// Fills in what the server sets when an object is created.
pub(super) fn before_create(store: &mut Store, call: &Call<'_>, object: &mut Object) -> Result<(), ApiError> {
    let resource = call.lens.resource();
    if call.lens.version().status {
        object.0.remove("status");
    }
    if let Some(status) = builtin::defaults::first_status(resource) {
        object.0.insert("status".into(), status);
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            object.0.insert("spec".into(), json!({ "finalizers": ["kubernetes"] }));
            object.0.insert("status".into(), json!({ "phase": "Active" }));
            let name = object.name().to_owned();
            let labels = object.metadata_mut().entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".into(), name.into());
            }
        }
        ("certificates.k8s.io", "certificatesigningrequests") => {
            let user = &call.options.user;
            let spec = object.field_mut("spec");
            spec.insert("username".into(), user.name.clone().into());
            spec.insert("groups".into(), user.groups.clone().into());
            if !user.uid.is_empty() {
                spec.insert("uid".into(), user.uid.clone().into());
            }
            if !user.extra.is_empty() {
                spec.insert("extra".into(), json!(user.extra));
            }
            object.0.insert("status".into(), json!({}));
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => crd::complete(object),
        ("batch", "jobs") => builtin::defaults::identify_job(object),
        ("", "services") => builtin::defaults::allocate(object, &store.ids.address()),
        _ => {}
    }
    Ok(())
}

/// Keeps what an update may not change and need not say.
pub(super) fn before_update(call: &Call<'_>, old: &Object, new: &mut Object) {
    let resource = call.lens.resource();
    if resource.id() == crd::shelf_id() && call.target.subresource.is_empty() {
        crd::complete(new);
    }
    if (resource.group.as_str(), resource.plural.as_str()) == ("", "services") {
        builtin::defaults::keep_allocation(old, new);
    }
    if (resource.group.as_str(), resource.plural.as_str()) == ("", "namespaces")
        && call.target.subresource.is_empty()
    {
        if let Some(spec) = old.0.get("spec") {
            new.0.insert("spec".into(), spec.clone());
        }
        let name = old.name().to_owned();
        let labels = new.metadata_mut().entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    }
}

/// What is wrong with an object for reasons of its kind.
pub(super) fn check(
    store: &Store,
    call: &Call<'_>,
    old: Option<&Object>,
    new: &Object,
) -> Result<Vec<FieldError>, ApiError> {
    store.check_grant(&call.options.user, call.target, old, new)?;
    let resource = call.lens.resource();
    if resource.id() == crd::shelf_id() && call.target.subresource.is_empty() {
        return Ok(crd::check(old, new));
    }
    let whole = call.target.subresource.is_empty() && !resource.custom;
    Ok(if whole { builtin::check::check(resource, old, new) } else { Vec::new() })
}

/// What a client is warned of.
pub(super) fn warnings(_lens: &Lens, _object: &Object) -> Vec<String> {
    Vec::new()
}

/// Whether nothing holds a terminating object any more.
pub(super) fn is_finalized(resource: &Resource, object: &Object) -> bool {
    let namespace = resource.group.is_empty() && resource.plural == "namespaces";
    let held = namespace
        && object.at(&["spec", "finalizers"]).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    !held && metadata::strings(object, "finalizers").is_empty()
}
