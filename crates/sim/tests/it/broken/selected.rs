//! Bugs that lose clusters selected by a placement.

use std::any::Any;
use std::cell::Cell;

use jiff::Timestamp;
use serde_json::json;

use super::check;
use crate::argo_secrets;
use crate::bugs::{Bug, argo_cd_with, hub_with};
use crate::fixtures::{self, seconds};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::ClusterDecision;
use object::Key;
use reconcile::{Action, Plan};
use sim::{Invariant, history};

thread_local! {
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

/// A failed list of clusters counts as empty.
struct BelievesFailedLists;

impl Bug for BelievesFailedLists {
    const CONTROLLER: &'static str = "placement";

    fn is_empty(kind: &str) -> bool {
        FAILS.get() && kind == "ManagedCluster"
    }
}

#[test]
fn a_decision_that_drops_clusters_of_a_failed_list_is_found() {
    let mut world = fixtures::with(hub_with::<BelievesFailedLists>(), 7, 3);
    fixtures::select_all(&mut world);
    world.run_for(seconds(30)).unwrap();
    FAILS.set(true);
    world.restart_operator();
    let broken = world.run_for(seconds(60)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::PlacementsKeepWhatFits, "{broken}");
}

/// The list for Argo CD is published with only part of the decisions.
struct ListsAPart;

impl Bug for ListsAPart {
    const CONTROLLER: &'static str = "cluster-decision";

    fn plan(plan: &mut Plan, _: Timestamp) {
        for action in plan.steps.iter_mut().flatten() {
            let Action::Apply { object, .. } = action else { continue };
            if object.kind() == "ClusterDecision" {
                let list = object.0["status"]["decisions"].as_array_mut();
                list.unwrap().pop();
            }
        }
    }
}

#[test]
fn a_list_with_a_part_of_the_clusters_is_found() {
    check(argo_cd_with::<ListsAPart>(), history::draw_with_argo_cd, 0, &[Invariant::ArgoCdKeepsClusters]);
}

/// A list loses all of its clusters at once.
struct ForgetsTheList;

impl Bug for ForgetsTheList {
    const CONTROLLER: &'static str = "cluster-decision";

    fn see(object: &mut dyn Any) {
        if let Some(list) = object.downcast_mut::<ClusterDecision>() {
            list.status.iter_mut().for_each(|status| status.decisions.clear());
        }
    }
}

#[test]
fn a_list_that_becomes_empty_without_an_approval_is_found() {
    let mut world = argo_secrets::clusters(argo_cd_with::<ForgetsTheList>());
    fixtures::select(&mut world, json!({}));
    argo_secrets::ask(&mut world, Some(""));
    for cluster in ["cluster1", "cluster2"] {
        world.delete::<ManagedCluster>(&Key::cluster(cluster)).unwrap();
    }
    let broken = world.run_for(seconds(60)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::DeletionBudget, "{broken}");
}

thread_local! {
    static ARE_EMPTY: Cell<bool> = const { Cell::new(false) };
}

/// A wrongly empty list deletes the secrets of its clusters.
struct BelievesEmptyLists;

impl Bug for BelievesEmptyLists {
    const CONTROLLER: &'static str = "cluster-secret";

    fn see(object: &mut dyn Any) {
        if let Some(list) = object.downcast_mut::<ClusterDecision>().filter(|_| ARE_EMPTY.get()) {
            list.status.iter_mut().for_each(|status| status.decisions.clear());
        }
    }
}

#[test]
fn a_secret_deleted_because_of_a_wrongly_empty_list_is_found() {
    let mut world = argo_secrets::clusters(argo_cd_with::<BelievesEmptyLists>());
    argo_secrets::ask(&mut world, Some(""));
    ARE_EMPTY.set(true);
    world.restart_operator();
    let broken = world.run_for(seconds(60)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::ArgoCdKeepsClusters, "{broken}");
}
