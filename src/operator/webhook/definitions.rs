//! The definitions with several versions, and the webhook that converts between these.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{Failure, failed};
use api::crds;

/// The last logged other webhooks that convert definitions, by the name of the definition.
#[derive(Default)]
pub(super) struct Others(BTreeMap<String, String>);

impl Others {
    /// Records the other webhook that converts a definition, if any. Returns false if nothing has changed.
    fn record(&mut self, definition: &str, webhook: Option<&String>) -> bool {
        let before = match webhook {
            Some(webhook) => self.0.insert(definition.to_owned(), webhook.clone()),
            None => self.0.remove(definition),
        };
        before.as_ref() != webhook
    }
}

/// Makes the webhook convert the definitions that need it, and serves all of their versions.
pub(super) async fn ensure(
    client: &kube::Client,
    webhook: &WebhookClientConfig,
    others: &mut Others,
) -> Result<(), Failure> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in crds::CONVERTIBLE {
        let definition =
            definitions.get(name).await.map_err(failed("read the definition of an add-on kind"))?;
        let other = other(&definition, webhook);
        let is_new = others.record(name, other.as_ref());
        if let Some(other) = other {
            if is_new {
                warn!(
                    definition = name,
                    webhook = other,
                    "another webhook converts this definition; leaving it unchanged"
                );
            }
            continue;
        }
        let Some(patch) = change(&definition, webhook) else { continue };
        info!(definition = name, "the definition names this webhook, and serves all versions");
        let patch = serde_json::from_value(patch).map_err(|error| error.to_string())?;
        let patched = definitions.patch(name, &PatchParams::default(), &Patch::Json::<()>(patch)).await;
        patched.map_err(failed("write the webhook into a definition"))?;
    }
    Ok(())
}

/// Returns the address of another webhook that already converts a definition.
fn other(definition: &CustomResourceDefinition, webhook: &WebhookClientConfig) -> Option<String> {
    let configured = definition.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?;
    let place = |config: &WebhookClientConfig| {
        let service =
            config.service.as_ref().map(|service| format!("{}/{}", service.namespace, service.name));
        config.url.clone().or(service).unwrap_or_default()
    };
    (place(configured) != place(webhook)).then(|| place(configured))
}

/// Returns the change of a definition, as a JSON patch that tests for the version that was read.
fn change(definition: &CustomResourceDefinition, webhook: &WebhookClientConfig) -> Option<Value> {
    let mut wanted = definition.clone();
    crds::convert_by(&mut wanted, webhook.clone());
    if wanted.spec == definition.spec {
        return None;
    }
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": definition.metadata.resource_version}),
        json!({"op": "add", "path": "/spec/conversion", "value": wanted.spec.conversion}),
    ];
    let unserved = definition.spec.versions.iter().enumerate().filter(|(_, version)| !version.served);
    patch.extend(
        unserved.map(
            |(i, _)| json!({"op": "replace", "path": format!("/spec/versions/{i}/served"), "value": true}),
        ),
    );
    Some(json!(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ServiceReference;

    fn webhook(name: &str) -> WebhookClientConfig {
        let service = ServiceReference { name: name.into(), namespace: "n".into(), ..Default::default() };
        WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() }
    }

    #[test]
    fn a_definition_that_another_webhook_converts_stays() {
        let is_convertible = |one: &CustomResourceDefinition| {
            crds::CONVERTIBLE.contains(&one.metadata.name.as_deref().unwrap_or_default())
        };
        let mut definition = crds::hub().into_iter().find(is_convertible).unwrap();
        assert_eq!(other(&definition, &webhook("ours")), None);
        crds::convert_by(&mut definition, webhook("theirs"));
        assert_eq!(other(&definition, &webhook("ours")).as_deref(), Some("n/theirs"));
    }

    #[test]
    fn another_webhook_is_logged_once_until_it_changes() {
        let (theirs, others) = ("n/theirs".to_owned(), "n/others".to_owned());
        let mut logged = Others::default();
        let webhooks = [None, Some(&theirs), Some(&theirs), Some(&others), None, Some(&others)];
        let is_new = webhooks.map(|webhook| logged.record("a", webhook));
        assert_eq!(is_new, [false, true, false, true, true, true]);
        assert!(logged.record("b", Some(&others)), "each definition by itself");
    }

    #[test]
    fn a_definition_is_changed_once_and_served_whole() {
        for name in crds::CONVERTIBLE {
            let all = crds::hub();
            let definition = all.iter().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap();
            let mut changed = definition.clone();
            crds::convert_by(&mut changed, webhook("ours"));
            assert!(changed.spec.versions.iter().all(|version| version.served), "{name}");
            let patch = change(definition, &webhook("ours")).unwrap();
            assert_eq!(patch[2]["path"], "/spec/versions/1/served");
            assert_eq!(change(&changed, &webhook("ours")), None);
        }
    }
}
