//! State that is kept between plans: the times of first writes, the hosting cluster of each add-on, and the
//! contents of configurations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;

use crate::multimap;
use crate::sealing::recipient;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::{ConditionStatus, Conditions as _};
use api::names::cluster_conditions;
use engine::addon::error::AddOnError;
use engine::addon::hosting::hosting_cluster;
use engine::addon::registration::Sources;
use object::{Key, Metadata as _};
use reconcile::{Change, Index, Observes, Query, Read, View};
use seal::Recipient;

/// The index of the controller.
#[derive(Default)]
pub(super) struct DeployIndex {
    /// For each add-on with an open rollout, when the hub first wrote for it.
    deployed: BTreeMap<Key, Timestamp>,
    /// The add-ons hosted on each cluster, by cluster name.
    hosted: BTreeMap<String, BTreeSet<Key>>,
}

impl Index for DeployIndex {
    fn build(view: &impl View) -> Read<Self> {
        let mut index = Self::default();
        for addon in view.list_readable::<ManagedClusterAddOn>(Query::ALL)? {
            index.add(&addon);
        }
        Ok(index)
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManagedClusterAddOn>(|index, change| {
            if let Some(old) = &change.old {
                index.remove(old);
            }
            match change {
                Change { new: Some(new), old: _ } => index.add(new),
                Change { old: Some(old), new: None } => {
                    index.deployed.remove(&Key::of(&**old));
                }
                Change { old: None, new: None } => {}
            }
            Vec::new()
        });
        observes.on::<ManagedCluster>(|index, change| {
            let cluster = change.latest().filter(|_| change.differs_in(state_of));
            let hosted = cluster.and_then(|cluster| index.hosted.get(cluster.name()));
            hosted.into_iter().flatten().cloned().collect()
        });
    }
}

impl DeployIndex {
    /// Returns when the hub first wrote for the open rollout of an add-on.
    pub(super) fn deployed(&self, key: &Key) -> Option<Timestamp> {
        self.deployed.get(key).copied()
    }

    /// Stores when the hub first wrote for the open rollout of an add-on; `None` if it has not, or if no rollout
    /// is open.
    pub(super) fn keep_deployed(&mut self, key: &Key, deployed: Option<Timestamp>) {
        match deployed {
            Some(deployed) => self.deployed.insert(key.clone(), deployed),
            None => self.deployed.remove(key),
        };
    }

    fn add(&mut self, addon: &ManagedClusterAddOn) {
        if let Some(host) = hosting_cluster(addon) {
            self.hosted.entry(host.to_owned()).or_default().insert(Key::of(addon));
        }
    }

    fn remove(&mut self, addon: &ManagedClusterAddOn) {
        if let Some(host) = hosting_cluster(addon) {
            multimap::remove(&mut self.hosted, host, &Key::of(addon));
        }
    }
}

/// Maximum number of cached configuration contents: 16 of 100 kB are 2 MB.
const MAX_CONTENTS: usize = 16;

/// The most recently read configuration contents. Most clusters share the same.
#[derive(Default)]
pub(super) struct ReadContents(VecDeque<ReadContent>);

/// The contents of a template and a deployment configuration, and their snapshots.
struct ReadContent {
    template: Arc<ControllerRevision>,
    config: Option<Arc<ControllerRevision>>,
    sources: Arc<Sources>,
}

impl Index for ReadContents {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(_: &mut O) {}
}

impl ReadContents {
    /// Returns the contents of snapshots. A changed snapshot has a different address in the caches.
    pub(super) fn of(
        &mut self,
        template: Arc<ControllerRevision>,
        config: Option<Arc<ControllerRevision>>,
    ) -> Result<Arc<Sources>, AddOnError> {
        let is_it = |known: &&ReadContent| {
            Arc::ptr_eq(&known.template, &template)
                && known.config.as_ref().map(Arc::as_ptr) == config.as_ref().map(Arc::as_ptr)
        };
        if let Some(known) = self.0.iter().find(is_it) {
            return Ok(Arc::clone(&known.sources));
        }
        let sources = Arc::new(Sources::read(&template, config.as_deref())?);
        self.0.truncate(MAX_CONTENTS - 1);
        self.0.push_front(ReadContent { template, config, sources: Arc::clone(&sources) });
        Ok(sources)
    }
}

/// The state of a cluster that affects its add-ons.
#[derive(PartialEq)]
pub(super) struct ClusterFacts {
    is_accepted: bool,
    is_deleted: bool,
    /// Status, reason and message of its condition `Available`.
    available: Option<(ConditionStatus, String, String)>,
    /// The key for which its Secrets are encrypted.
    recipient: Option<Recipient>,
}

pub(super) fn state_of(cluster: &ManagedCluster) -> ClusterFacts {
    let available = cluster.condition(cluster_conditions::AVAILABLE);
    ClusterFacts {
        is_accepted: cluster.spec.hub_accepts_client,
        is_deleted: cluster.is_terminating(),
        available: available.map(|c| (c.status.clone(), c.reason.clone(), c.message.clone())),
        recipient: recipient(cluster),
    }
}
