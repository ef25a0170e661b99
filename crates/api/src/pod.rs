//! Facts of pods and events that explain why a workload does not run.
//!
//! An agent polls the pods of an unhealthy workload and keeps only these facts. They omit volatile fields, such as
//! restart counts and back-off times, so that two reads of the same problem are equal.

use serde_json::Value;

/// Maximum length of a text, in characters.
const MAX_TEXT: usize = 1_000;
/// Maximum number of containers of a pod, including init containers.
const MAX_CONTAINERS: usize = 32;
/// Labels by which controllers identify the revision of a pod.
const REVISIONS: [&str; 3] = ["pod-template-hash", "controller-revision-hash", "controller-uid"];

/// The facts of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// Creation time, as written in the API.
    pub created: String,
    /// Revision of the workload that created the pod, or empty if no label names it.
    pub revision: String,
    /// Kind, name and UID of the controller.
    pub owner: Option<[String; 3]>,
    /// True if the pod is being deleted.
    pub is_terminating: bool,
    /// True if the phase of the pod is `Failed`.
    pub is_failed: bool,
    /// Reason for the failure of the pod, such as `Evicted`, or empty.
    pub reason: String,
    /// Message that explains the reason.
    pub message: String,
    /// Message of the scheduler if no node fits the pod.
    pub unschedulable: Option<String>,
    /// Containers of the pod, with init containers first.
    pub containers: Vec<ContainerFacts>,
}

/// The facts of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Name of the container.
    pub name: String,
    /// Image in the status of the container.
    pub image: String,
    /// State of the container.
    pub state: ContainerState,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Ready, completed successfully, or a running init container.
    Fine,
    /// Not started.
    Waiting {
        /// The reason, such as `ErrImagePull`.
        reason: String,
        /// Message of the kubelet.
        message: String,
    },
    /// Failed, or restarted after each exit.
    Ended {
        /// The reason, such as `OOMKilled`.
        reason: String,
        /// Exit code, if the kubelet knows it.
        code: Option<i64>,
        /// True if the container was restarted.
        again: bool,
    },
    /// Running, but not ready.
    NotReady,
}

/// A warning event about a pod or a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Reason, such as `FailedMount`.
    pub reason: String,
    /// Message of the event.
    pub message: String,
}

impl PodFacts {
    /// Reads the facts of a pod.
    pub fn read(pod: &Value) -> Self {
        let metadata = |name: &str| text(pod.pointer(&format!("/metadata/{name}")));
        let labels = pod.pointer("/metadata/labels");
        let revision = REVISIONS.iter().find_map(|label| labels?.get(label)?.as_str());
        let mut owners = list(pod.pointer("/metadata/ownerReferences"));
        let controller = owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let status = pod.get("status").unwrap_or(&Value::Null);
        let mut conditions = list(status.get("conditions"));
        let is_unscheduled = |one: &&Value| {
            text(one.get("type")) == "PodScheduled" && text(one.get("reason")) == "Unschedulable"
        };
        let containers = ["initContainerStatuses", "containerStatuses"].into_iter().flat_map(|field| {
            let is_init = field == "initContainerStatuses";
            list(status.get(field)).map(move |status| ContainerFacts::read(status, is_init))
        });
        Self {
            name: metadata("name"),
            uid: metadata("uid"),
            created: metadata("creationTimestamp"),
            revision: revision.unwrap_or_default().to_owned(),
            owner: controller.map(|owner| ["kind", "name", "uid"].map(|field| text(owner.get(field)))),
            is_terminating: pod.pointer("/metadata/deletionTimestamp").is_some(),
            is_failed: text(status.get("phase")) == "Failed",
            reason: text(status.get("reason")),
            message: text(status.get("message")),
            unschedulable: conditions.find(is_unscheduled).map(|one| text(one.get("message"))),
            containers: containers.take(MAX_CONTAINERS).collect(),
        }
    }
}

impl ContainerFacts {
    fn read(status: &Value, is_init: bool) -> Self {
        let part = |path: &str| status.pointer(path).filter(|part| !part.is_null());
        let is_restarted = status.get("restartCount").and_then(Value::as_i64).unwrap_or_default() > 0;
        let ended = |terminated: Option<&Value>| ContainerState::Ended {
            reason: text(terminated.and_then(|it| it.get("reason"))),
            code: terminated.and_then(|it| it.get("exitCode")).and_then(Value::as_i64),
            again: is_restarted,
        };
        let has_failed = |terminated: &Value| terminated.get("exitCode").and_then(Value::as_i64) != Some(0);
        let last = part("/lastState/terminated");
        let state = if let Some(waiting) = part("/state/waiting") {
            match text(waiting.get("reason")).as_str() {
                "CrashLoopBackOff" => ended(last),
                reason => {
                    let message = text(waiting.get("message"));
                    ContainerState::Waiting { reason: reason.to_owned(), message }
                }
            }
        } else if let Some(terminated) = part("/state/terminated").filter(|ended| has_failed(ended)) {
            ended(Some(terminated))
        } else if part("/state/running").is_some() && status.get("ready") != Some(&Value::Bool(true)) {
            match last.filter(|last| is_restarted && has_failed(last)) {
                Some(last) => ended(Some(last)),
                None if is_init => ContainerState::Fine,
                None => ContainerState::NotReady,
            }
        } else {
            ContainerState::Fine
        };
        Self { name: text(status.get("name")), image: text(status.get("image")), state }
    }
}

impl Warning {
    /// Returns the warnings among the events, newest first.
    pub fn list<'a>(events: impl Iterator<Item = &'a Value>) -> Vec<Self> {
        let time = |event: &Value| {
            let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
            times.map(|path| text(event.pointer(path))).into_iter().max().unwrap_or_default()
        };
        let mut events: Vec<(String, Self)> = events
            .filter(|event| text(event.get("type")) == "Warning")
            .map(|event| {
                let (reason, message) = (text(event.get("reason")), text(event.get("message")));
                (time(event), Self { reason, message })
            })
            .collect();
        events.sort_by(|a, b| b.0.cmp(&a.0));
        events.into_iter().map(|(_, warning)| warning).collect()
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Returns a text, cut to [`MAX_TEXT`].
fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(status: Value) -> ContainerState {
        ContainerFacts::read(&status, false).state
    }

    #[test]
    fn a_crash_loop_is_one_state_in_every_phase_of_the_kubelet() {
        let last = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        let loops = ContainerState::Ended { reason: "Error".into(), code: Some(3), again: true };
        for (restarts, now) in [
            (1, json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}})),
            (2, json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}})),
            (2, json!({"running": {}})),
            (9, json!({"terminated": {"exitCode": 3, "reason": "Error"}})),
        ] {
            let status = json!({"ready": false, "restartCount": restarts, "state": now, "lastState": last});
            assert_eq!(state(status), loops);
        }
    }

    #[test]
    fn a_running_or_completed_container_has_no_problem() {
        for status in [
            json!({"ready": true, "state": {"running": {}}}),
            json!({"ready": false, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}),
            json!({}),
        ] {
            assert_eq!(state(status), ContainerState::Fine);
        }
        assert_eq!(state(json!({"ready": false, "state": {"running": {}}})), ContainerState::NotReady);
        let init = ContainerFacts::read(&json!({"ready": false, "state": {"running": {}}}), true);
        assert_eq!(init.state, ContainerState::Fine, "it is its turn");
    }

    #[test]
    fn the_newest_warning_comes_first_and_other_events_do_not_count() {
        let event = |type_: &str, reason: &str, time: &str| json!({"type": type_, "reason": reason, "message": "m", "lastTimestamp": time});
        let events = [
            event("Warning", "Old", "2026-01-01T00:00:00Z"),
            event("Normal", "Pulled", "2026-01-01T00:00:09Z"),
            event("Warning", "New", "2026-01-01T00:00:05Z"),
        ];
        let warnings = Warning::list(events.iter());
        assert_eq!(warnings.iter().map(|one| one.reason.as_str()).collect::<Vec<_>>(), ["New", "Old"]);
    }

    #[test]
    fn texts_are_bounded() {
        let pod = json!({"metadata": {"name": "x".repeat(5_000)}});
        assert_eq!(PodFacts::read(&pod).name.len(), MAX_TEXT);
    }
}
