//! The secrets of the cluster that hold the credentials of add-ons, and when they go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use tokio::time::Instant;
use tracing::info;

use super::addons::{AddOns, RETRY, Registration, registrations};
use super::join::{JoinError, api};
use crate::shell::{WallClockWait, now};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::names::{ADDON_CREDENTIALS_LABEL, ADDON_NAME_LABEL, CLUSTER_NAME_LABEL};
use object::Key;
use object::duration::later;

/// How long credentials stay while the hub lists no add-on of the cluster, because it may have been restored
/// without them.
const GRACE: Duration = Duration::from_hours(1);
/// The end of the names of secrets with certificates of other signers than the hub's.
pub(super) const CUSTOM_SECRET: &str = "-client-cert";

/// The secrets on the cluster that hold credentials of add-ons.
#[derive(Default)]
pub(super) struct StoredSecrets {
    /// The add-ons of the secrets.
    secrets: BTreeMap<Key, String>,
    /// Whether the secrets of earlier processes are among them.
    is_complete: bool,
    /// When the last attempt to remove some of them began.
    last_attempt: Option<Timestamp>,
    /// Since when the hub lists no add-on of the cluster.
    none_since: Option<Instant>,
}

impl StoredSecrets {
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.last_attempt.is_none_or(|at| WallClockWait { since: at, until: later(at, RETRY) }.is_over(now))
    }

    pub(super) fn add(&mut self, registration: &Registration) {
        self.secrets.insert(registration.secret(), registration.addon.clone());
    }

    /// Returns the secrets that no add-on registers, with their add-ons.
    fn unregistered(
        &mut self,
        registered: &BTreeSet<Key>,
        lists_any: bool,
        now: Instant,
    ) -> Vec<(Key, String)> {
        let since = *self.none_since.get_or_insert(now);
        if lists_any {
            self.none_since = None;
        } else if now.duration_since(since) < GRACE {
            return Vec::new();
        }
        let unregistered = self.secrets.iter().filter(|(key, _)| !registered.contains(*key));
        unregistered.map(|(key, addon)| (key.clone(), addon.clone())).collect()
    }
}

impl AddOns<'_> {
    /// Removes the credentials of add-ons that are gone, or that do not register any more, if the hub
    /// confirms it. The first call also looks for credentials that an earlier process kept.
    pub(super) async fn delete_credentials(
        &self,
        kept: &mut StoredSecrets,
        addons: &[Arc<ManagedClusterAddOn>],
    ) -> Result<(), JoinError> {
        kept.last_attempt = Some(now());
        if !kept.is_complete {
            kept.secrets.extend(self.kept_before().await?);
            kept.is_complete = true;
        }
        let secrets = |addon: &ManagedClusterAddOn| {
            registrations(addon, &self.driver).into_iter().map(|registration| registration.secret())
        };
        let registered: BTreeSet<Key> = addons.iter().flat_map(|addon| secrets(addon)).collect();
        let on_hub: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), self.cluster);
        for (key, addon) in kept.unregistered(&registered, !addons.is_empty(), Instant::now()) {
            let live = on_hub.get_opt(&addon).await.map_err(api("look for an add-on that may be gone"))?;
            if live.iter().flat_map(secrets).any(|secret| secret == key) {
                continue;
            }
            let of_cluster: Api<Secret> = Api::namespaced(self.spoke.clone(), &key.namespace);
            match of_cluster.delete(&key.name, &DeleteParams::default()).await {
                Ok(_) => info!(secret = %key, "the add-on is gone, and so are its credentials"),
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(api("delete the credentials of the add-on")(error)),
            }
            kept.secrets.remove(&key);
        }
        Ok(())
    }

    /// Returns the secrets of the add-ons of this cluster on this hub. Agents of other hubs may keep theirs
    /// beside them.
    async fn kept_before(&self) -> Result<Vec<(Key, String)>, JoinError> {
        let hub = self.hub.label();
        let ours = format!("{CLUSTER_NAME_LABEL}={},{ADDON_CREDENTIALS_LABEL}={hub}", self.cluster);
        let secrets = Api::<Secret>::all(self.spoke.clone());
        let found = secrets.list_metadata(&ListParams::default().labels(&ours)).await;
        let found = found.map_err(api("list the credentials of add-ons"))?;
        let kept = found.items.into_iter().filter_map(|secret| {
            let addon = secret.metadata.labels?.remove(ADDON_NAME_LABEL)?;
            let name = secret.metadata.name.filter(|name| is_secret_of(&addon, name))?;
            Some((Key::namespaced(secret.metadata.namespace?, name), addon))
        });
        Ok(kept.collect())
    }
}

pub(super) fn secret_name(addon: &str) -> String {
    format!("{addon}-hub-kubeconfig")
}

fn is_secret_of(addon: &str, name: &str) -> bool {
    let is_custom =
        name.strip_prefix(addon).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(CUSTOM_SECRET));
    name == secret_name(addon) || is_custom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_that_lists_no_addon_takes_no_credentials_for_an_hour() {
        let (gone, other) =
            (Key::namespaced("n", "a-hub-kubeconfig"), Key::namespaced("n", "b-hub-kubeconfig"));
        let secrets = BTreeMap::from([(gone.clone(), "a".to_owned()), (other.clone(), "b".to_owned())]);
        let mut kept = StoredSecrets { secrets, ..StoredSecrets::default() };
        let (start, minute) = (Instant::now(), Duration::from_mins(1));
        let none = BTreeSet::new();
        assert_eq!(kept.unregistered(&none, false, start), []);
        assert_eq!(kept.unregistered(&none, false, start + GRACE - minute), []);
        // One add-on that is gone from among others is no accident of the hub.
        let registered = BTreeSet::from([other.clone()]);
        assert_eq!(kept.unregistered(&registered, true, start + GRACE), [(gone.clone(), "a".to_owned())]);
        assert_eq!(kept.unregistered(&none, false, start + GRACE + minute), [], "the hour begins again");
        let all = [(gone, "a".to_owned()), (other, "b".to_owned())];
        assert_eq!(kept.unregistered(&none, false, start + GRACE * 2 + minute), all);
    }
}
