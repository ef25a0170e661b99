//! A hub, its spokes, a git remote and the processes between them, in virtual time under seeded faults.
//!
//! Time moves only when nothing is left to do at the present instant, and then to the next instant at which something is due.
//! The same seed gives the same history.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::execute::{Branches, Sites};
use super::process::{Faults, Process};
use super::workload;
use api::{cluster::v1::ManagedCluster, crds};
use controllers::{self, agent_identity::Identity};
use object::Random;
use object::tree::{Checkout, FileTree};
use object::{Key, Kind, Object, ObjectRef};
use reconcile::{Scope, Source, SourceFailure};
use store::{DeleteOptions, ListOptions, Patch, Store, Target, WriteOptions};

/// Rounds at one instant after which the world is livelocked: far more than any plan of plans needs.
const ROUNDS_PER_INSTANT: u32 = 10_000;
/// Kinds whose status the clusters' own controllers keep.
const WORKLOADS: [(&str, &str, &str); 6] = [
    ("apps", "v1", "daemonsets"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "statefulsets"),
    ("batch", "v1", "jobs"),
    ("", "v1", "pods"),
];

/// Everything there is.
pub struct World {
    /// The present.
    pub now: Timestamp,
    /// The hub's objects.
    pub hub: Store,
    /// The managed clusters.
    pub spokes: BTreeMap<String, Spoke>,
    /// What was pushed to the remote's status branches.
    pub branches: Branches,
    /// What goes wrong.
    pub faults: Faults,
    operator: Option<Process>,
    sources: BTreeMap<Key, Source>,
    random: Random,
}

/// A managed cluster with its agent.
pub struct Spoke {
    /// The cluster's objects.
    pub store: Store,
    /// How its workloads fare.
    pub workloads: workload::World,
    /// Whether the agent reaches the hub.
    pub connected: bool,
    agent: Option<Process>,
    /// The spoke's revision when its workloads were last looked at, and when the next of them changes by itself.
    seen: u64,
    wake_at: Option<Timestamp>,
}

/// The world did not come to rest: something keeps undoing something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rest at {at} after {ROUNDS_PER_INSTANT} rounds")]
pub struct Livelock {
    /// The instant.
    pub at: Timestamp,
}

impl World {
    /// A hub with every CRD and a running operator, and no clusters.
    pub fn new(seed: u64, start: Timestamp) -> Self {
        let mut hub = Store::new(seed, start);
        install(&mut hub, crds::hub(), start);
        Self {
            now: start,
            hub,
            spokes: BTreeMap::new(),
            branches: Branches::new(),
            faults: Faults::default(),
            operator: Some(Process::start(Scope::Everything, false, controllers::hub)),
            sources: BTreeMap::new(),
            random: Random::new(seed),
        }
    }

    /// Adds an accepted cluster whose agent has joined.
    ///
    /// # Errors
    /// What the hub says when it refuses the cluster.
    pub fn join(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        workloads: workload::World,
    ) -> Result<(), String> {
        let mut store = Store::new(self.random.draw(), self.now);
        install(&mut store, crds::spoke(), self.now);
        let identity = Identity { cluster: name.into(), agent_id: "agent".into(), hub_hash: "hub".into() };
        apply(&mut store, identity.claim(), "", self.now)?;
        let agent = Some(Process::start(Scope::OneCluster(name.into()), true, controllers::agent));
        self.spokes
            .insert(name.into(), Spoke { store, workloads, connected: true, agent, seen: 0, wake_at: None });
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let mut cluster = Object::from_typed(&ManagedCluster::default());
        cluster.0.insert("metadata".into(), json!({ "name": name, "labels": labels }));
        cluster.0.insert("spec".into(), json!({ "hubAcceptsClient": true, "leaseDurationSeconds": 60 }));
        self.apply(cluster)
    }

    /// Applies an object to the hub as a user would.
    ///
    /// # Errors
    /// What the hub says when it refuses it.
    pub fn apply(&mut self, object: Object) -> Result<(), String> {
        apply(&mut self.hub, object, "", self.now)
    }

    /// Applies the status of an object on the hub, as the station that keeps it would.
    ///
    /// # Errors
    /// What the hub says when it refuses it.
    pub fn apply_status(&mut self, object: Object) -> Result<(), String> {
        apply(&mut self.hub, object, "status", self.now)
    }

    /// Deletes an object of the hub as a user would.
    ///
    /// # Errors
    /// What the hub says when it refuses to.
    pub fn delete<K: Kind>(&mut self, key: &Key) -> Result<(), String> {
        let deleted = self.hub.delete(&Target::of::<K>(key), &DeleteOptions::default(), self.now);
        deleted.map(drop).map_err(|error| error.message().to_owned())
    }

    /// Hands over a commit as the source controller does after a fetch.
    pub fn commit(&mut self, repo: &Key, revision: &str, tree: FileTree) {
        let checkout = Some(Arc::new(Checkout { revision: revision.into(), tree }));
        self.set_source(repo, Source { checkout, failure: None });
    }

    /// Lets fetching fail; what was fetched before stays.
    pub fn fail_fetching(&mut self, repo: &Key, failure: SourceFailure) {
        let before = self.sources.get(repo).cloned().unwrap_or_default();
        self.set_source(repo, Source { failure: Some(failure), ..before });
    }

    fn set_source(&mut self, repo: &Key, source: Source) {
        self.sources.insert(repo.clone(), source.clone());
        if let Some(operator) = &mut self.operator {
            operator.set_source(repo, source, self.now);
        }
    }

    /// Ends the operator and starts a new one that knows nothing.
    pub fn restart_operator(&mut self) {
        let mut operator = Process::start(Scope::Everything, false, controllers::hub);
        for (repo, source) in &self.sources {
            operator.set_source(repo, source.clone(), self.now);
        }
        self.operator = Some(operator);
    }

    /// Lets the operator die after so many writes more, whatever it is doing; a new one that knows nothing takes its place.
    pub fn kill_operator_after(&mut self, writes: usize) {
        if let Some(operator) = &mut self.operator {
            operator.die_after(writes);
        }
    }

    /// Whether the operator that was to be killed has not come that far.
    pub fn is_operator_doomed(&self) -> bool {
        self.operator.as_ref().is_some_and(|operator| !operator.is_safe())
    }

    /// Ends the agent of a cluster and starts a new one that knows nothing.
    pub fn restart_agent(&mut self, name: &str) {
        if let Some(spoke) = self.spokes.get_mut(name) {
            spoke.agent = Some(Process::start(Scope::OneCluster(name.into()), true, controllers::agent));
        }
    }

    /// Runs until `done` or for `limit`; whether `done` came.
    ///
    /// # Errors
    /// [`Livelock`] when the world does not come to rest at an instant.
    pub fn run_until(
        &mut self,
        limit: SignedDuration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<bool, Livelock> {
        let end = self.now.saturating_add(limit).unwrap_or(Timestamp::MAX);
        loop {
            self.settle()?;
            if done(self) {
                return Ok(true);
            }
            match self.next_at() {
                Some(next) if next <= end => self.now = next.max(self.now),
                Some(_) | None => {
                    self.now = end;
                    return Ok(false);
                }
            }
        }
    }

    /// Runs for a time.
    ///
    /// # Errors
    /// [`Livelock`] when the world does not come to rest at an instant.
    pub fn run_for(&mut self, time: SignedDuration) -> Result<(), Livelock> {
        self.run_until(time, |_| false).map(drop)
    }

    /// A typed object of the hub.
    pub fn get<K: Kind>(&self, key: &Key) -> Option<K> {
        self.hub.get(&Target::of::<K>(key)).ok()?.to_typed().ok()
    }

    /// All objects of a kind on the hub, in key order.
    pub fn list<K: Kind>(&self) -> Vec<K> {
        let list = self.hub.list(&Target::all::<K>(), &ListOptions::default());
        list.map(|list| list.items.iter().filter_map(|item| item.to_typed().ok()).collect())
            .unwrap_or_default()
    }

    fn settle(&mut self) -> Result<(), Livelock> {
        for _ in 0..ROUNDS_PER_INSTANT {
            if !self.round() {
                return Ok(());
            }
        }
        Err(Livelock { at: self.now })
    }

    /// Gives every process and cluster a turn; whether any had something to do.
    fn round(&mut self) -> bool {
        let mut busy = self.operator.as_ref().is_some_and(Process::is_dead);
        if busy {
            self.restart_operator();
        }
        let Self { now, hub, spokes, branches, faults, operator, random, .. } = self;
        let now = *now;
        if let Some(operator) = operator {
            busy |= operator.round(
                &mut Sites { hub: Some(&mut *hub), spoke: None, branches },
                *faults,
                random,
                now,
            );
        }
        busy |= hub.collect(now);
        for spoke in spokes.values_mut() {
            let Spoke { store, connected, agent, .. } = spoke;
            if let Some(agent) = agent {
                let hub = connected.then_some(&mut *hub);
                busy |= agent.round(&mut Sites { hub, spoke: Some(store), branches }, *faults, random, now);
            }
            busy |= spoke.run_workloads(now) | spoke.store.collect(now);
        }
        busy
    }

    fn next_at(&self) -> Option<Timestamp> {
        let agents = self.spokes.values().filter_map(|spoke| spoke.agent.as_ref()?.next_at());
        let workloads = self.spokes.values().filter_map(|spoke| spoke.wake_at);
        self.operator.iter().filter_map(Process::next_at).chain(agents).chain(workloads).min()
    }
}

impl Spoke {
    /// Lets the cluster's own controllers report; whether anything changed.
    fn run_workloads(&mut self, now: Timestamp) -> bool {
        let due = self.wake_at.is_some_and(|at| at <= now);
        if self.seen == self.store.revision() && !due {
            return false;
        }
        self.wake_at = run_workloads(&mut self.store, &self.workloads, now);
        let changed = self.seen != self.store.revision();
        self.seen = self.store.revision();
        changed || due
    }
}

/// Advances every workload of a cluster; returns when the next one changes by itself.
pub fn run_workloads(store: &mut Store, workloads: &workload::World, now: Timestamp) -> Option<Timestamp> {
    let options = WriteOptions::manager("kube-controller-manager");
    let mut next: Option<Timestamp> = None;
    for (group, version, resource) in WORKLOADS {
        let all = Target::resource(group, version, resource);
        let Ok(list) = store.list(&all, &ListOptions::default()) else { continue };
        for object in &list.items {
            let step = workload::step(object, workloads, now);
            let target = all.clone().at(&object.key());
            // An object that changed in between is looked at again in the next round.
            if let Some(metadata) = step.metadata {
                let _ = store.patch(&target, &Patch::Merge(json!({ "metadata": metadata })), &options, now);
            }
            if let Some(status) = step.status {
                let _ = store.patch(
                    &target.sub("status"),
                    &Patch::Merge(json!({ "status": status })),
                    &options,
                    now,
                );
            }
            next = next.into_iter().chain(step.wake_at).min();
        }
    }
    next
}

fn install<D: serde::Serialize>(store: &mut Store, definitions: Vec<D>, now: Timestamp) {
    for definition in definitions {
        let mut object = serde_json::to_value(definition)
            .ok()
            .and_then(|v| Object::from_value(v).ok())
            .unwrap_or_default();
        object.0.insert("apiVersion".into(), Value::from("apiextensions.k8s.io/v1"));
        object.0.insert("kind".into(), Value::from("CustomResourceDefinition"));
        let name = object.name().to_owned();
        let applied = apply(store, object, "", now);
        debug_assert!(applied.is_ok(), "{name}: {applied:?}");
    }
}

fn apply(store: &mut Store, object: Object, subresource: &str, now: Timestamp) -> Result<(), String> {
    let reference: ObjectRef = object.reference();
    let target = store.target(&reference).ok_or_else(|| format!("{reference}: its kind is not served"))?;
    let target = if subresource.is_empty() { target } else { target.sub(subresource) };
    let options = WriteOptions::manager("user").forced();
    store
        .patch(&target, &Patch::Apply(object.into_value()), &options, now)
        .map(drop)
        .map_err(|error| format!("{reference}: {}", error.message()))
}
