use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::agent_identity::{AgentIdentity, AgentSettings};
use crate::hub::tests::memory_hub::MemoryHub;
use object::{Gvk, Object, ObjectRef};
use reconcile::{
    Action, Answer, Caches, Command, Dispatcher, DispatcherLimits, Gvr, Lookup, LookupAnswer, Mapping,
    Register as _,
};

fn work(name: &str) -> Value {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": "c1", "resourceVersion": "1", "uid": name},
        "spec": {"workload": {"manifests": [map]}},
    })
}

/// Advances the clock by a second and returns what was written. If `held`, no write is executed.
fn run(hub: &mut MemoryHub, is_held: bool) -> Vec<Object> {
    run_with(hub, is_held, &mut Vec::new())
}

/// Like [`run`], but also adds the planned writes to `planned`.
fn run_with(hub: &mut MemoryHub, is_held: bool, planned: &mut Vec<Action>) -> Vec<Object> {
    let mut written = Vec::new();
    hub.now += SignedDuration::from_secs(1);
    loop {
        let commands = hub.dispatcher.due(hub.now);
        if commands.is_empty() {
            return written;
        }
        for command in commands {
            if let Command::Act(act) = &command {
                planned.push(act.action().clone());
            }
            match command {
                Command::LookUp(site, lookup @ (Lookup::Mapping(_) | Lookup::KindFor(_))) => {
                    let gvk = Gvk::parse("v1", "ConfigMap");
                    let mapping = Mapping { gvk, resource: "configmaps".into(), namespaced: true };
                    let answer = Ok(LookupAnswer::Mapping(Some(mapping)));
                    hub.dispatcher.looked_up(site, &lookup, answer, hub.now);
                }
                Command::Act(_) if is_held => {}
                command => written.extend(hub.execute(command)),
            }
        }
    }
}

fn dispatcher() -> Dispatcher {
    let limits = DispatcherLimits { coalesce: SignedDuration::from_millis(50), computations: 1 };
    let mut dispatcher = Dispatcher::new(limits, true);
    dispatcher.add::<WorkController>();
    dispatcher.set_settings(AgentSettings::new(AgentIdentity::parse("c1/a/hash").unwrap()));
    dispatcher
}

/// Returns a cluster whose agent has applied the work `a`, and all objects that it wrote for it.
fn with_a_work() -> (MemoryHub, Vec<Object>) {
    let mut hub = MemoryHub::new(dispatcher(), vec![work("a")]);
    let written = (0..5).flat_map(|_| run(&mut hub, false)).collect();
    assert!(hub.objects.keys().any(|(kind, key)| kind == "ConfigMap" && key.name == "a"));
    (hub, written)
}

#[test]
fn the_objects_of_a_new_work_are_looked_up_while_its_inventory_is_created() {
    let (mut hub, _) = with_a_work();
    hub.put(Object::from_value(work("b")).unwrap());
    run(&mut hub, true);
    assert!(!hub.objects.keys().any(|(kind, key)| kind == "AppliedManifestWork" && key.name == "hash-b"));
    let of_b = ObjectRef { gvk: Gvk::parse("v1", "ConfigMap"), key: Key::namespaced("default", "b") };
    assert_eq!(hub.dispatcher.caches().object(&of_b).ok(), Some(None));
}

#[test]
fn no_status_is_reported_before_the_objects_have_been_applied() {
    let (mut hub, mut written) = with_a_work();
    hub.put(Object::from_value(work("b")).unwrap());
    (0..3).for_each(|_| written.extend(run(&mut hub, false)));
    let mut applied = Vec::new();
    for object in written {
        match object.gvk().kind.as_str() {
            "ConfigMap" => applied.push(object.name().to_owned()),
            "ManifestWork" if object.0.contains_key("status") => {
                assert!(applied.contains(&object.name().to_owned()), "{object:?}");
            }
            _ => {}
        }
    }
    assert_eq!(applied.first().zip(applied.last()), Some((&"a".to_owned(), &"b".to_owned())));
}

#[test]
fn a_work_that_changes_while_it_is_applied_is_not_reported_as_applied() {
    let (mut hub, _) = with_a_work();
    let key = Key::namespaced("c1", "a");
    let mut change = |generation: i64| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"},
            "data": {"v": generation.to_string()}});
        let change =
            json!({"metadata": {"generation": generation}, "spec": {"workload": {"manifests": [map]}}});
        hub.patch("ManifestWork", &key, &change);
        (hub.dispatcher.caches().clone(), hub.now)
    };
    let (before, now) = change(2);
    let plan = WorkController::plan(&key, &before, now).unwrap();
    let written = plan.steps.iter().map(|step| {
        let objects = step.iter().map(|action| match action {
            Action::Apply { object, .. } => Ok(Answer::from(object.clone())),
            other => panic!("{other:?}"),
        });
        objects.collect()
    });
    let done = Executed { outcomes: written.collect(), plan: plan.clone() };
    assert!(WorkController::conclude(&key, &before, &done, now).unwrap().is_some());
    let (after, now) = change(3);
    assert_eq!(WorkController::conclude(&key, &after, &done, now).unwrap(), None);
}

#[test]
fn an_object_is_deleted_only_as_it_was_read() {
    let (mut hub, _) = with_a_work();
    hub.patch("ManifestWork", &Key::namespaced("c1", "a"), &json!({"spec": {"workload": {"manifests": []}}}));
    let live = hub.objects[&("ConfigMap".to_owned(), Key::namespaced("default", "a"))].clone();
    let mut planned = Vec::new();
    (0..120).for_each(|_| drop(run_with(&mut hub, false, &mut planned)));
    let deleted = planned.iter().find_map(|action| match action {
        Action::Delete { target, precondition, .. } => Some((&target.key, &*precondition.resource_version)),
        _ => None,
    });
    assert_eq!(deleted, Some((&live.key(), live.resource_version())), "{planned:?}");
}

/// Returns true if an object stays that is in the inventory of the work `a` but that the work does not want. The
/// agent knows the work from the hub or, if `is_away`, from an earlier process.
fn keeps_unwanted(is_away: bool) -> bool {
    let group = "work.open-cluster-management.io/v1";
    let owner = json!({"apiVersion": group, "kind": "AppliedManifestWork", "name": "hash-a", "uid": "u"});
    let map = |name: &str| {
        let metadata = json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": "1",
            "ownerReferences": [owner]});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let entry = |name: &str| {
        json!({"group": "", "version": "v1", "resource": "configmaps", "namespace": "default", "name": name,
            "uid": name})
    };
    let applied = json!({
        "apiVersion": group, "kind": "AppliedManifestWork",
        "metadata": {"name": "hash-a", "uid": "u", "resourceVersion": "1"},
        "spec": {"hubHash": "hash", "manifestWorkName": "a", "agentID": "a"},
        "status": {"appliedResources": [entry("a"), entry("newer")]},
    });
    let mut hub = MemoryHub::new(dispatcher(), vec![work("a"), applied, map("a"), map("newer")]);
    for command in hub.dispatcher.due(hub.now) {
        match command {
            Command::Watch(kind) if is_away && kind.gvk.kind == "ManifestWork" => {
                let kept: ManifestWork = serde_json::from_value(work("a")).unwrap();
                hub.dispatcher.load_persisted(vec![kept], hub.now);
            }
            command => drop(hub.execute(command)),
        }
    }
    (0..120).for_each(|_| drop(run(&mut hub, false)));
    hub.objects.contains_key(&("ConfigMap".to_owned(), Key::namespaced("default", "newer")))
}

#[test]
fn a_stored_work_removes_nothing_because_it_may_be_older_than_the_inventory() {
    assert!(!keeps_unwanted(false));
    assert!(keeps_unwanted(true));
}

/// Returns the kinds of objects deleted this many minutes after the deletion of a work with an operator and its
/// custom object, and true if the plan has more to do later.
fn deleted_after(minutes: i64, has_database: bool) -> (Vec<String>, bool) {
    let entry = |group: &str, resource: &str| json!({"group": group, "version": "v1", "resource": resource, "name": "a", "namespace": "default", "uid": "u"});
    let applied = json!({
        "metadata": {"name": "hash-w", "uid": "u", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["cluster.open-cluster-management.io/applied-manifest-work-cleanup"]},
        "spec": {"hubHash": "hash", "manifestWorkName": "w", "agentID": "a"},
        "status": {"appliedResources": [entry("apps", "deployments"), entry("example.com", "databases")]},
    });
    let applied: AppliedManifestWork = serde_json::from_value(applied).unwrap();
    let owner = json!([applied.owner_reference()]);
    let mut caches = Caches::default();
    caches.set_settings(AgentSettings::new(AgentIdentity::parse("c1/a/hash").unwrap()));
    caches.replace::<ManifestWork>(Site::Hub, Vec::new(), "1");
    caches.replace::<AppliedManifestWork>(Site::Spoke, vec![applied], "1");
    for (group, resource, kind) in
        [("apps", "deployments", "Deployment"), ("example.com", "databases", "Database")]
    {
        let gvk = Gvk::parse(&format!("{group}/v1"), kind);
        let gvr = Gvr { group: group.into(), version: "v1".into(), resource: resource.into() };
        let mapping = Mapping { gvk: gvk.clone(), resource: resource.into(), namespaced: true };
        let target = ObjectRef { gvk: gvk.clone(), key: Key::namespaced("default", "a") };
        let live = json!({"apiVersion": format!("{group}/v1"), "kind": kind,
            "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1", "ownerReferences": owner}});
        let live = Object::from_value(live).ok().filter(|_| has_database || kind != "Database").map(Arc::new);
        caches.set_answer(Lookup::KindFor(gvr), Ok(LookupAnswer::Mapping(Some(mapping.clone()))));
        caches.set_answer(Lookup::Mapping(gvk), Ok(LookupAnswer::Mapping(Some(mapping))));
        caches.set_answer(Lookup::Object(target), Ok(LookupAnswer::Object(live)));
    }
    let since: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let now = since + SignedDuration::from_mins(minutes);
    let plan = WorkController::plan(&Key::namespaced("c1", "w"), &caches, now).unwrap();
    let deleted = plan.steps.concat().into_iter().filter_map(|action| match action {
        Action::Delete { target, .. } => Some(target.gvk.kind),
        _ => None,
    });
    (deleted.collect(), plan.wake_at == Some(since + SignedDuration::from_mins(5)))
}

#[test]
fn an_operator_is_deleted_after_the_objects_that_need_it_and_at_most_five_minutes_later() {
    let both = vec!["Deployment".to_owned(), "Database".to_owned()];
    assert_eq!(deleted_after(0, true), (vec!["Database".to_owned()], true));
    assert_eq!(deleted_after(0, false), (vec!["Deployment".to_owned()], false));
    assert_eq!(deleted_after(5, true), (both.clone(), false));
    assert_eq!(deleted_after(-60, true), (both, false), "the clocks differ");
}
