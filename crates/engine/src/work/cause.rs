//! The object that a condition of a work is about.

use api::Condition;
use api::condition::find_condition;
use api::work::v1::ManifestWork;

/// Returns the first object of a work whose condition of a type is `bad`, by kind and name, with this condition.
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

/// Returns the message of a condition of a work: that of the first object which is the cause, if it has one.
pub(crate) fn cause(work: &ManifestWork, condition: &Condition) -> String {
    match culprit(work, &condition.type_, |other| other.status == condition.status) {
        Some((object, of)) if !of.message.is_empty() => format!("{object}: {}", of.message),
        _ => condition.message.clone(),
    }
}
