//! Compares the health table with `kubectl rollout status` and kstatus, on every combination of small statuses as
//! controllers write them, and its rules with the CEL of OCM's agents.
//!
//! `tests/kstatus/build` builds a program around the three. If the table calls an object healthy, kubectl and
//! kstatus must consider it done. If it does not, one of them must not consider it done either, unless
//! [`stricter`] gives a reason.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use api::work::v1::ManifestWorkSpec;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::health::ObjectHealth;
use engine::replica_set::{DesiredWork, SuccessNeeds, WorkRecord};
use object::Object;
use serde_json::{Map, Value, json};

use crate::kube::built;

/// Number of differences to print.
const SHOWN: usize = 5;

#[test]
fn nothing_is_healthy_that_kubectl_or_kstatus_waits_for() {
    let objects: Vec<Value> =
        [deployments(), stateful_sets(), daemon_sets(), replica_sets(), jobs(), pods(), others()].concat();
    let (mut wrong, mut healthy, mut failed) = (Vec::new(), 0, 0);
    for (object, Answer { kubectl, kstatus, rules }) in objects.iter().zip(oracles(&objects)) {
        let health = ObjectHealth::of(&Object::from_value(object.clone()).unwrap());
        let is = |condition: &str| rules[condition] == true;
        let by_rules = match (is("Progressing"), is("Degraded")) {
            (false, false) => health == ObjectHealth::Current,
            (true, is_degraded) => {
                matches!(health, ObjectHealth::Failed(_)) == is_degraded && health != ObjectHealth::Current
            }
            (false, true) => false,
        };
        assert!(by_rules, "an agent judges {object} as {rules}, the hub as {health:?}");
        let waits = !["", "Done"].contains(&&*kubectl) || kstatus != "Current";
        let is_right = match &health {
            ObjectHealth::Current => !waits || scales_down(object) && kubectl == "Done",
            ObjectHealth::InProgress(_) | ObjectHealth::RollingOut(_) => {
                kubectl != "Failed" && (waits || stricter(object).is_some())
            }
            ObjectHealth::Failed(_) => {
                kubectl == "Failed"
                    || kstatus == "Failed"
                    || kubectl.is_empty() && (waits || stricter(object).is_some())
            }
        };
        healthy += usize::from(health == ObjectHealth::Current);
        failed += usize::from(matches!(health, ObjectHealth::Failed(_)));
        if !is_right {
            wrong.push(format!("{object}\nkubectl {kubectl:?}, kstatus {kstatus}, the table {health:?}"));
        }
    }
    let first: Vec<&str> = wrong.iter().take(SHOWN).map(String::as_str).collect();
    assert!(first.is_empty(), "{} of {} differ\n{}", wrong.len(), objects.len(), first.join("\n\n"));
    assert!(healthy > 50 && failed > 50, "{healthy} healthy and {failed} failed of {}", objects.len());
}

/// The examples are recorded from the controller (`crates/sim/tests/it/argo_health.rs`).
#[test]
fn kstatus_distinguishes_a_failed_set_from_one_in_progress() {
    let examples = "examples/argocd/resource_customizations/work.open-cluster-management.io/ManifestWorkReplicaSet/testdata";
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join(examples);
    let expected = [
        ("complete", "Current"),
        ("rolling", "InProgress"),
        ("paused", "InProgress"),
        ("failed", "Failed"),
        ("rolled_back", "Failed"),
        ("failed_everywhere", "Failed"),
    ];
    let sets = expected.map(|(name, _)| -> Value {
        let text = std::fs::read_to_string(examples.join(format!("{name}.json"))).unwrap();
        serde_json::from_str(&text).unwrap()
    });
    let answers = oracles(&sets);
    let found = expected.iter().zip(&answers).map(|((name, _), answer)| (*name, answer.kstatus.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// Returns the reason why the table waits for an object that both oracles consider done.
fn stricter(object: &Value) -> Option<&'static str> {
    let is_on_delete = object["spec"]["updateStrategy"]["type"] == "OnDelete";
    match object["kind"].as_str().unwrap() {
        "StatefulSet" if is_on_delete => Some("kubectl does not judge it, and kstatus calls it done at once"),
        "ReplicaSet" if object["status"]["observedGeneration"].is_null() => {
            Some("kstatus compares generations only where there are two")
        }
        "Job" => Some("kstatus is content with a Job that has started"),
        "Pod" => Some("a Pod that has failed is done for kstatus"),
        "APIService" => Some("neither knows the kind"),
        _ => None,
    }
}

/// Returns true if a workload has surplus pods of the newest version, for which kstatus waits. An autoscaler may
/// have requested them.
fn scales_down(object: &Value) -> bool {
    object["status"]["replicas"].as_i64() > object["spec"]["replicas"].as_i64()
}

/// The verdicts of the three on an object.
struct Answer {
    kubectl: String,
    kstatus: String,
    /// The results of the rules by condition.
    rules: Value,
}

/// Returns the rule expressions that a work gets for an object, by condition.
fn rules(object: &Value) -> Value {
    let spec: ManifestWorkSpec =
        serde_json::from_value(json!({"workload": {"manifests": [object]}})).unwrap();
    let set: ManifestWorkReplicaSet = serde_json::from_value(
        json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"placementRefs": [], "manifestWorkTemplate": {"workload": {}}}}),
    )
    .unwrap();
    let record = WorkRecord::default();
    let needs = SuccessNeeds::Healthy;
    let wanted = DesiredWork { set: &set, owner: "n.s", placement: "p", spec: &spec, record: &record, needs };
    let configs = wanted.work("c", None).spec.manifest_configs;
    let all = configs.iter().flat_map(|config| &config.condition_rules);
    all.map(|rule| (rule.condition.clone(), json!(rule.cel_expressions[0]))).collect::<Map<_, _>>().into()
}

/// Returns the verdicts on each object.
fn oracles(objects: &[Value]) -> Vec<Answer> {
    let mut child = Command::new(built("tests/kstatus/build"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = child.stdin.take().unwrap();
    let question = |object: &Value| format!("{}\n", json!({"object": object, "rules": rules(object)}));
    let text: String = objects.iter().map(question).collect();
    let writer = std::thread::spawn(move || questions.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let answer = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        let [kubectl, kstatus] = ["kubectl", "kstatus"].map(|name| answer[name].as_str().unwrap().to_owned());
        Answer { kubectl, kstatus, rules: answer["rules"].clone() }
    };
    let answers: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(answer).collect();
    assert_eq!(answers.len(), objects.len());
    answers
}

/// Returns an object of generation 2.
fn object(kind: &str, spec: Value, status: Value) -> Value {
    let (version, kind) = kind.rsplit_once('/').unwrap();
    let metadata = json!({"name": "a", "namespace": "n", "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z"});
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    if !status.is_null() {
        object["status"] = status;
    }
    object
}

/// Returns the combinations of `observedGeneration` and the wanted, current, updated and available replicas.
fn counts() -> Vec<(Value, [i64; 4])> {
    let mut all = Vec::new();
    for observed in [Value::Null, json!(1), json!(2)] {
        for wanted in [0, 1, 3] {
            for replicas in 0..=4 {
                for updated in 0..=replicas {
                    for available in 0..=replicas {
                        all.push((observed.clone(), [wanted, replicas, updated, available]));
                    }
                }
            }
        }
    }
    all
}

fn condition(type_: &str, status: bool, reason: &str) -> Value {
    let status = if status { "True" } else { "False" };
    json!({"type": type_, "status": status, "reason": reason, "message": "words"})
}

fn deployments() -> Vec<Value> {
    let of = |(observed, [wanted, replicas, updated, available]): (Value, [i64; 4])| {
        let is_complete = [replicas, updated, available] == [wanted; 3];
        let moving = if is_complete { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
        let mut all = Vec::new();
        for (exceeded, paused) in [(false, false), (true, false), (false, true)] {
            if exceeded && is_complete {
                continue;
            }
            let progressing = match exceeded {
                true => condition("Progressing", false, "ProgressDeadlineExceeded"),
                false => condition("Progressing", true, moving),
            };
            let spec = json!({"replicas": wanted, "paused": paused, "progressDeadlineSeconds": 600});
            let status = json!({"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated,
                "readyReplicas": available, "availableReplicas": available,
                "conditions": [condition("Available", available >= wanted, "Because"), progressing]});
            all.push(object("apps/v1/Deployment", spec, without_null(status)));
        }
        all
    };
    let none = object("apps/v1/Deployment", json!({"replicas": 1}), Value::Null);
    counts().into_iter().flat_map(of).chain([none]).collect()
}

/// Controllers omit what they have not seen.
fn without_null(mut status: Value) -> Value {
    status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    status
}

fn stateful_sets() -> Vec<Value> {
    let of = |(observed, [wanted, replicas, updated, available]): (Value, [i64; 4])| {
        // The API server sets the partition.
        let rolling =
            |partition: i64| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        [rolling(0), rolling(2), json!({"type": "OnDelete"})].map(|strategy| {
            let spec = json!({"replicas": wanted, "updateStrategy": strategy});
            let status = json!({"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated,
                "readyReplicas": available, "availableReplicas": available, "currentReplicas": replicas - updated,
                "currentRevision": "a", "updateRevision": "b"});
            object("apps/v1/StatefulSet", spec, without_null(status))
        })
    };
    let none = object("apps/v1/StatefulSet", json!({"replicas": 1}), Value::Null);
    counts().into_iter().flat_map(of).chain([none]).collect()
}

fn daemon_sets() -> Vec<Value> {
    let of = |(observed, [wanted, replicas, updated, available]): (Value, [i64; 4])| {
        ["RollingUpdate", "OnDelete"].map(|strategy| {
            let status = json!({"observedGeneration": observed, "desiredNumberScheduled": wanted,
                "currentNumberScheduled": replicas, "updatedNumberScheduled": updated,
                "numberReady": available, "numberAvailable": available});
            let spec = json!({"updateStrategy": {"type": strategy}});
            object("apps/v1/DaemonSet", spec, without_null(status))
        })
    };
    // A node has one pod.
    let all = counts().into_iter().filter(|(_, [wanted, replicas, ..])| replicas <= wanted);
    // With OnDelete, kubectl does not judge, and kstatus waits for new pods that nobody creates.
    let judged = all.flat_map(of).filter(|one| one["spec"]["updateStrategy"]["type"] == "RollingUpdate");
    judged.chain([object("apps/v1/DaemonSet", json!({}), Value::Null)]).collect()
}

fn replica_sets() -> Vec<Value> {
    let of = |(observed, [wanted, replicas, _, available]): (Value, [i64; 4])| {
        let status = json!({"observedGeneration": observed, "replicas": replicas, "fullyLabeledReplicas": replicas,
            "readyReplicas": available, "availableReplicas": available});
        object("apps/v1/ReplicaSet", json!({"replicas": wanted}), without_null(status))
    };
    counts().into_iter().map(of).collect()
}

fn jobs() -> Vec<Value> {
    let started = json!({"startTime": "2026-01-01T00:00:00Z", "active": 1});
    let ended = |type_: &str| json!({"startTime": "2026-01-01T00:00:00Z", "conditions": [condition(type_, true, "Because")]});
    let all = [Value::Null, started, ended("Complete"), ended("Failed"), ended("Suspended")];
    all.map(|status| object("batch/v1/Job", json!({}), status)).to_vec()
}

fn pods() -> Vec<Value> {
    let mut all = vec![object("v1/Pod", json!({}), Value::Null)];
    for phase in ["Pending", "Running", "Succeeded", "Failed"] {
        // Only a running Pod is ready.
        for ready in [phase == "Running", false] {
            let status = json!({"phase": phase, "conditions": [condition("Ready", ready, "Because")]});
            all.push(object("v1/Pod", json!({}), status));
        }
    }
    all
}

fn others() -> Vec<Value> {
    let mut all = Vec::new();
    for status in
        [Value::Null, json!({"phase": "Pending"}), json!({"phase": "Bound"}), json!({"phase": "Lost"})]
    {
        all.push(object("v1/PersistentVolumeClaim", json!({}), status));
    }
    let conditions = |all: &[(&str, bool)]| -> Value {
        let all: Vec<Value> = all.iter().map(|(type_, is)| condition(type_, *is, "Because")).collect();
        json!({"conditions": all})
    };
    let definition = "apiextensions.k8s.io/v1/CustomResourceDefinition";
    for status in [
        Value::Null,
        conditions(&[("NamesAccepted", true), ("Established", true)]),
        conditions(&[("NamesAccepted", true), ("Established", false)]),
        conditions(&[("NamesAccepted", false), ("Established", false)]),
    ] {
        all.push(object(definition, json!({}), status));
    }
    for is in [true, false] {
        all.push(object("apiregistration.k8s.io/v1/APIService", json!({}), conditions(&[("Available", is)])));
    }
    let types = ["Ready", "Stalled", "Reconciling", "Other"];
    for observed in [Value::Null, json!(1), json!(2)] {
        // Each type is absent, True or False.
        for mut states in 0..3_usize.pow(4) {
            let mut found = Vec::new();
            for type_ in types {
                match states % 3 {
                    0 => {}
                    state => found.push((type_, state == 1)),
                }
                states /= 3;
            }
            let mut status = conditions(&found);
            status["observedGeneration"] = observed.clone();
            all.push(object("x.io/v1/Widget", json!({}), without_null(status)));
        }
    }
    for kind in ["v1/ConfigMap", "v1/Service", "batch/v1/CronJob", "policy/v1/PodDisruptionBudget"] {
        all.push(object(kind, json!({}), Value::Null));
    }
    all
}
