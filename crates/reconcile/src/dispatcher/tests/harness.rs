//! A hub with ConfigMaps in a map, and a dispatcher that is fed from it step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::{
    Act, Action, Answer, Command, Computation, Controller, Decision, Dispatcher, DispatcherLimits, Event,
    Failure, FailureKind, Lookup, Outcome, ReconcileResult, Register as _, Site, WatchedKind, WatcherEvent,
};
use object::{Key, Object};

pub(super) struct Harness {
    pub(super) dispatcher: Dispatcher,
    pub(super) now: Timestamp,
    pub(super) kinds: BTreeMap<String, Arc<WatchedKind>>,
    pub(super) ended: Vec<ReconcileResult>,
    pub(super) refused: Vec<Event>,
    pub(super) acts: Vec<Act>,
    pub(super) decisions: Vec<Decision>,
    pub(super) computations: Vec<Computation>,
    pub(super) lookups: Vec<Lookup>,
    /// The API server that serves the lookups.
    pub(super) observed: Site,
    /// The newest version.
    pub(super) version: u64,
}

impl Harness {
    pub(super) fn new<C: Controller>() -> Self {
        Self::with(|dispatcher| dispatcher.add::<C>())
    }

    pub(super) fn with(register: impl FnOnce(&mut Dispatcher)) -> Self {
        Self::of(Site::Hub, register)
    }

    /// Creates a harness like an agent.
    pub(super) fn on_spoke(register: impl FnOnce(&mut Dispatcher)) -> Self {
        Self::of(Site::Spoke, register)
    }

    fn of(observed: Site, register: impl FnOnce(&mut Dispatcher)) -> Self {
        let limits = DispatcherLimits { coalesce: SignedDuration::from_secs(1), computations: 2 };
        let mut dispatcher = Dispatcher::new(limits, observed == Site::Spoke);
        register(&mut dispatcher);
        let mut harness = Self {
            dispatcher,
            now: Timestamp::UNIX_EPOCH,
            kinds: BTreeMap::new(),
            ended: Vec::new(),
            refused: Vec::new(),
            acts: Vec::new(),
            decisions: Vec::new(),
            computations: Vec::new(),
            lookups: Vec::new(),
            observed,
            version: 10,
        };
        harness.take();
        harness
    }

    /// Takes the commands that are due, without executing them.
    pub(super) fn take(&mut self) {
        for command in self.dispatcher.due(self.now) {
            match command {
                Command::Decide(decision) => self.decisions.push(decision),
                Command::Act(act) => self.acts.push(act),
                Command::Compute(computation) => self.computations.push(computation),
                Command::LookUp(_, lookup) => self.lookups.push(lookup),
                Command::Watch(kind) => {
                    self.kinds.insert(kind.gvk.kind.clone(), kind);
                }
                Command::Unwatch(kind) => {
                    self.kinds.remove(&kind.gvk.kind);
                }
                Command::Reconciled(ended) => self.ended.push(ended),
                Command::Refused(event) => self.refused.push(event),
            }
        }
    }

    /// Makes the decisions that are due, and those that follow from them.
    pub(super) fn decide(&mut self) {
        self.take();
        while let Some(decision) = self.decisions.pop() {
            self.dispatcher.decided(decision.run(), self.now);
            self.take();
        }
    }

    /// Advances the clock, then makes the decisions that are due.
    pub(super) fn after(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.decide();
    }

    /// Executes every action as a hub would, and makes the decisions that follow.
    pub(super) fn act(&mut self) {
        while let Some(act) = self.acts.pop() {
            let outcome = self.written(act.action());
            self.dispatcher.acted(act.done(outcome), self.now);
            self.decide();
        }
    }

    /// Executes an action with this object as its stored result.
    pub(super) fn store(&mut self, act: Act, mut object: Object) {
        self.version += 1;
        object.metadata_mut().insert("resourceVersion".into(), self.version.to_string().into());
        self.dispatcher.acted(act.done(Ok(Answer::from(object))), self.now);
        self.decide();
    }

    /// Makes one action fail.
    pub(super) fn fail(&mut self, kind: FailureKind) {
        let act = self.acts.pop().unwrap();
        self.dispatcher.acted(act.done(Err(Failure { kind, message: "no".into() })), self.now);
        self.decide();
    }

    fn written(&mut self, action: &Action) -> Outcome {
        let Action::Apply { object, .. } = action else { panic!("these controllers apply only: {action:?}") };
        self.version += 1;
        let mut object = object.clone();
        object.metadata_mut().insert("resourceVersion".into(), self.version.to_string().into());
        Ok(Answer::from(object))
    }

    pub(super) fn listed(&mut self, kind: &str, objects: &[Value]) {
        let kind = Arc::clone(&self.kinds[kind]);
        let objects = objects.iter().map(|object| kind.decode(&object.to_string())).collect();
        let listed = WatcherEvent::Listed { objects, resource_version: "1".into() };
        self.dispatcher.watched(&kind, listed, self.now);
    }

    /// Changes an object as another client would.
    pub(super) fn changed(&mut self, kind: &str, mut object: Value) {
        let kind = Arc::clone(&self.kinds[kind]);
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let applied = WatcherEvent::Applied(kind.decode(&object.to_string()));
        self.dispatcher.watched(&kind, applied, self.now);
    }

    /// Deletes an object as another client would.
    pub(super) fn deleted(&mut self, kind: &str, name: &str) {
        let kind = Arc::clone(&self.kinds[kind]);
        self.version += 1;
        let deleted = WatcherEvent::Deleted { key: key(name), resource_version: self.version.to_string() };
        self.dispatcher.watched(&kind, deleted, self.now);
    }

    /// Returns the names of the keys whose reconciliations have ended since the last call.
    pub(super) fn ended(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ended).into_iter().map(|ended| ended.key.name).collect()
    }
}

/// Returns a ConfigMap on the hub.
pub(super) fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name, "resourceVersion": "1"}})
}

/// Returns an action that applies a copy of a ConfigMap.
pub(super) fn copy(key: &Key) -> Action {
    let mut copy = map(&format!("{}-copy", key.name));
    copy["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    Action::apply(Object::from_value(copy).unwrap())
}

pub(super) fn key(name: &str) -> Key {
    Key::namespaced("ns", name)
}

pub(super) type Map = ConfigMap;
