use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::harness::{Harness, Map, copy, key, map};
use crate::{Controller, Decided, Index, Observes, Plan, Query, Read, View, Watches};
use object::{Key, Stored};

/// A controller that copies every ConfigMap if its indexes and its view have the same number of objects, as they
/// always must. The plan of `b` builds the second index later.
struct Counter;

#[derive(Default)]
struct Secrets(BTreeSet<Key>);

impl Index for Secrets {
    fn build(view: &impl View) -> Read<Self> {
        Ok(Self(view.list::<Secret>(Query::ALL)?.iter().map(|secret| secret.key()).collect()))
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<Secret>(|secrets, change| {
            match change.new.as_ref() {
                Some(new) => secrets.0.insert(new.key()),
                None => change.old.as_ref().is_some_and(|old| secrets.0.remove(&old.key())),
            };
            vec![key("a")]
        });
    }
}

#[derive(Default)]
struct Maps(BTreeSet<Key>);

impl Index for Maps {
    fn build(view: &impl View) -> Read<Self> {
        Ok(Self(view.list::<Map>(Query::ALL)?.iter().map(|map| map.key()).collect()))
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<Map>(|maps, change| {
            match change.new.as_ref() {
                Some(new) => maps.0.insert(new.key()),
                None => change.old.as_ref().is_some_and(|old| maps.0.remove(&old.key())),
            };
            Vec::new()
        });
    }
}

impl Controller for Counter {
    const NAME: &'static str = "counter";
    type Primary = Map;

    fn watches<W: Watches>(watches: &mut W) {
        watches.keep::<Secrets>();
        watches.keep::<Maps>();
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let indexed = view.index(|secrets: &mut Secrets| secrets.0.len())?;
        assert_eq!(indexed, view.list::<Secret>(Query::ALL)?.len(), "the index shows what the view shows");
        if key.name != "a" {
            let indexed = view.index(|maps: &mut Maps| maps.0.len())?;
            assert_eq!(indexed, view.list::<Map>(Query::ALL)?.len(), "and so does the other");
        }
        let mut plan = Plan::nothing();
        plan.step([copy(key)]);
        Ok(plan)
    }
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "resourceVersion": "1"}})
}

fn ready() -> Harness {
    let mut harness = Harness::new::<Counter>();
    harness.listed("ConfigMap", &[map("a"), map("b")]);
    harness.listed("Secret", &[secret("x")]);
    harness.after(1);
    harness.act();
    harness.after(5);
    while !harness.acts.is_empty() {
        harness.acts.clear();
    }
    harness
}

#[test]
fn a_change_reaches_the_index_before_the_next_plan_and_wakes_the_keys_it_names() {
    let mut harness = Harness::new::<Counter>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.listed("Secret", &[secret("x")]);
    harness.after(1);
    assert_eq!(harness.acts.len(), 1, "the index is built by the first plan");
    harness.changed("Secret", secret("y"));
    harness.decide();
    harness.changed("Secret", secret("z"));
    harness.act();
    harness.after(5);
    assert!(harness.acts.iter().any(|act| act.key == key("a")), "the index named the key");
}

#[test]
fn an_index_that_is_built_after_another_has_the_changes_of_before_and_after() {
    let mut harness = Harness::new::<Counter>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.listed("Secret", &[secret("x")]);
    harness.after(1);
    for name in ["b", "c", "d"] {
        harness.changed("ConfigMap", map(name));
        harness.changed("Secret", secret(name));
        harness.after(5);
    }
    // The plans themselves assert that both indexes agree with their view.
    let planned: BTreeSet<_> = harness.acts.iter().map(|act| act.key.name.as_str()).collect();
    assert_eq!(planned, BTreeSet::from(["a", "b", "c", "d"]));
}

#[test]
fn a_plan_on_an_older_snapshot_reads_the_index_of_its_time() {
    let mut harness = ready();
    harness.changed("ConfigMap", map("b"));
    harness.now += jiff::SignedDuration::from_secs(60);
    harness.take();
    let planned = harness.decisions.pop().unwrap();
    harness.changed("Secret", secret("later"));
    harness.take();
    assert!(harness.decisions.is_empty(), "the index is not read by two at a time");
    // The plan itself asserts that its index agrees with its view.
    harness.dispatcher.decided(planned.run(), harness.now);
    harness.decide();
}

#[test]
fn a_panic_drops_the_index_and_every_key_is_planned_on_a_new_one() {
    let mut harness = Harness::new::<Counter>();
    harness.listed("ConfigMap", &[map("a"), map("b")]);
    harness.listed("Secret", &[secret("x")]);
    harness.after(1);
    harness.acts.clear();
    let mut harness = Harness::new::<Counter>();
    harness.listed("ConfigMap", &[map("a"), map("b"), map("c")]);
    harness.listed("Secret", &[secret("x")]);
    harness.now += jiff::SignedDuration::from_secs(1);
    harness.take();
    let panicking = harness.decisions.pop().unwrap();
    harness.changed("Secret", secret("y"));
    harness.dispatcher.decided(Decided::panicked(panicking.controller_id), harness.now);
    harness.after(5);
    let mut planned: Vec<_> = harness.acts.iter().map(|act| act.key.name.clone()).collect();
    planned.sort();
    assert_eq!(planned, ["a", "b", "c"]);
}
