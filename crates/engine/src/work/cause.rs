//! Finds the object that causes a condition of a work, and its error.

use api::Condition;
use api::condition::{Conditions as _, find_condition};
use api::names::work_conditions::{APPLIED, AVAILABLE, DEGRADED, PODS_READY};
use api::names::work_reasons;
use api::work::v1::ManifestWork;
use object::text::plain;

/// The maximum number of characters of an error that a cluster reports.
const TROUBLE: usize = 1_000;

/// Returns the first object of a work, by kind and name, whose condition of the given type is `bad`, with that
/// condition.
pub(crate) fn culprit<'a>(
    work: &'a ManifestWork,
    type_: &str,
    bad: impl Fn(&Condition) -> bool,
) -> Option<(String, &'a Condition)> {
    let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
    let mut conditions = manifests.filter_map(|m| Some((m, find_condition(&m.conditions, type_)?)));
    let (m, condition) = conditions.find(|(_, condition)| bad(condition))?;
    Some((format!("{} {}", m.resource_meta.kind, m.resource_meta.name), condition))
}

/// Returns the first object that the API server of the cluster rejects, with the message. Such an object cannot
/// be applied without a change. `None` if all failures may be temporary.
pub(crate) fn rejection(work: &ManifestWork) -> Option<String> {
    let is_current = |condition: &Condition| condition.observed_generation == work.metadata.generation;
    let rejected = culprit(work, APPLIED, |condition| is_current(condition) && is_rejection(condition));
    rejected.map(|(object, condition)| format!("{object}: {}", condition.message))
}

/// Returns true if a manifest was rejected. Agents of OCM and earlier versions of Wheelwright use one reason for
/// all failures, so this checks for known messages of API servers.
fn is_rejection(applied: &Condition) -> bool {
    const REJECTS: [&str; 4] =
        [" is invalid: ", " is forbidden: ", " denied the request", " cannot be handled as a "];
    const PASSES: &str = "because it is being terminated";
    let message = applied.message.as_str();
    applied.is_false()
        && match applied.reason.as_str() {
            work_reasons::REJECTED | work_reasons::IGNORED_FIELDS => true,
            work_reasons::FAILED => {
                REJECTS.iter().any(|words| message.contains(words)) && !message.contains(PASSES)
            }
            _ => false,
        }
}

/// Returns the message of a work's condition, taken from the first object that causes it, if it has one. If pods
/// are in trouble, the reason of the first one comes first.
pub(crate) fn cause(work: &ManifestWork, condition: &Condition) -> String {
    let message = match culprit(work, &condition.type_, |other| other.status == condition.status) {
        Some((object, of)) if !of.message.is_empty() => format!("{object}: {}", of.message),
        _ => condition.message.clone(),
    };
    // While an object is missing, its pods are not the cause.
    let pods = pod_trouble(work).filter(|_| ![APPLIED, AVAILABLE].contains(&condition.type_.as_str()));
    match pods {
        Some(pods) => format!("{pods} ({message})"),
        None => message,
    }
}

/// Returns the reason from the pods of the first workload of a work whose pods are in trouble.
pub fn pod_trouble(work: &ManifestWork) -> Option<String> {
    let is_current = |condition: &Condition| {
        condition.is_false() && condition.observed_generation == work.metadata.generation
    };
    let (object, condition) = culprit(work, PODS_READY, is_current)?;
    Some(plain(&format!("{object}: {}: {}", condition.reason, condition.message), TROUBLE))
}

/// Returns the error of a work's current generation, as the cluster reports it: a rejected object, a failed
/// workload, or pods in trouble. `None` while the work is only progressing, or if its failures may be temporary.
pub fn trouble(work: &ManifestWork) -> Option<String> {
    let degraded = current(work, DEGRADED).filter(|degraded| degraded.is_true());
    let failed = || Some(plain(&cause(work, degraded?), TROUBLE));
    rejection(work).map(|reason| plain(&reason, TROUBLE)).or_else(failed).or_else(|| pod_trouble(work))
}

/// Returns any error of a work's current generation, including errors that may be temporary, and objects that
/// another work changes too.
pub fn error(work: &ManifestWork) -> Option<String> {
    let applied = current(work, APPLIED).filter(|applied| applied.is_false());
    let is_contested = |condition: &Condition| {
        condition.reason == work_reasons::CONTESTED
            && condition.observed_generation == work.metadata.generation
    };
    let contested = || {
        let (object, condition) = culprit(work, APPLIED, is_contested)?;
        Some(plain(&format!("{object}: {}", condition.message), TROUBLE))
    };
    trouble(work).or_else(|| Some(plain(&cause(work, applied?), TROUBLE))).or_else(contested)
}

fn current<'a>(work: &'a ManifestWork, type_: &str) -> Option<&'a Condition> {
    work.condition(type_).filter(|condition| condition.observed_generation == work.metadata.generation)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejected_objects_and_temporary_failures_are_distinguished() {
        let rejected = |reason: &str, message: &str, generation: i64| {
            let condition = json!({"type": "Applied", "status": "False", "reason": reason, "message": message,
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let manifest =
                json!({"resourceMeta": {"ordinal": 0, "kind": "A", "name": "a"}, "conditions": [condition]});
            let work = json!({"metadata": {"generation": 2}, "spec": {},
                "status": {"resourceStatus": {"manifests": [manifest]}}});
            rejection(&serde_json::from_value(work).unwrap())
        };
        assert_eq!(rejected("AppliedManifestRejected", "no", 2).as_deref(), Some("A a: no"));
        assert_eq!(rejected("AppliedManifestRejected", "no", 1), None, "the manifest before");
        assert!(rejected("AppliedManifestSSAIgnoreFieldError", "no path", 2).is_some());
        let by_words = |message: &str| rejected("AppliedManifestFailed", message, 2).is_some();
        // Messages of API servers, as reported by OCM's agent.
        let failed = "Failed to apply manifest: ";
        for (message, want) in [
            ("Service \"a\" is invalid: spec.ports: Required value", true),
            ("pods \"a\" is forbidden: exceeded quota: q", true),
            ("admission webhook \"w\" denied the request: no", true),
            ("Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error", true),
            ("no matches for kind \"A\" in version \"x/v1\"", false),
            ("namespaces \"n\" not found", false),
            ("Operation cannot be fulfilled on services \"a\": the object has been modified", false),
            ("Internal error occurred: failed calling webhook \"w\": connection refused", false),
            ("the server is currently unable to handle the request", false),
            (
                "services \"a\" is forbidden: unable to create new content in namespace n because it is being terminated",
                false,
            ),
            ("not allowed to apply the resource configmaps, default a, will try again in 1m0s", false),
        ] {
            assert_eq!(by_words(&format!("{failed}{message}")), want, "{message}");
        }
    }
}
