//! The work for an Application, in the format of `argocd-pull-integration`.

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

/// The values that an agent reports about an Application, with their paths.
const FEEDBACK: [(&str, &str); 5] = [
    (HEALTH, ".status.health.status"),
    (SYNC, ".status.sync.status"),
    (STARTED_AT, ".status.operationState.startedAt"),
    (PHASE, ".status.operationState.phase"),
    (REVISION, ".status.sync.revision"),
];

/// Feedback: the health.
pub(super) const HEALTH: &str = "healthStatus";
/// Feedback: the sync status of the cluster with the repository.
pub(super) const SYNC: &str = "syncStatus";
/// Feedback: the start time of the last operation.
pub(super) const STARTED_AT: &str = "operationStateStartedAt";
/// Feedback: the phase of the last operation.
pub(super) const PHASE: &str = "operationStatePhase";
/// Feedback: the compared revision.
pub(super) const REVISION: &str = "syncRevision";

/// The destination by which Argo CD refers to its own cluster.
const OWN_CLUSTER: &str = "https://kubernetes.default.svc";

/// Annotations that only matter to tools on the hub.
const OF_THE_HUB: [&str; 6] = [
    SKIP_RECONCILE_ANNOTATION,
    APPLICATION_REFRESH_ANNOTATION,
    TRACKING_ID_ANNOTATION,
    LAST_APPLIED_ANNOTATION,
    CONFIG_REPO_ANNOTATION,
    APPLIED_DIGEST_ANNOTATION,
];

/// The label by which Argo CD identifies the objects of an application. With the hub's label, Argo CD on the
/// cluster would treat the Application as its own object and prune it.
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// Prefix of the labels that Argo CD on the hub sets.
const ARGO_LABEL_PREFIX: &str = "argocd.argoproj.io/";

/// Returns the name of the works of an Application. It contains five characters of the uid, so that a recreated
/// Application does not get the old work.
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

/// Returns true if a work belongs to an Application. A label alone is not enough, because people copy objects with
/// their labels.
pub(super) fn is_of(work: &ManifestWork, application: &Application) -> bool {
    let is_other = work.label(APPLICATION_UID_LABEL).is_some_and(|uid| uid != application.uid());
    !is_other && work.name() == name(application) && application_of(work) == Some(Key::of(application))
}

/// Returns true if a work belongs to an earlier Application with this namespace and name.
pub(super) fn is_of_former(work: &ManifestWork, application: &Application) -> bool {
    let uid = work.label(APPLICATION_UID_LABEL).filter(|uid| *uid != application.uid());
    uid.is_some_and(|uid| work.name() == name_with(application, uid))
        && application_of(work) == Some(Key::of(application))
}

/// Returns the write that brings the work of an Application to its desired state; `None` if it is up to date.
pub(super) fn write(application: &Application, cluster: &str, live: Option<&ManifestWork>) -> Option<Action> {
    let wanted = wanted(application, cluster, live);
    let Some(live) = live else { return Some(Action::create(Object::from_typed(&wanted))) };
    (Object::from_typed(live) != Object::from_typed(&wanted)).then(|| replace(&wanted))
}

/// Returns the write that replaces a whole work. A merge patch does not work: API servers remove the nulls from
/// its lists ([json-patch](https://github.com/evanphx/json-patch/blob/v4.12.0/merge.go)), and a null in Helm
/// values removes a default.
pub(super) fn replace(work: &ManifestWork) -> Action {
    Action::Replace { site: Site::Hub, object: Object::from_typed(work) }
}

/// Returns the desired work of an Application. It keeps what other clients wrote to the live work.
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

/// Returns the Application for its cluster.
fn payload(application: &Application, live: Option<&ManifestWork>) -> Manifest {
    let for_the_cluster = |values: Option<&BTreeMap<String, String>>, is_of_the_hub: fn(&str) -> bool| {
        let values = values.into_iter().flatten().filter(|(name, _)| !name.starts_with(PULL_PREFIX));
        let values = values.filter(|(name, _)| !is_of_the_hub(name));
        Value::from_iter(values.map(|(name, value)| (name.clone(), value.clone())))
    };
    let metadata = &application.metadata;
    let finalizers = metadata.finalizers.iter().flatten().filter(|name| *name != PULL_FINALIZER);
    let fields = [
        ("name", json!(application.name())),
        ("namespace", json!(namespace(application))),
        ("labels", for_the_cluster(metadata.labels.as_ref(), is_label_of_the_hub)),
        ("annotations", for_the_cluster(metadata.annotations.as_ref(), |name| OF_THE_HUB.contains(&name))),
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

/// Returns the spec with the destination as Argo CD on the cluster knows it.
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

/// Returns the operation that a person or an ApplicationSet requests, with the resource version of the
/// Application. Without the version, repeating an operation would give the same content, which an agent applies
/// only once.
fn operation(application: &Application) -> Option<Value> {
    let mut operation = application.field("operation")?.as_object()?.clone();
    let version = json!({"name": "hub-version", "value": application.metadata.resource_version});
    if let Value::Array(info) = operation.entry("info").or_insert_with(|| json!([])) {
        info.push(version);
    }
    Some(Value::Object(operation))
}

/// Returns the operation of a live work that the next content keeps: until the agent has applied it, and while
/// nothing else changes. With other content, an agent would start a finished operation again.
fn pending(live: &ManifestWork, next: &Manifest) -> Option<Value> {
    let mut rest = live.spec.workload.manifests.first()?.clone();
    let operation = rest.remove("operation")?;
    (rest == *next || !is_applied(live)).then_some(operation)
}

/// Returns true if the agent has applied the current generation of a work.
pub(super) fn is_applied(work: &ManifestWork) -> bool {
    observed(work, APPLIED).is_some_and(Condition::is_true)
}

/// Returns a condition that the agent has reported for the current generation of a work.
pub(super) fn observed<'a>(work: &'a ManifestWork, type_: &str) -> Option<&'a Condition> {
    work.condition(type_).filter(|condition| condition.observed_generation == work.metadata.generation)
}

/// Returns how the agent applies the Application and which values it reports. Argo CD on the cluster owns the
/// status and a finished operation.
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
