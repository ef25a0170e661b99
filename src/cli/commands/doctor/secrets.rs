//! Lists the objects whose Secrets for clusters are plaintext on the hub.

use std::collections::BTreeSet;

use api::addon::v1alpha1::AddOnTemplate;
use api::names::{ADDON_NAME_LABEL, PLAIN_SECRET, SECRET_ANNOTATION, WORK_REPLICA_SET_LABEL};
use api::work::v1::{ManifestWork, ManifestsTemplate};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::plural::counted;
use object::{Gvk, Key, Kind};

use super::finding::{Finding, few};
use super::hub::ExaminedHub;
use crate::cli::writer;

const CHECK: &str = "secrets";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let (mut names, mut findings) = (Vec::new(), Vec::new());
    let templates = list::<AddOnTemplate>(hub, "", &mut findings).await;
    names.extend(of(&templates, |template| &template.spec.agent_spec.workload));
    let works = list::<ManifestWork>(hub, &of_no_template(&templates), &mut findings).await;
    names.extend(of(&works, |work| &work.spec.workload));
    let sets = list::<ManifestWorkReplicaSet>(hub, "", &mut findings).await;
    names.extend(of(&sets, |set| &set.spec.manifest_work_template.workload));
    findings.extend(finding(&names));
    findings
}

/// Lists a kind. If it cannot be listed, a finding says so.
async fn list<K: Kind>(hub: &ExaminedHub, selector: &str, findings: &mut Vec<Finding>) -> Vec<K> {
    if !hub.serves::<K>() {
        return Vec::new();
    }
    writer::list::<K>(&hub.client, "", selector).await.unwrap_or_else(|error| {
        findings.push(Finding::unknown(CHECK, error));
        Vec::new()
    })
}

/// Returns the selector of works that follow from no set and no template.
fn of_no_template(templates: &[AddOnTemplate]) -> String {
    let add_ons: BTreeSet<&str> = templates
        .iter()
        .map(|template| template.spec.addon_name.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    let mut selector = format!("!{WORK_REPLICA_SET_LABEL}");
    if !add_ons.is_empty() {
        let names = add_ons.into_iter().collect::<Vec<_>>().join(",");
        selector.push_str(&format!(",{ADDON_NAME_LABEL} notin ({names})"));
    }
    selector
}

fn of<K: Kind>(objects: &[K], workload: fn(&K) -> &ManifestsTemplate) -> impl Iterator<Item = String> {
    let plaintext = objects.iter().filter(move |object| seal::has_plaintext(&workload(object).manifests));
    plaintext.map(|object| format!("{} {}", Gvk::of::<K>().kind, Key::of(object)))
}

fn finding(names: &[String]) -> Option<Finding> {
    if names.is_empty() {
        return None;
    }
    let count = counted(names.len(), "object");
    let message = format!("plaintext Secrets in {count}: {}", few(names.iter().map(String::as_str)));
    let advice = format!(
        "set spec.secrets: Sealed in the ConfigRepo, or annotate the Secrets with {SECRET_ANNOTATION}: {PLAIN_SECRET}"
    );
    Some(Finding::warning(CHECK, message, advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(kind: &str, annotations: Value) -> ManifestWorkReplicaSet {
        let metadata = json!({"name": "s", "namespace": "shop", "annotations": annotations});
        let manifest = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        let template = json!({"workload": {"manifests": [manifest]}});
        let spec = json!({"placementRefs": [], "manifestWorkTemplate": template});
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "fleet"}, "spec": spec}))
            .unwrap()
    }

    #[test]
    fn works_that_follow_from_a_set_or_a_template_are_not_listed() {
        let template = |add_on: &str| -> AddOnTemplate {
            let workload = json!({"workload": {"manifests": []}});
            let spec = json!({"addonName": add_on, "agentSpec": workload});
            serde_json::from_value(json!({"metadata": {"name": "t"}, "spec": spec})).unwrap()
        };
        let set = "!work.open-cluster-management.io/manifestworkreplicaset";
        assert_eq!(of_no_template(&[]), set);
        let with = of_no_template(&["web", "db", "web"].map(template));
        assert_eq!(with, format!("{set},open-cluster-management.io/addon-name notin (db,web)"));
    }

    #[test]
    fn objects_with_plaintext_secrets_are_named() {
        fn workload(set: &ManifestWorkReplicaSet) -> &ManifestsTemplate {
            &set.spec.manifest_work_template.workload
        }
        let names: Vec<String> = of(&[set("Secret", json!({}))], workload).collect();
        let message = finding(&names).unwrap().message;
        assert_eq!(message, "plaintext Secrets in 1 object: ManifestWorkReplicaSet fleet/a");
        for fine in [
            set("ConfigMap", json!({})),
            set("Secret", json!({ SECRET_ANNOTATION: "plain" })),
            set("Secret", json!({ SECRET_ANNOTATION: "sealed" })),
        ] {
            assert_eq!(of(&[fine], workload).next(), None);
        }
    }
}
