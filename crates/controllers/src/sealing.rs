//! The key with which the operator encrypts Secrets for clusters, and the keys of a work, which it encrypts for the
//! agent of its cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use api::Manifest;
use api::cluster::v1::ManagedCluster;
use api::names::{RECIPIENT_CLAIM, SEALED_KEYS_ANNOTATION};
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _};
use reconcile::{Read, View};
use seal::{HubKey, Owner, Recipient};

/// The reason that a cluster without a key gets no work with encrypted Secrets.
const NO_RECIPIENT: &str = "its agent publishes no key (the claim recipient.wheelwright.dev), so Secrets cannot be \
     encrypted for it; install Wheelwright's agent, or annotate the Secrets with gitops.wheelwright.dev/secret: plain";
/// The reason that an unreadable cluster gets no work with encrypted Secrets.
const UNREADABLE: &str = "its ManagedCluster cannot be read, so Secrets cannot be encrypted for it";
/// The reason that no cluster gets a work with encrypted Secrets.
const NO_KEY: &str = "the operator does not know its key to encrypt Secrets; see its log";

/// The setting of a process for the encryption of Secrets.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// An operator. It loads its key when it first needs it.
    Hub(Arc<OnceLock<HubKey>>),
    /// A preview, which has no key, but the encrypted Secrets on the hub.
    Preview(Arc<SealedSecrets>),
}

/// The encrypted Secrets on a hub.
pub type SealedSecrets = BTreeMap<Owner, Vec<Manifest>>;

impl Sealing {
    /// Returns the setting of an operator that knows its key.
    pub fn with_key(key: HubKey) -> Self {
        Self::Hub(Arc::new(OnceLock::from(key)))
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

/// The keys that a work needs.
pub(crate) enum WorkKeys {
    /// It has no encrypted Secrets.
    None,
    /// Those of the hub, encrypted for the cluster.
    For(Box<HubKey>, Recipient),
    /// A preview leaves them as they are.
    Unchanged,
}

impl WorkKeys {
    /// Returns the keys for manifests on a cluster, or the reason that it cannot get them.
    ///
    /// # Errors
    /// Fails if the clusters have not been read.
    pub(crate) fn read(
        manifests: &[Manifest],
        cluster: &str,
        view: &impl View,
    ) -> Read<Result<Self, &'static str>> {
        if !seal::has_sealed(manifests) {
            return Ok(Ok(Self::None));
        }
        let Some(cluster) = view.get_readable::<ManagedCluster>(&Key::cluster(cluster))? else {
            return Ok(Err(UNREADABLE));
        };
        let Some(recipient) = recipient(&cluster) else { return Ok(Err(NO_RECIPIENT)) };
        Ok(match Sealing::of(view).as_deref() {
            Some(Sealing::Preview(_)) => Ok(Self::Unchanged),
            Some(Sealing::Hub(key)) => {
                key.get().map(|key| Self::For(Box::new(key.clone()), recipient)).ok_or(NO_KEY)
            }
            None => Err(NO_KEY),
        })
    }

    /// Returns true if a work whose template is up to date has these keys. They follow from the template and the
    /// recipient.
    pub(crate) fn are_in(&self, work: &ManifestWork) -> bool {
        let annotation = work.annotation(SEALED_KEYS_ANNOTATION);
        match self {
            Self::None => annotation.is_none(),
            Self::For(_, recipient) => annotation.is_some_and(|keys| seal::is_for(keys, recipient)),
            Self::Unchanged => true,
        }
    }

    /// Adds the keys to a work with the Secrets of an owner.
    pub(crate) fn add(&self, owner: &Owner, work: &mut ManifestWork) {
        match self {
            Self::None => {
                if let Some(annotations) = &mut work.metadata.annotations {
                    annotations.remove(SEALED_KEYS_ANNOTATION);
                }
            }
            Self::For(hub, recipient) => {
                let keys = hub.keys(owner, &Key::of(work), &work.spec.workload.manifests, recipient);
                let annotations = work.metadata.annotations.get_or_insert_default();
                annotations.insert(SEALED_KEYS_ANNOTATION.into(), keys);
            }
            Self::Unchanged => {}
        }
    }
}
