//! Lists the objects whose Secrets for clusters are plaintext on the hub.

use api::addon::v1alpha1::AddOnTemplate;
use api::names::{ADDON_NAME_LABEL, PLAIN_SECRET, SECRET_ANNOTATION, WORK_REPLICA_SET_LABEL};
use api::work::v1::{ManifestWork, ManifestsTemplate};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::plural::counted;
use object::{Gvk, Key, Kind};

use super::finding::{Finding, all, few};
use super::hub::ExaminedHub;
use crate::cli::writer;

const CHECK: &str = "secrets";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    match plaintext(hub).await {
        Ok(names) => finding(&names).into_iter().collect(),
        Err(unread) => vec![unread],
    }
}

/// Returns the names of the objects with plaintext Secrets.
async fn plaintext(hub: &ExaminedHub) -> Result<Vec<String>, Finding> {
    let mut names = Vec::new();
    if hub.serves::<AddOnTemplate>() {
        let templates = all::<AddOnTemplate>(CHECK, &hub.client, "").await?;
        names.extend(of(&templates, |template| &template.spec.agent_spec.workload));
    }
    if hub.serves::<ManifestWork>() {
        // The works of sets and add-ons follow from their templates.
        let selector = format!("!{WORK_REPLICA_SET_LABEL},!{ADDON_NAME_LABEL}");
        let works = writer::list::<ManifestWork>(&hub.client, "", &selector).await;
        let works = works.map_err(|error| Finding::unknown(CHECK, error))?;
        names.extend(of(&works, |work| &work.spec.workload));
    }
    if hub.serves::<ManifestWorkReplicaSet>() {
        let sets = all::<ManifestWorkReplicaSet>(CHECK, &hub.client, "").await?;
        names.extend(of(&sets, |set| &set.spec.manifest_work_template.workload));
    }
    Ok(names)
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
