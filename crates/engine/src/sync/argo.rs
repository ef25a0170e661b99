//! Objects that Argo CD applies.
//!
//! Argo CD tracks objects by an annotation, by an annotation and a label, or by a label alone
//! ([resource tracking](https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/)). Charts and
//! people write the same label, so a label alone counts only where Argo CD has written the object.

use serde_json::{Map, Value, json};

use api::names;
use api::names::argo::{HOOK_ANNOTATION, SYNC_OPTIONS_ANNOTATION, TRACKING_ID_ANNOTATION};
use object::Object;
use object::fields::fields_v1;

/// The annotation beside the tracking id that distinguishes several Argo CDs of one cluster.
const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
/// The labels that name the application: the default, and the one that Argo CD's documentation recommends for
/// `application.instanceLabelKey`.
const INSTANCE_LABELS: [&str; 2] = ["argocd.argoproj.io/instance", "app.kubernetes.io/instance"];
/// Most bytes of the value of a label. Argo CD cuts the name of an application there.
const MAX_LABEL: usize = 63;
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

/// Returns the point of a sync at which Argo CD applies an object; `None` if it is not a hook.
pub(super) fn hook(object: &Object) -> Option<&str> {
    object.annotations().get(HOOK_ANNOTATION).copied().filter(|hook| !hook.is_empty())
}

/// Returns whether an object has an option of Argo CD's sync.
pub(super) fn has_sync_option(object: &Object, name: &str, value: &str) -> bool {
    let annotations = object.annotations();
    let options = annotations.get(SYNC_OPTIONS_ANNOTATION).copied().unwrap_or_default();
    options
        .split(',')
        .filter_map(|option| option.trim().split_once('='))
        .any(|option| option == (name, value))
}

/// Returns the Argo CD application that tracks an object, as the commands of Argo CD name it; `None` if no application does.
pub fn argo_application(live: &Object) -> Option<String> {
    application(live).map(|(app, _)| command_name(app))
}

/// Returns the name of an application for the commands of Argo CD. Outside of Argo CD's namespace it is NAMESPACE/NAME, and
/// NAMESPACE_NAME in marks of objects.
pub(super) fn command_name(app: &str) -> String {
    app.replacen('_', "/", 1)
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
    /// Returns the write that ends the tracking of a live object, except by what `desired` has itself. Otherwise an
    /// application that is created later would prune the object, perhaps after a change of the tracking mode: with
    /// `annotation+label`, both name the application.
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

/// Returns the part of a merge patch that removes labels or annotations that `desired` does not have.
fn removal<'a>(field: &str, names: impl Iterator<Item = &'a str>, desired: &Object) -> Map<String, Value> {
    let removed = names.filter(|name| desired.at(&["metadata", field, name]).is_none());
    removed.map(|name| (name.to_owned(), Value::Null)).collect()
}
