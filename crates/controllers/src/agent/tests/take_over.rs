//! Takes over from an agent of Open Cluster Management that stopped midway, with its state as version 1.2 writes
//! it.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::WorkController;
use crate::agent::orphan::OrphanController;
use crate::agent_identity::{AgentIdentity, AgentSettings};
use crate::hub::tests::memory_hub::MemoryHub;
use object::{Gvk, Key, Object};
use reconcile::{
    Action, Command, Dispatcher, DispatcherLimits, Lookup, LookupAnswer, Mapping, Register as _,
};

const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
const APPLIED_FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";
const APPLIED: &str = "AppliedManifestWork";
const DELETED_AT: &str = "2026-01-01T00:00:00Z";

/// Returns the owner reference that OCM's agent writes.
fn owner(uid: &str) -> Value {
    json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": APPLIED, "name": "hash-w", "uid": uid})
}

fn manifest(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}})
}

/// Returns an object as it exists on the cluster.
fn live(name: &str, owners: Value) -> Value {
    let mut live = manifest(name);
    let managed = json!([{"manager": "work", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:a": {}}}}]);
    live["metadata"].as_object_mut().unwrap().extend(BTreeMap::from([
        ("uid".to_owned(), json!(format!("uid-{name}"))),
        ("resourceVersion".to_owned(), json!("1")),
        ("ownerReferences".to_owned(), owners),
        ("managedFields".to_owned(), managed),
    ]));
    live
}

fn condition(type_: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": DELETED_AT})
}

/// Returns a work with these manifests. If `applied`, its status says that the agent has applied them.
fn work(names: &[&str], applied: bool) -> Value {
    let manifests: Vec<Value> = names.iter().map(|name| manifest(name)).collect();
    let mut work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w", "namespace": "c1", "uid": "uid-of-work", "resourceVersion": "1", "generation": 1,
            "finalizers": [WORK_FINALIZER]},
        "spec": {"workload": {"manifests": manifests}},
    });
    if applied {
        let statuses = names.iter().enumerate().map(|(ordinal, name)| {
            let mut feedback = condition("StatusFeedbackSynced", "NoStatusFeedbackSynced", "");
            let mut available = condition("Available", "ResourceAvailable", "Resource is available");
            for condition in [&mut feedback, &mut available] {
                condition.as_object_mut().unwrap().remove("observedGeneration");
            }
            json!({
                "resourceMeta": {"ordinal": ordinal, "group": "", "version": "v1", "kind": "ConfigMap",
                    "resource": "configmaps", "name": name, "namespace": "default"},
                "conditions": [
                    condition("Applied", "AppliedManifestComplete", "Apply manifest complete"), feedback, available,
                ],
                "statusFeedback": {},
            })
        });
        work["status"] = json!({
            "conditions": [
                condition("Applied", "AppliedManifestWorkComplete", "Apply manifest work complete"),
                condition("Available", "ResourcesAvailable", "All resources are available"),
            ],
            "resourceStatus": {"manifests": statuses.collect::<Vec<_>>()},
        });
    }
    work
}

/// Returns the inventory that OCM's agent writes.
fn inventory(names: &[&str]) -> Value {
    let entry = |name: &&str| json!({"group": "", "version": "v1", "resource": "configmaps", "namespace": "default", "name": name, "uid": format!("uid-{name}")});
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": APPLIED,
        "metadata": {"name": "hash-w", "uid": "uid-of-inventory", "resourceVersion": "1", "finalizers": [APPLIED_FINALIZER]},
        "spec": {"hubHash": "hash", "manifestWorkName": "w", "agentID": "0f1e2d3c-of-the-klusterlet"},
        "status": {"appliedResources": names.iter().map(entry).collect::<Vec<_>>()},
    })
}

fn terminating(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = DELETED_AT.into();
    object
}

/// A cluster that our agent takes over.
struct TakeOver {
    hub: MemoryHub,
    writes: Vec<Action>,
}

impl TakeOver {
    fn new(objects: Vec<Value>) -> Self {
        let limits = DispatcherLimits { coalesce: SignedDuration::from_millis(50), computations: 1 };
        let mut dispatcher = Dispatcher::new(limits, true);
        dispatcher.add::<WorkController>();
        dispatcher.add::<OrphanController>();
        let mut identity = AgentIdentity::parse("c1/a/hash").unwrap();
        identity.is_claimed = true;
        dispatcher.set_settings(AgentSettings::new(identity));
        Self { hub: MemoryHub::new(dispatcher, objects), writes: Vec::new() }
    }

    /// Advances the clock by this many minutes.
    fn run(&mut self, minutes: i64) -> &mut Self {
        let end = self.hub.now + SignedDuration::from_mins(minutes);
        while self.hub.now < end {
            for command in self.hub.dispatcher.due(self.hub.now) {
                self.execute(command);
            }
            self.hub.now += SignedDuration::from_secs(1);
        }
        self
    }

    fn execute(&mut self, command: Command) {
        if let Command::Act(act) = &command {
            self.writes.push(act.action().clone());
        }
        match command {
            Command::LookUp(site, lookup @ (Lookup::Mapping(_) | Lookup::KindFor(_))) => {
                let gvk = Gvk::parse("v1", "ConfigMap");
                let mapping = Mapping { gvk, resource: "configmaps".into(), namespaced: true };
                let answer = Ok(LookupAnswer::Mapping(Some(mapping)));
                self.hub.dispatcher.looked_up(site, &lookup, answer, self.hub.now);
            }
            Command::LookUp(site, lookup @ Lookup::OnHub(..)) => {
                self.hub.dispatcher.looked_up(site, &lookup, Ok(LookupAnswer::OnHub(false)), self.hub.now);
            }
            // An object with finalizers is only marked as deleted.
            Command::Act(act) if self.is_held(act.action()) => {
                let Action::Delete { target, .. } = act.action().clone() else { return };
                let marked = json!({"metadata": {"deletionTimestamp": DELETED_AT}});
                self.hub.patch(&target.gvk.kind, &target.key, &marked);
                self.hub.dispatcher.acted(act.done(Ok(None::<Object>.into())), self.hub.now);
            }
            command => drop(self.hub.execute(command)),
        }
        let is_released = |object: &Object| object.is_terminating() && finalizers(object).is_empty();
        let released = self.hub.objects.iter().filter(|(_, object)| is_released(object));
        let released: Vec<_> = released.map(|(key, _)| key.clone()).collect();
        released.iter().for_each(|(kind, key)| self.hub.delete(kind, key));
    }

    fn is_held(&self, action: &Action) -> bool {
        let Action::Delete { target, .. } = action else { return false };
        let found = self.hub.objects.get(&(target.gvk.kind.clone(), target.key.clone()));
        found.is_some_and(|object| !finalizers(object).is_empty())
    }

    /// Returns the kinds and names of the remaining objects.
    fn left(&self) -> Vec<String> {
        self.hub.objects.keys().map(|(kind, key)| format!("{kind} {}", key.name)).collect()
    }

    /// Returns the writes in words.
    fn written(&self) -> Vec<String> {
        let words = |action: &Action| match action {
            Action::Patch { target, patch, .. } => {
                format!("patch {} {}: {}", target.gvk.kind, target.key.name, json!(patch))
            }
            Action::Delete { target, .. } => format!("delete {} {}", target.gvk.kind, target.key.name),
            Action::Apply { object, .. } => format!("apply {} {}", object.kind(), object.name()),
            Action::Create { object, .. } => format!("create {} {}", object.kind(), object.name()),
            other => format!("{other:?}"),
        };
        self.writes.iter().map(words).collect()
    }
}

fn finalizers(object: &Object) -> Vec<Value> {
    object.at(&["metadata", "finalizers"]).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn ours() -> Value {
    json!([owner("uid-of-inventory")])
}

const ADOPTED: &str = r#"patch AppliedManifestWork hash-w: {"spec":{"agentID":"a"}}"#;

#[test]
fn an_applied_work_costs_one_write_that_adopts_its_inventory() {
    let names: Vec<String> = (0..50).map(|number| format!("m{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut objects = vec![work(&names, true), inventory(&names)];
    objects.extend(names.iter().map(|name| live(name, ours())));
    let mut taken = TakeOver::new(objects);
    assert_eq!(taken.run(120).written(), [ADOPTED]);
}

#[test]
fn a_work_that_was_applied_in_part_is_applied_once_and_loses_nothing() {
    // The agent has created two of three objects. It writes the inventory and the status at the end.
    let mut taken = TakeOver::new(vec![
        work(&["a", "b", "c"], false),
        inventory(&[]),
        live("a", ours()),
        // An apply adds the owner after the content.
        live("b", json!([])),
    ]);
    taken.run(120);
    let count = |words: &str| taken.written().iter().filter(|write| write.starts_with(words)).count();
    for name in ["a", "b", "c"] {
        assert_eq!(count(&format!("apply ConfigMap {name}")), 1, "{:#?}", taken.written());
    }
    assert_eq!(count("delete"), 0);
    let of_b = taken.hub.objects[&("ConfigMap".to_owned(), Key::namespaced("default", "b"))].clone();
    assert_eq!(of_b.at(&["metadata", "ownerReferences"]), Some(&ours()));
    assert_eq!(count("patch ConfigMap"), 1, "the owner of b: {:#?}", taken.written());
    // One write for the objects with the right owner, and one for the third object.
    assert_eq!(count("patch ManifestWork"), 2, "{:#?}", taken.written());
    let work = &taken.hub.objects[&("ManifestWork".to_owned(), Key::namespaced("c1", "w"))];
    assert_eq!(work.0["status"]["conditions"][0]["reason"], "AppliedManifestWorkComplete");
}

#[test]
fn an_object_that_left_the_work_is_pruned_only_if_it_belongs_to_it() {
    let mut taken = TakeOver::new(vec![
        work(&["a"], true),
        inventory(&["a", "gone", "left", "shared", "replaced"]),
        live("a", ours()),
        live("left", ours()),
        live("shared", json!([owner("uid-of-inventory"), owner("uid-of-another")])),
        live("replaced", json!([])),
    ]);
    taken.run(120);
    let expected = ["AppliedManifestWork hash-w", "ConfigMap a", "ConfigMap replaced", "ConfigMap shared"];
    assert_eq!(taken.left()[..4], expected);
    let deleted: Vec<_> = taken.written().into_iter().filter(|write| write.starts_with("delete")).collect();
    assert_eq!(deleted, ["delete ConfigMap left"]);
    let shared = &taken.hub.objects[&("ConfigMap".to_owned(), Key::namespaced("default", "shared"))];
    assert_eq!(shared.at(&["metadata", "ownerReferences"]), Some(&json!([owner("uid-of-another")])));
    let inventory = &taken.hub.objects[&(APPLIED.to_owned(), Key::cluster("hash-w"))];
    assert_eq!(inventory.0["status"]["appliedResources"].as_array().unwrap().len(), 1);
}

#[test]
fn a_deletion_resumes_wherever_it_stopped() {
    let objects = || {
        let mut slow = live("held", ours());
        slow["metadata"]["finalizers"] = json!(["example.com/slow"]);
        vec![live("a", ours()), slow, live("of-others", json!([])), live("unlisted", json!([]))]
    };
    let names = ["a", "gone", "held", "of-others"];
    let mut held_and_gone = inventory(&names);
    held_and_gone["status"]["appliedResources"].as_array_mut().unwrap().remove(0);
    // The cases, with the inventory at the moment when OCM's agent stops.
    for (at, inventory) in [
        ("the work is marked", Some(inventory(&names))),
        ("the inventory is marked", Some(terminating(inventory(&names)))),
        ("an object is gone", Some(terminating(held_and_gone))),
        ("the inventory is gone", None),
    ] {
        let begun = inventory.is_some();
        let mut all = vec![terminating(work(&names, true))];
        all.extend(inventory);
        all.extend(objects().into_iter().filter(|object| {
            // An object that has left the inventory has been deleted.
            at != "an object is gone" || object["metadata"]["name"] != "a"
        }));
        if !begun {
            all.retain(|object| !matches!(object["metadata"]["name"].as_str(), Some("a" | "held")));
        }
        let mut taken = TakeOver::new(all);
        taken.run(5);
        if begun {
            let left = taken.left();
            let waiting = [
                "AppliedManifestWork hash-w",
                "ConfigMap held",
                "ConfigMap of-others",
                "ConfigMap unlisted",
                "ManifestWork w",
            ];
            assert_eq!(left, waiting, "{at}: {:#?}", taken.written());
            let before = taken.writes.len();
            assert_eq!(taken.run(120).writes.len(), before, "{at}: it waits: {:#?}", taken.written());
            let released = json!({"metadata": {"finalizers": null}});
            taken.hub.patch("ConfigMap", &Key::namespaced("default", "held"), &released);
            taken.hub.delete("ConfigMap", &Key::namespaced("default", "held"));
            taken.run(5);
        }
        assert_eq!(
            taken.left(),
            ["ConfigMap of-others", "ConfigMap unlisted"],
            "{at}: {:#?}",
            taken.written()
        );
        assert!(taken.writes.len() <= 10, "{at}: {:#?}", taken.written());
    }
}

#[test]
fn a_returning_work_stops_its_eviction_and_a_lost_one_restarts_it() {
    let evicting = |mut inventory: Value| {
        inventory["status"]["evictionStartTime"] = "2020-01-01T00:00:00Z".into();
        inventory
    };
    let mut back = TakeOver::new(vec![work(&["a"], true), evicting(inventory(&["a"])), live("a", ours())]);
    back.run(180);
    assert_eq!(back.left(), ["AppliedManifestWork hash-w", "ConfigMap a", "ManifestWork w"]);
    let cleared = r#"patch AppliedManifestWork hash-w: {"status":{"evictionStartTime":null}}"#;
    let mut written = back.written();
    written.sort();
    assert_eq!(written, [ADOPTED, cleared]);

    let mut other = work(&["b"], true);
    other["metadata"]["name"] = "other".into();
    other["spec"]["workload"]["manifests"] = json!([]);
    let mut missing = TakeOver::new(vec![other, evicting(inventory(&["a"])), live("a", ours())]);
    missing.run(58);
    assert!(missing.left().contains(&"ConfigMap a".to_owned()), "{:#?}", missing.written());
    missing.run(10);
    let left = missing.left();
    assert!(
        !left.contains(&"ConfigMap a".to_owned()) && !left.contains(&"AppliedManifestWork hash-w".to_owned())
    );
}
