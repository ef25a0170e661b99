//! The key with which the operator encrypts Secrets for clusters, and the keys for which it encrypts them.

use std::sync::{Arc, OnceLock};

use api::cluster::v1::ManagedCluster;
use api::names::RECIPIENT_CLAIM;
use reconcile::View;
use seal::{HubKey, Recipient};

/// The setting of a process for the encryption of Secrets.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// An operator. It loads its key when it first needs it.
    Hub(Arc<OnceLock<HubKey>>),
    /// A preview, which has no key.
    Preview,
}

impl Sealing {
    /// Returns the setting of an operator that knows its key.
    pub fn with_key(key: HubKey) -> Self {
        Self::Hub(Arc::new(OnceLock::from(key)))
    }

    /// Returns the key of the operator, if it is known.
    pub(crate) fn key(&self) -> Option<&HubKey> {
        match self {
            Self::Hub(key) => key.get(),
            Self::Preview => None,
        }
    }

    /// Returns the setting of this process.
    pub(crate) fn of(view: &impl View) -> Option<Arc<Self>> {
        view.settings::<Self>()
    }
}

/// Returns the key that the agent of a cluster publishes.
pub(crate) fn recipient(cluster: &ManagedCluster) -> Option<Recipient> {
    let claims = &cluster.status.as_ref()?.cluster_claims;
    claims.iter().find(|claim| claim.name == RECIPIENT_CLAIM)?.value.parse().ok()
}
