//! The part of an add-on's status that the cluster's agent writes: how the add-on proves its identity, and
//! whether its credentials are fresh. The cluster's own status says the same about the agent.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::warn;

use super::addon_registration::{AddOns, Proof, RETRY, Registration};
use super::credentials::Credentials;
use super::error::{JoinError, api};
use super::wait::Wait;
use crate::shell::{now, with_causes};
use api::Condition;
use api::addon::token;
use api::addon::v1alpha1::{KubeClientDriver, ManagedClusterAddOn, Subject};
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions, Observation, set_condition};
use api::names::KUBE_CLIENT_SIGNER;
use object::duration::later;

/// Returns the condition after a new certificate, with OCM's message.
pub(super) fn rotated(credentials: &Credentials) -> Observation {
    let (from, until) = credentials.validity();
    Observation::new(CERTIFICATE, True, "ClientCertificateUpdated")
        .message(format!("client certificate rotated starting from {from} to {until}"))
}

/// Returns the condition after a new token.
pub(super) fn refreshed(until: Timestamp) -> Observation {
    Observation::new(TOKEN, True, "AddonTokenRefreshed")
        .message(format!("token refreshed, valid until {until}"))
}

/// The wait for a certificate after which the agent reports it. It doubles with each report, because a report
/// may conflict with other writers of the status.
const LONG_WAIT: Duration = Duration::from_secs(10);
/// The longest time between two reports.
const LONGEST_WAIT: Duration = Duration::from_mins(10);
/// The number of conflicts after which a report is not retried at once. Each conflict means that another writer
/// has succeeded, and an add-on has few writers.
const MAX_CONFLICTS: u32 = 8;
const CERTIFICATE: &str = "ClusterCertificateRotated";
const TOKEN: &str = "TokenRefreshed";

impl AddOns<'_> {
    /// Writes to the hub how the add-on proves its identity, so that it gets permissions under its name there.
    pub(super) async fn write_driver(&self, addon: &str) -> Result<Timestamp, JoinError> {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), &self.options.cluster);
        let live = addons.get(addon).await.map_err(api("read the add-on"))?;
        let mut new = live.clone();
        let status = new.status.get_or_insert_default();
        status.kube_client_driver = Some(self.options.addon_driver.clone());
        let client = status.registrations.iter_mut().find(|asked| asked.signer_name == KUBE_CLIENT_SIGNER);
        if let Some(client) = client {
            let user = token::user(&self.options.cluster, addon);
            let is_token = self.options.addon_driver == KubeClientDriver::Token;
            client.subject = is_token.then(|| Subject { user, ..Subject::default() });
        }
        let status =
            json!({"kubeClientDriver": status.kube_client_driver, "registrations": status.registrations});
        patch_status(&addons, &live, &status).await?;
        Ok(later(now(), RETRY))
    }

    /// Reports on the hub how fresh an add-on's credentials are, unless the status already says so.
    pub(super) async fn report(&self, addon: &str, observed: Observation) -> Result<(), JoinError> {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), &self.options.cluster);
        report(&addons, addon, observed).await
    }

    /// Reports why there are no fresh credentials. If the report fails, logs that.
    pub(super) async fn report_failure(&self, registration: &Registration, error: &JoinError) {
        let (condition, reason) = match registration.proof {
            Proof::Token(_) => (TOKEN, "TokenCreationFailed"),
            Proof::Certificate => (CERTIFICATE, "ClientCertificateUpdateFailed"),
            Proof::OtherDriver | Proof::NoAccount => return,
        };
        let Some(message) = failure(error) else { return };
        self.report_missing(registration, Observation::new(condition, False, reason).message(message)).await;
    }

    /// Waits for a certificate, and reports a long wait on the hub.
    pub(super) async fn waiting(
        &self,
        registration: &Registration,
        issued: impl Future<Output = Result<String, JoinError>>,
    ) -> Result<String, JoinError> {
        reporting(issued, || self.report_missing(registration, waiting_for(&registration.signer))).await
    }

    async fn report_missing(&self, registration: &Registration, observed: Observation) {
        if let Err(error) = self.report(&registration.addon, observed).await {
            let (addon, error) = (&registration.addon, with_causes(&error));
            warn!(addon, error, "cannot report the missing credentials on the hub");
        }
    }
}

/// Returns true if the hub shows that the add-on has its certificate.
pub(super) fn is_rotated(addon: &ManagedClusterAddOn) -> bool {
    addon.condition(CERTIFICATE).is_some_and(Condition::is_true)
}

/// Returns the condition during the wait for a certificate.
pub(super) fn waiting_for(signer: &str) -> Observation {
    let message =
        format!("waiting for a certificate from {signer}: approve and sign the certificate request");
    Observation::new(CERTIFICATE, False, "ClientCertificateUpdateFailed").message(message)
}

/// Returns the condition after a failure to get a certificate; `None` if the agent is stopping.
pub(super) fn not_rotated(error: &JoinError) -> Option<Observation> {
    Some(Observation::new(CERTIFICATE, False, "ClientCertificateUpdateFailed").message(failure(error)?))
}

/// Returns the reason for missing credentials, with OCM's message if there is one.
fn failure(error: &JoinError) -> Option<String> {
    match error {
        JoinError::TooManyRequests(_) => {
            Some("Stop creating csr since there are too many csr created already on hub".to_owned())
        }
        JoinError::Stopped => None,
        error => Some(with_causes(error)),
    }
}

/// Waits for a certificate, and calls `report` each time that the wait is long.
pub(super) async fn reporting<T, R: Future<Output = ()>>(
    issued: impl Future<Output = Result<T, JoinError>>,
    report: impl Fn() -> R,
) -> Result<T, JoinError> {
    let mut issued = pin!(issued);
    let mut wait = Wait::new(LONG_WAIT, LONGEST_WAIT);
    loop {
        tokio::select! {
            certificate = &mut issued => return certificate,
            () = sleep(wait.take()) => {}
        }
        report().await;
    }
}

/// Writes a condition of an object on the hub, unless it is already there. Reads the object again if another
/// client, such as another registration of the add-on, has written the status at the same time.
pub(super) async fn report<K>(objects: &Api<K>, name: &str, observed: Observation) -> Result<(), JoinError>
where
    K: Conditions + kube::Resource + Clone + Debug + DeserializeOwned,
{
    let mut conflicts = 0;
    loop {
        let live = objects.get(name).await.map_err(api("read the object of a status"))?;
        let mut conditions = live.conditions().to_vec();
        set_condition(&mut conditions, observed.clone(), now());
        if conditions == live.conditions() {
            return Ok(());
        }
        let written = patch_status(objects, &live, &json!({"conditions": conditions})).await;
        if conflicts == MAX_CONFLICTS || !written.as_ref().is_err_and(JoinError::is_conflict) {
            return written;
        }
        conflicts += 1;
    }
}

async fn patch_status<K>(objects: &Api<K>, live: &K, status: &Value) -> Result<(), JoinError>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let version = live.meta().resource_version.as_deref().unwrap_or_default();
    let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
    let name = live.meta().name.as_deref().unwrap_or_default();
    let written = objects.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    written.map(drop).map_err(api("write a status on the hub"))
}
