//! The keys with which the agent decrypts Secrets in works, in a secret next to its identity.
//!
//! Once the secret is deleted, the agent creates another key, and keeps the last one until the hub has encrypted the
//! works for the new one.

use std::iter::once;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::time::sleep;
use tracing::{info, warn};

use super::AgentOptions;
use super::error::{JoinError, api};
use crate::pki;
use api::names::SEALING_IDENTITY_SUFFIX;
use object::Key;
use seal::Identity;

/// The time between two reads of the secret.
const READ_PERIOD: Duration = Duration::from_secs(10);
/// The key of the secret with the private keys, one a line, the current one first.
const IDENTITY: &str = "identity";

/// Returns the keys of the agent, the current one first. Creates a key if none is stored; `last` are the keys that
/// were in use. Only an agent that also reports the cluster's status has keys, because it publishes them there.
///
/// # Errors
/// Fails if the cluster does not respond, or if it rejects a new key.
pub(super) async fn load(options: &AgentOptions, last: &[Identity]) -> Result<Vec<Identity>, JoinError> {
    if !options.registers() || !options.controllers.includes("work-agent") {
        return Ok(Vec::new());
    }
    match read(options).await {
        Err(error) if is_denied(&error) => {
            let secret = key(options).to_string();
            warn!(secret, "no permission for the secret; this agent cannot decrypt Secrets in works");
            Ok(Vec::new())
        }
        Ok(Some(stored)) => {
            if stored.is_empty() {
                let secret = key(options).to_string();
                warn!(
                    secret,
                    "the secret has no age identity; delete it, so that the agent creates another one"
                );
            }
            Ok(stored)
        }
        Ok(None) => create(options, last).await,
        Err(error) => Err(error),
    }
}

/// Waits until the stored keys are others than `identities`.
pub(super) async fn replaced(options: &AgentOptions, identities: &[Identity]) {
    if identities.is_empty() {
        return std::future::pending().await;
    }
    loop {
        sleep(READ_PERIOD).await;
        if read(options).await.is_ok_and(|stored| stored.as_deref() != Some(identities)) {
            info!(cluster = options.cluster, "the keys that decrypt Secrets have changed");
            return;
        }
    }
}

async fn create(options: &AgentOptions, last: &[Identity]) -> Result<Vec<Identity>, JoinError> {
    let mut random = [0; 32];
    pki::fill_random(&mut random)?;
    let identities: Vec<Identity> = once(Identity::new(random)).chain(last.first().cloned()).collect();
    let text: String = identities.iter().map(|identity| identity.private() + "\n").collect();
    let metadata = ObjectMeta { name: Some(key(options).name), ..ObjectMeta::default() };
    let data = [(IDENTITY.to_owned(), ByteString(text.into_bytes()))].into();
    let secret = Secret { metadata, data: Some(data), ..Secret::default() };
    match secrets(options).create(&PostParams::default(), &secret).await {
        Err(kube::Error::Api(refusal)) if refusal.code == 403 => {
            warn!(
                secret = key(options).to_string(),
                "no permission to create the secret with the key that decrypts Secrets"
            );
            Ok(Vec::new())
        }
        created => {
            created.map_err(api("store the key that decrypts Secrets"))?;
            Ok(identities)
        }
    }
}

/// Reads the stored keys; `None` if the secret does not exist, and no keys if it is invalid.
async fn read(options: &AgentOptions) -> Result<Option<Vec<Identity>>, JoinError> {
    let secret = secrets(options).get_opt(&key(options).name).await;
    let secret = secret.map_err(api("read the key that decrypts Secrets"))?;
    Ok(secret.map(|secret| {
        let text = secret.data.as_ref().and_then(|data| std::str::from_utf8(&data.get(IDENTITY)?.0).ok());
        text.and_then(Identity::parse_all).unwrap_or_default()
    }))
}

fn is_denied(error: &JoinError) -> bool {
    matches!(error, JoinError::Api { source: kube::Error::Api(status), .. } if status.code == 403)
}

fn key(options: &AgentOptions) -> Key {
    let Key { namespace, name } = &options.secret;
    Key::namespaced(namespace, format!("{name}{SEALING_IDENTITY_SUFFIX}"))
}

fn secrets(options: &AgentOptions) -> Api<Secret> {
    Api::namespaced(options.home().clone(), &options.secret.namespace)
}
