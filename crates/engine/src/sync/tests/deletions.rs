//! Tests for the record of deletions, and for what waits with them.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::hub::{Hub, commit, config_map, object};
use crate::sync::{Budget, ObjectId, Recent, Uninstall};

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn id(name: &str) -> ObjectId {
    ObjectId::of(&config_map(name, "1").reference())
}

/// Returns a hub with these ConfigMaps from the repository, and a budget of five deletions per hour.
fn hub(names: &[&str]) -> Hub {
    let mut hub = Hub::new();
    hub.policy.budget = Some(Budget::default());
    hub.settle(&commit(&names.iter().map(|name| config_map(name, "1")).collect::<Vec<_>>()));
    hub
}

#[test]
fn a_deletion_is_recorded_with_the_next_whole_second() {
    let mut hub = hub(&["a", "b", "c", "d", "e", "f", "g"]);
    hub.now = at(1) + SignedDuration::from_millis(1);
    let left = ["a", "b", "c", "d", "e"].map(|name| config_map(name, "1"));
    let recorded = at(1) + SignedDuration::from_secs(1);
    assert_eq!(hub.plan(&commit(&left)).recent, Recent::from([(id("f"), recorded), (id("g"), recorded)]));
}

#[test]
fn the_end_of_a_window_alone_writes_no_record_and_a_deletion_writes_one_without_what_has_ended() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let mut hub = hub(&names);
    let record = Recent::from([(id("ended"), at(0)), (id("counts"), at(90))]);
    (hub.recent, hub.now) = (record.clone(), at(120));
    let all = names.map(|name| config_map(name, "1"));
    assert_eq!(hub.plan(&commit(&all)).recent, record);
    let deleted = hub.plan(&commit(&all[..6])).recent;
    assert_eq!(deleted.into_keys().collect::<Vec<_>>(), [id("counts"), id("g")]);
}

#[test]
fn an_object_that_a_commit_restores_no_longer_counts_as_deleted() {
    let mut hub = hub(&["a"]);
    hub.recent = Recent::from([(id("a"), at(0)), (id("gone"), at(0))]);
    let wanted = commit(&[config_map("a", "1")]);
    let plan = hub.plan(&wanted);
    assert_eq!(plan.recent, Recent::from([(id("gone"), at(0))]));
}

#[test]
fn recorded_and_replaced_objects_wait_too_if_a_config_repo_cannot_judge_the_commit() {
    let recorded = (["a", "b"], [config_map("a", "1"), config_map("d", "1")], "b");
    let replaced =
        (["a", "c-2456789bcd"], [config_map("a", "1"), config_map("c-fghkmt2456", "1")], "c-2456789bcd");
    for (before, wanted, goes) in [recorded, replaced] {
        let wanted = commit(&wanted);
        let mut hub = hub(&before);
        hub.recent = Recent::from([(id("b"), at(0))]);
        hub.unjudged = Some("its overlay is broken");
        let plan = hub.plan(&wanted);
        assert_eq!(plan.hold.unwrap().objects, [id(goes)]);
        assert!(plan.delete.is_empty());
        hub.unjudged = None;
        let plan = hub.plan(&wanted);
        assert_eq!((plan.hold, plan.delete.iter().flatten().count()), (None, 1));
    }
}

#[test]
fn a_config_repo_that_deletes_its_objects_is_deleted_only_with_an_approval() {
    let repo = |name: &str, policy: &str| {
        object(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"url": "https://git.example/a", "deletionPolicy": policy}}))
    };
    let mut hub = Hub::new();
    let object = config_map("a", "1");
    hub.settle(&commit(&[object.clone(), repo("deletes", "Delete"), repo("leaves", "Orphan")]));
    hub.edit("deletes", |live| {
        live.0.insert("status".into(), json!({"objects": 7}));
    });
    let wanted = commit(&[object.clone(), repo("deletes", "Delete")]);
    let without = hub.plan(&wanted);
    assert_eq!((without.hold, without.delete.len()), (None, 1));
    let hold = hub.plan(&commit(&[object, repo("leaves", "Orphan")])).hold.unwrap();
    assert!(hold.why.ends_with("deletes what it owns, 7 objects now"), "{}", hold.why);
}

#[test]
fn a_withheld_object_is_neither_applied_nor_corrected() {
    let mut hub = hub(&["a", "b"]);
    hub.edit("a", |live| {
        live.0.insert("data".into(), json!({"k": "of somebody else"}));
    });
    let names = |hub: &Hub| -> BTreeSet<String> {
        let wanted = commit(&[config_map("a", "1"), config_map("b", "2")]);
        let plan = hub.plan(&wanted);
        let applied = plan.apply.iter().flatten().chain(plan.correct.iter().map(|one| &one.apply));
        applied.map(|apply| apply.desired.reference.key.name.clone()).collect()
    };
    let both = BTreeSet::from(["a", "b"].map(str::to_owned));
    assert_eq!(names(&hub), both);
    hub.withheld.always = BTreeSet::from([id("a"), id("b")]);
    assert_eq!(names(&hub), BTreeSet::new());
    hub.withheld.with_uninstalls = std::mem::take(&mut hub.withheld.always);
    assert_eq!(names(&hub), both, "no deletion waits");
}

#[test]
fn the_rest_of_approved_deletions_needs_no_other_approval() {
    let mut hub = hub(&["a", "b", "c", "d"]);
    hub.policy.budget = Some(Budget { objects: 1, percent: 0, ..Budget::default() });
    let wanted = commit(&[config_map("a", "1")]);
    let hold = hub.plan(&wanted).hold.unwrap();
    hub.policy.approved = hold.approval;
    let plan = hub.plan(&wanted);
    assert_eq!((plan.delete.iter().flatten().count(), plan.is_approved), (3, true));
    hub.objects.remove(&id("b"));
    assert!(hub.plan(&wanted).hold.is_some(), "the approval is for exactly three deletions");
    hub.policy.approves_rest = true;
    let plan = hub.plan(&wanted);
    assert_eq!((plan.delete.iter().flatten().count(), plan.is_approved), (2, true));
    hub.awaits_requests = true;
    assert!(hub.plan(&wanted).is_approved, "others may request what is left");
    assert!(!hub.plan(&commit(&["a", "c", "d"].map(|name| config_map(name, "1")))).is_approved);
    hub.awaits_requests = false;
    assert!(!hub.plan(&commit(&["a", "c", "d"].map(|name| config_map(name, "1")))).is_approved);
    hub.objects.remove(&id("c"));
    let plan = hub.plan(&wanted);
    let last = (plan.delete.iter().flatten().count(), plan.is_approved, plan.recent.len());
    assert_eq!(last, (1, true, 0), "it does not count, although it is within the budget");
}

#[test]
fn an_object_is_withheld_while_a_deletion_waits_with_which_clusters_lose_something() {
    let mut hub = hub(&["a", "b", "c"]);
    hub.withheld.with_uninstalls = BTreeSet::from([id("a")]);
    let wanted = commit(&[config_map("a", "2"), config_map("b", "1")]);
    let is_applied = |hub: &Hub| !hub.plan(&wanted).apply.is_empty();
    assert!(is_applied(&hub));
    hub.awaits_requests = true;
    assert!(!is_applied(&hub), "others may request the object");
    hub.awaits_requests = false;
    hub.unjudged = Some("its overlay is broken");
    assert!(is_applied(&hub), "no cluster loses anything with the deletion that waits");
    hub.unjudged = None;
    hub.policy.uninstalls.insert(id("c"), Uninstall { clusters: 3, ..Uninstall::default() });
    assert!(!is_applied(&hub));
}
