//! A receiver of notifications learns of each change of a repository's state once.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fixtures::{
    addon, config_repo, is_completed, merged, progressive, put, repo, seconds, select_all, template, world,
};
use crate::replica_sets::policy;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::ConfigRepo;
use object::tree::FileTree;
use reconcile::{Notification, SourceFailure};
use sim::World;

const GOOD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: config}\n";
/// Two documents define the same object.
const BAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: config}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: config}\n";

fn spec() -> Value {
    let oncall = json!({"name": "oncall", "type": "CloudEvents", "secretRef": {"name": "oncall"}});
    json!({"url": "https://git.example/acme/fleet.git", "notifications": [oncall]})
}

fn commit(world: &mut World, revision: char, file: &str) {
    let tree: FileTree = [("a.yaml", file.as_bytes())].into_iter().collect();
    world.commit(&repo(), &revision.to_string().repeat(40), tree);
    world.run_for(seconds(120)).unwrap();
}

/// Returns a hub that has applied commit 1 of a repository with a receiver.
fn applied(more: Value) -> World {
    let mut world = World::new(7, Timestamp::from_second(1_800_000_000).unwrap());
    config_repo(&mut world, &repo(), merged(spec(), more));
    commit(&mut world, '1', GOOD);
    assert!(world.get::<ConfigRepo>(&repo()).unwrap().holds("Ready"));
    world
}

/// Returns the state and the first digit of the commit of each message, in sending order. A message with the ID of an
/// earlier one is left out, as by a receiver.
fn states(sent: &[Notification]) -> Vec<String> {
    let mut ids = BTreeSet::new();
    let new = sent.iter().filter(|one| ids.insert(&one.id));
    let event = |one: &Notification| serde_json::from_str::<Value>(&one.body).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    new.map(event)
        .map(|event| format!("{} {}", text(&event["data"]["state"]), &text(&event["subject"])[..1]))
        .collect()
}

#[test]
fn each_rejected_commit_and_the_recovery_are_sent_once() {
    let mut world = applied(json!({}));
    assert!(world.notifications.is_empty(), "{:?}", world.notifications);
    commit(&mut world, '2', BAD);
    world.restart_operator();
    world.run_for(seconds(3600)).unwrap();
    assert_eq!(states(&world.notifications), ["Stalled 2"]);
    commit(&mut world, '3', BAD);
    assert_eq!(states(&world.notifications), ["Stalled 2", "Stalled 3"]);
    commit(&mut world, '4', GOOD);
    world.run_for(seconds(3600)).unwrap();
    assert_eq!(states(&world.notifications), ["Stalled 2", "Stalled 3", "Recovered 4"]);
    assert_eq!(world.notifications.len(), 3, "nothing is sent twice");
    let status = world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap();
    let last = &status.notifications[0];
    assert_eq!((last.name.as_str(), last.sent, last.digest.as_str()), ("oncall", 3, ""));
    // The same state is news after a recovery.
    commit(&mut world, '2', BAD);
    assert_eq!(states(&world.notifications).last().unwrap(), "Stalled 2");
}

#[test]
fn a_message_that_a_crash_left_unrecorded_is_sent_again_with_the_same_id_and_none_is_lost() {
    let mut repeated = 0;
    for writes in 1..=12 {
        let mut world = applied(json!({}));
        world.kill_operator_after(writes);
        commit(&mut world, '2', BAD);
        commit(&mut world, '3', GOOD);
        assert_eq!(states(&world.notifications), ["Stalled 2", "Recovered 3"], "after {writes} writes");
        repeated += world.notifications.len() - 2;
    }
    assert!(repeated > 0, "no crash came between sending and recording");
}

#[test]
fn a_plan_that_waits_is_sent_and_so_is_its_approval() {
    let mut world = applied(json!({}));
    config_repo(&mut world, &repo(), merged(spec(), json!({"planApproval": "Required"})));
    commit(&mut world, '2', &GOOD.replace("name: a", "name: b"));
    assert_eq!(states(&world.notifications), ["ApprovalNeeded 2"]);
    let plan = world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap().held_plan;
    let body = &world.notifications[0].body;
    assert!(body.contains(&plan) && body.contains("wheelwright repo approve config/fleet"), "{body}");
    config_repo(&mut world, &repo(), spec());
    world.run_for(seconds(120)).unwrap();
    assert_eq!(states(&world.notifications), ["ApprovalNeeded 2", "Recovered 2"]);
}

#[test]
fn a_git_server_that_does_not_answer_is_news_after_ten_minutes() {
    let mut world = applied(json!({}));
    let failure = SourceFailure { reason: "SourceUnreachable", message: "cannot reach it".into() };
    world.fail_fetching(&repo(), failure);
    world.run_for(seconds(590)).unwrap();
    assert!(world.notifications.is_empty(), "{:?}", world.notifications);
    world.run_for(seconds(30)).unwrap();
    assert_eq!(states(&world.notifications), ["Unreachable 1"]);
    commit(&mut world, '1', GOOD);
    assert_eq!(states(&world.notifications), ["Unreachable 1", "Recovered 1"]);
}

#[test]
fn a_waiting_repository_whose_git_server_does_not_answer_is_news_after_ten_minutes_too() {
    let mut world = applied(json!({}));
    config_repo(&mut world, &repo(), merged(spec(), json!({"dependsOn": [{"name": "base"}]})));
    commit(&mut world, '2', GOOD);
    world.run_for(seconds(3600)).unwrap();
    for (reason, rest) in [("SourceUnreachable", 300), ("SourceTimeout", 290)] {
        world.fail_fetching(&repo(), SourceFailure { reason, message: "cannot reach it".into() });
        world.run_for(seconds(rest)).unwrap();
        assert!(world.notifications.is_empty(), "{:?}", world.notifications);
    }
    world.run_for(seconds(30)).unwrap();
    assert_eq!(states(&world.notifications), ["Unreachable 2"]);
    commit(&mut world, '2', GOOD);
    assert!(!world.get::<ConfigRepo>(&repo()).unwrap().holds("Ready"));
    assert_eq!(states(&world.notifications), ["Unreachable 2", "Recovered 1"]);
}

#[test]
fn a_suspended_repository_and_one_without_receivers_send_nothing() {
    let mut world = applied(json!({}));
    config_repo(&mut world, &repo(), merged(spec(), json!({"suspend": true})));
    commit(&mut world, '2', BAD);
    assert!(world.notifications.is_empty(), "{:?}", world.notifications);
    config_repo(&mut world, &repo(), spec());
    world.run_for(seconds(120)).unwrap();
    assert_eq!(states(&world.notifications), ["Stalled 2"]);
    config_repo(&mut world, &repo(), merged(spec(), json!({"notifications": null})));
    commit(&mut world, '3', BAD);
    assert_eq!(states(&world.notifications), ["Stalled 2"]);
    let repo = world.get::<ConfigRepo>(&repo()).unwrap();
    assert!(repo.condition("Notified").is_none());
    assert!(repo.status.unwrap().notifications.is_empty());
}

/// Returns clusters that run an add-on, and a repository that follows what another tool applies.
fn followed() -> World {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap());
    config_repo(&mut world, &repo(), merged(spec(), json!({"mode": "Observe"})));
    put(
        &mut world,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "config"}}),
    );
    commit(&mut world, '1', GOOD);
    world
}

/// Releases an image with a commit, and waits until the rollout has ended.
fn release(world: &mut World, image: &str, revision: char) {
    template(world, "msa", image);
    commit(world, revision, GOOD);
    world.run_for(seconds(600)).unwrap();
}

#[test]
fn a_failed_rollout_is_sent_once_for_each_revision_until_one_succeeds() {
    let mut world = followed();
    release(&mut world, "msa:0.4.8", '2');
    assert_eq!(states(&world.notifications), ["RolloutFailed 2"]);
    let event: Value = serde_json::from_str(&world.notifications[0].body).unwrap();
    let cause = event["data"]["cause"].as_str().unwrap();
    assert!(cause.starts_with("managed-serviceaccount failed on 1 of 3 clusters; cluster1: "), "{cause}");
    assert_eq!(event["data"]["command"], "wheelwright rollout status managed-serviceaccount");
    assert_eq!(event["data"]["link"], format!("https://git.example/acme/fleet/commit/{}", "2".repeat(40)));
    // A commit that changes nothing about it is not news.
    commit(&mut world, '3', GOOD);
    release(&mut world, "msa:0.4.9", '4');
    release(&mut world, "msa:0.4.0", '5');
    assert_eq!(states(&world.notifications), ["RolloutFailed 2", "RolloutFailed 4", "Recovered 5"]);
    // A silent cluster misses the deadline of the rollout before its lease expires.
    world.spokes.get_mut("cluster3").unwrap().connected = false;
    release(&mut world, "msa:0.4.1", '6');
    assert_eq!(states(&world.notifications)[3..], ["RolloutFailed 6", "Recovered 6"]);
    world.spokes.get_mut("cluster3").unwrap().connected = true;
    world.run_for(seconds(600)).unwrap();
    assert_eq!(world.notifications.len(), 5, "clusters that come and go send nothing");
}

#[test]
fn a_revision_that_is_rolled_back_is_sent_with_the_remedy() {
    let mut world = followed();
    policy(&mut world, json!({"onBreach": "Rollback"}));
    release(&mut world, "msa:0.4.1", '2');
    assert!(world.notifications.is_empty(), "{:?}", world.notifications);
    release(&mut world, "msa:0.4.9", '3');
    let sent = states(&world.notifications);
    assert_eq!(sent.last().unwrap(), "RolledBack 3", "{sent:?}");
    let body = &world.notifications.last().unwrap().body;
    assert!(body.contains("is quarantined on default/fleet: it failed on cluster1"), "{body}");
    assert!(body.contains("fix or revert the commit first"), "{body}");
    let before = sent.len();
    release(&mut world, "msa:0.4.0", '4');
    assert_eq!(states(&world.notifications)[before..], ["Recovered 4"]);
}
