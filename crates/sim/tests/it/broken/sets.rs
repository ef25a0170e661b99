//! Bugs in the controller of ManifestWorkReplicaSets.

use std::any::Any;
use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::{NoFailureBudget, NoPause, OneTooMany, check, with_faults, without_feedback};
use crate::bugs::{Bug, hub_with};
use crate::fixtures::{self, seconds};
use crate::replica_sets;
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::TEMPLATE_HASH_ANNOTATION;
use reconcile::{Action, Outcome, Plan};
use sim::history::draw_with_sets;
use sim::{Faults, Invariant, Servers, Setup};

/// A bug from add-on rollouts, applied to the rollout of sets.
struct OfSets<B>(PhantomData<B>);

impl<B: Bug> Bug for OfSets<B> {
    const CONTROLLER: &'static str = "replica-set";

    fn see(object: &mut dyn Any) {
        B::see(object);
    }
}

#[test]
fn a_work_too_many_in_flight_is_found() {
    check(hub_with::<OfSets<OneTooMany>>(), draw_with_sets, 0, &[Invariant::RolloutPromise]);
}

#[test]
fn a_set_that_continues_during_a_pause_is_found() {
    check(hub_with::<OfSets<NoPause>>(), draw_with_sets, 1_000_000, &[Invariant::RolloutPromise]);
}

#[test]
fn a_set_that_continues_despite_failures_is_found() {
    let mut world = fixtures::with(hub_with::<OfSets<NoFailureBudget>>(), 7, 3);
    fixtures::select_all(&mut world);
    let strategy =
        json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "progressDeadline": "20s"}});
    replica_sets::set(&mut world, "1", strategy.clone());
    replica_sets::settle(&mut world);
    let refs = replica_sets::refs("fleet", strategy);
    replica_sets::set_with(
        &mut world,
        json!({"manifestWorkTemplate": replica_sets::bad(), "placementRefs": refs}),
    );
    let broken = world.run_for(seconds(60)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::RolloutPromise, "{broken}");
}

/// Works are removed regardless of the budget.
struct NoRemovalBudget;

impl Bug for NoRemovalBudget {
    const CONTROLLER: &'static str = "replica-set";

    fn see(object: &mut dyn Any) {
        if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
            policy.spec.removal_budget = Some(IntOrString::String("100%".into()));
        }
    }
}

#[test]
fn works_that_are_removed_over_the_budget_are_found() {
    let mut world = fixtures::with(hub_with::<NoRemovalBudget>(), 7, 4);
    fixtures::select_all(&mut world);
    replica_sets::policy(&mut world, json!({}));
    replica_sets::set(&mut world, "1", json!({"type": "All"}));
    replica_sets::settle(&mut world);
    fixtures::select(&mut world, json!({"canary": "true"}));
    let broken = world.run_for(seconds(60)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::RolloutPromise, "{broken}");
}

/// A work records another template than its own.
struct WrongRecord;

impl Bug for WrongRecord {
    const CONTROLLER: &'static str = "replica-set";

    fn plan(plan: &mut Plan, _: Timestamp) {
        for action in plan.steps.iter_mut().flatten() {
            let Action::Patch { patch, .. } = action else { continue };
            let record = patch.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
            if let Some(Value::Object(record)) = record {
                record.remove(TEMPLATE_HASH_ANNOTATION);
            }
        }
    }
}

#[test]
fn a_work_with_another_template_than_it_records_is_found() {
    check(hub_with::<WrongRecord>(), draw_with_sets, 1_000_000, &[Invariant::RolloutPromise]);
}

/// Drops works written by the replica set controller from answers, so that its plans see them only through the
/// watch.
fn without_works(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    let execute = if manager == "replica-set" { without_feedback } else { sim::execute };
    execute(sites, manager, action, now)
}

#[test]
fn a_set_that_does_not_see_its_own_works_is_found() {
    let late = |seed| with_faults(draw_with_sets(seed), Faults { stale: 700, ..Faults::default() });
    let setup = Setup { execute: without_works, ..Setup::default() };
    check(setup, late, 0, &[Invariant::OwnWritesAreSeen]);
}
