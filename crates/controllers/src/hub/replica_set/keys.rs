//! The keys for the encrypted Secrets of a work, which are encrypted for its cluster.

use crate::sealing::{Sealing, recipient};
use api::cluster::v1::ManagedCluster;
use api::names::SEALED_KEYS_ANNOTATION;
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Key, Metadata as _};
use reconcile::{Read, View};
use seal::{HubKey, Recipient};

/// The reason that a cluster without a key gets no work with encrypted Secrets.
const NO_RECIPIENT: &str = "its agent publishes no key (the claim recipient.wheelwright.dev), so Secrets cannot be \
     encrypted for it; install Wheelwright's agent, or annotate the Secrets with gitops.wheelwright.dev/secret: plain";
/// The reason that an unreadable cluster gets no work with encrypted Secrets.
const UNREADABLE: &str = "its ManagedCluster cannot be read, so Secrets cannot be encrypted for it";
/// The reason that no cluster gets a work with encrypted Secrets.
const NO_KEY: &str = "the operator does not know its key to encrypt Secrets; see its log";

/// The keys that a work needs.
pub(super) enum WorkKeys {
    /// It has no encrypted Secrets.
    None,
    /// Those of the hub, encrypted for the cluster.
    For(Box<HubKey>, Recipient),
    /// A preview leaves them as they are.
    Unchanged,
}

impl WorkKeys {
    /// Returns the keys for a template on a cluster, or the reason that it cannot get them.
    ///
    /// # Errors
    /// Fails if the clusters have not been read.
    pub(super) fn read(
        spec: &ManifestWorkSpec,
        cluster: &str,
        view: &impl View,
    ) -> Read<Result<Self, &'static str>> {
        if !has_sealed_secrets(spec) {
            return Ok(Ok(Self::None));
        }
        let sealing = Sealing::of(view);
        let Some(key) = sealing.as_deref().and_then(Sealing::key) else {
            let is_preview = matches!(sealing.as_deref(), Some(Sealing::Preview));
            return Ok(if is_preview { Ok(Self::Unchanged) } else { Err(NO_KEY) });
        };
        let Some(cluster) = view.get_readable::<ManagedCluster>(&Key::cluster(cluster))? else {
            return Ok(Err(UNREADABLE));
        };
        let recipient = recipient(&cluster).ok_or(NO_RECIPIENT);
        Ok(recipient.map(|recipient| Self::For(Box::new(key.clone()), recipient)))
    }

    /// Returns true if a work whose template is up to date has these keys. They follow from the template and the
    /// recipient.
    pub(super) fn are_in(&self, work: &ManifestWork) -> bool {
        let annotation = work.annotation(SEALED_KEYS_ANNOTATION);
        match self {
            Self::None => annotation.is_none(),
            Self::For(_, recipient) => annotation.is_some_and(|keys| seal::is_for(keys, recipient)),
            Self::Unchanged => true,
        }
    }

    /// Adds the keys to a work of a set.
    pub(super) fn add(&self, set: &ManifestWorkReplicaSet, work: &mut ManifestWork) {
        let key = Key::of(work);
        let annotations = work.metadata.annotations.get_or_insert_default();
        match self {
            Self::None => drop(annotations.remove(SEALED_KEYS_ANNOTATION)),
            Self::For(hub, recipient) => {
                let keys = hub.keys(&Key::of(set), &key, &work.spec.workload.manifests, recipient);
                annotations.insert(SEALED_KEYS_ANNOTATION.into(), keys);
            }
            Self::Unchanged => {}
        }
    }
}

/// Returns true if a template has encrypted Secrets.
pub(super) fn has_sealed_secrets(spec: &ManifestWorkSpec) -> bool {
    seal::has_sealed(&spec.workload.manifests)
}
