//! The health checks of each kind. They follow `kubectl rollout status` and [kstatus]. If the two differ, the
//! stricter one applies; `tests/kstatus/` compares them.
//!
//! [kstatus]: https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus

use std::sync::LazyLock;

use kube_cel::cel::Value as CelValue;
use serde_json::Value;

use crate::placement::filter::cel::Expressions;
use crate::plural::counted;
use api::names::{GITOPS_GROUP, WORK_GROUP, WORKLOAD_HEALTH_ANNOTATION};
use object::Object;

/// The API groups of Kubernetes. Their objects have no health unless the table contains them.
const BUILT_IN: [&str; 18] = [
    "",
    "admissionregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The state of an object for which a check is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    InProgress,
    /// In progress for as long as its own deadlines allow.
    RollingOut,
    Failed,
}

/// A check for a kind.
struct Check {
    meaning: Meaning,
    /// An expression over `object`. It may read fields that exist only if all earlier checks are false.
    when: String,
    words: fn(&Object) -> String,
}

/// The checks of a kind, in order. The first true check determines the state. If none is true, the object is
/// healthy.
pub(crate) struct Row {
    checks: Vec<Check>,
    compiled: Expressions,
}

impl Row {
    fn new(checks: impl IntoIterator<Item = Check>) -> Self {
        let checks: Vec<Check> = checks.into_iter().collect();
        let sources: Vec<String> = checks.iter().map(|check| check.when.clone()).collect();
        let compiled = Expressions::compile(&sources, &["object"]).expect("every row of the table compiles");
        Self { checks, compiled }
    }

    /// Returns the meaning and message of the first true check; `None` if the object is healthy.
    ///
    /// # Errors
    /// Returns the evaluation error, for example for a status with unexpected types.
    pub(super) fn judge(&self, object: &Object) -> Result<Option<(Meaning, String)>, String> {
        let part = |name: &'static str| Some((name, cel::value(object.0.get(name)?)));
        let generation =
            object.at(&["metadata", "generation"]).map(|value| ("generation", cel::value(value)));
        let metadata: CelValue = cel::map(generation);
        // The spec of a definition has a large schema, which no check reads.
        let spec =
            part("spec").filter(|_| self.checks.iter().any(|check| check.when.contains("object.spec")));
        let parts = [Some(("metadata", metadata)), spec, part("status")].into_iter().flatten();
        let first = self.compiled.first("object", cel::map(parts))?;
        let check = first.and_then(|index| self.checks.get(index));
        Ok(check.map(|check| (check.meaning, (check.words)(object))))
    }

    /// Returns an expression that is true while the object is unhealthy.
    pub(crate) fn not_healthy(&self) -> String {
        let all: Vec<&str> = self.checks.iter().map(|check| check.when.as_str()).collect();
        format!("({})", all.join(") || ("))
    }

    /// Returns an expression that is true if the object has failed; `None` if its kind cannot fail.
    pub(crate) fn failed(&self) -> Option<String> {
        let mut before = String::new();
        let mut all = Vec::new();
        for check in &self.checks {
            if check.meaning == Meaning::Failed {
                all.push(format!("({before}({}))", check.when));
            }
            before.push_str(&format!("!({}) && ", check.when));
        }
        (!all.is_empty()).then(|| all.join(" || "))
    }
}

/// Returns the row for an object; `None` if the object is healthy as soon as it exists.
///
/// The annotation `gitops.wheelwright.dev/workload-health` can override the checks: `ignore` for any object, and
/// `started` for a Job that is not expected to end.
pub(crate) fn row(object: &Object) -> Option<&'static Row> {
    static TABLE: LazyLock<Table> = LazyLock::new(Table::new);
    let table = &*TABLE;
    let gvk = object.gvk();
    let asked = object.at(&["metadata", "annotations", WORKLOAD_HEALTH_ANNOTATION]).and_then(Value::as_str);
    Some(match (gvk.group.as_str(), gvk.kind.as_str()) {
        _ if asked == Some("ignore") => return None,
        ("apps", "Deployment") => &table.deployment,
        ("apps", "StatefulSet") => &table.stateful_set,
        ("apps", "DaemonSet") => &table.daemon_set,
        ("apps", "ReplicaSet") | ("", "ReplicationController") => &table.replica_set,
        ("batch", "Job") if asked == Some("started") => &table.endless_job,
        ("batch", "Job") => &table.job,
        ("", "Pod") => &table.pod,
        ("", "PersistentVolumeClaim") => &table.claim,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &table.definition,
        ("apiregistration.k8s.io", "APIService") => &table.api_service,
        (WORK_GROUP, "ManifestWorkReplicaSet") => &table.work_set,
        (group, _) if BUILT_IN.contains(&group) => return None,
        _ => &table.custom,
    })
}

struct Table {
    deployment: Row,
    stateful_set: Row,
    daemon_set: Row,
    replica_set: Row,
    job: Row,
    endless_job: Row,
    pod: Row,
    claim: Row,
    definition: Row,
    api_service: Row,
    /// A ManifestWorkReplicaSet. Its status has no `observedGeneration`, only its conditions have one.
    work_set: Row,
    /// Every kind outside Kubernetes.
    custom: Row,
}

/// The number of replicas in the spec.
const REPLICAS: &str = "(has(object.spec.replicas) ? object.spec.replicas : 1)";
/// With the strategy OnDelete, people delete the old pods.
const ON_DELETE: &str = "has(object.spec.updateStrategy) && has(object.spec.updateStrategy.type) && \
    object.spec.updateStrategy.type == 'OnDelete'";
const PARTITION: &str = "(has(object.spec.updateStrategy) && has(object.spec.updateStrategy.rollingUpdate) && \
    has(object.spec.updateStrategy.rollingUpdate.partition) ? \
    object.spec.updateStrategy.rollingUpdate.partition : 0)";

impl Table {
    #[expect(clippy::too_many_lines, reason = "the rows of the table are read side by side")]
    fn new() -> Self {
        let (updated, available) = (count("updatedReplicas"), count("availableReplicas"));
        let replicas = count("replicas");
        let not_updated = || {
            let words = |o: &Object| of("updatedReplicas", wanted_replicas(o), "replicas are updated", o);
            in_progress(format!("{updated} < {REPLICAS}"), words)
        };
        let not_available = || {
            let words = |o: &Object| of("availableReplicas", wanted_replicas(o), "replicas are available", o);
            in_progress(format!("{available} < {REPLICAS}"), words)
        };
        let exceeded = "c.type == 'Progressing' && has(c.reason) && c.reason == 'ProgressDeadlineExceeded'";
        let deployment = Row::new([
            not_observed(),
            failed(has_condition(exceeded), |o| condition_words(o, "Progressing")),
            not_updated(),
            in_progress(format!("{replicas} > {updated}"), |o| {
                let old = number(o, "replicas") - number(o, "updatedReplicas");
                format!("{} left", counted(old, "old replica"))
            }),
            in_progress(format!("{available} < {updated}"), |o| {
                of("availableReplicas", number(o, "updatedReplicas"), "replicas are available", o)
            }),
        ]);
        let stateful_set = Row::new([
            not_observed(),
            not_available(),
            in_progress(format!("!({ON_DELETE}) && {updated} < {REPLICAS} - {PARTITION}"), |o| {
                let partition = o.at(&["spec", "updateStrategy", "rollingUpdate", "partition"]);
                let wanted = wanted_replicas(o) - partition.and_then(Value::as_i64).unwrap_or_default();
                of("updatedReplicas", wanted, "replicas are updated", o)
            }),
        ]);
        let nodes = count("desiredNumberScheduled");
        let on_nodes = |field: &str| format!("{} < {nodes}", count(field));
        let daemon_set = Row::new([
            not_observed(),
            in_progress(format!("!({ON_DELETE}) && {}", on_nodes("updatedNumberScheduled")), |o| {
                let wanted = number(o, "desiredNumberScheduled");
                of("updatedNumberScheduled", wanted, "pods are updated", o)
            }),
            in_progress(on_nodes("numberAvailable"), |o| {
                of("numberAvailable", number(o, "desiredNumberScheduled"), "pods are available", o)
            }),
        ]);
        // Existing pods do not change with the template.
        let replica_set = Row::new([
            not_observed(),
            not_available(),
            in_progress(format!("{replicas} > {REPLICAS}"), |o| {
                let more = number(o, "replicas") - wanted_replicas(o);
                format!("{} too many", counted(more, "replica"))
            }),
        ]);
        let job_failed = || failed(has_condition(&is("Failed", "True")), |o| condition_words(o, "Failed"));
        let job =
            Row::new([job_failed(), needs("Complete", |o| not_yet(o, "Complete", "it is not complete yet"))]);
        let endless_job = Row::new([
            job_failed(),
            in_progress("!(has(object.status) && has(object.status.startTime))".into(), |_| {
                "it has not started yet".into()
            }),
        ]);
        let in_phase = |phase: &str| {
            format!("has(object.status) && has(object.status.phase) && object.status.phase == '{phase}'")
        };
        let is_ready = has_condition(&is("Ready", "True"));
        let pod = Row::new([
            failed(in_phase("Failed"), |_| "it has failed".into()),
            in_progress(format!("!({is_ready}) && !({})", in_phase("Succeeded")), |o| match phase(o) {
                "Running" => not_yet(o, "Ready", "it is not Ready yet"),
                phase => format!("it is {phase}"),
            }),
        ]);
        let claim =
            Row::new([in_progress(format!("!({})", in_phase("Bound")), |o| format!("it is {}", phase(o)))]);
        let definition = Row::new([
            failed(has_condition(&is("NamesAccepted", "False")), |o| condition_words(o, "NamesAccepted")),
            needs("Established", |o| not_yet(o, "Established", "it is not Established yet")),
        ]);
        let api_service =
            Row::new([needs("Available", |o| not_yet(o, "Available", "it is not Available yet"))]);
        let stale = "has(object.status) && has(object.status.observedGeneration) && \
            object.status.observedGeneration != object.metadata.generation";
        let seen = "c.type == 'PlacementRolledOut' && (!has(c.observedGeneration) || \
            c.observedGeneration == object.metadata.generation)";
        let work_set = Row::new([
            in_progress(format!("!({})", has_condition(seen)), not_seen),
            stalled(),
            Check {
                when: format!(
                    "{} && {}",
                    has_condition(&is("PlacementVerified", "False")),
                    has_condition(&is("Reconciling", "True"))
                ),
                ..reconciling()
            },
            Check { meaning: Meaning::RollingOut, ..reconciling() },
        ]);
        let custom = Row::new([
            in_progress(stale.into(), not_seen),
            stalled(),
            reconciling(),
            in_progress(has_condition("c.type == 'Ready' && c.status != 'True'"), |o| {
                condition_words(o, "Ready")
            }),
        ]);
        Self {
            deployment,
            stateful_set,
            daemon_set,
            replica_set,
            job,
            endless_job,
            pod,
            claim,
            definition,
            api_service,
            work_set,
            custom,
        }
    }
}

fn in_progress(when: String, words: fn(&Object) -> String) -> Check {
    Check { meaning: Meaning::InProgress, when, words }
}

fn failed(when: String, words: fn(&Object) -> String) -> Check {
    Check { meaning: Meaning::Failed, when, words }
}

/// In progress until the controller of a workload has seen the latest generation.
fn not_observed() -> Check {
    let observed = "has(object.status) && has(object.status.observedGeneration) && \
        object.status.observedGeneration >= object.metadata.generation";
    in_progress(format!("!({observed})"), not_seen)
}

/// Failed while the condition `Stalled` of kstatus is true.
fn stalled() -> Check {
    failed(has_condition(&is("Stalled", "True")), |o| condition_words(o, "Stalled"))
}

/// In progress while the condition `Reconciling` of kstatus is true.
fn reconciling() -> Check {
    in_progress(has_condition(&is("Reconciling", "True")), |o| condition_words(o, "Reconciling"))
}

/// In progress until a condition is true.
fn needs(type_: &str, words: fn(&Object) -> String) -> Check {
    in_progress(format!("!({})", has_condition(&is(type_, "True"))), words)
}

/// Returns an expression for a number in the status, which controllers omit if it is 0.
fn count(field: &str) -> String {
    format!("(has(object.status.{field}) ? object.status.{field} : 0)")
}

fn is(type_: &str, status: &str) -> String {
    format!("c.type == '{type_}' && c.status == '{status}'")
}

fn has_condition(test: &str) -> String {
    format!(
        "has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, {test})"
    )
}

fn number(object: &Object, field: &str) -> i64 {
    object.at(&["status", field]).and_then(Value::as_i64).unwrap_or_default()
}

fn wanted_replicas(object: &Object) -> i64 {
    object.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}

fn phase(object: &Object) -> &str {
    object.at(&["status", "phase"]).and_then(Value::as_str).unwrap_or("Pending")
}

fn of(field: &str, wanted: i64, words: &str, object: &Object) -> String {
    format!("{} of {wanted} {words}", number(object, field))
}

fn not_seen(object: &Object) -> String {
    let generation = object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    format!("its controller has not observed generation {generation} yet")
}

/// Returns the message of a condition, or else its reason or type. For a ConfigRepo, returns the reason, because
/// the messages of two ConfigRepos could contain each other endlessly.
fn condition_words(object: &Object, type_: &str) -> String {
    let text = |name: &str| {
        let condition = object.condition(type_);
        condition.and_then(|condition| condition.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    let message = if object.gvk().group == GITOPS_GROUP { "" } else { text("message") };
    let words = [message, text("reason"), type_].into_iter().find(|words| !words.is_empty());
    words.unwrap_or_default().to_owned()
}

/// Returns the reason that a condition is not true, or `default` if there is no such condition.
fn not_yet(object: &Object, type_: &str, default: &str) -> String {
    if object.condition(type_).is_some() { condition_words(object, type_) } else { default.to_owned() }
}
