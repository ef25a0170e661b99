//! The reason that a workload is unhealthy, from its pods and their events.
//!
//! The agent reads pods only while a workload is unhealthy, and events only if the pods do not explain enough.
//! The reason becomes the condition `PodsReady` of the manifest. OCM's hub ignores it, and OCM's agent does not
//! set it. See docs/design/works-pods.md.

use serde_json::Value;

use api::pod::{ContainerFacts, ContainerState, PodFacts, Warning};
use object::Object;
use object::text::plain;

/// The maximum number of characters in a message.
const MESSAGE: usize = 600;
/// The maximum number of characters in a selector that is requested.
const SELECTOR: usize = 1_000;
/// The reasons for which a kubelet cannot get an image. It alternates between the first two.
const IMAGE: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// The reason that a workload is unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTrouble {
    /// A one-word reason, such as `CrashLoopBackOff`.
    pub(super) reason: String,
    /// The problem and its place.
    what: String,
    /// The message of the component that knows the cause. It may vary between attempts, for example in the port
    /// numbers of network errors, so a different detail alone is not a change.
    detail: String,
}

/// The information that pods give about their workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodsAnswer {
    /// The reason is known.
    Trouble(PodTrouble),
    /// The warnings about a pod must be read.
    AskPod {
        /// The name of the pod.
        name: String,
        /// The uid of the pod.
        uid: String,
        /// True if only warnings about its probes are relevant; false if only others are.
        is_running: bool,
    },
    /// No pod is in trouble. The warnings about the workload say why there are too few pods.
    AskWorkload,
}

impl PodTrouble {
    fn new(reason: &str, what: String, detail: &str) -> Self {
        let is_word = reason.starts_with(|c: char| c.is_ascii_alphabetic())
            && reason.chars().all(|c| c.is_ascii_alphanumeric())
            && reason.len() <= 100;
        let reason = if is_word { reason } else { "PodNotReady" };
        Self { reason: reason.to_owned(), what: plain(&what, MESSAGE), detail: plain(detail, MESSAGE) }
    }

    /// Returns the message, given the previously reported one.
    pub(super) fn message(&self, before: &str) -> String {
        let Self { reason: _, what, detail } = self;
        if before.strip_prefix(what).is_some_and(|rest| rest.starts_with(": ")) {
            return before.to_owned();
        }
        match detail.as_str() {
            "" => what.clone(),
            detail => plain(&format!("{what}: {detail}"), MESSAGE),
        }
    }
}

/// Returns the selector for the pods of a workload; `None` for other kinds.
pub fn selector(live: &Object) -> Option<String> {
    let gvk = live.gvk();
    if !matches!(
        (gvk.group.as_str(), gvk.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job")
    ) {
        return None;
    }
    let labels = live.at(&["spec", "selector", "matchLabels"])?.as_object()?;
    let labels = labels.iter().filter_map(|(label, value)| Some(format!("{label}={}", value.as_str()?)));
    let selector = labels.collect::<Vec<_>>().join(",");
    (!selector.is_empty() && selector.len() <= SELECTOR).then_some(selector)
}

/// Returns the reason in the status of a workload or pod, if it is known without reading pods.
pub fn own(live: &Object) -> Option<PodTrouble> {
    if live.gvk().kind == "Pod" {
        let pod = PodFacts::read(&Value::Object(live.0.clone()));
        return rank(&pod).and_then(|(_, answer)| match answer {
            PodsAnswer::Trouble(trouble) => Some(trouble),
            PodsAnswer::AskPod { .. } | PodsAnswer::AskWorkload => None,
        });
    }
    let failure = live.condition("ReplicaFailure")?;
    let text = |field: &str| failure.get(field).and_then(Value::as_str).unwrap_or_default();
    let (status, reason) = (text("status"), text("reason"));
    (status == "True").then(|| cannot_create(reason, text("message")))
}

/// Returns the reason that a controller cannot create pods. The name of the pod differs in each attempt.
fn cannot_create(reason: &str, message: &str) -> PodTrouble {
    let detail = message.split_once(" is forbidden: ").map_or(message, |(_, detail)| detail);
    PodTrouble::new(reason, format!("cannot create pods: {detail}"), "")
}

/// Returns the information from the pods of a workload. Ignores pods of other owners, regardless of their
/// labels.
pub fn answer(live: &Object, pods: &[PodFacts]) -> PodsAnswer {
    let mut pods: Vec<&PodFacts> =
        pods.iter().filter(|pod| !pod.is_terminating && is_of(pod, live)).collect();
    // Newest revision first, because pods of older revisions may have had other trouble.
    pods.sort_by(|a, b| b.created.cmp(&a.created).then(a.name.cmp(&b.name)));
    let newest = pods.first().map(|pod| pod.revision.clone()).unwrap_or_default();
    let ranked = pods.into_iter().filter_map(|pod| {
        let (rank, answer) = rank(pod)?;
        Some(((pod.revision != newest, rank, pod.name.clone()), answer))
    });
    ranked.min_by(|(a, _), (b, _)| a.cmp(b)).map_or(PodsAnswer::AskWorkload, |(_, answer)| answer)
}

/// Returns true if a pod belongs to a workload's controller. A Deployment creates ReplicaSets that are named
/// after it and the hash of their pods.
fn is_of(pod: &PodFacts, live: &Object) -> bool {
    let Some([kind, name, uid]) = &pod.owner else { return false };
    match live.kind() {
        "Deployment" => kind == "ReplicaSet" && *name == format!("{}-{}", live.name(), pod.revision),
        own => kind == own && uid == live.uid(),
    }
}

/// Returns the information from a pod, and its rank, the most certain first; `None` if there is none.
fn rank(pod: &PodFacts) -> Option<(u8, PodsAnswer)> {
    let PodFacts { name, uid, .. } = pod;
    let trouble = |rank, reason: &str, what: String, detail: &str| {
        let what = format!("pod {name}: {what}");
        Some((rank, PodsAnswer::Trouble(PodTrouble::new(reason, what, detail))))
    };
    if pod.is_failed && !pod.reason.is_empty() {
        return trouble(3, &pod.reason, "it has failed".into(), &pod.message);
    }
    if let Some(message) = &pod.unschedulable {
        let what = if message.is_empty() { "no node can run it" } else { message };
        return trouble(5, "Unschedulable", what.to_owned(), "");
    }
    let asks = |rank, is_running| {
        Some((rank, PodsAnswer::AskPod { name: name.clone(), uid: uid.clone(), is_running }))
    };
    let containers = pod.containers.iter().filter_map(|ContainerFacts { name, image, state }| match state {
        ContainerState::Fine => None,
        ContainerState::NotReady => asks(7, true),
        ContainerState::Ended { reason, code, again } => {
            let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            if reason == "OOMKilled" {
                let what = format!("container {name} was killed because it used more memory than its limit");
                return trouble(0, "OOMKilled", what, "");
            }
            match again {
                true => trouble(1, "CrashLoopBackOff", format!("container {name} keeps crashing{code}"), ""),
                false => trouble(2, "Error", format!("container {name} has ended{code}"), ""),
            }
        }
        ContainerState::Waiting { reason, message } if IMAGE.contains(&reason.as_str()) => {
            let reason = if reason == "ImagePullBackOff" { "ErrImagePull" } else { reason };
            let detail = message.split_once("ErrImagePull: ").map_or(message.as_str(), |(_, detail)| detail);
            let detail = if detail.starts_with("Back-off pulling image") { "" } else { detail };
            trouble(3, reason, format!("cannot pull image {image} of container {name}"), detail)
        }
        ContainerState::Waiting { reason, message: _ }
            if matches!(reason.as_str(), "" | "ContainerCreating" | "PodInitializing") =>
        {
            asks(8, false)
        }
        ContainerState::Waiting { reason, message } => {
            trouble(4, reason, format!("container {name} cannot start"), message)
        }
    });
    containers.min_by_key(|(rank, _)| *rank)
}

/// Returns the reason in the warnings about a pod.
pub fn of_pod_warnings(name: &str, is_running: bool, warnings: &[Warning]) -> Option<PodTrouble> {
    let mut counted = warnings.iter().filter(|warning| (warning.reason == "Unhealthy") == is_running);
    // A container that is not ready has failed its readiness or startup probe. A liveness probe may fail as
    // well.
    let is_of_readiness = |warning: &&Warning| !warning.message.starts_with("Liveness");
    let mut all = counted.clone();
    let Warning { reason, message } = all.find(is_of_readiness).or_else(|| counted.next())?;
    let (what, detail) = match message.split_once(": ") {
        Some((what, detail)) if is_running => (what, detail),
        _ => ("", message.as_str()),
    };
    let what = if what.is_empty() { "it does not start" } else { what };
    let what = format!("pod {name}: {what}");
    Some(PodTrouble::new(reason, what, detail))
}

/// Returns the reason in the warnings about a workload: its controller cannot create pods.
pub fn of_workload_warnings(warnings: &[Warning]) -> Option<PodTrouble> {
    let Warning { reason, message } = warnings.iter().find(|warning| warning.reason.starts_with("Failed"))?;
    Some(cannot_create(reason, message))
}

#[cfg(test)]
#[path = "tests/pods.rs"]
mod tests;
