//! The identities of add-ons. The agent requests their certificates or tokens under the cluster's own identity,
//! and stores them in secrets in the namespaces of the add-ons.
//!
//! It reads the add-ons from the caches of the agent's shell, without a request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::addon_registration::{AddOns, Proof, RETRY, Registration};
use super::addon_secrets::StoredSecrets;
use super::addon_status::{self, rotated};
use super::credentials::Credentials;
use super::error::JoinError;
use super::join::{CertificateOwner, certify};
use crate::pki;
use crate::shell::{Handle, WallClockWait, now, with_causes};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::names::DEFAULT_ADDON_NAMESPACE;
use object::Metadata as _;
use object::duration::{doubled, later};
use reconcile::{Query, View as _};

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait after failed attempts. Each attempt may create a certificate request, which the hub keeps
/// for an hour after denying it.
const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// The longest wait after a success. The renewal may be months away, and somebody may delete the credentials
/// before. A check reads one secret.
const LONGEST_WAIT_TO_LOOK: SignedDuration = SignedDuration::from_mins(5);

/// The known state of a registration's credentials before an attempt.
#[derive(Clone, Copy)]
struct Known {
    /// The wait for the renewal after a success.
    renewal: Option<WallClockWait>,
    /// True if the hub shows that the add-on has its certificate.
    is_rotated: bool,
}

/// The attempts to get the identity of one registration.
#[derive(Default)]
struct RegistrationAttempts {
    /// The number of failures in a row.
    failures: u32,
    /// The wait for the renewal after a success.
    renewal: Option<WallClockWait>,
    /// The wait for the next attempt.
    wait: Option<WallClockWait>,
}

impl RegistrationAttempts {
    /// Records the end of an attempt. `again` is when to check again, or `None` if the attempt failed.
    fn ended(&mut self, again: Option<Timestamp>, now: Timestamp) {
        self.failures = if again.is_some() { 0 } else { self.failures.saturating_add(1) };
        // If the clock is ahead, new credentials are due for renewal at once.
        let earliest = later(now, doubled(RETRY, LONGEST_RETRY, self.failures));
        let latest = later(now, LONGEST_WAIT_TO_LOOK);
        let until = again.map_or(earliest, |again| again.min(latest).max(earliest));
        self.renewal = again.map(|until| WallClockWait { since: now, until });
        self.wait = Some(WallClockWait { since: now, until });
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.wait.is_none_or(|wait| wait.is_over(now))
    }
}

impl AddOns<'_> {
    /// Gets credentials for add-ons that have no fresh ones, several at a time, until `stop`.
    pub(super) async fn keep(&self, shell: Handle, stop: &CancellationToken) {
        let mut ended: BTreeMap<Registration, RegistrationAttempts> = BTreeMap::new();
        let mut stored = StoredSecrets::default();
        let mut running: BTreeMap<Registration, CancellationToken> = BTreeMap::new();
        let mut attempts = FuturesUnordered::new();
        if let Err(error) = self.has_namespace(false, DEFAULT_ADDON_NAMESPACE).await {
            let error = with_causes(&error);
            warn!(error, "cannot ensure that the add-on namespace exists");
        }
        while !stop.is_cancelled() {
            let addons = shell.caches().list::<ManagedClusterAddOn>(Query::namespace(&self.options.cluster));
            if let Ok(addons) = &addons
                && stored.is_due(now())
                && let Err(error) = self.delete_credentials(&mut stored, addons).await
            {
                let error = with_causes(&error);
                warn!(error, "cannot delete the credentials of a removed add-on; retrying");
            }
            if let Ok(addons) = &addons {
                let registered = self.registered(addons.iter());
                running.iter().filter(|(of, _)| !registered.contains(of)).for_each(|(_, over)| over.cancel());
            }
            let living = addons.iter().flatten().filter(|addon| addon.metadata.deletion_timestamp.is_none());
            let wanted = self.registered(living);
            ended.retain(|registration, _| wanted.contains(registration));
            for registration in wanted {
                if !running.contains_key(&registration)
                    && ended.get(&registration).is_none_or(|attempts| attempts.is_due(now()))
                {
                    let over = stop.child_token();
                    running.insert(registration.clone(), over.clone());
                    let is_rotated = addons
                        .iter()
                        .flatten()
                        .any(|addon| addon.name() == registration.addon && addon_status::is_rotated(addon));
                    let renewal = ended.get(&registration).and_then(|attempts| attempts.renewal);
                    attempts.push(self.ensure(registration, Known { renewal, is_rotated }, over));
                }
            }
            tokio::select! {
                Some((registration, result)) = attempts.next() => {
                    if let Err(error) = &result && !matches!(error, JoinError::Stopped) {
                        let (addon, error) = (&registration.addon, with_causes(error));
                        warn!(addon, error, "cannot get credentials for the add-on; retrying");
                    }
                    running.remove(&registration);
                    if !matches!(result, Err(JoinError::OfAnotherCluster { .. })) {
                        stored.add(&registration);
                    }
                    ended.entry(registration).or_default().ended(result.ok(), now());
                }
                () = sleep(CHECK_INTERVAL) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    fn registered<'b>(
        &self,
        addons: impl Iterator<Item = &'b Arc<ManagedClusterAddOn>>,
    ) -> BTreeSet<Registration> {
        addons.flat_map(|addon| self.registrations(addon)).collect()
    }

    /// Ensures that an add-on has credentials, and returns when to renew them. It replaces none before the
    /// renewal is due: otherwise, two agents that share a secret would endlessly replace each other's
    /// credentials.
    async fn ensure(
        &self,
        registration: Registration,
        known: Known,
        stop: CancellationToken,
    ) -> (Registration, Result<Timestamp, JoinError>) {
        // A read error does not mean that the secret is gone.
        if let Some(renewal) = known.renewal.filter(|renewal| !renewal.is_over(now()))
            && !matches!(self.stored(&registration).await, Ok(None))
        {
            return (registration, Ok(renewal.until));
        }
        let result = match &registration.proof {
            Proof::OtherDriver => self.write_driver(&registration.addon).await,
            Proof::Certificate => self.credentials(&registration, known, &stop).await,
            Proof::Token(uid) => self.token(&registration, uid).await,
            // The hub creates the service account first. Its uid then makes this another registration.
            Proof::NoAccount => return (registration, Ok(later(now(), RETRY))),
        };
        if let Err(error) = &result {
            self.report_failure(&registration, error).await;
        }
        (registration, result)
    }

    async fn credentials(
        &self,
        registration: &Registration,
        known: Known,
        stop: &CancellationToken,
    ) -> Result<Timestamp, JoinError> {
        let Registration { addon, signer, user, groups, units, namespace: _, proof: _, is_hosted: _ } =
            registration;
        if !self.has_namespace(registration.is_hosted, &registration.namespace).await? {
            return Ok(later(now(), RETRY));
        }
        let fresh = self
            .stored(registration)
            .await?
            .and_then(|secret| match registration.is_of_the_hub() {
                true => Credentials::from_secret(&secret)
                    .filter(|stored| self.hub.is_named_by(&stored.kubeconfig)),
                false => Credentials::from_certificate(&secret),
            })
            .filter(|stored| registration.is_named_by(&stored.subject));
        if let Some(fresh) = fresh.filter(|stored| stored.renew_at() > now()) {
            // An earlier attempt may have stored the credentials without reporting them.
            if !known.is_rotated {
                self.report(addon, rotated(&fresh)).await?;
            }
            return Ok(fresh.renew_at());
        }
        let key = pki::KeyPair::generate()?;
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let dns_name = format!("{addon}.addon.open-cluster-management.io");
        let mut subject = pki::Subject::new(user.clone(), &groups);
        subject.organizational_units.clone_from(units);
        let request = pki::request(&key, &subject, &[&dns_name])?;
        let owner =
            CertificateOwner { cluster: &self.options.cluster, addon: Some(addon), signer, seconds: None };
        let certificate = self.waiting(registration, certify(self.client, owner, request, stop)).await?;
        let kubeconfig = match registration.is_of_the_hub() {
            true => self.hub.stored_kubeconfig()?,
            false => String::new(),
        };
        let credentials = Credentials::read(certificate, key.to_pem(), kubeconfig)?;
        let mut data = vec![
            ("cluster-name", self.options.cluster.as_str()),
            ("tls.crt", credentials.certificate.as_str()),
            ("tls.key", &credentials.key),
        ];
        if registration.is_of_the_hub() {
            data.push(("kubeconfig", &credentials.kubeconfig));
        }
        // The add-on's registration may have changed, with another attempt for the same secret.
        if stop.is_cancelled() {
            return Err(JoinError::Stopped);
        }
        self.store(registration, &data).await?;
        self.report(addon, rotated(&credentials)).await?;
        Ok(credentials.renew_at())
    }
}

#[cfg(test)]
#[path = "tests/addons.rs"]
mod tests;
