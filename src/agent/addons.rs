//! The identities of add-ons. The agent asks for their certificates under the cluster's own identity, and keeps them in secrets of the
//! namespaces that the add-ons run in.
//!
//! It finds the add-ons in the caches of the agent's shell, which costs no request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::hub::Hub;
use super::join::{Asker, Credentials, JoinError, api, certify};
use crate::pki;
use crate::shell::{Handle, now};
use api::addon::v1alpha1::{ManagedClusterAddOn, Subject};
use api::names::{DEFAULT_ADDON_NAMESPACE, KUBE_CLIENT_SIGNER};
use reconcile::{Query, View as _};

/// Time between two looks for add-ons without credentials.
const LOOK: Duration = Duration::from_secs(1);
/// Time to wait after a failed attempt: the namespace of the add-on may not exist yet.
const RETRY: SignedDuration = SignedDuration::from_secs(10);

/// Keeps the identities of a cluster's add-ons.
pub(super) struct Addons<'a> {
    pub(super) hub: &'a Hub,
    pub(super) client: &'a kube::Client,
    pub(super) spoke: &'a kube::Client,
    pub(super) cluster: &'a str,
}

/// An add-on that asks for a client certificate of the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Registration {
    addon: String,
    namespace: String,
    user: String,
    groups: Vec<String>,
}

impl Addons<'_> {
    /// Looks for add-ons without fresh credentials until `stop`, and gets them some, several at a time.
    pub(super) async fn keep(&self, shell: Handle, stop: &CancellationToken) {
        let mut due: BTreeMap<Registration, Timestamp> = BTreeMap::new();
        let mut running: BTreeSet<Registration> = BTreeSet::new();
        let mut attempts = FuturesUnordered::new();
        while !stop.is_cancelled() {
            let addons = shell.caches().list::<ManagedClusterAddOn>(Query::namespace(self.cluster));
            let wanted: BTreeSet<Registration> =
                addons.unwrap_or_default().iter().filter_map(|addon| registration(addon)).collect();
            due.retain(|registration, _| wanted.contains(registration));
            for registration in wanted {
                if !running.contains(&registration) && due.get(&registration).is_none_or(|at| *at <= now()) {
                    running.insert(registration.clone());
                    attempts.push(self.ensure(registration, stop));
                }
            }
            tokio::select! {
                Some((registration, result)) = attempts.next() => {
                    let again = result.unwrap_or_else(|error| {
                        warn!(addon = registration.addon, %error, "cannot get credentials for the add-on yet");
                        now().saturating_add(RETRY).unwrap_or(Timestamp::MAX)
                    });
                    running.remove(&registration);
                    due.insert(registration, again);
                }
                () = sleep(LOOK) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Makes sure that an add-on has credentials; says when to look again.
    async fn ensure(
        &self,
        registration: Registration,
        stop: &CancellationToken,
    ) -> (Registration, Result<Timestamp, JoinError>) {
        let result = self.credentials(&registration, stop).await;
        (registration, result)
    }

    async fn credentials(
        &self,
        registration: &Registration,
        stop: &CancellationToken,
    ) -> Result<Timestamp, JoinError> {
        let Registration { addon, namespace, user, groups } = registration;
        let namespaces: Api<Namespace> = Api::all(self.spoke.clone());
        if namespaces.get_opt(namespace).await.map_err(api("look for the namespace of the add-on"))?.is_none()
        {
            return Ok(now().saturating_add(RETRY).unwrap_or(Timestamp::MAX));
        }
        let secrets: Api<Secret> = Api::namespaced(self.spoke.clone(), namespace);
        let name = format!("{addon}-hub-kubeconfig");
        let kubeconfig = self.hub.stored_kubeconfig()?;
        let held = secrets.get_opt(&name).await.map_err(api("read the credentials of the add-on"))?;
        let fresh = held
            .and_then(|secret| Credentials::of_secret(&secret))
            .filter(|held| held.user == *user && held.kubeconfig == kubeconfig);
        if let Some(fresh) = fresh.filter(|held| held.renew_at() > now()) {
            return Ok(fresh.renew_at());
        }
        let key = pki::KeyPair::generate()?;
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let dns_name = format!("{addon}.addon.open-cluster-management.io");
        let request = pki::request(&key, &pki::Subject::new(user.clone(), &groups), &[&dns_name])?;
        let asker = Asker { cluster: self.cluster, addon: Some(addon) };
        let certificate = certify(self.client, asker, request, stop).await?;
        let credentials = Credentials::read(certificate, key.to_pem(), kubeconfig)?;
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": name, "namespace": namespace},
            "data": {
                "kubeconfig": bytes(&credentials.kubeconfig),
                "cluster-name": bytes(self.cluster),
                "tls.crt": bytes(&credentials.certificate),
                "tls.key": bytes(&credentials.key),
            },
        });
        let params = PatchParams::apply("wheelwright-agent").force();
        secrets
            .patch(&name, &params, &Patch::Apply(secret))
            .await
            .map_err(api("keep the credentials of the add-on"))?;
        info!(addon, namespace, "the add-on has credentials for the hub");
        Ok(credentials.renew_at())
    }
}

/// Returns the registrations of an add-on; one that is being deleted keeps its credentials for its last jobs.
fn registration(addon: &ManagedClusterAddOn) -> Option<Registration> {
    let status = addon.status.as_ref().filter(|_| addon.metadata.deletion_timestamp.is_none())?;
    let registration =
        status.registrations.iter().find(|registration| registration.signer_name == KUBE_CLIENT_SIGNER)?;
    let Subject { user, groups, .. } = registration.subject.clone()?;
    let namespace = if status.namespace.is_empty() {
        DEFAULT_ADDON_NAMESPACE.to_owned()
    } else {
        status.namespace.clone()
    };
    Some(Registration { addon: addon.metadata.name.clone()?, namespace, user, groups })
}
