//! Objects that Argo CD manages.
//!
//! Argo CD tracks objects by an annotation, by an annotation and a label, or only by a label ([resource
//! tracking](https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/)). Charts and people use the
//! same label, so a label without the annotation counts only if Argo CD has written the object.

use serde_json::{Map, Value, json};

use api::names;
use api::names::argo::{HOOK_ANNOTATION, SYNC_OPTIONS_ANNOTATION, TRACKING_ID_ANNOTATION};
use object::Object;
use object::fields::fields_v1;

/// The annotation that distinguishes multiple Argo CD installations on one cluster.
const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
/// The labels with the application name: the default, and the one that Argo CD's documentation recommends for
/// `application.instanceLabelKey`.
const INSTANCE_LABELS: [&str; 2] = ["argocd.argoproj.io/instance", "app.kubernetes.io/instance"];
/// The maximum length of a label value. Argo CD truncates application names to this length.
const MAX_LABEL: usize = 63;
/// The field managers of Argo CD: the current one, and the one before version 2.4.
const MANAGERS: [&str; 2] = ["argocd-controller", "argocd-application-controller"];

/// The method with which Argo CD tracks an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracking {
    /// By the annotation. Argo CD then ignores the label.
    Annotation,
    /// Only by the given label.
    Label(&'static str),
}

/// Returns the sync phase in which Argo CD applies an object; `None` if it is not a hook.
pub(super) fn hook(object: &Object) -> Option<&str> {
    object.annotations().get(HOOK_ANNOTATION).copied().filter(|hook| !hook.is_empty())
}

/// Returns true if an object has the given Argo CD sync option.
pub(super) fn has_sync_option(object: &Object, name: &str, value: &str) -> bool {
    let annotations = object.annotations();
    let options = annotations.get(SYNC_OPTIONS_ANNOTATION).copied().unwrap_or_default();
    options
        .split(',')
        .filter_map(|option| option.trim().split_once('='))
        .any(|option| option == (name, value))
}

/// Returns the Argo CD application that tracks an object, in the format of Argo CD's commands; `None` if there
/// is none.
pub fn argo_application(live: &Object) -> Option<String> {
    application(live).map(|(app, _)| command_name(app))
}

/// Converts an application name to the format of Argo CD's commands. Outside Argo CD's namespace this is
/// NAMESPACE/NAME, but NAMESPACE_NAME in tracking marks.
pub(super) fn command_name(app: &str) -> String {
    app.replacen('_', "/", 1)
}

/// Returns the Argo CD application that tracks an object, and how; `None` if no application does.
///
/// A tracking id that names another object was copied with its annotations and does not count. Like Argo CD,
/// this also ignores a label on an object that has an owner.
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

/// Returns the application in a tracking id if the id names the object that carries it. For an object without a
/// namespace, the id may contain the namespace of the application.
fn describes<'a>(id: &'a str, live: &Object) -> Option<&'a str> {
    let mut parts = id.splitn(3, ':');
    let (app, kind, key) = (parts.next()?, parts.next()?, parts.next()?);
    let (namespace, name) = key.split_once('/')?;
    let gvk = live.gvk();
    let key = live.key();
    let is_its_namespace = key.namespace.is_empty() || namespace == key.namespace;
    (kind == format!("{}/{}", gvk.group, gvk.kind) && name == key.name && is_its_namespace).then_some(app)
}

/// Removes the tracking marks with which an application would own and prune an object of a repository.
pub(super) fn untrack(object: &mut Object) {
    let is_its_own =
        object.annotations().get(TRACKING_ID_ANNOTATION).is_some_and(|id| describes(id, object).is_some());
    if is_its_own && let Some(Value::Object(annotations)) = object.metadata_mut().get_mut("annotations") {
        annotations.remove(TRACKING_ID_ANNOTATION);
        annotations.remove(INSTALLATION_ID);
    }
}

/// Returns true if Argo CD has written fields of an object.
fn is_written(live: &Object) -> bool {
    entries(live).any(|(manager, _)| MANAGERS.contains(&manager))
}

/// Returns true if a ConfigRepo sets the label.
fn is_label_of_repository(live: &Object, label: &str) -> bool {
    let fields = entries(live).filter(|(manager, _)| *manager == names::CONFIG_REPO_MANAGER);
    let mut fields = fields.filter_map(|(_, entry)| fields_v1(entry));
    fields.any(|fields| {
        let labels = fields.pointer("/f:metadata/f:labels");
        labels.is_some_and(|labels| labels.get(format!("f:{label}")).is_some())
    })
}

/// Returns the managed fields entries with their managers.
fn entries(live: &Object) -> impl Iterator<Item = (&str, &Value)> {
    let entries = live.at(&["metadata", "managedFields"]).and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(|entry| Some((entry.get("manager")?.as_str()?, entry)))
}

/// The write that stops Argo CD from tracking an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTracking {
    /// The uid of the object.
    pub uid: String,
    /// The merge patch.
    pub patch: Map<String, Value>,
}

impl EndTracking {
    /// Returns the write that stops the tracking of a live object, but keeps marks that are in `desired`. With
    /// leftover marks, an application that is created later would prune the object, possibly after a change of
    /// the tracking mode. With `annotation+label`, both marks name the application.
    pub(super) fn of(live: &Object, desired: &Object) -> Option<Self> {
        let (app, _) = application(live)?;
        let label = json!(app.get(..MAX_LABEL).unwrap_or(app));
        let names_app = |name: &&str| live.at(&["metadata", "labels", name]) == Some(&label);
        let has = |name: &&str| live.at(&["metadata", "annotations", name]).is_some();
        let annotations = [TRACKING_ID_ANNOTATION, INSTALLATION_ID].into_iter().filter(has);
        let labels = INSTANCE_LABELS.into_iter().filter(names_app);
        let removed = [
            ("annotations", removal("annotations", annotations, desired)),
            ("labels", removal("labels", labels, desired)),
        ];
        let removed = removed.into_iter().filter(|(_, names)| !names.is_empty());
        let metadata: Map<_, _> =
            removed.map(|(field, names)| (field.to_owned(), Value::Object(names))).collect();
        if metadata.is_empty() {
            return None;
        }
        let patch = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
        Some(Self { uid: live.uid().to_owned(), patch })
    }
}

/// Returns the part of a merge patch that removes labels or annotations that are not in `desired`.
fn removal<'a>(field: &str, names: impl Iterator<Item = &'a str>, desired: &Object) -> Map<String, Value> {
    let removed = names.filter(|name| desired.at(&["metadata", field, name]).is_none());
    removed.map(|name| (name.to_owned(), Value::Null)).collect()
}
