//! The secrets that store the credentials of add-ons, and when they are deleted. They are on the cluster. With
//! a hosted agent, secrets of add-ons with a hosting cluster are next to the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;
use tokio::time::Instant;
use tracing::info;

use super::addon_registration::{AddOns, CredentialsSecret, RETRY, Registration, is_secret_of};
use super::error::{JoinError, api};
use crate::shell::{WallClockWait, now};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::names::{
    ADDON_CREDENTIALS_LABEL, ADDON_NAME_LABEL, AGENT, CLUSTER_NAME_LABEL, DEFAULT_ADDON_NAMESPACE,
};
use object::Key;
use object::duration::later;

/// The time to keep credentials while the hub lists no add-on of the cluster: it may have been restored from a
/// backup without them.
const GRACE: Duration = Duration::from_hours(1);
const READ_CREDENTIALS: &str = "read the credentials of the add-on";

/// The secrets that store credentials of add-ons.
#[derive(Default)]
pub(super) struct StoredSecrets {
    /// Maps each secret to its add-on.
    secrets: BTreeMap<CredentialsSecret, String>,
    /// True once the secrets of earlier processes are included.
    is_complete: bool,
    /// The start of the last attempt to remove secrets.
    last_attempt: Option<Timestamp>,
    /// The time since which the hub has listed no add-on of the cluster.
    none_since: Option<Instant>,
}

impl StoredSecrets {
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.last_attempt.is_none_or(|at| WallClockWait { since: at, until: later(at, RETRY) }.is_over(now))
    }

    pub(super) fn add(&mut self, registration: &Registration) {
        self.secrets.insert(registration.secret(), registration.addon.clone());
    }

    /// Returns the secrets that no add-on registers, with the names of their add-ons.
    fn unregistered(
        &mut self,
        registered: &BTreeSet<CredentialsSecret>,
        lists_any: bool,
        now: Instant,
    ) -> Vec<(CredentialsSecret, String)> {
        let since = *self.none_since.get_or_insert(now);
        if lists_any {
            self.none_since = None;
        } else if now.duration_since(since) < GRACE {
            return Vec::new();
        }
        let unregistered = self.secrets.iter().filter(|(secret, _)| !registered.contains(*secret));
        unregistered.map(|(secret, addon)| (secret.clone(), addon.clone())).collect()
    }
}

impl AddOns<'_> {
    /// Returns the client for the cluster that has the secrets.
    fn place(&self, is_hosted: bool) -> &kube::Client {
        if is_hosted { self.options.home() } else { &self.options.spoke }
    }

    /// Removes the credentials of add-ons that are gone or no longer register, if the hub confirms it. The
    /// first call also finds credentials that an earlier process stored.
    pub(super) async fn delete_credentials(
        &self,
        stored: &mut StoredSecrets,
        addons: &[Arc<ManagedClusterAddOn>],
    ) -> Result<(), JoinError> {
        stored.last_attempt = Some(now());
        if !stored.is_complete {
            stored.secrets.extend(self.stored_before().await?);
            stored.is_complete = true;
        }
        let secrets = |addon: &ManagedClusterAddOn| {
            self.registrations(addon).into_iter().map(|registration| registration.secret())
        };
        let registered: BTreeSet<CredentialsSecret> =
            addons.iter().flat_map(|addon| secrets(addon)).collect();
        let on_hub: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), &self.options.cluster);
        for (secret, addon) in stored.unregistered(&registered, !addons.is_empty(), Instant::now()) {
            let live = on_hub.get_opt(&addon).await.map_err(api("look for an add-on that may be gone"))?;
            if live.iter().flat_map(secrets).any(|live| live == secret) {
                continue;
            }
            self.delete_secret(&secret).await?;
            stored.secrets.remove(&secret);
        }
        Ok(())
    }

    /// Deletes a secret, unless another client, such as an agent of another hub, has written it since.
    async fn delete_secret(
        &self,
        CredentialsSecret { key, is_hosted }: &CredentialsSecret,
    ) -> Result<(), JoinError> {
        let beside: Api<Secret> = Api::namespaced(self.place(*is_hosted).clone(), &key.namespace);
        let found = beside.get_metadata_opt(&key.name).await.map_err(api(READ_CREDENTIALS))?;
        let Some(metadata) =
            found.map(|secret| secret.metadata).filter(|metadata| self.has_written(metadata))
        else {
            return Ok(());
        };
        let preconditions = Preconditions { uid: metadata.uid, resource_version: metadata.resource_version };
        match beside.delete(&key.name, &DeleteParams::default().preconditions(preconditions)).await {
            Ok(_) => info!(secret = %key, "deleted the credentials of an add-on that is gone"),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(api("delete the credentials of the add-on")(error)),
        }
        Ok(())
    }

    /// Returns true if a secret has the labels that the agent of this cluster and hub writes.
    fn has_written(&self, secret: &ObjectMeta) -> bool {
        let label = |name: &str| secret.labels.as_ref()?.get(name);
        label(CLUSTER_NAME_LABEL) == Some(&self.options.cluster)
            && label(ADDON_CREDENTIALS_LABEL) == Some(&self.hub.label())
    }

    /// Returns the secrets of this cluster's add-ons on this hub. Agents of other hubs may store theirs in the
    /// same namespaces.
    async fn stored_before(&self) -> Result<Vec<(CredentialsSecret, String)>, JoinError> {
        let (hub, cluster) = (self.hub.label(), &self.options.cluster);
        let ours = format!("{CLUSTER_NAME_LABEL}={cluster},{ADDON_CREDENTIALS_LABEL}={hub}");
        let params = ListParams::default().labels(&ours);
        let mut kept = Vec::new();
        let places = [false].into_iter().chain(self.options.management.is_some().then_some(true));
        for is_hosted in places {
            let place = self.place(is_hosted);
            let found = match Api::<Secret>::all(place.clone()).list_metadata(&params).await {
                // A Klusterlet's agent may list secrets in its own namespace.
                Err(kube::Error::Api(refusal)) if refusal.code == 403 && is_hosted => {
                    let own = Api::<Secret>::namespaced(place.clone(), &self.options.secret.namespace);
                    own.list_metadata(&params).await
                }
                found => found,
            };
            let found = found.map_err(api("list the credentials of add-ons"))?;
            kept.extend(found.items.into_iter().filter_map(|secret| {
                let addon = secret.metadata.labels?.remove(ADDON_NAME_LABEL)?;
                let name = secret.metadata.name.filter(|name| is_secret_of(&addon, name))?;
                let key = Key::namespaced(secret.metadata.namespace?, name);
                Some((CredentialsSecret { key, is_hosted }, addon))
            }));
        }
        Ok(kept)
    }

    /// Returns true if an add-on namespace exists on the cluster. The agent creates the default namespace if it
    /// may, like OCM's operator, because add-on manifests rely on it. It creates no other namespace.
    pub(super) async fn has_namespace(&self, is_hosted: bool, name: &str) -> Result<bool, JoinError> {
        let namespaces: Api<Namespace> = Api::all(self.place(is_hosted).clone());
        let found = match namespaces.get_opt(name).await {
            // On its host, a hosted agent only has permissions in namespaces that already exist.
            Err(kube::Error::Api(refusal)) if refusal.code == 403 && is_hosted => return Ok(true),
            found => found.map_err(api("look for the namespace of the add-on"))?,
        };
        if found.is_some() || name != DEFAULT_ADDON_NAMESPACE {
            return Ok(found.is_some());
        }
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(refusal)) if refusal.code == 403 => Ok(false),
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => Ok(true),
            made => made.map(|_| true).map_err(api("create the namespace of add-ons")),
        }
    }

    pub(super) async fn stored(&self, registration: &Registration) -> Result<Option<Secret>, JoinError> {
        let CredentialsSecret { key, is_hosted } = registration.secret();
        let secrets: Api<Secret> = Api::namespaced(self.place(is_hosted).clone(), &key.namespace);
        let found = secrets.get_opt(&key.name).await.map_err(api(READ_CREDENTIALS))?;
        let of = found.as_ref().and_then(|secret| secret.metadata.labels.as_ref()?.get(CLUSTER_NAME_LABEL));
        match of.filter(|cluster| is_hosted && **cluster != self.options.cluster) {
            Some(cluster) => Err(JoinError::OfAnotherCluster { secret: key, cluster: cluster.clone() }),
            None => Ok(found),
        }
    }

    /// Replaces the content of the add-on's secret with these credentials.
    pub(super) async fn store(
        &self,
        registration: &Registration,
        data: &[(&str, &str)],
    ) -> Result<(), JoinError> {
        let Registration { addon, namespace, .. } = registration;
        let data = data.iter().map(|(key, text)| (*key, ByteString(text.as_bytes().to_vec())));
        let data: BTreeMap<&str, ByteString> = data.collect();
        let CredentialsSecret { key: Key { name, .. }, is_hosted } = registration.secret();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": name, "namespace": namespace,
                "labels": {
                    ADDON_NAME_LABEL: addon, CLUSTER_NAME_LABEL: self.options.cluster,
                    ADDON_CREDENTIALS_LABEL: self.hub.label(),
                },
            },
            "data": data,
        });
        let secrets: Api<Secret> = Api::namespaced(self.place(is_hosted).clone(), namespace);
        let params = PatchParams::apply(AGENT).force();
        let stored = secrets.patch(&name, &params, &Patch::Apply(secret)).await;
        stored.map_err(api("store the credentials of the add-on"))?;
        info!(addon, namespace, "the add-on has credentials for the hub");
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests/addon_secrets.rs"]
mod tests;
