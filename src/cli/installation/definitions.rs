//! Sets or removes the conversion webhook in the CRDs of add-on kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use object::{Key, ObjectRef};
use serde_json::{Value, json};

use super::Installer;
use crate::cli::CommandError;
use crate::cli::writer::failed;
use api::crds::CONVERTIBLE;
use api::names::WEBHOOK;
use engine::cluster_manager::with_our_webhook;

/// Replaces the webhook of OCM's hub components in the CRDs with the webhook in a namespace. Returns the names of
/// the changed CRDs.
///
/// The operator adds its CA within a minute.
pub(in crate::cli) async fn take_conversion(
    installer: &Installer,
    namespace: &str,
) -> Result<Vec<&'static str>, CommandError> {
    let ours = Key::namespaced(namespace, WEBHOOK);
    let definitions: Api<CustomResourceDefinition> = Api::all(installer.hub.clone());
    let params = PatchParams { dry_run: installer.dry_run, ..PatchParams::default() };
    let mut taken = Vec::new();
    for name in CONVERTIBLE {
        let target = ObjectRef::of::<CustomResourceDefinition>(Key::cluster(name));
        let found = installer.find(&target).await?;
        let Some(patch) = found.and_then(|definition| with_our_webhook(&ours, &definition)) else {
            continue;
        };
        let patched = definitions.patch(name, &params, &Patch::Merge(patch)).await;
        patched.map_err(failed(format!("change the definition {name}")))?;
        taken.push(name);
    }
    Ok(taken)
}

/// Removes the webhook from the CRDs, and stops serving the versions that need it. Returns the names of the
/// changed CRDs.
///
/// Otherwise the API server could not serve these kinds.
pub(in crate::cli) async fn stop_conversion(
    hub: &kube::Client,
    namespace: &str,
    dry_run: bool,
) -> Result<Vec<&'static str>, CommandError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.clone());
    let mut stopped = Vec::new();
    for name in CONVERTIBLE {
        let found = definitions.get_opt(name).await.map_err(failed(format!("read the definition {name}")))?;
        let Some(patch) = found.and_then(|definition| without_webhook(&definition, namespace)) else {
            continue;
        };
        let patch = serde_json::from_value(patch)?;
        let params = PatchParams { dry_run, ..PatchParams::default() };
        let patched = definitions.patch(name, &params, &Patch::Json::<()>(patch)).await;
        patched.map_err(failed(format!("change the definition {name}")))?;
        stopped.push(name);
    }
    Ok(stopped)
}

/// Returns a JSON patch that removes the webhook in a namespace from a CRD.
fn without_webhook(definition: &CustomResourceDefinition, namespace: &str) -> Option<Value> {
    let webhook = definition.spec.conversion.as_ref()?.webhook.as_ref()?;
    let service = webhook.client_config.as_ref()?.service.as_ref()?;
    if (service.namespace.as_str(), service.name.as_str()) != (namespace, WEBHOOK) {
        return None;
    }
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": definition.metadata.resource_version}),
        json!({"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}),
    ];
    let newer = definition.spec.versions.iter().enumerate().filter(|(_, version)| !version.storage);
    let path = |i: usize| format!("/spec/versions/{i}/served");
    patch.extend(newer.map(|(i, _)| json!({"op": "replace", "path": path(i), "value": false})));
    Some(json!(patch))
}
