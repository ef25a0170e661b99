//! Bugs in the removal of add-ons.

use std::any::Any;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use crate::bugs::{Bug, hub_with};
use crate::fixtures::seconds;
use crate::removals;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::INSTALLED_BY_ANNOTATION;
use object::Key;
use sim::Invariant;
use store::{Patch, ResourcePath, WriteOptions};

/// Each removal of an add-on is counted separately.
struct NoRemovalWindow;

impl Bug for NoRemovalWindow {
    const CONTROLLER: &'static str = "addon-install";

    fn see(object: &mut dyn Any) {
        if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
            policy.spec.removal_window = Some("0s".into());
        }
    }
}

#[test]
fn removals_that_count_one_by_one_are_found() {
    let mut world = removals::installed(hub_with::<NoRemovalWindow>(), 4);
    removals::select_some(&mut world, 3);
    world.run_for(seconds(30)).unwrap();
    removals::select_some(&mut world, 2);
    let broken = world.run_for(seconds(30)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::DeletionBudget, "{broken}");
}

/// Add-ons are removed despite a paused policy.
struct RemovesWhilePaused;

impl Bug for RemovesWhilePaused {
    const CONTROLLER: &'static str = "addon-install";

    fn see(object: &mut dyn Any) {
        if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
            policy.spec.paused = false;
        }
    }
}

#[test]
fn a_removal_during_a_pause_is_found() {
    let mut world = removals::installed(hub_with::<RemovesWhilePaused>(), 4);
    removals::default_policy(&mut world, json!({"paused": true}));
    removals::select_some(&mut world, 3);
    let broken = world.run_for(seconds(30)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::PauseHolds, "{broken}");
}

/// An approval of any removal counts for every removal.
struct AnyApprovalCounts;

impl Bug for AnyApprovalCounts {
    const CONTROLLER: &'static str = "addon-install";

    fn see(object: &mut dyn Any) {
        if let Some(policy) = object.downcast_mut::<RolloutPolicy>().filter(|it| !it.spec.approved.is_empty())
        {
            policy.spec.removal_budget = Some(IntOrString::String("100%".into()));
        }
    }
}

#[test]
fn a_removal_under_the_approval_of_another_one_is_found() {
    let mut world = removals::installed(hub_with::<AnyApprovalCounts>(), 4);
    removals::default_policy(&mut world, json!({"approved": ["remove/000000000000"]}));
    removals::select_some(&mut world, 1);
    let broken = world.run_for(seconds(30)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::DeletionBudget, "{broken}");
}

/// Add-ons installed by people count as installed by the placement.
struct RemovesThoseOfPeople;

impl Bug for RemovesThoseOfPeople {
    const CONTROLLER: &'static str = "addon-install";

    fn see(object: &mut dyn Any) {
        if let Some(addon) = object.downcast_mut::<ManagedClusterAddOn>() {
            let annotations = addon.metadata.annotations.get_or_insert_default();
            annotations.insert(INSTALLED_BY_ANNOTATION.into(), "default/fleet".into());
        }
    }
}

#[test]
fn a_removal_of_an_addon_that_a_person_installed_is_found() {
    let mut world = removals::installed(hub_with::<RemovesThoseOfPeople>(), 2);
    world.run_for(seconds(30)).unwrap();
    let now = world.now;
    for addon in world.list::<ManagedClusterAddOn>() {
        let by_people = json!({"metadata": {"annotations": {INSTALLED_BY_ANNOTATION: null}}});
        let path = ResourcePath::of::<ManagedClusterAddOn>(&Key::of(&addon));
        world.hub.patch(&path, &Patch::Merge(by_people), &WriteOptions::manager("people"), now).unwrap();
    }
    removals::default_policy(&mut world, json!({"removalBudget": "100%"}));
    removals::select_some(&mut world, 0);
    let broken = world.run_for(seconds(30)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::NothingUnownedIsDeleted, "{broken}");
}
