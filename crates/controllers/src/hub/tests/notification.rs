use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::*;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::{ConfigRepoInventory, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::Object;
use reconcile::{Answer, Caches, Failure, FailureKind, Site};

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn key() -> Key {
    Key::namespaced("config", "fleet")
}

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// Returns a repository with two receivers whose commit is rejected.
fn rejected() -> ConfigRepo {
    let receiver =
        |name: &str, format: &str| json!({"name": name, "type": format, "secretRef": {"name": name}});
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "InvalidObject", "message": "m", "lastTransitionTime": now().to_string()});
    let since = now() - seconds(3600);
    let revision =
        |commit: char| json!({"commit": commit.to_string().repeat(40), "since": since.to_string()});
    let conditions = [condition("Ready", "False"), condition("Stalled", "True")];
    let status = json!({"observedGeneration": 1, "seen": revision('2'), "applied": revision('1'), "conditions": conditions});
    let spec = json!({"url": "https://git.example/a/b", "serviceAccountName": "deployer",
        "notifications": [receiver("oncall", "CloudEvents"), receiver("chat", "Slack")]});
    let metadata = json!({"name": "fleet", "namespace": "config", "uid": "u", "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn caches(repo: &ConfigRepo) -> Caches {
    let mut caches = Caches::default();
    let namespace = |name: &str| -> Namespace {
        serde_json::from_value(json!({"metadata": {"name": name, "uid": "hub"}})).unwrap()
    };
    caches.replace(Site::Hub, vec![namespace("config"), namespace("kube-system")], "1");
    caches.replace(Site::Hub, vec![repo.clone()], "1");
    caches.replace(Site::Hub, Vec::<ClusterManagementAddOn>::new(), "1");
    caches.replace(Site::Hub, Vec::<ConfigRepoInventory>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManagedCluster>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManagedClusterAddOn>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManifestWork>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManifestWorkReplicaSet>::new(), "1");
    caches.replace(Site::Hub, Vec::<Placement>::new(), "1");
    caches.replace(Site::Hub, Vec::<PlacementDecision>::new(), "1");
    caches.replace(Site::Hub, Vec::<RolloutPolicy>::new(), "1");
    caches
}

/// Returns the messages that are due after a while, and when the plan asks for the next look.
fn due(repo: &ConfigRepo, after: i64) -> (Vec<Notification>, Option<i64>) {
    let plan = NotificationController::plan(&key(), &caches(repo), now() + seconds(after)).unwrap();
    let notifications = plan.steps.into_iter().flatten().map(|action| match action {
        Action::Notify(notification) => *notification,
        other => panic!("unexpected {other:?}"),
    });
    (notifications.collect(), plan.wake_at.map(|at| (at - now()).get_seconds()))
}

fn receivers(sent: &[Notification]) -> Vec<&str> {
    sent.iter().map(|one| one.receiver.as_str()).collect()
}

/// Returns the repository after messages were sent.
fn concluded(repo: &ConfigRepo, sent: &[Notification], outcomes: Vec<Outcome>) -> ConfigRepo {
    let steps = vec![sent.iter().map(|one| Action::Notify(Box::new(one.clone()))).collect()];
    let done = Executed { plan: Plan { steps, ..Plan::default() }, outcomes: vec![outcomes] };
    let write = NotificationController::conclude(&key(), &caches(repo), &done, now()).unwrap().unwrap();
    written(repo, write)
}

fn written(repo: &ConfigRepo, write: StatusWrite) -> ConfigRepo {
    let mut value = Object::from_typed(repo).into_value();
    json_patch::merge(&mut value, &Value::Object(write.patch));
    serde_json::from_value(value).unwrap()
}

fn refused() -> Outcome {
    Err(Failure { kind: FailureKind::Forbidden, message: "https://oncall.example refuses".into() })
}

/// Returns the repository after its commit was replaced by a good one.
fn repaired(mut repo: ConfigRepo) -> ConfigRepo {
    let status = repo.status.as_mut().unwrap();
    status.applied.clone_from(&status.seen);
    for condition in &mut status.conditions {
        condition.status = (condition.type_ == "Ready").into();
    }
    repo
}

#[test]
fn a_receiver_that_fails_is_retried_with_growing_waits_and_delays_no_other() {
    let (sent, _) = due(&rejected(), 0);
    assert_eq!(receivers(&sent), ["oncall", "chat"]);
    let mut repo = concluded(&rejected(), &sent, vec![refused(), Ok(Answer::Nothing)]);
    let condition = repo.condition(NOTIFIED).unwrap();
    let shown = (condition.reason.as_str(), condition.message.as_str());
    assert_eq!(shown, ("NotificationFailed", "oncall: https://oncall.example refuses"));
    for wait in [60, 120, 240, 480, 600, 600] {
        assert_eq!(due(&repo, wait - 1), (Vec::new(), Some(wait)));
        let (again, _) = due(&repo, wait);
        assert_eq!(receivers(&again), ["oncall"]);
        assert_eq!(again[0].id, sent[0].id, "a receiver can ignore the second one");
        repo = concluded(&repo, &again, vec![refused()]);
    }
    repo = concluded(&repo, &sent[..1], vec![Ok(Answer::Nothing)]);
    let condition = repo.condition(NOTIFIED).unwrap();
    assert_eq!((condition.is_true(), condition.reason.as_str()), (true, "NotificationsSent"));
    assert_eq!(due(&repo, 3600), (Vec::new(), None), "a state is sent once");
}

#[test]
fn an_edit_of_the_spec_ends_the_wait() {
    let (sent, _) = due(&rejected(), 0);
    let mut repo = concluded(&rejected(), &sent, vec![refused(), refused()]);
    assert_eq!(due(&repo, 1).0, []);
    repo.metadata.generation = Some(2);
    assert_eq!(due(&repo, 1).0, [], "the status is about the old spec");
    repo.status.as_mut().unwrap().observed_generation = Some(2);
    assert_eq!(receivers(&due(&repo, 1).0), ["oncall", "chat"]);
}

#[test]
fn a_receiver_gets_a_message_in_thirty_seconds_and_the_last_state_wins() {
    let (sent, _) = due(&rejected(), 0);
    let repo = concluded(&rejected(), &sent, vec![Ok(Answer::Nothing), Ok(Answer::Nothing)]);
    let repaired = repaired(repo.clone());
    assert_eq!(due(&repaired, 29), (Vec::new(), Some(30)));
    let (recovered, _) = due(&repaired, 30);
    assert_eq!(recovered.iter().map(|one| &one.state).collect::<Vec<_>>(), [&NotifiedState::Recovered; 2]);
    assert!(recovered.iter().all(|one| sent.iter().all(|before| before.id != one.id)));
    assert_eq!(due(&repo, 30), (Vec::new(), None), "the state came back before the message was due");
    // The same state after a recovery is another message.
    let again = concluded(&repaired, &recovered, vec![Ok(Answer::Nothing), Ok(Answer::Nothing)]);
    let again = ConfigRepo {
        status: rejected().status.map(|status| api::gitops::v1alpha1::ConfigRepoStatus {
            notifications: again.status.unwrap().notifications,
            ..status
        }),
        ..again
    };
    let (again, _) = due(&again, 60);
    assert_eq!((again.len(), &again[0].digest), (2, &sent[0].digest));
    assert_ne!(again[0].id, sent[0].id);
}

#[test]
fn the_record_of_a_receiver_goes_with_it() {
    let (sent, _) = due(&rejected(), 0);
    let mut repo = concluded(&rejected(), &sent, vec![refused(), Ok(Answer::Nothing)]);
    repo.spec.notifications.remove(0);
    let plan = NotificationController::plan(&key(), &caches(&repo), now()).unwrap();
    let mut repo = written(&repo, plan.status.unwrap());
    let names = |repo: &ConfigRepo| -> Vec<String> {
        repo.status.as_ref().unwrap().notifications.iter().map(|last| last.name.clone()).collect()
    };
    assert_eq!((names(&repo), repo.holds(NOTIFIED)), (vec!["chat".to_owned()], true));
    repo.spec.notifications.clear();
    let plan = NotificationController::plan(&key(), &caches(&repo), now()).unwrap();
    let repo = written(&repo, plan.status.unwrap());
    assert_eq!((names(&repo), repo.condition(NOTIFIED)), (Vec::new(), None));
}

#[test]
fn the_error_of_a_receiver_is_dropped_when_its_message_is_no_longer_news() {
    let (sent, _) = due(&rejected(), 0);
    let repo = concluded(&rejected(), &sent, vec![refused(), Ok(Answer::Nothing)]);
    let status = |repo: &ConfigRepo| {
        NotificationController::plan(&key(), &caches(repo), now() + seconds(1)).unwrap().status
    };
    assert!(status(&repo).is_none(), "the message is still to be sent");
    let repo = repaired(repo);
    let repo = written(&repo, status(&repo).unwrap());
    let oncall = &repo.status.as_ref().unwrap().notifications[0];
    assert_eq!((oncall.failures, oncall.error.as_str(), &oncall.state), (0, "", &None));
    assert!(repo.holds(NOTIFIED));
    assert!(status(&repo).is_none());
}

#[test]
fn the_ids_of_a_receiver_that_was_removed_and_added_again_are_new() {
    let ids = |rejected: &ConfigRepo| -> Vec<String> {
        let (sent, _) = due(rejected, 0);
        let repo = repaired(concluded(rejected, &sent, vec![Ok(Answer::Nothing), Ok(Answer::Nothing)]));
        let (recovered, _) = due(&repo, 30);
        sent.into_iter().chain(recovered).map(|one| one.id).collect()
    };
    let mut again = rejected();
    for condition in &mut again.status.as_mut().unwrap().conditions {
        condition.last_transition_time = Time(now() - seconds(60));
    }
    let mut other = rejected();
    other.status.as_mut().unwrap().seen.as_mut().unwrap().commit = "3".repeat(40);
    let all: Vec<String> = [&rejected(), &again, &other].into_iter().flat_map(ids).collect();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (12, 12), "{all:?}");
    assert_eq!(ids(&rejected()), all[..4], "a retry has the same IDs");
}

#[test]
fn an_outage_of_the_git_server_begins_with_the_first_failed_fetch_and_ends_with_a_successful_one() {
    let waiting = |mut repo: ConfigRepo, reason: &str, unreachable_since: Option<Timestamp>| {
        let status = repo.status.as_mut().unwrap();
        status.unreachable_since = unreachable_since.map(Time);
        for condition in &mut status.conditions {
            (condition.status, condition.reason) = (False, reason.into());
            condition.last_transition_time = Time(now() - seconds(3600));
        }
        repo
    };
    let states =
        |sent: &[Notification]| -> Vec<NotifiedState> { sent.iter().map(|one| one.state.clone()).collect() };
    let repo = waiting(rejected(), "SourceUnreachable", Some(now()));
    assert_eq!(due(&repo, 599), (Vec::new(), Some(600)));
    let (sent, _) = due(&repo, 600);
    assert_eq!(states(&sent), [NotifiedState::Unreachable, NotifiedState::Unreachable]);
    let repo = concluded(&repo, &sent, vec![Ok(Answer::Nothing), Ok(Answer::Nothing)]);
    let repo = waiting(repo, "SourceTimeout", Some(now()));
    assert_eq!(due(&repo, 700), (Vec::new(), None), "another error of the same outage");
    let (recovered, _) = due(&waiting(repo, "Frozen", None), 700);
    assert_eq!(states(&recovered), [NotifiedState::Recovered, NotifiedState::Recovered]);
}
