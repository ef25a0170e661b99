//! Certificates with their keys: the agent's identity, and the credentials of add-ons.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use super::error::JoinError;
use crate::pki;
use api::names::SUBJECT_PREFIX;

/// The identity of an agent: certificate and key, in PEM.
#[derive(Clone)]
pub(super) struct Credentials {
    /// Distinguishes two agents of one cluster.
    pub(super) agent: String,
    pub(super) certificate: String,
    /// Never logged.
    pub(super) key: String,
    /// The kubeconfig stored with the certificate; empty if the certificate is new.
    pub(super) kubeconfig: String,
    pub(super) subject: pki::Subject,
    from: Timestamp,
    pub(super) until: Timestamp,
}

impl Credentials {
    pub(super) fn read(certificate: String, key: String, kubeconfig: String) -> Result<Self, JoinError> {
        let pki::Certificate { subject, names: _, not_before: from, not_after: until } =
            pki::Certificate::from_pem(&certificate)?;
        let agent = subject.common_name.rsplit(':').next().unwrap_or_default().to_owned();
        Ok(Self { agent, certificate, key, kubeconfig, subject, from, until })
    }

    /// Reads the identity in a secret; `None` if it has none.
    pub(super) fn from_secret(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        Self::read(text("tls.crt")?, text("tls.key")?, text("kubeconfig")?).ok()
    }

    /// Reads a certificate that is not an identity on the hub; `None` if the secret has none.
    pub(super) fn from_certificate(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        Self::read(text("tls.crt")?, text("tls.key")?, String::new()).ok()
    }

    /// Returns true if this is the identity of an agent of this cluster.
    pub(super) fn is_of(&self, cluster: &str) -> bool {
        self.subject.common_name == user(cluster, &self.agent) && !self.agent.is_empty()
    }

    /// Returns the cluster that the identity is for.
    pub(super) fn cluster(&self) -> &str {
        let named = self.subject.common_name.strip_prefix(SUBJECT_PREFIX).unwrap_or_default();
        named.split(':').next().unwrap_or_default()
    }

    /// Returns the start and the end of the validity.
    pub(super) fn validity(&self) -> (Timestamp, Timestamp) {
        (self.from, self.until)
    }

    pub(super) fn expires(&self) -> Timestamp {
        self.until
    }

    /// Returns the renewal time: when 20 to 25 % of the lifetime is left, different for each agent.
    pub(super) fn renew_at(&self) -> Timestamp {
        let life = self.from.duration_until(self.until);
        let spread = self.agent.bytes().fold(0_i64, |sum, byte| (sum * 31 + i64::from(byte)) % 50);
        let left = SignedDuration::from_millis_i128(
            life.as_millis().saturating_mul(i128::from(200 + spread)) / 1000,
        );
        self.until.saturating_sub(left).unwrap_or(self.until)
    }
}

/// Returns the name of the user that a cluster's agent has on the hub.
pub(super) fn user(cluster: &str, agent: &str) -> String {
    format!("{SUBJECT_PREFIX}{cluster}:{agent}")
}
