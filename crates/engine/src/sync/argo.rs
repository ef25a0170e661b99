//! Objects that Argo CD applies.
//!
//! Argo CD tracks objects by an annotation, by an annotation and a label, or by a label alone
//! ([resource tracking](https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/)). Charts and
//! people write the same label, so a label alone counts only where Argo CD has written the object.

use serde_json::{Map, Value, json};

use api::names;
use api::names::argo::TRACKING_ID_ANNOTATION;
use object::Object;
use object::fields::fields_v1;

/// The annotation beside the tracking id that distinguishes several Argo CDs of one cluster.
const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
/// The labels that name the application: the default, and the one that Argo CD's documentation recommends for
/// `application.instanceLabelKey`.
const INSTANCE_LABELS: [&str; 2] = ["argocd.argoproj.io/instance", "app.kubernetes.io/instance"];
/// The field managers of Argo CD: of every write, and of those before version 2.4.
const MANAGERS: [&str; 2] = ["argocd-controller", "argocd-application-controller"];

/// The way in which Argo CD tracks an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracking {
    /// By the annotation; Argo CD ignores a label beside it.
    Annotation,
    /// By a label alone, which is this one.
    Label(&'static str),
}

/// Returns the Argo CD application that tracks an object; `None` if none does.
pub fn argo_application(live: &Object) -> Option<&str> {
    application(live).map(|(app, _)| app)
}

/// Returns the Argo CD application of an object, and how it tracks it; `None` if no application tracks it.
///
/// A tracking id that names another object was copied with its annotations and does not count. Argo CD does
/// not count a label on an object with an owner either.
pub(super) fn application(live: &Object) -> Option<(&str, Tracking)> {
    if let Some(id) = live.annotations().get(TRACKING_ID_ANNOTATION) {
        return describes(id, live).map(|app| (app, Tracking::Annotation));
    }
    let has_owner = live.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    if has_owner.is_some_and(|owners| !owners.is_empty()) || !is_written(live) {
        return None;
    }
    let label = |name: &'static str| Some((live.at(&["metadata", "labels", name])?.as_str()?, name));
    let theirs = INSTANCE_LABELS.into_iter().filter(|name| !is_label_of_repository(live, name));
    let (app, name) = theirs.filter_map(label).next()?;
    Some((app, Tracking::Label(name)))
}

/// Returns the application of a tracking id that names the object which carries it. The id of an object
/// without a namespace may name the namespace of the application.
fn describes<'a>(id: &'a str, live: &Object) -> Option<&'a str> {
    let mut parts = id.splitn(3, ':');
    let (app, kind, key) = (parts.next()?, parts.next()?, parts.next()?);
    let (namespace, name) = key.split_once('/')?;
    let gvk = live.gvk();
    let key = live.key();
    let is_its_namespace = key.namespace.is_empty() || namespace == key.namespace;
    (kind == format!("{}/{}", gvk.group, gvk.kind) && name == key.name && is_its_namespace).then_some(app)
}

/// Removes the marks by which an application would own an object of a repository, and prune it.
pub(super) fn untrack(object: &mut Object) {
    let is_its_own =
        object.annotations().get(TRACKING_ID_ANNOTATION).is_some_and(|id| describes(id, object).is_some());
    if is_its_own && let Some(Value::Object(annotations)) = object.metadata_mut().get_mut("annotations") {
        annotations.remove(TRACKING_ID_ANNOTATION);
        annotations.remove(INSTALLATION_ID);
    }
}

/// Returns whether Argo CD has written fields of an object.
fn is_written(live: &Object) -> bool {
    entries(live).any(|(manager, _)| MANAGERS.contains(&manager))
}

/// Returns whether a ConfigRepo sets the label.
fn is_label_of_repository(live: &Object, label: &str) -> bool {
    let fields = entries(live).filter(|(manager, _)| *manager == names::CONFIG_REPO_MANAGER);
    let mut fields = fields.filter_map(|(_, entry)| fields_v1(entry));
    fields.any(|fields| {
        let labels = fields.pointer("/f:metadata/f:labels");
        labels.is_some_and(|labels| labels.get(format!("f:{label}")).is_some())
    })
}

/// Returns the entries of the managed fields, by manager.
fn entries(live: &Object) -> impl Iterator<Item = (&str, &Value)> {
    let entries = live.at(&["metadata", "managedFields"]).and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(|entry| Some((entry.get("manager")?.as_str()?, entry)))
}

/// The write that ends the tracking of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTracking {
    /// The uid of the object.
    pub uid: String,
    /// The merge patch.
    pub patch: Map<String, Value>,
}

impl EndTracking {
    /// Returns the write that ends the tracking of a live object, except by what `desired` has itself.
    /// Otherwise an application that is created later would prune the object.
    pub(super) fn of(tracked: Option<(Tracking, &Object)>, desired: &Object) -> Option<Self> {
        let (tracking, live) = tracked?;
        let (field, names): (&str, &[&str]) = match &tracking {
            Tracking::Annotation => ("annotations", &[TRACKING_ID_ANNOTATION, INSTALLATION_ID]),
            Tracking::Label(name) => ("labels", std::slice::from_ref(name)),
        };
        let is_theirs = |name: &&&str| desired.at(&["metadata", field, name]).is_none();
        let removed: Map<String, Value> =
            names.iter().filter(is_theirs).map(|name| ((*name).to_owned(), Value::Null)).collect();
        let patch = json!({"metadata": {field: removed.clone()}});
        let patch = patch.as_object().filter(|_| !removed.is_empty()).cloned()?;
        Some(Self { uid: live.uid().to_owned(), patch })
    }
}
