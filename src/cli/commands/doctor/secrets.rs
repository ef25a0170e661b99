//! Lists the sets whose Secrets are plaintext in the works on the hub.

use std::collections::BTreeSet;

use api::names::{PLAIN_SECRET, SECRET_ANNOTATION};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::plural::counted;
use object::Key;

use super::finding::{Finding, all, few};
use super::hub::ExaminedHub;

const CHECK: &str = "secrets";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    match all::<ManifestWorkReplicaSet>(CHECK, &hub.client, "").await {
        Ok(sets) => of(&sets).into_iter().collect(),
        Err(unread) => vec![unread],
    }
}

fn of(sets: &[ManifestWorkReplicaSet]) -> Option<Finding> {
    let has_plaintext = |set: &&ManifestWorkReplicaSet| {
        seal::has_plaintext(&set.spec.manifest_work_template.workload.manifests)
    };
    let names: BTreeSet<String> =
        sets.iter().filter(has_plaintext).map(|set| Key::of(set).to_string()).collect();
    if names.is_empty() {
        return None;
    }
    let count = counted(names.len(), "ManifestWorkReplicaSet");
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
    fn sets_with_plaintext_secrets_are_named() {
        let finding = of(&[set("Secret", json!({})), set("Secret", json!({}))]).unwrap();
        assert_eq!(finding.message, "plaintext Secrets in 1 ManifestWorkReplicaSet: fleet/a");
        for fine in [
            set("ConfigMap", json!({})),
            set("Secret", json!({ SECRET_ANNOTATION: "plain" })),
            set("Secret", json!({ SECRET_ANNOTATION: "sealed" })),
        ] {
            assert_eq!(of(&[fine]), None);
        }
    }
}
