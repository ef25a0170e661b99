//! Actions of people, tests and the network in a world.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::process::Process;
use super::{Spoke, World};
use api::cluster::v1::ManagedCluster;
use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use api::work::v1::ManifestWork;
use controllers::agent_identity::{AgentIdentity, AgentSettings};
use controllers::random_values;
use object::tree::{Checkout, FileTree};
use object::{Key, Kind, Object, ObjectRef, Seed};
use preview::{install, workload};
use reconcile::{Caches, Query, Scope, Source, SourceFailure, SourceIdentity, View as _};
use store::{DeleteOptions, ListOptions, Patch, ResourcePath, Store, WriteOptions};

impl World {
    /// Adds an accepted cluster whose agent has joined.
    ///
    /// # Errors
    /// Returns the hub's message if it rejects the cluster.
    pub fn join(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        workloads: workload::Environment,
    ) -> Result<(), String> {
        let mut store = Store::new(self.random.draw(), self.now);
        install(&mut store, crds::spoke(), self.now);
        let settings = AgentSettings::new(AgentIdentity {
            cluster: name.into(),
            agent_id: "agent".into(),
            hub_hash: "hub".into(),
            is_claimed: true,
        });
        self.checker.follow(Some(name), &mut store, self.now);
        let agent = self.agent(&settings);
        self.spokes.insert(
            name.into(),
            Spoke {
                store,
                settings,
                workloads,
                connected: true,
                answers: true,
                version: "v1.36.0".into(),
                agent,
                seen: 0,
                wake_at: None,
            },
        );
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let mut cluster = Object::from_typed(&ManagedCluster::default());
        cluster.0.insert("metadata".into(), json!({ "name": name, "labels": labels }));
        cluster.0.insert("spec".into(), json!({ "hubAcceptsClient": true, "leaseDurationSeconds": 60 }));
        self.apply(cluster)
    }

    /// Applies an object to the hub as a user would.
    ///
    /// # Errors
    /// Returns the hub's message if it rejects the write.
    pub fn apply(&mut self, object: Object) -> Result<(), String> {
        self.apply_as("user", object)
    }

    /// Applies an object to the hub under the name of a field manager.
    ///
    /// # Errors
    /// As for [`World::apply`].
    pub fn apply_as(&mut self, manager: &str, object: Object) -> Result<(), String> {
        apply(&mut self.hub, manager, object, self.now)?;
        self.fetch_again();
        Ok(())
    }

    /// Hands the source to a new ConfigRepo or one whose reconcile-at annotation changed, as the source controller
    /// does. If a ConfigRepo's reference changed, it gets no source until the next commit.
    fn fetch_again(&mut self) {
        for (repo, before) in self.sources.clone() {
            let source = self.fetched(&repo, before.checkout.clone(), before.failure.clone());
            let same = SourceIdentity { uid: source.identity.uid.clone(), ..before.identity.clone() };
            let is_same = same == source.identity || before.identity == SourceIdentity::default();
            if is_same && source != before {
                self.set_source(&repo, source);
            }
        }
    }

    /// Returns the result of a fetch for the current ConfigRepo.
    fn fetched(&self, repo: &Key, checkout: Option<Arc<Checkout>>, failure: Option<SourceFailure>) -> Source {
        let found = self.hub.get(&ResourcePath::of::<ConfigRepo>(repo)).ok();
        match found.and_then(|object| object.to_typed::<ConfigRepo>().ok()) {
            Some(repo) => {
                let secret = self.get::<Secret>(&random_values::key(&repo));
                let seed = secret.map(|secret| random_values::seed(&repo, &secret));
                let entropy = Some(Seed { bytes: [7; 32], time: Timestamp::UNIX_EPOCH });
                Source { seed, entropy, ..Source::of(&repo, checkout, failure) }
            }
            None => Source { checkout, failure, ..Source::default() },
        }
    }

    /// Merges a patch into the status of a hub object, as an agent does.
    ///
    /// # Errors
    /// Returns the hub's message if it rejects the write.
    pub fn patch_status<K: Kind>(&mut self, key: &Key, patch: Value) -> Result<(), String> {
        let target = ResourcePath::of::<K>(key).sub("status");
        let patched = self.hub.patch(&target, &Patch::Merge(patch), &WriteOptions::manager("user"), self.now);
        patched.map(drop).map_err(|error| error.message().to_owned())
    }

    /// Deletes a hub object as a user would.
    ///
    /// # Errors
    /// Returns the hub's message if it rejects the deletion.
    pub fn delete<K: Kind>(&mut self, key: &Key) -> Result<(), String> {
        let deleted = self.hub.delete(&ResourcePath::of::<K>(key), &DeleteOptions::default(), self.now);
        deleted.map(drop).map_err(|error| error.message().to_owned())
    }

    /// Delivers a commit as the source controller does after a fetch.
    pub fn commit(&mut self, repo: &Key, revision: &str, tree: FileTree) {
        let checkout = Some(Arc::new(Checkout { revision: revision.into(), tree }));
        self.set_source(repo, self.fetched(repo, checkout, None));
    }

    /// Makes fetches fail; the repository keeps its last source.
    pub fn fail_fetching(&mut self, repo: &Key, failure: SourceFailure) {
        let checkout = self.sources.get(repo).and_then(|source| source.checkout.clone());
        self.set_source(repo, self.fetched(repo, checkout, Some(failure)));
    }

    fn set_source(&mut self, repo: &Key, source: Source) {
        self.sources.insert(repo.clone(), source.clone());
        self.operator.set_source(repo, source, self.now);
    }

    /// Returns everything that a cluster's agent has read.
    pub fn agent_caches(&self, cluster: &str) -> Option<Caches> {
        self.spokes.get(cluster).map(|spoke| spoke.agent.caches())
    }

    /// Ends the operator and starts a new one with empty caches.
    pub fn restart_operator(&mut self) {
        let clock = self.operator.clock();
        self.operator = Process::start(Scope::Everything, None, self.setup.hub, self.setup.coalesce);
        self.operator.set_clock(clock);
        for (repo, source) in &self.sources {
            self.operator.set_source(repo, source.clone(), self.now);
        }
    }

    /// Gives the operator another key to encrypt Secrets, until it is restarted.
    pub fn set_sealing_key(&mut self, key: [u8; 32]) {
        self.operator.set_sealing_key(key);
    }

    /// Crashes the operator after this many further writes; a new one with empty caches replaces it.
    pub fn kill_operator_after(&mut self, writes: usize) {
        self.operator.crash_after(writes);
    }

    /// Returns true if a crash of the operator is still due.
    pub fn crashes_operator(&self) -> bool {
        !self.operator.is_safe()
    }

    /// Sets how far the operator's clock is ahead of the hub API server's clock.
    pub fn set_operator_clock(&mut self, ahead: SignedDuration) {
        self.had_wrong_clock |= !ahead.is_zero();
        self.operator.set_clock(ahead);
    }

    /// Sets how far a cluster's clock is ahead of the hub's clock.
    pub fn set_clock(&mut self, name: &str, ahead: SignedDuration) {
        self.had_wrong_clock |= !ahead.is_zero();
        if let Some(spoke) = self.spokes.get_mut(name) {
            spoke.agent.set_clock(ahead);
        }
    }

    /// Ends the agent of a cluster and starts a new one with empty caches.
    pub fn restart_agent(&mut self, name: &str) {
        let Some(settings) = self.spokes.get(name).map(|spoke| spoke.settings.clone()) else { return };
        let mut agent = self.agent(&settings);
        if let Some(spoke) = self.spokes.get_mut(name) {
            agent.set_clock(spoke.agent.clock());
            spoke.agent = agent;
        }
    }

    /// Cuts a cluster off from the hub and restarts its agent, which continues with the works that it cached.
    pub(crate) fn restart_agent_alone(&mut self, name: &str) {
        let Some(caches) = self.agent_caches(name) else { return };
        let works = caches.list::<ManifestWork>(Query::namespace(name)).unwrap_or_default();
        self.restart_agent(name);
        if let Some(spoke) = self.spokes.get_mut(name) {
            spoke.connected = false;
            spoke.agent.load_persisted(works.into_iter().map(Arc::unwrap_or_clone).collect(), self.now);
        }
    }

    pub(crate) fn back_up_hub(&mut self) {
        self.backup = Some(self.hub.clone());
    }

    /// Restores the hub from its last backup, if there is one. Every process notices this the next time it reads
    /// the hub.
    pub(crate) fn restore_hub(&mut self) {
        let Some(backup) = &self.backup else { return };
        self.hub.go_back(backup);
        self.was_restored = true;
        self.checker.restored(&mut self.hub, self.now);
        self.operator.hub_restored();
        self.spokes.values_mut().for_each(|spoke| spoke.agent.hub_restored());
        self.fetch_again();
    }

    fn agent(&self, settings: &AgentSettings) -> Process {
        let cluster = settings.identity.cluster.clone();
        Process::start(Scope::OneCluster(cluster), Some(settings), self.setup.agent, self.setup.coalesce)
    }

    /// Returns a typed object of the hub.
    pub fn get<K: Kind>(&self, key: &Key) -> Option<K> {
        self.hub.get(&ResourcePath::of::<K>(key)).ok()?.to_typed().ok()
    }

    /// Returns all objects of a kind on the hub, in key order.
    pub fn list<K: Kind>(&self) -> Vec<K> {
        let list = self.hub.list(&ResourcePath::all::<K>(), &ListOptions::default());
        list.map(|list| list.items.iter().filter_map(|item| item.to_typed().ok()).collect())
            .unwrap_or_default()
    }
}

fn apply(store: &mut Store, manager: &str, object: Object, now: Timestamp) -> Result<(), String> {
    let reference: ObjectRef = object.reference();
    let target = store.target(&reference).ok_or_else(|| format!("{reference}: its kind is not served"))?;
    let options = WriteOptions::manager(manager).forced();
    store
        .patch(&target, &Patch::Apply(object.into_value()), &options, now)
        .map(drop)
        .map_err(|error| format!("{reference}: {}", error.message()))
}
