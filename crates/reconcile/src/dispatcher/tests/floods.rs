//! Tests thousands of simultaneous changes, and objects that change constantly.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::harness::{Harness, Map, copy, key, map};
use crate::{Action, Controller, FailureKind, Plan, Query, Read, View, Watches};
use object::{Key, Metadata as _, Object};

const CHANGES: usize = 10_000;

/// A controller whose key is in a label of Secrets, just as decisions carry their placement in a label. It writes
/// when it first sees a key.
struct Summary;

impl Controller for Summary {
    const NAME: &'static str = "summary";
    type Primary = Map;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<Secret>(|change, _| change.sides().filter_map(|s| Some(key(s.label("of")?))).collect());
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        view.list::<Secret>(Query::label("of", &key.name))?;
        let mut plan = Plan::nothing();
        let copied = Key::namespaced("ns", format!("{}-copy", key.name));
        if !key.name.ends_with("-copy") && view.get::<Map>(&copied)?.is_none() {
            plan.step([copy(key)]);
        }
        Ok(plan)
    }
}

fn secret(i: usize, of: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": format!("s-{i}"), "labels": {"of": of}}})
}

/// Returns a harness whose three ConfigMaps and their copies are settled.
fn at_rest() -> Harness {
    let mut harness = Harness::new::<Summary>();
    harness.listed("ConfigMap", &[map("a"), map("b"), map("c")]);
    harness.listed("Secret", &[]);
    harness.after(1);
    harness.act();
    harness.after(5);
    harness.ended();
    harness
}

#[test]
fn ten_thousand_changes_at_once_are_one_plan_of_each_key_and_no_write() {
    let mut harness = at_rest();
    for i in 0..CHANGES {
        harness.changed("Secret", secret(i, ["a", "b"][i % 2]));
    }
    let waiting: usize = harness.dispatcher.controllers().map(|info| info.depth).sum();
    assert_eq!(waiting, 2, "the queue has keys, not changes");
    harness.after(1);
    assert_eq!((harness.ended(), harness.acts.len()), (vec!["a".into(), "b".into()], 0));
    harness.after(60);
    assert_eq!(harness.ended(), [""; 0], "nothing follows");
}

#[test]
fn an_object_that_changes_all_the_time_costs_one_plan_a_second_and_delays_no_other() {
    let mut harness = at_rest();
    let mut ended = Vec::new();
    for second in 0..10 {
        for _ in 0..CHANGES / 10 {
            harness.changed("Secret", secret(0, "a"));
        }
        if second == 5 {
            harness.changed("ConfigMap", map("c"));
        }
        harness.after(1);
        ended.push(harness.ended());
    }
    let of = |name: &str| ended.iter().flatten().filter(|ended| *ended == name).count();
    assert_eq!((of("a"), of("c")), (10, 1), "{ended:?}");
    assert!(ended[5].contains(&"c".to_owned()), "{ended:?}");
    assert!(harness.acts.is_empty());
}

/// A controller whose plans cover all Secrets. A Secret labeled for `later` makes it request a plan in five
/// seconds.
struct Overview;

impl Controller for Overview {
    const NAME: &'static str = "overview";
    type Primary = Map;
    const SPACING: SignedDuration = SignedDuration::from_mins(1);

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<Secret>(|_, view| view.keys::<Map>(Query::ALL));
    }

    fn plan(_: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if !view.list::<Secret>(Query::label("of", "later"))?.is_empty() {
            plan.wake(now + SignedDuration::from_secs(5));
        }
        Ok(plan)
    }
}

#[test]
fn a_controller_that_reads_everything_plans_a_key_once_per_spacing_unless_its_plan_requests_more() {
    let mut harness = Harness::new::<Overview>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.listed("Secret", &[]);
    harness.after(1);
    assert_eq!(harness.ended(), ["a"]);
    let mut plans = Vec::new();
    for second in 0..200 {
        harness.changed("Secret", secret(second, "b"));
        harness.after(1);
        plans.extend(harness.ended().iter().map(|_| second));
    }
    assert_eq!(plans, [59, 119, 179]);
    harness.after(100);
    assert_eq!(harness.ended(), ["a"], "the last changes are planned too");
    harness.after(100);
    harness.changed("Secret", secret(0, "later"));
    harness.after(1);
    assert_eq!(harness.ended(), ["a"], "a lone change does not wait");
    harness.after(5);
    assert_eq!(harness.ended(), ["a"], "nor does a plan that the last one asked for");
}

/// A controller whose writes are never stored as it wants them.
struct Fighter;

impl Controller for Fighter {
    const NAME: &'static str = "fighter";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if let Some(map) = view.get::<Map>(key)?.filter(|map| map.annotation("wanted") != Some("yes")) {
            let mut object = object::Object::from_typed(&*map);
            object.metadata_mut().insert("annotations".into(), json!({"wanted": "yes"}));
            plan.step([Action::apply(object)]);
        }
        Ok(plan)
    }
}

/// Stores the writes of a controller without the annotation that it wants; returns the number of writes.
fn stored_without(harness: &mut Harness) -> usize {
    let acts = std::mem::take(&mut harness.acts);
    let written = acts.len();
    for act in acts {
        let Action::Apply { object, .. } = act.action() else { panic!("{:?}", act.action()) };
        let mut object = object.clone();
        object.metadata_mut().remove("annotations");
        harness.store(act, object);
    }
    written
}

#[test]
fn writes_that_a_webhook_undoes_are_repeated_less_and_less_often() {
    let mut harness = Harness::new::<Fighter>();
    harness.listed("ConfigMap", &[map("a")]);
    let mut minutes = Vec::new();
    for _ in 0..20 {
        let mut written = 0;
        for _ in 0..60 {
            harness.after(1);
            written += stored_without(&mut harness);
        }
        minutes.push(written);
    }
    assert!(minutes[0] <= 15, "{minutes:?}");
    assert!(minutes[10..].iter().sum::<usize>() <= 4, "{minutes:?}");
    let failures = harness.ended.iter().filter_map(|ended| ended.failure.as_ref());
    assert!(
        failures.clone().count() > 5 && failures.clone().all(|failure| failure.message.contains("webhook"))
    );

    harness.changed("ConfigMap", json!({"metadata": {"namespace": "ns", "name": "a", "generation": 2}}));
    harness.after(1);
    assert_eq!(harness.acts.len(), 1, "a person who changes the object waits for nothing");
}

#[test]
fn a_success_after_conflicts_does_not_count_as_undone_by_a_webhook() {
    let mut harness = Harness::new::<Summary>();
    harness.listed("Secret", &[]);
    harness.listed("ConfigMap", &[map("a")]);
    for _ in 0..7 {
        harness.after(1);
        harness.fail(FailureKind::Conflict);
    }
    harness.after(2);
    harness.act();
    let last = harness.ended.last().unwrap();
    assert_eq!((last.steps, &last.failure), (1, &None));
}

/// A controller that writes much at once, as for the first commit of a repository.
struct FirstCommit;

impl Controller for FirstCommit {
    const NAME: &'static str = "first-commit";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        let text = "x".repeat(100_000);
        let object = |i: usize| {
            let mut object = map(&format!("object-{i}"));
            object["data"] = json!({"text": text});
            Action::apply(Object::from_value(object).unwrap())
        };
        let mut plan = Plan::nothing();
        plan.step((0..500).map(object));
        Ok(plan)
    }
}

/// Returns the CPU time of this thread in nanoseconds.
fn cpu() -> u64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    spent.split_whitespace().next().unwrap().parse().unwrap()
}

/// The dispatcher handles a plan under a lock that blocks everything else.
#[test]
fn the_writes_of_a_plan_are_hashed_on_the_thread_of_its_controller() {
    let mut harness = Harness::new::<FirstCommit>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.now += SignedDuration::from_secs(1);
    harness.take();
    let decision = harness.decisions.pop().unwrap();
    let begin = cpu();
    let decided = decision.run();
    let planned = cpu();
    harness.dispatcher.decided(decided, harness.now);
    let handled = cpu();
    harness.take();
    assert_eq!(harness.acts.len(), 500);
    let (outside, under_lock) = (planned - begin, handled - planned);
    assert!(under_lock < outside / 4, "{outside} ns outside of the lock, {under_lock} ns under it");
}
