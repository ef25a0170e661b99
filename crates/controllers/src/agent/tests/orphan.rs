use serde_json::{Value, json};

use super::*;
use crate::agent_identity::{AgentIdentity, EVICTION_GRACE};
use crate::hub::tests::memory_hub::MemoryHub;
use reconcile::{Caches, Command, Dispatcher, DispatcherLimits, LookupAnswer, Register as _};

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn settings(eviction_grace: SignedDuration) -> AgentSettings {
    let identity = AgentIdentity::parse("c1/a/hash").unwrap();
    AgentSettings { eviction_grace, ..AgentSettings::new(identity) }
}

/// Returns the caches of an agent with one work on the hub.
fn caches(eviction_grace: SignedDuration) -> Caches {
    let other = json!({"metadata": {"name": "other", "namespace": "c1", "resourceVersion": "1"}, "spec": {}});
    let mut caches = Caches::default();
    caches.set_settings(settings(eviction_grace));
    caches.replace::<ManifestWork>(Site::Hub, vec![typed(other)], "1");
    caches
}

#[test]
fn objects_left_by_an_earlier_agent_are_adopted_only_from_the_same_hub() {
    let plan_of = |agent: &str, hub: &str, is_claimed: bool| {
        let mut caches = caches(EVICTION_GRACE);
        let mut settings = settings(EVICTION_GRACE);
        settings.identity.is_claimed = is_claimed;
        caches.set_settings(settings);
        let applied = json!({
            "metadata": {"name": format!("{hub}-gone"), "uid": "u", "resourceVersion": "1"},
            "spec": {"hubHash": hub, "manifestWorkName": "gone", "agentID": agent},
        });
        caches.replace::<AppliedManifestWork>(Site::Spoke, vec![typed(applied)], "1");
        let key = Key::cluster(format!("{hub}-gone"));
        let steps = OrphanController::plan(&key, &caches, Timestamp::UNIX_EPOCH).unwrap().steps.concat();
        steps
            .into_iter()
            .map(|action| match action {
                Action::Patch { patch, .. } => json!(patch),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(plan_of("klusterlet", "hash", true), [json!({"spec": {"agentID": "a"}})]);
    assert_eq!(plan_of("klusterlet", "other", true), Vec::<Value>::new());
    assert_eq!(plan_of("klusterlet", "hash", false), Vec::<Value>::new(), "it may belong to a second agent");
    let marked = [json!({"status": {"evictionStartTime": "1970-01-01T00:00:00Z"}})];
    assert_eq!(plan_of("a", "hash", true), marked);
    assert_eq!(plan_of("a", "other", true), marked, "its own, of a hub that it has left");
}

#[test]
fn a_new_work_concerns_its_own_inventory_and_those_without_a_work() {
    let applied = |name: &str, marked: Option<&str>, deleted: Option<&str>| {
        let metadata =
            json!({"name": format!("hash-{name}"), "resourceVersion": "1", "deletionTimestamp": deleted});
        let spec = json!({"hubHash": "hash", "manifestWorkName": name, "agentID": "a"});
        typed(json!({"metadata": metadata, "spec": spec, "status": {"evictionStartTime": marked}}))
    };
    let time = Some("2020-05-01T12:00:00Z");
    let all = vec![
        applied("other", None, None),
        applied("beside", None, None),
        applied("gone", time, None),
        applied("leaving", None, time),
    ];
    let mut caches = caches(EVICTION_GRACE);
    let work = caches.get::<ManifestWork>(&Key::namespaced("c1", "other")).unwrap().unwrap();
    let names = |caches: &Caches| -> Vec<String> {
        concerned(&work, caches).into_iter().map(|key| key.name).collect()
    };
    assert_eq!(names(&caches), ["hash-other"], "the inventories cannot be listed");
    caches.replace::<AppliedManifestWork>(Site::Spoke, all, "1");
    assert_eq!(names(&caches), ["hash-gone", "hash-leaving", "hash-other"]);
}

/// Runs the controller with an AppliedManifestWork that has been marked as missing for years. The clock jumps
/// forward by `jump` after half an hour; if `is_on_hub`, the hub has the work after all. Returns the minutes until
/// the deletion, without the jump; `None` if nothing is deleted within a day.
fn evicted_after(eviction_grace: SignedDuration, jump: SignedDuration, is_on_hub: bool) -> Option<i64> {
    let mut dispatcher =
        Dispatcher::new(DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 }, true);
    dispatcher.add::<OrphanController>();
    dispatcher.set_settings(settings(eviction_grace));
    let other = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "other", "namespace": "c1", "resourceVersion": "1"}, "spec": {},
    });
    let applied = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
        "metadata": {"name": "hash-gone", "uid": "u", "resourceVersion": "1"},
        "spec": {"hubHash": "hash", "manifestWorkName": "gone", "agentID": "a"},
        "status": {"evictionStartTime": "2020-05-01T12:00:00Z"},
    });
    let mut hub = MemoryHub::new(dispatcher, vec![other, applied]);
    let (began, mut jumped) = (hub.now, SignedDuration::ZERO);
    while hub.now.duration_since(began) - jumped < SignedDuration::from_hours(24) {
        let commands = hub.dispatcher.due(hub.now);
        let is_idle = commands.is_empty();
        for command in commands {
            match command {
                Command::LookUp(site, lookup) => {
                    assert_eq!(site, Site::Hub, "{lookup}");
                    hub.dispatcher.looked_up(site, &lookup, Ok(LookupAnswer::OnHub(is_on_hub)), hub.now);
                }
                command => drop(hub.execute(command)),
            }
        }
        if !hub.objects.keys().any(|(kind, _)| kind == "AppliedManifestWork") {
            return Some((hub.now.duration_since(began) - jumped).as_mins());
        }
        if is_idle {
            hub.now = hub.dispatcher.next_at()?.max(hub.now);
        }
        if jumped.is_zero() && hub.now.duration_since(began) >= SignedDuration::from_mins(30) {
            (hub.now, jumped) = (hub.now + jump, jump);
        }
    }
    None
}

#[test]
fn a_grace_period_of_a_hundred_years_deletes_nothing_and_removes_the_mark() {
    let none = SignedDuration::ZERO;
    assert_eq!(evicted_after(SignedDuration::from_hours(876_000), none, false), None);
    assert_eq!(evicted_after(SignedDuration::from_hours(875_999), none, false), None);
    let mut caches = caches(SignedDuration::from_hours(876_000));
    let applied = json!({
        "metadata": {"name": "hash-gone", "uid": "u", "resourceVersion": "1"},
        "spec": {"hubHash": "hash", "manifestWorkName": "gone", "agentID": "a"},
        "status": {"evictionStartTime": "2024-05-01T12:00:00Z"},
    });
    caches.replace::<AppliedManifestWork>(Site::Spoke, vec![typed(applied)], "1");
    let plan = OrphanController::plan(&Key::cluster("hash-gone"), &caches, Timestamp::UNIX_EPOCH).unwrap();
    let [Action::Patch { patch, .. }] = &plan.steps.concat()[..] else { panic!("{plan:?}") };
    assert_eq!(json!(patch), json!({"status": {"evictionStartTime": null}}));
    assert_eq!(plan.wake_at, None);
}

#[test]
fn a_work_that_the_hub_lost_is_removed_after_an_hour_or_the_agents_grace_period() {
    let after = |grace: SignedDuration| evicted_after(grace, SignedDuration::ZERO, false);
    assert_eq!(after(EVICTION_GRACE), Some(60));
    assert_eq!(after(SignedDuration::from_hours(2)), Some(120));
    assert_eq!(after(SignedDuration::from_mins(10)), Some(10));
}

#[test]
fn setting_the_clock_evicts_nothing_early() {
    let after = |jump: SignedDuration| evicted_after(EVICTION_GRACE, jump, false).unwrap();
    for jump in
        [SignedDuration::from_hours(400_000), SignedDuration::from_hours(1), SignedDuration::from_mins(-20)]
    {
        assert!((60..=62).contains(&after(jump)), "{jump}: {}", after(jump));
    }
}

#[test]
fn a_work_that_only_the_list_of_the_hub_lacks_is_not_evicted() {
    assert_eq!(evicted_after(EVICTION_GRACE, SignedDuration::ZERO, true), None);
}
