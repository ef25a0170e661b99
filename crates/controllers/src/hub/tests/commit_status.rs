use serde_json::{Value, json};

use super::*;
use crate::hub::tests::memory_hub::MemoryHub;
use crate::hub::tests::work::{advance_a_second, hub_with};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::{ConfigRepoInventory, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use k8s_openapi::api::core::v1::Namespace;
use object::Object;
use object::tree::{Checkout, FileTree};
use reconcile::{Answer, Caches, Dispatcher, Outcome, Register as _, Site, SourceFailure};
use sim::World;
use std::sync::Arc;

fn key() -> Key {
    Key::namespaced("config", "fleet")
}

/// Returns a hub that has applied commit 1 of a repository.
fn world() -> World {
    let mut world = World::new(7, "2026-01-02T03:04:05Z".parse().unwrap());
    let namespace =
        json!({"name": "config", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}});
    let provider =
        json!({"type": "gitea", "address": "https://git.example/api/v1", "secretRef": {"name": "t"}});
    let spec = json!({"url": "https://git.example/acme/fleet", "report": {"commitStatus": provider}});
    let metadata = json!({"namespace": "config", "name": "fleet"});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace}),
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}),
    ];
    for object in objects {
        world.apply(Object::from_value(object).unwrap()).unwrap();
    }
    let file = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: config}\n".as_slice();
    let tree: FileTree = [("a.yaml", file)].into_iter().collect();
    world.commit(&key(), &"1".repeat(40), tree);
    assert!(world.run_until(SignedDuration::from_secs(60), has_succeeded).unwrap());
    world
}

fn has_succeeded(world: &World) -> bool {
    world.commit_statuses.iter().any(|sent| sent.state == CommitState::Success)
}

fn source(repo: &ConfigRepo, revision: &str) -> Source {
    let checkout = Checkout { revision: revision.into(), tree: FileTree::default() };
    Source::of(repo, Some(Arc::new(checkout)), None)
}

/// Plans at a later time, with a repository and its source.
fn planned(world: &World, repo: &ConfigRepo, source: Source, later: SignedDuration) -> Plan {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![repo.clone()], "1");
    caches.replace(Site::Hub, Vec::<ClusterManagementAddOn>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManagedCluster>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManagedClusterAddOn>::new(), "1");
    caches.replace(Site::Hub, Vec::<RolloutPolicy>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManifestWorkReplicaSet>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManifestWork>::new(), "1");
    caches.replace(Site::Hub, world.list::<ConfigRepoInventory>(), "1");
    caches.replace(Site::Hub, Vec::<Placement>::new(), "1");
    caches.replace(Site::Hub, world.list::<Namespace>(), "1");
    caches.set_source(key(), source);
    CommitStatusController::plan(&key(), &caches, world.now + later).unwrap()
}

/// Returns the repository after an attempt to report that its commit succeeded.
fn concluded(world: &World, outcome: Outcome) -> ConfigRepo {
    let mut repo = world.get::<ConfigRepo>(&key()).unwrap();
    repo.status.as_mut().unwrap().commit_status = None;
    let status =
        world.commit_statuses.iter().find(|sent| sent.state == CommitState::Success).unwrap().clone();
    let plan = Plan { steps: vec![vec![Action::SetCommitStatus(Box::new(status))]], ..Plan::default() };
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![repo.clone()], "1");
    let done = Executed { plan, outcomes: vec![vec![outcome]] };
    let write = CommitStatusController::conclude(&key(), &caches, &done, world.now).unwrap().unwrap();
    let mut value = Object::from_typed(&repo).into_value();
    json_patch::merge(&mut value, &Value::Object(write.patch));
    serde_json::from_value(value).unwrap()
}

fn failure(kind: FailureKind) -> Outcome {
    Err(Failure { kind, message: "https://git.example/api/v1 refuses".into() })
}

fn newest(repo: &ConfigRepo) -> Source {
    source(repo, &"1".repeat(40))
}

fn reported(repo: &ConfigRepo) -> (&str, &str) {
    let condition = repo.condition(COMMIT_STATUS_REPORTED).unwrap();
    (&condition.reason, &condition.message)
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

#[test]
fn a_refusal_is_a_condition_and_is_retried_after_ten_minutes_or_an_edit() {
    let world = world();
    let mut repo = concluded(&world, failure(FailureKind::Forbidden));
    assert_eq!(reported(&repo), ("CommitStatusRejected", "https://git.example/api/v1 refuses"));
    assert!(repo.condition("Ready").unwrap().is_true(), "a provider that refuses holds nothing up");
    assert!(planned(&world, &repo, newest(&repo), minutes(9)).steps.is_empty());
    assert_eq!(planned(&world, &repo, newest(&repo), minutes(11)).steps.len(), 1);
    repo.metadata.generation = repo.metadata.generation.map(|generation| generation + 1);
    repo.status.as_mut().unwrap().observed_generation = repo.metadata.generation;
    assert_eq!(planned(&world, &repo, newest(&repo), minutes(1)).steps.len(), 1);
}

#[test]
fn a_provider_that_does_not_respond_is_retried_after_a_minute() {
    let world = world();
    let repo = concluded(&world, failure(FailureKind::Unavailable));
    assert_eq!(reported(&repo).0, "CommitStatusFailed");
    let soon = planned(&world, &repo, newest(&repo), SignedDuration::from_secs(30));
    assert!(soon.steps.is_empty() && soon.wake_at.is_some());
    assert_eq!(planned(&world, &repo, newest(&repo), minutes(2)).steps.len(), 1);
    let repo = concluded(&world, Ok(Answer::Nothing));
    assert_eq!(reported(&repo), ("CommitStatusSet", ""));
    assert!(planned(&world, &repo, newest(&repo), minutes(2)).is_empty(), "a state is sent once");
}

#[test]
fn a_commit_that_the_hub_has_not_judged_has_no_status() {
    let world = world();
    let mut repo = concluded(&world, failure(FailureKind::Unavailable));
    assert!(planned(&world, &repo, source(&repo, &"2".repeat(40)), minutes(2)).is_empty());
    let failure = Some(SourceFailure { reason: "SourceUnreachable", message: "down".into() });
    let stale = Source { failure, ..newest(&repo) };
    assert!(planned(&world, &repo, stale, minutes(2)).is_empty());
    repo.metadata.generation = repo.metadata.generation.map(|generation| generation + 1);
    assert!(planned(&world, &repo, newest(&repo), minutes(2)).is_empty());
}

#[test]
fn a_commit_has_a_hundred_statuses_at_most() {
    let world = world();
    let mut repo = concluded(&world, Ok(Answer::Nothing));
    let last = repo.status.as_mut().unwrap().commit_status.as_mut().unwrap();
    (last.sent, last.state) = (MAX_SENT, Some(CommitState::Failure));
    let plan = planned(&world, &repo, newest(&repo), minutes(2));
    assert!(plan.steps.is_empty());
    let written = serde_json::to_string(&plan.status.unwrap().patch).unwrap();
    assert!(written.contains("CommitStatusLimit") && written.contains("100 statuses"), "{written}");
}

/// Returns a settled hub whose commit is pending until a work has progressed.
fn pending() -> MemoryHub {
    let world = world();
    let [repo, namespace] = [
        Object::from_typed(&world.get::<ConfigRepo>(&key()).unwrap()),
        Object::from_typed(&world.get::<Namespace>(&Key::cluster("config")).unwrap()),
    ];
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "namespace": "c1", "name": "settings", "uid": "w",
            "annotations": {"gitops.wheelwright.dev/config-repo": key().to_string()},
        },
        "spec": {"workload": {"manifests": []}},
    });
    let mut inventory = Object::from_typed(&world.list::<ConfigRepoInventory>()[0]).into_value();
    inventory["spec"]["objects"]["work.open-cluster-management.io/ManifestWork/c1/settings"] = json!("v1");
    let mut hub = hub_with(
        Dispatcher::add::<CommitStatusController>,
        vec![repo.into_value(), namespace.into_value(), inventory, work],
    );
    hub.now = world.now;
    hub.patch("ConfigRepo", &key(), &json!({"status": {"commitStatus": null}}));
    progresses(&mut hub, "True", "Begins");
    advance_a_second(&mut hub);
    let repo = world.get::<ConfigRepo>(&key()).unwrap();
    hub.dispatcher.source_changed(&key(), newest(&repo), hub.now);
    while !advance_a_second(&mut hub).plans.is_empty() {}
    assert_eq!(state(&hub), "pending");
    hub
}

/// Changes the progress of the work.
fn progresses(hub: &mut MemoryHub, status: &str, reason: &str) {
    reports(hub, "True", (status, reason));
}

/// Changes the progress of the work, which cannot be applied.
fn fails(hub: &mut MemoryHub, reason: &str) {
    reports(hub, "False", ("True", reason));
}

fn reports(hub: &mut MemoryHub, applied: &str, (status, reason): (&str, &str)) {
    let now = hub.now.to_string();
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": now,
        })
    };
    let conditions = [
        condition("Applied", applied, "Applied"),
        condition("Available", "True", "Available"),
        condition("Progressing", status, reason),
    ];
    let work = Key::namespaced("c1", "settings");
    hub.patch("ManifestWork", &work, &json!({"status": {"conditions": conditions}}));
}

/// Returns the state that the provider has accepted.
fn state(hub: &MemoryHub) -> Value {
    let repo = &hub.objects[&("ConfigRepo".to_owned(), key())];
    repo.0["status"]["commitStatus"]["state"].clone()
}

#[test]
fn the_fleet_is_checked_every_five_seconds_and_a_final_state_is_sent_once_it_is_stable() {
    let mut hub = pending();
    let mut looks = 0;
    for second in 0..20 {
        progresses(&mut hub, "True", &format!("Step{second}"));
        looks += advance_a_second(&mut hub).plans.values().sum::<usize>();
    }
    assert!((4..=5).contains(&looks), "{looks}");
    progresses(&mut hub, "False", "Done");
    let ended = hub.now;
    while state(&hub) == "pending" && hub.now < ended + minutes(1) {
        advance_a_second(&mut hub);
    }
    assert_eq!(state(&hub), "success");
    assert_eq!((hub.now - ended).get_seconds(), 5);
}

/// Reports that the work has just become available again.
fn recovers(hub: &mut MemoryHub) {
    let (work, now) = (Key::namespaced("c1", "settings"), hub.now.to_string());
    let live = &hub.objects[&("ManifestWork".to_owned(), work.clone())];
    let mut conditions = live.0["status"]["conditions"].clone();
    let available = conditions.as_array_mut().unwrap().iter_mut().find(|it| it["type"] == "Available");
    available.unwrap()["lastTransitionTime"] = now.into();
    hub.patch("ManifestWork", &work, &json!({"status": {"conditions": conditions}}));
}

#[test]
fn a_success_is_sent_while_the_health_of_the_fleet_keeps_changing() {
    let mut hub = pending();
    progresses(&mut hub, "False", "Done");
    let ended = hub.now;
    while state(&hub) == "pending" && hub.now < ended + minutes(1) {
        recovers(&mut hub);
        advance_a_second(&mut hub);
    }
    assert_eq!(state(&hub), "success");
    assert_eq!((hub.now - ended).get_seconds(), 5);
}

#[test]
fn a_failure_is_sent_while_others_keep_changing() {
    let mut hub = pending();
    for second in 0..20 {
        fails(&mut hub, &format!("Step{second}"));
        advance_a_second(&mut hub);
    }
    assert_eq!(state(&hub), "failure");
}
