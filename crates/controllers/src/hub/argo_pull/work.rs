//! The work of an Application, in the form of `argocd-pull-integration`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use api::argoproj::v1alpha1::Application;
use api::condition::{Condition, Conditions as _};
use api::names::argo::{
    APPLICATION_REFRESH_ANNOTATION, APPLICATION_UID_LABEL, ARGO_GROUP, HUB_APPLICATION_NAME_ANNOTATION,
    HUB_APPLICATION_NAMESPACE_ANNOTATION, PULL_DESTINATION_NAME_ANNOTATION,
    PULL_DESTINATION_SERVER_ANNOTATION, PULL_FINALIZER, PULL_LABEL, PULL_NAMESPACE_ANNOTATION, PULL_PREFIX,
    SKIP_RECONCILE_ANNOTATION, TRACKING_ID_ANNOTATION,
};
use api::names::work_conditions::APPLIED;
use api::names::{
    APPLIED_DIGEST_ANNOTATION, CONFIG_REPO_ANNOTATION, LAST_APPLIED_ANNOTATION, WORK_AGENT_MANAGER,
};
use api::work::v1::{
    FeedbackRule, FeedbackType, IgnoreField, IgnoreFieldsCondition, JsonPath, ManifestConfigOption,
    ManifestWork, ResourceIdentifier, ServerSideApplyConfig, UpdateStrategy, UpdateStrategyType,
};
use api::{Manifest, Unknown};
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Site};

/// The values that an agent reports about an Application, and where it finds them.
const FEEDBACK: [(&str, &str); 5] = [
    (HEALTH, ".status.health.status"),
    (SYNC, ".status.sync.status"),
    (STARTED_AT, ".status.operationState.startedAt"),
    (PHASE, ".status.operationState.phase"),
    (REVISION, ".status.sync.revision"),
];

/// Feedback: the health.
pub(super) const HEALTH: &str = "healthStatus";
/// Feedback: whether the cluster has what the repository says.
pub(super) const SYNC: &str = "syncStatus";
/// Feedback: when the last operation started.
pub(super) const STARTED_AT: &str = "operationStateStartedAt";
/// Feedback: what became of it.
pub(super) const PHASE: &str = "operationStatePhase";
/// Feedback: the revision that was compared.
pub(super) const REVISION: &str = "syncRevision";

/// The destination that an Argo CD calls its own cluster.
const OWN_CLUSTER: &str = "https://kubernetes.default.svc";

/// Annotations for tools of the hub alone.
const OF_THE_HUB: [&str; 6] = [
    SKIP_RECONCILE_ANNOTATION,
    APPLICATION_REFRESH_ANNOTATION,
    TRACKING_ID_ANNOTATION,
    LAST_APPLIED_ANNOTATION,
    CONFIG_REPO_ANNOTATION,
    APPLIED_DIGEST_ANNOTATION,
];

/// The label by which an Argo CD finds the objects of an application. That of the cluster would take the
/// Application for an object of its own, and prune it.
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// The beginning of labels that the Argo CD of the hub sets.
const ARGO_LABEL_PREFIX: &str = "argocd.argoproj.io/";

/// Returns the name of the works of an Application. Of its uid it has five characters, so an Application that
/// is made again does not get the old work.
pub(super) fn name(application: &Application) -> String {
    name_with(application, application.uid())
}

fn name_with(application: &Application, uid: &str) -> String {
    format!("{}-{}", application.name(), uid.get(..5).unwrap_or_default())
}

/// Returns the Application that a work names.
pub(super) fn application_of(work: &ManifestWork) -> Option<Key> {
    work.label(PULL_LABEL)?;
    let namespace = work.annotation(HUB_APPLICATION_NAMESPACE_ANNOTATION)?;
    Some(Key::namespaced(namespace, work.annotation(HUB_APPLICATION_NAME_ANNOTATION)?))
}

/// Returns whether a work is of an Application. A label alone is no proof, because people copy objects with
/// their labels.
pub(super) fn is_of(work: &ManifestWork, application: &Application) -> bool {
    let is_other = work.label(APPLICATION_UID_LABEL).is_some_and(|uid| uid != application.uid());
    !is_other && work.name() == name(application) && application_of(work) == Some(Key::of(application))
}

/// Returns whether a work is of another Application with this namespace and name, which was there before.
pub(super) fn is_of_former(work: &ManifestWork, application: &Application) -> bool {
    let uid = work.label(APPLICATION_UID_LABEL).filter(|uid| *uid != application.uid());
    uid.is_some_and(|uid| work.name() == name_with(application, uid))
        && application_of(work) == Some(Key::of(application))
}

/// Returns the write that makes the work of an Application as wanted; `None` if it is so.
pub(super) fn write(application: &Application, cluster: &str, live: Option<&ManifestWork>) -> Option<Action> {
    let wanted = wanted(application, cluster, live);
    let Some(live) = live else { return Some(Action::create(Object::from_typed(&wanted))) };
    (Object::from_typed(live) != Object::from_typed(&wanted)).then(|| replace(&wanted))
}

/// Returns the write of a whole work. An API server removes the nulls from the lists of a merge patch
/// ([json-patch](https://github.com/evanphx/json-patch/blob/v4.12.0/merge.go)), and a null in the values of
/// Helm removes a default.
pub(super) fn replace(work: &ManifestWork) -> Action {
    Action::Replace { site: Site::Hub, object: Object::from_typed(work) }
}

/// Returns the work of an Application. It keeps what other clients wrote to the live work.
fn wanted(application: &Application, cluster: &str, live: Option<&ManifestWork>) -> ManifestWork {
    let mut work = live.cloned().unwrap_or_default();
    let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    work.metadata.namespace = Some(cluster.to_owned());
    work.metadata.name = Some(name(application));
    let labels = [(PULL_LABEL, "true"), (APPLICATION_UID_LABEL, application.uid())];
    work.metadata.labels.get_or_insert_default().extend(labels.map(text));
    let annotations = [
        (HUB_APPLICATION_NAMESPACE_ANNOTATION, application.namespace()),
        (HUB_APPLICATION_NAME_ANNOTATION, application.name()),
    ];
    work.metadata.annotations.get_or_insert_default().extend(annotations.map(text));
    work.spec.workload.manifests = vec![payload(application, live)];
    work.spec.manifest_configs = vec![config(application)];
    work
}

/// Returns the namespace of an Application on its cluster.
pub(super) fn namespace(application: &Application) -> &str {
    application.annotation(PULL_NAMESPACE_ANNOTATION).unwrap_or(application.namespace())
}

fn is_label_of_the_hub(name: &str) -> bool {
    name == INSTANCE_LABEL || name.starts_with(ARGO_LABEL_PREFIX)
}

/// Returns the Application as its cluster gets it.
fn payload(application: &Application, live: Option<&ManifestWork>) -> Manifest {
    let kept = |values: Option<&BTreeMap<String, String>>, is_of_the_hub: fn(&str) -> bool| {
        let values = values.into_iter().flatten().filter(|(name, _)| !name.starts_with(PULL_PREFIX));
        let values = values.filter(|(name, _)| !is_of_the_hub(name));
        Value::from_iter(values.map(|(name, value)| (name.clone(), value.clone())))
    };
    let metadata = &application.metadata;
    let finalizers = metadata.finalizers.iter().flatten().filter(|name| *name != PULL_FINALIZER);
    let fields = [
        ("name", json!(application.name())),
        ("namespace", json!(namespace(application))),
        ("labels", kept(metadata.labels.as_ref(), is_label_of_the_hub)),
        ("annotations", kept(metadata.annotations.as_ref(), |name| OF_THE_HUB.contains(&name))),
        ("finalizers", finalizers.map(String::as_str).collect()),
    ];
    let is_given = |value: &Value| *value != json!({}) && *value != json!([]);
    let fields = fields.into_iter().filter(|(_, value)| is_given(value));
    let mut payload = Manifest::from_iter([
        ("apiVersion".to_owned(), json!(format!("{ARGO_GROUP}/v1alpha1"))),
        ("kind".to_owned(), json!("Application")),
        ("metadata".to_owned(), fields.map(|(name, value)| (name.to_owned(), value)).collect()),
        ("spec".to_owned(), spec(application)),
    ]);
    let operation = operation(application).or_else(|| pending(live?, &payload));
    if let Some(operation) = operation {
        payload.insert("operation".into(), operation);
    }
    payload
}

/// Returns the spec with the destination that the Argo CD of the cluster knows.
fn spec(application: &Application) -> Value {
    let mut spec = application.field("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let server = application.annotation(PULL_DESTINATION_SERVER_ANNOTATION);
    let (field, value) = match application.annotation(PULL_DESTINATION_NAME_ANNOTATION) {
        Some(name) if server.is_none() => ("name", name),
        Some(_) | None => ("server", server.unwrap_or(OWN_CLUSTER)),
    };
    let mut destination = Map::from_iter([(field.to_owned(), json!(value))]);
    if let Some(namespace) = spec.get("destination").and_then(|destination| destination.get("namespace")) {
        destination.insert("namespace".into(), namespace.clone());
    }
    spec.insert("destination".into(), Value::Object(destination));
    Value::Object(spec)
}

/// Returns the operation that a person or an ApplicationSet asks for, with the version of the Application
/// that has it. Without the version, the same operation twice would be the same content, which an agent
/// applies once.
fn operation(application: &Application) -> Option<Value> {
    let mut operation = application.field("operation")?.as_object()?.clone();
    let version = json!({"name": "hub-version", "value": application.metadata.resource_version});
    if let Value::Array(info) = operation.entry("info").or_insert_with(|| json!([])) {
        info.push(version);
    }
    Some(Value::Object(operation))
}

/// Returns the operation of a live work that the next content keeps: until the agent has applied it, and
/// while nothing else changes. An agent would start a finished operation again with other content.
fn pending(live: &ManifestWork, next: &Manifest) -> Option<Value> {
    let mut rest = live.spec.workload.manifests.first()?.clone();
    let operation = rest.remove("operation")?;
    (rest == *next || !is_applied(live)).then_some(operation)
}

/// Returns whether the agent has applied a work as it is.
pub(super) fn is_applied(work: &ManifestWork) -> bool {
    observed(work, APPLIED).is_some_and(Condition::is_true)
}

/// Returns a condition that the agent has reported of a work as it is.
pub(super) fn observed<'a>(work: &'a ManifestWork, type_: &str) -> Option<&'a Condition> {
    work.condition(type_).filter(|condition| condition.observed_generation == work.metadata.generation)
}

/// Returns how the agent applies the Application, and what it reports of it. The status and a finished
/// operation are those of the Argo CD of the cluster.
fn config(application: &Application) -> ManifestConfigOption {
    let path =
        |(name, path): (&str, &str)| JsonPath { name: name.into(), path: path.into(), ..JsonPath::default() };
    let ignored = IgnoreField {
        condition: IgnoreFieldsCondition::OnSpokeChange,
        json_paths: vec![".operation".into()],
        ..IgnoreField::default()
    };
    let server_side_apply = ServerSideApplyConfig {
        force: true,
        field_manager: WORK_AGENT_MANAGER.into(),
        ignore_fields: vec![ignored],
        unknown: Unknown::new(),
    };
    ManifestConfigOption {
        resource_identifier: ResourceIdentifier {
            group: ARGO_GROUP.into(),
            resource: "applications".into(),
            name: application.name().into(),
            namespace: namespace(application).into(),
            unknown: Unknown::new(),
        },
        feedback_rules: vec![FeedbackRule {
            r#type: FeedbackType::JsonPaths,
            json_paths: FEEDBACK.map(path).into(),
            unknown: Unknown::new(),
        }],
        update_strategy: Some(UpdateStrategy {
            r#type: UpdateStrategyType::ServerSideApply,
            server_side_apply: Some(server_side_apply),
            unknown: Unknown::new(),
        }),
        ..ManifestConfigOption::default()
    }
}
