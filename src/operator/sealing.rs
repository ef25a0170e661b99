//! The Secret with the key that encrypts Secrets for clusters. It is created for the first ConfigRepo that needs it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::pki;
use crate::shell::{REQUEST_TIMEOUT, message};
use api::names::SEALING_KEY_SECRET;
use controllers::sealing::Sealing;
use seal::HubKey;

/// The key of the Secret with the 32 bytes.
const KEY: &str = "key";

/// The wait after a failed attempt to read the key.
const RETRY: Duration = Duration::from_secs(2);

/// The key of an operator.
#[derive(Clone)]
pub(super) struct SealingKey {
    hub: Client,
    namespace: String,
    key: Arc<OnceLock<HubKey>>,
}

impl SealingKey {
    pub(super) fn new(hub: Client, namespace: &str) -> Self {
        Self { hub, namespace: namespace.to_owned(), key: Arc::default() }
    }

    /// Returns the setting of the controllers.
    pub(super) fn setting(&self) -> Sealing {
        Sealing::Hub(Arc::clone(&self.key))
    }

    /// Loads the key before the controllers start, if there is one. They would otherwise not change works with
    /// encrypted Secrets.
    pub(super) async fn load(&self) {
        while let Err(error) = self.read().await {
            warn!(error, "cannot read the key that encrypts Secrets; retrying");
            sleep(RETRY).await;
        }
    }

    /// Loads or creates the key.
    pub(super) async fn ensure(&self) {
        if self.key.get().is_none()
            && let Err(error) = self.read_or_create().await
        {
            warn!(error, "cannot read or create the key that encrypts Secrets");
        }
    }

    async fn read_or_create(&self) -> Result<(), String> {
        self.read().await?;
        if self.key.get().is_some() {
            return Ok(());
        }
        let mut random = [0; 32];
        pki::fill_random(&mut random).map_err(|error| error.to_string())?;
        let metadata = ObjectMeta { name: Some(SEALING_KEY_SECRET.into()), ..ObjectMeta::default() };
        let data = BTreeMap::from([(KEY.to_owned(), ByteString(random.to_vec()))]);
        let secret = Secret { metadata, data: Some(data), immutable: Some(true), ..Secret::default() };
        match self.secrets().create(&PostParams::default(), &secret).await {
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
            created => drop(created.map_err(|error| self.failed(&error))?),
        }
        // Another operator may have created it.
        self.read().await
    }

    async fn read(&self) -> Result<(), String> {
        let secrets = self.secrets();
        let read = timeout(REQUEST_TIMEOUT, secrets.get_opt(SEALING_KEY_SECRET)).await;
        let secret = match read.map_err(|_| "the hub does not respond")? {
            Err(kube::Error::Api(refusal)) if refusal.code == 403 => {
                let error = message(&kube::Error::Api(refusal));
                warn!(error, "the operator may not read its key, so it encrypts no Secrets for clusters");
                return Ok(());
            }
            secret => secret.map_err(|error| self.failed(&error))?,
        };
        let Some(secret) = secret else { return Ok(()) };
        let bytes = secret.data.as_ref().and_then(|data| data.get(KEY)).map(|bytes| bytes.0.as_slice());
        let bytes: Option<&[u8; 32]> = bytes.and_then(|bytes| bytes.try_into().ok());
        match bytes {
            // Another task may have read it.
            Some(bytes) => drop(self.key.set(HubKey::new(bytes))),
            None => {
                let secret = format!("{}/{SEALING_KEY_SECRET}", self.namespace);
                warn!(
                    secret,
                    "the Secret has no key of 32 bytes, so the operator encrypts no Secrets for clusters"
                );
            }
        }
        Ok(())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.hub.clone(), &self.namespace)
    }

    fn failed(&self, error: &kube::Error) -> String {
        format!("the Secret {}/{SEALING_KEY_SECRET}: {}", self.namespace, message(error))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;
    use crate::git::tests::recorder::Recorder;

    #[tokio::test]
    async fn an_operator_starts_without_its_key_if_the_secret_is_invalid() {
        let loaded = async |key: &[u8]| {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SEALING_KEY_SECRET},
                "data": {KEY: STANDARD.encode(key)}});
            let hub = Recorder::start(&[&format!("200 OK\nContent-Type: application/json\n\n{secret}")]);
            let _ = rustls::crypto::ring::default_provider().install_default();
            let config = kube::Config::new(format!("http://{}", hub.address).parse().unwrap());
            let key = SealingKey::new(Client::try_from(config).unwrap(), "config");
            key.load().await;
            key.key.get().is_some()
        };
        assert!(loaded(&[7; 32]).await);
        assert!(!loaded(&[7; 31]).await);
    }
}
