//! The definition of a built-in kind.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::Value;

use super::columns::{AGE, NAME, PrinterColumn};
use super::registry::DEFINITIONS;
use crate::ids::Ids;
use crate::schema::Collector;
use crate::{ApiResource, Convert, FieldError, Generation, GroupResource, NameRule, Scale, User, Version};
use object::Object;
use object::builtin_lists::BUILTIN;

/// A built-in kind: its names, and what kube-apiserver has in its `strategy.go`, `defaults.go`, `validation.go`
/// and printer.
///
/// A kind starts from [`BuiltinKind::of`], which takes the names from the type, and overrides what differs.
#[derive(Debug)]
pub(crate) struct BuiltinKind {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) version: &'static str,
    pub(super) api_version: &'static str,
    pub(super) plural: &'static str,
    pub(super) schema_name: fn() -> Cow<'static, str>,
    /// Adds the type to the schemas of all built-in kinds.
    pub(super) collect: fn(&mut Collector),

    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) has_status: bool,
    pub(crate) has_scale: bool,
    pub(crate) generation: Generation,
    pub(crate) names: NameRule,
    /// True if updates may omit the resource version.
    pub(crate) unconditional_update: bool,
    /// True if a PUT may create the object.
    pub(crate) create_on_update: bool,
    /// True if one request can delete a whole collection.
    pub(crate) has_collection_delete: bool,
    /// The paths for field selectors, besides `metadata.name` and `metadata.namespace`.
    pub(crate) selectable_fields: &'static [&'static str],
    /// The subresources besides `status` and `scale`.
    pub(crate) subresources: &'static [Subresource],
    /// Fields that are never absent in the Go type, with their zero values as JSON. In a new object, nobody owns
    /// these values.
    pub(crate) never_absent: &'static [(&'static str, &'static str)],
    /// True if the response to a deletion is the object instead of a `Status` (apiserver `ReturnDeletedObject`).
    pub(crate) returns_deleted: bool,
    /// Fields besides `status` that no manager owns, because only the server writes them.
    pub(crate) unowned_fields: &'static [&'static str],
    /// The group and plural name of the resource whose objects this one shows under another name.
    pub(crate) stored_as: Option<(&'static str, &'static str)>,
    /// Converts objects between `apiVersion`s; `None` if versions differ only in their name.
    pub(crate) convert: Option<Convert>,

    /// Fixed defaults: a definition below `io.k8s.api.`, a field, and the value as JSON.
    pub(crate) defaults: &'static [(&'static str, &'static str, &'static str)],
    /// Sets the defaults that depend on other fields.
    pub(crate) fill: fn(&mut Object),
    /// Sets the fields that the server sets in a new object.
    pub(crate) prepare_for_create: fn(&mut Creation<'_>, &mut Object),
    /// Restores the fields that an update of a subresource (empty for the whole object) may not change. The
    /// arguments are the subresource, the old and the new object.
    pub(crate) prepare_for_update: fn(&str, &Object, &mut Object),
    /// Reports the errors of a new object, or of a change to a whole object.
    pub(crate) validate: fn(Option<&Object>, &Object, &mut Vec<FieldError>),
    /// Reports the errors of any change, including changes through subresources.
    pub(crate) validate_update: fn(&Object, &Object, &mut Vec<FieldError>),
    /// The warning for a kind that is stored but has no effect.
    pub(crate) not_enforced: Option<&'static str>,
    /// The columns of `kubectl get`.
    pub(crate) columns: &'static [PrinterColumn],
}

/// The context for completing a new object.
pub(crate) struct Creation<'a> {
    /// The user who creates the object.
    pub(crate) user: &'a User,
    /// The source of new names and addresses.
    pub(crate) ids: &'a mut Ids,
}

/// A subresource that only one kind has.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// The last part of the path.
    pub name: &'static str,
    /// The verbs that discovery lists.
    pub verbs: &'static [&'static str],
    /// The group and kind of the body, at `v1`; `None` if it is the object itself.
    pub other_kind: Option<(&'static str, &'static str)>,
}

impl BuiltinKind {
    /// Returns a kind with the names of its type, without special behavior.
    pub(super) const fn of<K: k8s_openapi::Resource + JsonSchema>() -> Self {
        Self {
            group: K::GROUP,
            kind: K::KIND,
            version: K::VERSION,
            api_version: K::API_VERSION,
            plural: K::URL_PATH_SEGMENT,
            schema_name: K::schema_name,
            collect: Collector::add_kind::<K>,
            short_names: &[],
            categories: &[],
            has_status: false,
            has_scale: false,
            generation: Generation::Never,
            names: NameRule::Subdomain,
            unconditional_update: true,
            create_on_update: false,
            has_collection_delete: true,
            selectable_fields: &[],
            subresources: &[],
            never_absent: &[],
            returns_deleted: false,
            unowned_fields: &[],
            stored_as: None,
            convert: None,
            defaults: &[],
            fill: |_| {},
            prepare_for_create: |_, _| {},
            prepare_for_update: |_, _, _| {},
            validate: |_, _, _| {},
            validate_update: |_, _, _| {},
            not_enforced: None,
            columns: &[NAME, AGE],
        }
    }

    /// Returns the resource that a store serves for this kind.
    pub(super) fn resource(&'static self) -> ApiResource {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let schema_name = (self.schema_name)();
        let version = Version {
            name: self.version.into(),
            served: true,
            deprecation: None,
            schema: DEFINITIONS.schema(&schema_name),
            openapi: Arc::new(DEFINITIONS.openapi.get(&*schema_name).cloned().unwrap_or_default()),
            rules: None,
            status: self.has_status,
            scale: self.has_scale.then(scale),
            columns: Vec::new(),
            selectable: texts(self.selectable_fields),
        };
        ApiResource {
            group: self.group.into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase(),
            short_names: texts(self.short_names),
            categories: texts(self.categories),
            namespaced: BUILTIN.is_namespaced(self.api_version, self.kind).unwrap_or(false),
            versions: vec![version],
            storage: self.version.into(),
            generation: self.generation,
            names: self.names,
            unconditional_update: self.unconditional_update,
            create_on_update: self.create_on_update,
            builtin: Some(self),
        }
    }

    /// Returns the zero values of the fields that are never absent.
    pub(crate) fn zero(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.never_absent.iter().filter_map(|(field, json)| {
            let value = serde_json::from_str(json);
            debug_assert!(value.is_ok(), "{field}");
            Some((*field, value.ok()?))
        })
    }

    /// Returns the resource under which its objects are stored, if it is another one.
    pub(crate) fn storage(&self) -> Option<GroupResource> {
        self.stored_as.map(|(group, plural)| GroupResource::new(group, plural))
    }
}

fn scale() -> Scale {
    let path = |text: &str| text.split('.').map(str::to_owned).collect();
    Scale {
        spec_replicas: path("spec.replicas"),
        status_replicas: path("status.replicas"),
        selector: Some(path("spec.selector")),
        is_builtin: true,
    }
}

/// Sets the initial status of a new object.
pub(super) fn set_status(object: &mut Object, status: Value) {
    object.0.insert("status".into(), status);
}
