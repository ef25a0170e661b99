//! Tests that drift on the spoke is corrected.

use jiff::Timestamp;
use serde_json::json;

use super::harness::{Harness, Map, copy, map};
use super::lookups::{deployment, found, listed, version};
use crate::{Action, Controller, FailureKind, Plan, Read, Register as _, Site, View, Watches};

/// Returns the action that creates the Deployment on the spoke, if it is missing.
fn missing(view: &impl View) -> Read<Option<Action>> {
    Ok(view.object(&deployment())?.is_none().then(|| Action::create(version(0)).on(Site::Spoke)))
}

/// Keeps a Deployment on the spoke, and reports it on the hub.
struct Keeper;

impl Controller for Keeper {
    const NAME: &'static str = "keeper";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &object::Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let (mut plan, hub) = (Plan::nothing(), copy(key));
        plan.step(missing(view)?.into_iter().chain([hub]));
        Ok(plan)
    }
}

/// Returns a harness whose Deployment is in place, but whose hub has been away so long that the key waits for
/// minutes.
fn waiting_for_the_hub() -> Harness {
    let mut harness = Harness::on_spoke(|dispatcher| dispatcher.add::<Keeper>());
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    harness.answer(found(1));
    harness.after(1);
    for _ in 0..12 {
        harness.fail(FailureKind::Unavailable);
        harness.after(256);
    }
    harness.fail(FailureKind::Unavailable);
    harness.ended();
    harness
}

#[test]
fn drift_on_the_spoke_is_corrected_while_the_hub_is_down() {
    let mut harness = waiting_for_the_hub();
    assert!(harness.acts.is_empty());
    harness.deleted("Deployment", "d");
    harness.after(1);
    let sites: Vec<_> = harness.acts.iter().map(|act| act.action().site()).collect();
    assert_eq!(sites, [Some(Site::Spoke), Some(Site::Hub)]);
}

#[test]
fn a_key_that_the_spoke_refuses_waits_despite_changes_there() {
    let mut harness = waiting_for_the_hub();
    harness.deleted("Deployment", "d");
    harness.after(1);
    harness.fail(FailureKind::Unavailable);
    harness.fail(FailureKind::Forbidden);
    harness.changed("Deployment", listed(30));
    harness.after(1);
    harness.answer(found(30));
    harness.deleted("Deployment", "d");
    harness.after(1);
    assert!(harness.acts.is_empty());
}

#[test]
fn a_change_that_an_own_write_may_have_caused_is_not_read() {
    let mut harness = Harness::on_spoke(|dispatcher| dispatcher.add::<Keeper>());
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness.listed("Deployment", &[]);
    harness.after(1);
    let created = harness.acts.remove(0);
    harness.changed("Deployment", listed(0));
    harness.decide();
    assert!(harness.lookups.is_empty());
    let Action::Create { object, .. } = created.action() else { panic!("{:?}", created.action()) };
    let mut object = object.clone();
    object.0.extend([("apiVersion".into(), json!("apps/v1")), ("kind".into(), json!("Deployment"))]);
    harness.store(created, object);
    harness.after(5);
    assert!(harness.lookups.is_empty());
}

/// Keeps a Deployment on the spoke.
struct Holder;

impl Controller for Holder {
    const NAME: &'static str = "holder";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &object::Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        plan.step(missing(view)?);
        Ok(plan)
    }
}

#[test]
fn drift_that_follows_each_correction_is_corrected_less_and_less_often() {
    let mut harness = Harness::on_spoke(|dispatcher| dispatcher.add::<Holder>());
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness.listed("Deployment", &[]);
    let mut minutes = Vec::new();
    for _ in 0..20 {
        let mut corrections = 0;
        for _ in 0..60 {
            harness.after(1);
            for created in std::mem::take(&mut harness.acts) {
                let Action::Create { object, .. } = created.action() else {
                    panic!("{:?}", created.action())
                };
                let mut object = object.clone();
                object
                    .0
                    .extend([("apiVersion".into(), json!("apps/v1")), ("kind".into(), json!("Deployment"))]);
                harness.store(created, object);
                corrections += 1;
            }
            harness.deleted("Deployment", "d");
        }
        minutes.push(corrections);
    }
    assert!(minutes[0] > 5 && minutes[0] <= 15, "{minutes:?}");
    assert!(minutes[10..].iter().sum::<usize>() <= 4, "{minutes:?}");
}
