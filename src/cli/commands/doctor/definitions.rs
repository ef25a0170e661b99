//! Checks the CRDs: they exist, are served, and have the fields that this version reads.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray,
};

use super::finding::{Finding, few};
use super::hub::ExaminedHub;
use api::crds;
use engine::plural::counted;
use object::Metadata as _;

pub(super) const CHECK: &str = "definitions";

pub(super) fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let present = match &hub.definitions {
        Ok(present) => present,
        Err(unread) => return vec![unread.clone()],
    };
    let present: BTreeMap<&str, &CustomResourceDefinition> =
        present.iter().map(|one| (one.name(), one)).collect();
    let wanted = crds::hub();
    let (present, missing): (Vec<_>, Vec<_>) =
        wanted.iter().map(|one| (one, present.get(one.name()))).partition(|(_, present)| present.is_some());
    let missing: Vec<&str> = missing.iter().map(|(wanted, _)| wanted.name()).collect();
    let install = hub.upgrade_definitions("wheelwright install, or wheelwright upgrade");
    let missing = missing_finding(&missing, install);
    let upgrade = hub.upgrade_definitions("wheelwright upgrade; --take-ownership if OCM has installed it");
    let others = present.into_iter().filter_map(|(wanted, present)| compare(wanted, present?, upgrade));
    let findings: Vec<Finding> = missing.into_iter().chain(others).collect();
    if findings.is_empty() {
        return vec![Finding::good(
            CHECK,
            format!("{} definitions are served with the fields of this version", wanted.len()),
        )];
    }
    findings
}

/// Returns one finding for all missing CRDs.
fn missing_finding(names: &[&str], advice: &str) -> Option<Finding> {
    let verb = if names.len() == 1 { "is" } else { "are" };
    let message =
        format!("{} {verb} missing: {}", counted(names.len(), "definition"), few(names.iter().copied()));
    (!names.is_empty()).then(|| Finding::bad(CHECK, message, advice))
}

/// Returns the problem with a CRD, if any. `upgrade` is the command that writes all CRDs again.
fn compare(
    wanted: &CustomResourceDefinition,
    present: &CustomResourceDefinition,
    upgrade: &str,
) -> Option<Finding> {
    let name = wanted.name();
    let mut conditions = present.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if let Some(refused) = conditions.find(|one| one.type_ == "NamesAccepted" && one.status == "False") {
        let reason = refused.message.as_deref().unwrap_or_default();
        let advice = "another CRD uses the same names; delete the one that you do not need";
        return Some(Finding::bad(CHECK, format!("{name}: its names are not accepted: {reason}"), advice));
    }
    if !crds::is_established(present) {
        return Some(Finding::bad(
            CHECK,
            format!("{name} is not served"),
            format!("kubectl describe crd {name}"),
        ));
    }
    for version in wanted.spec.versions.iter().filter(|version| version.served) {
        let served = present.spec.versions.iter().find(|one| one.name == version.name && one.served);
        let Some(served) = served else {
            let message = format!("{name}: version {} is not served", version.name);
            return Some(Finding::bad(CHECK, message, upgrade));
        };
        let missing: Vec<String> = fields(version).difference(&fields(served)).cloned().collect();
        if !missing.is_empty() {
            let message = format!(
                "{name}: the hub's {} drops fields that this version reads: {}",
                version.name,
                few(missing.iter().map(String::as_str))
            );
            return Some(Finding::warning(CHECK, message, upgrade));
        }
    }
    None
}

/// Returns the paths of all fields of a version.
fn fields(version: &CustomResourceDefinitionVersion) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    if let Some(schema) = schema {
        collect(schema, "", &mut paths);
    }
    paths
}

fn collect(schema: &JSONSchemaProps, path: &str, paths: &mut BTreeSet<String>) {
    for (name, field) in schema.properties.iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(field, &path, paths);
        paths.insert(path);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        collect(items, path, paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Changes a valid CRD, and checks the finding about it.
    fn check(change: impl FnOnce(&mut CustomResourceDefinition), expected: &str) {
        let wanted = crds::hub().into_iter().find(|one| one.spec.names.kind == "ConfigRepo").unwrap();
        let mut present = wanted.clone();
        let established = json!({"conditions": [{"type": "Established", "status": "True"}]});
        present.status = serde_json::from_value(established).unwrap();
        change(&mut present);
        let found = compare(&wanted, &present, "").map(|finding| finding.message).unwrap_or_default();
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{expected:?}: {found}");
    }

    #[test]
    fn a_definition_of_another_version_is_reported() {
        check(|_| {}, "");
        check(|present| present.status = None, "is not served");
        check(|present| present.spec.versions[0].served = false, "version v1alpha1 is not served");
        check(
            |present| {
                let schema =
                    present.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
                let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
                spec.properties.as_mut().unwrap().remove("verify").unwrap();
            },
            "drops fields that this version reads: spec.verify",
        );
        let missing = |names: &[&str]| missing_finding(names, "").map(|finding| finding.message);
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&["a"]).unwrap(), "1 definition is missing: a");
        assert_eq!(missing(&["a"; 7]).unwrap(), "7 definitions are missing: a, a, a, a, a and 2 more");
    }
}
