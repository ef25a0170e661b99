use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::harness::{Harness, Map, copy, key, map};
use crate::{Cancel, Computed, Controller, Memo, Plan, Read, ReadErrorReason, View, Watches};
use object::Key;

/// Doubles a number, slowly.
#[derive(PartialEq)]
struct Double(usize);

static COMPUTED: AtomicUsize = AtomicUsize::new(0);

impl Memo for Double {
    const NAME: &'static str = "double";
    type Output = (usize, Option<usize>);

    fn input(&self) -> String {
        self.0.to_string()
    }

    fn deadline(&self) -> SignedDuration {
        SignedDuration::from_secs(100)
    }

    fn compute(&self, last: Option<&Self::Output>, cancel: &Cancel) -> Self::Output {
        assert!(!cancel.is_cancelled());
        COMPUTED.fetch_add(1, Ordering::Relaxed);
        (self.0 * 2, last.map(|(last, _)| *last))
    }
}

/// A controller that copies a ConfigMap once its number is doubled; the name of the copy contains the result.
struct Doubler;

impl Controller for Doubler {
    const NAME: &'static str = "doubler";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let map = view.get::<Map>(key)?;
        let Some(number) = map.and_then(|map| map.data.clone()?.get("number")?.parse().ok()) else {
            return Ok(plan);
        };
        let (double, last) = *view.memo(Double(number))?;
        let name = format!("{double}-{}", last.unwrap_or_default());
        plan.step([copy(&Key::namespaced("ns", name))]);
        Ok(plan)
    }
}

fn numbered(number: usize) -> Value {
    let mut numbered = map("a");
    numbered["data"] = json!({"number": number.to_string()});
    numbered
}

fn ready() -> Harness {
    let mut harness = Harness::new::<Doubler>();
    harness.listed("ConfigMap", &[numbered(1)]);
    harness.after(1);
    harness
}

fn written(harness: &mut Harness) -> String {
    let act = harness.acts.last().unwrap();
    let crate::Action::Apply { object, .. } = act.action() else { panic!("it applies") };
    let name = object.name().to_owned();
    harness.act();
    harness.ended();
    name
}

#[test]
fn a_result_is_computed_outside_of_the_plan_and_wakes_the_key() {
    let mut harness = ready();
    assert_eq!(
        harness.ended[0].read_error.as_ref().map(|error| error.reason),
        Some(ReadErrorReason::Pending)
    );
    assert_eq!((harness.computations.len(), harness.acts.len()), (1, 0));
    let computation = harness.computations.pop().unwrap();
    harness.dispatcher.computed(computation.run(), harness.now);
    harness.decide();
    assert_eq!(written(&mut harness), "2-0-copy");

    // The result is stored for later plans, and is passed to the next computation.
    harness.changed("ConfigMap", numbered(1));
    harness.after(5);
    assert_eq!((harness.computations.len(), written(&mut harness).as_str()), (0, "2-0-copy"));
    harness.changed("ConfigMap", numbered(2));
    harness.after(5);
    let computation = harness.computations.pop().unwrap();
    harness.dispatcher.computed(computation.run(), harness.now);
    harness.decide();
    assert_eq!(written(&mut harness), "4-2-copy");
}

#[test]
fn a_superseded_computation_is_cancelled_and_its_result_dropped() {
    let mut harness = ready();
    let superseded = harness.computations.pop().unwrap();
    harness.changed("ConfigMap", numbered(2));
    harness.after(5);
    let computation = harness.computations.pop().unwrap();
    assert_ne!(superseded.id, computation.id);
    harness.dispatcher.computed(superseded.run(), harness.now);
    harness.after(5);
    assert!(harness.acts.is_empty() && harness.computations.is_empty());
    harness.dispatcher.computed(computation.run(), harness.now);
    harness.decide();
    assert_eq!(written(&mut harness), "4-0-copy");
}

#[test]
fn the_same_question_is_computed_once() {
    let mut harness = ready();
    harness.changed("ConfigMap", numbered(1));
    harness.after(5);
    assert_eq!(harness.computations.len(), 1);
}

/// A controller that requests two results of one type.
struct TwoDoubles;

impl Controller for TwoDoubles {
    const NAME: &'static str = "two-doubles";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        view.memo(Double(1))?;
        view.memo(Double(1))?;
        view.memo(Double(2))?;
        Ok(Plan::nothing())
    }
}

#[test]
fn two_requests_of_one_kind_fail_and_do_not_compute_forever() {
    let mut harness = Harness::new::<TwoDoubles>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    let computation = harness.computations.pop().unwrap();
    harness.ended();
    harness.dispatcher.computed(computation.run(), harness.now);
    harness.decide();
    let error = harness.ended[0].read_error.clone().unwrap();
    assert_eq!(error.reason, ReadErrorReason::Failed);
    assert_eq!(
        error.to_string(),
        "cannot read double: a plan requests two results of this type, but only one is kept, which is a bug"
    );
    assert!(harness.computations.is_empty());
}

#[test]
fn a_result_that_nobody_requests_is_forgotten() {
    let mut harness = ready();
    harness.changed("ConfigMap", map("a"));
    harness.after(5);
    harness.changed("ConfigMap", numbered(1));
    harness.after(5);
    assert_eq!(
        harness.computations.len(),
        2,
        "the first one was canceled when the plan no longer asked for it"
    );
}

#[test]
fn a_computation_that_takes_too_long_fails_and_is_retried_later() {
    let mut harness = ready();
    harness.ended();
    harness.after(3600);
    assert!(
        harness.ended().is_empty(),
        "a clock that was set forward, or a suspension, is no time that it ran"
    );
    let computation = &harness.computations[0];
    assert_eq!(computation.deadline, SignedDuration::from_secs(100));
    harness.dispatcher.overdue(computation.id, harness.now);
    harness.decide();
    let error = harness.ended[0].read_error.clone().unwrap();
    assert_eq!(
        (error.reason, error.to_string().as_str()),
        (ReadErrorReason::Failed, "cannot read double: it took longer than 1m 40s")
    );
    harness.ended();
    harness.after(30);
    assert!(!harness.ended().is_empty() && harness.computations.len() == 1, "a failed one rests for a while");
    harness.after(300);
    assert_eq!(harness.computations.len(), 2);
}

#[test]
fn a_computation_that_panics_fails() {
    let mut harness = ready();
    harness.ended();
    let computation = harness.computations.pop().unwrap();
    harness
        .dispatcher
        .computed(Computed::failed(computation.id, "its computation panicked, which is a bug"), harness.now);
    harness.decide();
    assert_eq!(harness.ended[0].read_error.as_ref().map(|error| error.reason), Some(ReadErrorReason::Failed));
}

#[test]
fn as_many_are_computed_at_one_time_as_there_are_threads() {
    let mut harness = Harness::new::<Doubler>();
    let maps: Vec<Value> = (0..5)
        .map(|i| {
            let mut map = numbered(i);
            map["metadata"]["name"] = format!("map-{i}").into();
            map
        })
        .collect();
    harness.listed("ConfigMap", &maps);
    harness.after(1);
    assert_eq!(harness.computations.len(), 2);
    let computation = harness.computations.pop().unwrap();
    harness.dispatcher.computed(computation.run(), harness.now);
    harness.take();
    assert_eq!(harness.computations.len(), 2);
    let _ = key("a");
}
