//! Starts fetches on webhooks from git servers.

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::delivery;
use super::mirrors::Mirrors;
use crate::serve::receiver::Delivery;
use crate::shell::{Leadership, REQUEST_TIMEOUT, message, now};
use api::gitops::v1alpha1::{ConfigRepo, Webhook};
use api::names;
use object::Key;
use object::names::{is_dns_label, is_dns_subdomain};

/// The maximum number of concurrent checks, so that a flood of forged deliveries costs the hub little.
const MAX_CONCURRENT_DELIVERIES: usize = 4;
/// The key in the Secret.
const TOKEN: &str = "token";

/// Receives deliveries, and decides which ConfigRepos to fetch.
pub(crate) struct Webhooks {
    pub(super) hub: Client,
    pub(super) mirrors: Arc<Mirrors>,
    pub(super) hints: mpsc::Sender<Key>,
    pub(super) leadership: Option<Leadership>,
}

impl Webhooks {
    /// Checks deliveries until `stop`.
    pub(crate) async fn run(self, mut deliveries: mpsc::Receiver<Delivery>, stop: CancellationToken) {
        let (ours, permits) = (Arc::new(self), Arc::new(Semaphore::new(MAX_CONCURRENT_DELIVERIES)));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let delivery = tokio::select! {
                () = stop.cancelled() => return,
                delivery = deliveries.recv() => delivery,
            };
            let Some(delivery) = delivery else { return };
            let ours = Arc::clone(&ours);
            tokio::spawn(async move {
                if let Err(reason) = ours.handle(&delivery).await {
                    warn!(repo = ?delivery.repo.to_string(), error = reason, "a webhook is ignored");
                }
                drop(permit);
            });
        }
    }

    async fn handle(&self, delivery: &Delivery) -> Result<(), String> {
        let Delivery { repo, headers, body } = delivery;
        // The names become part of request paths.
        if !is_dns_label(&repo.namespace) || !is_dns_subdomain(&repo.name) {
            return Err("no ConfigRepo can have that name".into());
        }
        let repos: Api<ConfigRepo> = Api::namespaced(self.hub.clone(), &repo.namespace);
        let addressed = timeout(REQUEST_TIMEOUT, repos.get_opt(&repo.name))
            .await
            .map_err(|_| "the hub does not respond")?
            .map_err(|e| message(&e))?;
        let webhook = addressed.as_ref().and_then(|one| one.spec.webhook.as_ref());
        let Webhook { secret_ref, unknown: _ } =
            webhook.ok_or("no such ConfigRepo, or it has no spec.webhook")?;
        let secret = secret_ref.key(&repo.namespace);
        let secret = self.mirrors.secrets.read(&secret).await.map_err(|e| e.to_string())?;
        let token = secret.get(TOKEN).ok_or("the Secret of spec.webhook has no key token")?;
        let notice = delivery::open(headers, body, &token.0)?;
        let listed = timeout(REQUEST_TIMEOUT, repos.list(&ListParams::default()))
            .await
            .map_err(|_| "the hub does not respond")?
            .map_err(|e| message(&e))?;
        // One webhook of a server serves all ConfigRepos with the same Secret.
        let concerned = listed.iter().filter(|one| {
            one.spec.webhook.as_ref().is_some_and(|other| other.secret_ref.name == secret_ref.name)
                && notice.concerns(&one.spec.url, &one.spec.r#ref)
        });
        let mut count = 0;
        for one in concerned {
            count += 1;
            self.hint(Key::of(one), &repos).await?;
        }
        info!(repo = %repo, count, "received a webhook");
        Ok(())
    }

    /// Requests a fetch: directly if this process fetches, otherwise with an annotation. It does not use the
    /// annotation for people, which would also end the fights of the ConfigRepo.
    async fn hint(&self, repo: Key, repos: &Api<ConfigRepo>) -> Result<(), String> {
        if self.leadership.as_ref().is_none_or(Leadership::holds) {
            return self.hints.try_send(repo).map_err(|_| "too many fetches are pending".into());
        }
        let at: Timestamp = now();
        let annotations = json!({names::WEBHOOK_AT_ANNOTATION: at.to_string()});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let params = PatchParams { field_manager: Some(names::WEBHOOK.into()), ..PatchParams::default() };
        let written = timeout(REQUEST_TIMEOUT, repos.patch(&repo.name, &params, &patch)).await;
        written.map_err(|_| "the hub does not respond")?.map(drop).map_err(|e| message(&e))
    }
}

#[cfg(test)]
#[path = "tests/webhook.rs"]
mod tests;
