use serde_json::{Value, json};

use super::*;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::RolloutPolicy;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use k8s_openapi::api::core::v1::Namespace;
use object::Object;
use object::tree::{Checkout, FileTree};
use reconcile::{Answer, Caches, Outcome, Site, SourceFailure};
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
    Source { identity: SourceIdentity::of(repo), checkout: Some(Arc::new(checkout)), failure: None }
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
    caches.replace(Site::Hub, Vec::<Placement>::new(), "1");
    caches.replace(Site::Hub, world.list::<Namespace>(), "1");
    caches.set_source(key(), source);
    CommitStatusController::plan(&key(), &caches, world.now + later).unwrap()
}

/// Returns the repository after an attempt to say that its commit succeeded.
fn concluded(world: &World, outcome: Outcome) -> ConfigRepo {
    let mut repo = world.get::<ConfigRepo>(&key()).unwrap();
    repo.status.as_mut().unwrap().commit_status = None;
    let status =
        world.commit_statuses.iter().find(|sent| sent.state == CommitState::Success).unwrap().clone();
    let plan = Plan { steps: vec![vec![Action::SetCommitStatus(Box::new(status))]], ..Plan::default() };
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![repo.clone()], "1");
    let done = Executed { plan, outcomes: vec![vec![outcome]] };
    let write = CommitStatusController::conclude(&key(), &caches, &done, world.now).unwrap();
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

fn told(repo: &ConfigRepo) -> (&str, &str) {
    let condition = repo.condition(COMMIT_STATUS_REPORTED).unwrap();
    (&condition.reason, &condition.message)
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

#[test]
fn a_refusal_is_a_condition_and_is_tried_again_after_ten_minutes_or_an_edit() {
    let world = world();
    let mut repo = concluded(&world, failure(FailureKind::Forbidden));
    assert_eq!(told(&repo), ("CommitStatusRejected", "https://git.example/api/v1 refuses"));
    assert!(repo.condition("Ready").unwrap().is_true(), "a provider that refuses holds nothing up");
    assert!(planned(&world, &repo, newest(&repo), minutes(9)).steps.is_empty());
    assert_eq!(planned(&world, &repo, newest(&repo), minutes(11)).steps.len(), 1);
    repo.metadata.generation = repo.metadata.generation.map(|generation| generation + 1);
    repo.status.as_mut().unwrap().observed_generation = repo.metadata.generation;
    assert_eq!(planned(&world, &repo, newest(&repo), minutes(1)).steps.len(), 1);
}

#[test]
fn a_provider_that_does_not_answer_is_asked_again_after_a_minute() {
    let world = world();
    let repo = concluded(&world, failure(FailureKind::Unavailable));
    assert_eq!(told(&repo).0, "CommitStatusFailed");
    let soon = planned(&world, &repo, newest(&repo), SignedDuration::from_secs(30));
    assert!(soon.steps.is_empty() && soon.wake_at.is_some());
    assert_eq!(planned(&world, &repo, newest(&repo), minutes(2)).steps.len(), 1);
    let repo = concluded(&world, Ok(Answer::Nothing));
    assert_eq!(told(&repo), ("CommitStatusSet", ""));
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
