use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use serde_json::{Value, json};

use super::harness::{Harness, Map, copy, key, map};
use crate::{
    CachedCount, Controller, Decided, Decoded, Event, EventType, Executed, FailureKind, Plan, Precondition,
    Query, Read, Site, Source, SourceFailure, StatusWrite, Unreadable, View, WatcherEvent, Watches,
};
use object::{Gvk, Key, ObjectRef};

/// A controller that copies each ConfigMap that has no copy. It needs Namespaces to decide.
struct Copier;

impl Controller for Copier {
    const NAME: &'static str = "copier";
    type Primary = Map;

    fn watches<W: Watches>(watches: &mut W) {
        watches.read::<Namespace>();
        watches.on_source(|repo| vec![repo.clone()]);
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        assert!(!key.name.starts_with("bug"), "a bug of this controller");
        let copied = Key::namespaced("ns", format!("{}-copy", key.name));
        let is_copied = key.name.ends_with("-copy") || view.get::<Map>(&copied)?.is_some();
        if view.get::<Map>(key)?.is_some() && !is_copied {
            plan.step([copy(key)]);
        }
        Ok(plan)
    }
}

/// Returns a harness with everything listed.
fn ready(maps: &[Value]) -> Harness {
    let mut harness = Harness::new::<Copier>();
    harness.listed("ConfigMap", maps);
    harness.listed("Namespace", &[]);
    harness
}

#[test]
fn nothing_is_decided_before_every_kind_has_been_read() {
    let mut harness = Harness::new::<Copier>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(60);
    assert!(!harness.dispatcher.controllers().any(|info| info.is_ready) && harness.acts.is_empty());
    harness.listed("Namespace", &[]);
    harness.decide();
    assert_eq!(harness.acts.len(), 1);
}

#[test]
fn changes_are_gathered_before_their_key_is_planned() {
    let mut harness = ready(&[]);
    for _ in 0..3 {
        harness.changed("ConfigMap", map("a"));
    }
    harness.decide();
    assert!(harness.acts.is_empty(), "changes are gathered for a second");
    assert_eq!(harness.dispatcher.next_at(), Some(Timestamp::from_second(1).unwrap()));
    harness.after(1);
    assert_eq!((harness.acts.len(), harness.ended().len()), (1, 0));
}

#[test]
fn an_own_write_is_visible_before_the_watch_delivers_it() {
    let mut harness = ready(&[map("a")]);
    harness.after(1);
    harness.act();
    harness.after(5);
    assert!(harness.acts.is_empty(), "the copy that no watch has delivered yet must not be written again");
    assert_eq!(harness.ended(), ["a", "a-copy"], "the copy is a ConfigMap of its own");
}

#[test]
fn a_key_that_changes_while_its_writes_are_executed_is_planned_again() {
    let mut harness = ready(&[map("a")]);
    harness.after(1);
    harness.changed("ConfigMap", map("a"));
    harness.after(5);
    assert_eq!((harness.acts.len(), harness.ended().len()), (1, 0), "one reconciliation of a key at a time");
    harness.act();
    harness.after(5);
    assert_eq!(harness.ended(), ["a", "a", "a-copy"]);
}

#[test]
fn keys_are_executed_concurrently_up_to_a_limit() {
    let maps: Vec<Value> = (0..40).map(|i| map(&format!("map-{i}"))).collect();
    let mut harness = ready(&maps);
    harness.after(1);
    assert_eq!(harness.acts.len(), 16);
}

/// A [`Copier`] that runs one key at a time.
struct OneByOne;

impl Controller for OneByOne {
    const NAME: &'static str = "one-by-one";
    type Primary = Map;
    const MAX_CONCURRENT_RECONCILES: usize = 1;

    fn watches<W: Watches>(watches: &mut W) {
        Copier::watches(watches);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        Copier::plan(key, view, now)
    }
}

#[test]
fn a_controller_that_asks_for_it_executes_one_key_before_it_plans_the_next() {
    let mut harness = Harness::new::<OneByOne>();
    harness.listed("ConfigMap", &[map("a"), map("b")]);
    harness.listed("Namespace", &[]);
    harness.after(1);
    assert_eq!((harness.acts.len(), harness.decisions.len()), (1, 0));
    harness.act();
    harness.after(1);
    assert_eq!(harness.ended(), ["a", "b", "a-copy", "b-copy"]);
}

#[test]
fn a_slow_decision_holds_up_no_other_controller() {
    let mut harness = Harness::with(|dispatcher| {
        use crate::Register as _;
        dispatcher.add::<Copier>();
        dispatcher.add::<OneByOne>();
    });
    harness.listed("ConfigMap", &[map("a"), map("b")]);
    harness.listed("Namespace", &[]);
    harness.now = Timestamp::from_second(1).unwrap();
    harness.take();
    let slow = harness.decisions.remove(0);
    assert_eq!(slow.controller, "copier");
    harness.decide();
    harness.act();
    assert_eq!(harness.ended(), ["a", "b"], "the other controller goes on");
    harness.dispatcher.decided(slow.run(), harness.now);
    harness.decide();
    let copies: Vec<_> = harness.acts.iter().map(|act| act.key.name.clone()).collect();
    assert_eq!(
        copies,
        ["a"],
        "it decides on what was there when it began, and preconditions are for the rest"
    );
}

#[test]
fn a_failed_key_waits_despite_wakes() {
    let mut harness = ready(&[map("a")]);
    harness.after(1);
    harness.fail(FailureKind::Invalid);
    let mut labeled = map("a");
    labeled["metadata"]["labels"] = json!({"x": "y"});
    for _ in 0..4 {
        harness.changed("ConfigMap", labeled.clone());
    }
    harness.decide();
    assert!(harness.acts.is_empty());
    assert_eq!(harness.dispatcher.next_at().unwrap().as_millisecond(), 1500);
}

#[test]
fn a_change_of_the_spec_and_a_new_commit_end_the_backoff_of_a_key() {
    for by_source in [true, false] {
        let mut harness = ready(&[map("a")]);
        harness.after(1);
        for _ in 0..8 {
            harness.fail(FailureKind::Forbidden);
            harness.after(256);
        }
        harness.fail(FailureKind::Forbidden);
        if by_source {
            let failure = Some(SourceFailure { reason: "SourceUnreachable", message: String::new() });
            harness.dispatcher.source_changed(
                &key("a"),
                Source { failure, ..Source::default() },
                harness.now,
            );
        } else {
            let mut edited = map("a");
            edited["metadata"]["generation"] = 2.into();
            harness.changed("ConfigMap", edited);
        }
        harness.after(1);
        assert_eq!(harness.acts.len(), 1, "by source: {by_source}");
    }
}

#[test]
fn the_end_of_an_outage_is_noticed_by_the_first_answer() {
    let mut harness = ready(&[map("a"), map("b")]);
    harness.after(1);
    for _ in 0..5 {
        while !harness.acts.is_empty() {
            harness.fail(FailureKind::Unavailable);
        }
        harness.after(16);
    }
    while !harness.acts.is_empty() {
        harness.fail(FailureKind::Unavailable);
    }
    harness.after(1);
    assert!(harness.acts.is_empty());
    harness.changed("Namespace", json!({"metadata": {"name": "ns"}}));
    harness.decide();
    assert_eq!(harness.acts.len(), 2);
}

#[test]
fn a_busy_server_that_responds_occasionally_keeps_its_waits() {
    let mut harness = ready(&[map("a")]);
    harness.after(1);
    for _ in 0..5 {
        harness.fail(FailureKind::Unavailable);
        harness.changed("Namespace", json!({"metadata": {"name": "ns"}}));
        harness.after(16);
    }
    harness.fail(FailureKind::Unavailable);
    harness.changed("Namespace", json!({"metadata": {"name": "ns"}}));
    harness.after(1);
    assert!(harness.acts.is_empty());
}

#[test]
fn a_panic_costs_its_key_a_reconciliation() {
    let mut harness = ready(&[map("bug"), map("sound")]);
    harness.now = Timestamp::from_second(1).unwrap();
    harness.take();
    let bug = harness.decisions.pop().unwrap();
    assert_eq!(bug.key, Some(key("bug")));
    harness.dispatcher.decided(Decided::panicked(bug.controller_id), harness.now);
    harness.decide();
    assert_eq!(harness.acts.len(), 1, "the sound one is planned");
    assert!(harness.ended[0].panicked);
    assert_eq!(harness.dispatcher.next_at().unwrap().as_millisecond(), 1500);
}

#[test]
fn the_steps_of_a_plan_are_barriers_and_its_actions_independent() {
    struct Steps;
    impl Controller for Steps {
        const NAME: &'static str = "steps";
        type Primary = Secret;
        fn watches<W: Watches>(_: &mut W) {}
        fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
            let mut plan = Plan::nothing();
            plan.step([copy(&key("a")), copy(&key("b"))]);
            plan.step([copy(&key("c"))]);
            Ok(plan)
        }
    }
    let secret = json!({"metadata": {"namespace": "ns", "name": "s", "resourceVersion": "1"}});
    let mut harness = Harness::new::<Steps>();
    harness.listed("Secret", std::slice::from_ref(&secret));
    harness.after(1);
    assert_eq!(harness.acts.len(), 2);
    harness.fail(FailureKind::Conflict);
    assert_eq!((harness.acts.len(), harness.ended().len()), (1, 0), "all actions of a step are attempted");
    harness.act();
    assert_eq!(harness.ended[0].failure.as_ref().map(|failure| failure.kind), Some(FailureKind::Conflict));
    harness.ended();
    harness.after(1);
    harness.act();
    assert_eq!(harness.ended(), ["s"], "both steps");
}

#[test]
fn an_unreadable_object_blocks_its_own_key_and_lists_that_could_overlook_it() {
    struct Counter;
    impl Controller for Counter {
        const NAME: &'static str = "counter";
        type Primary = Map;
        fn watches<W: Watches>(watches: &mut W) {
            watches.read::<Secret>();
        }
        fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
            view.get::<Map>(key)?;
            if key.name == "counts" {
                view.list::<Secret>(Query::namespace("ns"))?;
            }
            Ok(Plan::nothing())
        }
    }
    let mut harness = Harness::new::<Counter>();
    harness.listed("ConfigMap", &[map("counts"), map("sound")]);
    harness.listed("Secret", &[json!({"data": 1, "metadata": {"namespace": "ns", "name": "s"}})]);
    harness.after(1);
    let blocked: Vec<_> =
        harness.ended.iter().map(|ended| (ended.key.name.clone(), ended.read_error.is_some())).collect();
    assert_eq!(blocked, [("counts".to_owned(), true), ("sound".to_owned(), false)]);
    let count = |objects, unreadable| CachedCount { objects, unreadable };
    let expected = [(Gvk::parse("v1", "ConfigMap"), count(2, 0)), (Gvk::parse("v1", "Secret"), count(0, 1))];
    assert_eq!(harness.dispatcher.cached(), expected);
    let names: Vec<_> = harness.refused.iter().map(|event| event.regarding.to_string()).collect();
    assert_eq!(names, ["Secret ns/s"], "the event is recorded once");

    harness.ended();
    let kind = Arc::clone(&harness.kinds["ConfigMap"]);
    let refused = Unreadable { key: key("sound"), labels: None, reason: "data: not a map".into() };
    harness.dispatcher.watched(&kind, WatcherEvent::Applied(Decoded::Unreadable(refused)), harness.now);
    harness.changed("Secret", json!({"metadata": {"namespace": "ns", "name": "s"}}));
    harness.changed("ConfigMap", map("sound"));
    harness.after(1);
    assert_eq!(
        harness.ended.iter().filter(|ended| ended.read_error.is_some()).count(),
        0,
        "both can be read again"
    );
}

/// A controller whose plan and status each have an event.
struct Teller;

impl Controller for Teller {
    const NAME: &'static str = "teller";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        let event = |reason: &str| Event {
            regarding: ObjectRef::of::<Map>(key.clone()),
            uid: String::new(),
            related: None,
            event_type: EventType::Normal,
            reason: reason.into(),
            action: String::new(),
            message: String::new(),
        };
        let status = StatusWrite {
            site: Site::Hub,
            target: ObjectRef::of::<Map>(key.clone()),
            precondition: Precondition::default(),
            patch: serde_json::Map::new(),
            events: vec![event("Changed")],
        };
        let mut plan = Plan { status: Some(status), events: vec![event("Applied")], ..Plan::default() };
        plan.step([copy(key)]);
        Ok(plan)
    }

    fn conclude(_: &Key, _: &impl View, done: &Executed, _: Timestamp) -> Read<Option<StatusWrite>> {
        Ok(done.plan.status.clone())
    }
}

#[test]
fn events_of_a_status_are_recorded_once_it_is_written() {
    let mut harness = Harness::new::<Teller>();
    harness.listed("ConfigMap", &[map("a")]);
    let conflict = Some(FailureKind::Conflict);
    for (step, status, expected) in
        [(None, None, &["Changed", "Applied"][..]), (conflict, None, &["Changed"]), (None, conflict, &[])]
    {
        harness.changed("ConfigMap", map("a"));
        harness.after(600);
        for failure in [step, status] {
            if let Some(kind) = failure {
                harness.fail(kind);
            } else {
                let act = harness.acts.pop().unwrap();
                harness.dispatcher.acted(act.done(Ok(crate::Answer::Nothing)), harness.now);
                harness.decide();
            }
        }
        let [ended] = &std::mem::take(&mut harness.ended)[..] else { panic!("one reconciliation") };
        let reasons: Vec<_> = ended.events.iter().map(|event| event.reason.as_str()).collect();
        assert_eq!(reasons, expected, "{step:?} {status:?}");
    }
}
