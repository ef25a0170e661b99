use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use api::pod::PodFacts;

fn deployment() -> Object {
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "n", "uid": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    Object::from_value(live).unwrap()
}

/// Returns a pod of the Deployment `web` with one container.
fn pod(name: &str, revision: &str, status: Value) -> Value {
    let owner =
        json!({"kind": "ReplicaSet", "name": format!("web-{revision}"), "uid": "r", "controller": true});
    let metadata = json!({"name": name, "uid": name, "creationTimestamp": format!("2026-01-0{revision}T00:00:00Z"),
        "labels": {"pod-template-hash": revision}, "ownerReferences": [owner]});
    json!({"metadata": metadata, "status": status})
}

fn container(state: Value, more: Value) -> Value {
    let mut status =
        json!({"name": "app", "image": "web:1", "ready": false, "restartCount": 0, "state": state});
    status.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    json!({"containerStatuses": [status]})
}

fn said(pods: &[Value]) -> String {
    let facts: Vec<PodFacts> = pods.iter().map(PodFacts::read).collect();
    match answer(&deployment(), &facts) {
        PodsAnswer::Trouble(trouble) => format!("{}: {}", trouble.reason, trouble.message("")),
        PodsAnswer::AskPod { name, is_running, .. } => format!("ask {name} {is_running}"),
        PodsAnswer::AskWorkload => "ask the workload".into(),
    }
}

#[test]
fn each_state_of_a_pod_has_its_reason() {
    let waits = |reason: &str, message: &str| {
        container(json!({"waiting": {"reason": reason, "message": message}}), json!({}))
    };
    let ended = |reason: &str, code: i64| json!({"terminated": {"reason": reason, "exitCode": code}});
    let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]});
    let restarted = json!({"restartCount": 4, "lastState": ended("Error", 3)});
    let running = json!({"running": {}});
    for (status, want) in [
        (
            waits("ErrImagePull", "not found"),
            "ErrImagePull: pod p: cannot pull image web:1 of container app: not found",
        ),
        (
            waits("ImagePullBackOff", "Back-off pulling image \"web:1\": ErrImagePull: not found"),
            "ErrImagePull: pod p: cannot pull image web:1 of container app: not found",
        ),
        (
            waits("ImagePullBackOff", "Back-off pulling image \"web:1\""),
            "ErrImagePull: pod p: cannot pull image web:1 of container app",
        ),
        (
            waits("CreateContainerConfigError", "secret \"s\" not found"),
            "CreateContainerConfigError: pod p: container app cannot start: secret \"s\" not found",
        ),
        (
            container(running.clone(), restarted),
            "CrashLoopBackOff: pod p: container app keeps crashing with exit code 3",
        ),
        (container(ended("Error", 3), json!({})), "Error: pod p: container app has ended with exit code 3"),
        (
            container(ended("OOMKilled", 137), json!({})),
            "OOMKilled: pod p: container app was killed because it used more memory than its limit",
        ),
        (unschedulable, "Unschedulable: pod p: 0/1 nodes are available: 1 Insufficient cpu."),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            "Evicted: pod p: it has failed: low on memory",
        ),
        (container(running, json!({})), "ask p true"),
        (waits("ContainerCreating", ""), "ask p false"),
        (json!({"phase": "Running"}), "ask the workload"),
    ] {
        assert_eq!(said(&[pod("p", "1", status)]), want);
    }
}

#[test]
fn the_newest_revision_counts_before_an_older_one_and_pods_of_others_do_not_count() {
    let crash = || container(json!({"terminated": {"reason": "Error", "exitCode": 1}}), json!({}));
    let waits = || container(json!({"waiting": {"reason": "ErrImagePull"}}), json!({}));
    let both = [pod("old", "1", crash()), pod("new", "2", waits())];
    assert!(said(&both).starts_with("ErrImagePull: pod new"), "{}", said(&both));
    let mut stranger = pod("stranger", "3", crash());
    stranger["metadata"]["ownerReferences"][0]["name"] = "other-3".into();
    assert_eq!(said(&[stranger]), "ask the workload");
}

#[test]
fn a_changed_detail_alone_is_not_a_change_but_a_changed_exit_code_is() {
    let trouble = |detail: &str| PodTrouble::new("ErrImagePull", "pod p: cannot pull image i".into(), detail);
    let first = trouble("port 1").message("");
    assert_eq!(first, "pod p: cannot pull image i: port 1");
    assert_eq!(trouble("port 2").message(&first), first);
    assert_eq!(trouble("").message(&first), first);
    assert_eq!(trouble("port 2").message("pod p: cannot pull image i"), "pod p: cannot pull image i: port 2");
    let crash = |code: u8| PodTrouble::new("CrashLoopBackOff", format!("exit code {code}"), "");
    assert_eq!(crash(3).message(&crash(37).message("")), "exit code 3");
}

#[test]
fn warnings_say_why_probes_fail_and_why_pods_cannot_be_created() {
    let warning = |reason: &str, message: &str| Warning { reason: reason.into(), message: message.into() };
    let probes = [
        warning("Unhealthy", "Liveness probe failed: no"),
        warning("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
        warning("FailedMount", "secret \"s\" not found"),
    ];
    let said = |trouble: Option<PodTrouble>| trouble.map(|it| format!("{}: {}", it.reason, it.message("")));
    assert_eq!(
        said(of_pod_warnings("p", true, &probes)).unwrap(),
        "Unhealthy: pod p: Readiness probe failed: HTTP probe failed with statuscode: 503"
    );
    assert_eq!(
        said(of_pod_warnings("p", false, &probes)).unwrap(),
        "FailedMount: pod p: it does not start: secret \"s\" not found"
    );
    assert_eq!(said(of_pod_warnings("p", true, &[])), None);
    let quota = warning("FailedCreate", "Error creating: pods \"web-x\" is forbidden: exceeded quota: q");
    assert_eq!(
        said(of_workload_warnings(&[quota])).unwrap(),
        "FailedCreate: cannot create pods: exceeded quota: q"
    );
}

#[test]
fn a_reason_that_no_condition_can_have_and_control_characters_are_replaced() {
    let trouble = PodTrouble::new("<script>", "pod p\u{1b}[2J\nx".into(), &"y".repeat(9_000));
    assert_eq!(trouble.reason, "PodNotReady");
    let message = trouble.message("");
    assert!(message.starts_with("pod p[2J x: y") && message.chars().count() <= MESSAGE, "{message}");
}

#[test]
fn the_condition_ends_with_the_problem_and_with_the_generation() {
    use crate::work::Pods;
    use crate::work::status::report_pods;
    let (mut conditions, now) = (Vec::new(), Timestamp::UNIX_EPOCH);
    let trouble = || Pods::Trouble(PodTrouble::new("ErrImagePull", "what".into(), "why"));
    report_pods(&mut conditions, &trouble(), 1, now);
    let reported = conditions.clone();
    assert_eq!(
        (reported.len(), reported[0].reason.as_str(), reported[0].observed_generation),
        (1, "ErrImagePull", Some(1))
    );
    report_pods(&mut conditions, &Pods::Unread, 1, now);
    report_pods(&mut conditions, &trouble(), 1, now);
    assert_eq!(conditions, reported);
    report_pods(&mut conditions, &Pods::Unread, 2, now);
    assert!(conditions.is_empty(), "it was about another generation");
    report_pods(&mut conditions, &trouble(), 2, now);
    report_pods(&mut conditions, &Pods::Fine, 2, now);
    assert!(conditions.is_empty());
}
