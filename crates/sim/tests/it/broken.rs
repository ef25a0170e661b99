//! Controllers and executors with one bug each. The checker must find every bug.

mod access;
mod outages;
mod removals;
mod selected;
mod sets;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::bugs::{Bug, agent_with, hub_with};
use crate::fixtures::seconds;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::gitops::v1alpha1::{ConfigRepo, RollOut, RolloutPolicy, Takeover};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::Object;
use object::duration::later;
use reconcile::{Action, Answer, Outcome, Plan, Precondition, Site, Subresource};
use sim::history::{self, HistoryEvent};
use sim::{Faults, Invariant, InvariantViolation, Servers, Setup};

/// Number of seeds to search, when a test fails, for another seed that shows the bug. The rarest bug shows in one
/// of several hundred histories.
const SEARCHED: u64 = 600;

/// Plays the history of a seed, which must break one of the expected invariants.
fn check(setup: Setup, events: fn(u64) -> Vec<HistoryEvent>, seed: u64, expected: &[Invariant]) {
    let play = |seed| history::play(setup, seed, &events(seed), false).violation;
    let shows = |broken: &Option<InvariantViolation>| {
        broken.as_ref().is_some_and(|broken| expected.contains(&broken.invariant))
    };
    let broken = play(seed);
    let other = || (0..SEARCHED).find(|other| shows(&play(*other)));
    assert!(shows(&broken), "seed {seed} shows {broken:?}, and {:?} shows {expected:?}", other());
}

/// Returns a history with constant faults.
fn with_faults(mut events: Vec<HistoryEvent>, faults: Faults) -> Vec<HistoryEvent> {
    events.retain(|event| !matches!(event, HistoryEvent::Faults(_)));
    events.insert(0, HistoryEvent::Faults(faults));
    events
}

macro_rules! bugs {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident in $setup:ident $controller:literal { $($method:tt)+ }
        $test:ident breaks $($invariant:ident)+, $seed:literal;
    )+) => {
        $(
            $(#[doc = $doc])+
            struct $name;

            impl Bug for $name {
                const CONTROLLER: &'static str = $controller;
                $($method)+
            }

            #[test]
            fn $test() {
                check($setup::<$name>(), history::draw, $seed, &[$(Invariant::$invariant),+]);
            }
        )+
    };
}

bugs! {
    /// The repository's inventory is not written before the objects.
    NoInventory in hub_with "config-repo" {
        fn plan(plan: &mut Plan, _: Timestamp) {
            let ahead = |action: &Action| action.gvk().is_some_and(|gvk| gvk.kind == "ConfigRepoInventory");
            plan.steps.retain(|step| !step.iter().all(ahead));
        }
    } an_inventory_that_is_not_written_ahead_is_found breaks InventoryNamesEveryObject, 1_000_000;

    /// The work's inventory is not written before the objects.
    NoWorkInventory in agent_with "work-agent" {
        fn plan(plan: &mut Plan, _: Timestamp) {
            let ahead = |action: &Action| {
                matches!(action, Action::Patch { site: Site::Spoke, subresource: Subresource::Status, .. })
            };
            plan.steps.retain(|step| !step.iter().any(ahead));
        }
    } a_work_that_does_not_list_its_objects_is_found breaks InventoryNamesEveryObject, 1_000_000;

    /// Deletions have no uid precondition.
    NoUid in hub_with "config-repo" {
        fn plan(plan: &mut Plan, _: Timestamp) {
            for action in plan.steps.iter_mut().flatten() {
                if let Action::Delete { precondition, .. } = action {
                    *precondition = Precondition::default();
                }
            }
        }
    } a_deletion_without_uid_is_found breaks Preconditions, 1;

    /// The deletion budget has no effect.
    NoDeletionBudget in hub_with "config-repo" {
        fn see(object: &mut dyn Any) {
            if let Some(repo) = object.downcast_mut::<ConfigRepo>() {
                repo.spec.deletion_budget.percent = 100;
            }
        }
    } a_deletion_budget_without_effect_is_found breaks DeletionBudget, 20;

    /// Foreign objects are taken over although nobody requested it.
    TakesOver in hub_with "config-repo" {
        fn see(object: &mut dyn Any) {
            if let Some(repo) = object.downcast_mut::<ConfigRepo>() {
                repo.spec.takeover = Takeover::Always;
            }
        }
    } an_object_of_others_that_is_overwritten_is_found breaks NothingUnownedIsOverwritten, 240;

    /// One cluster too many is updating at once.
    OneTooMany in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            for_each_strategy(object, |strategy| {
                let progressive = strategy.progressive.as_mut();
                if let Some(IntOrString::Int(slots)) = progressive.and_then(|p| p.max_concurrency.as_mut()) {
                    *slots += 1;
                }
            });
        }
    } a_slot_too_many_is_found breaks RolloutPromise, 2;

    /// Later groups do not wait for the canaries.
    NoOrder in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            for_each_strategy(object, |strategy| {
                strategy.progressive.iter_mut().for_each(|p| p.mandatory_decision_groups.clear());
                strategy.progressive_per_group.iter_mut().for_each(|p| p.mandatory_decision_groups.clear());
            });
        }
    } a_group_that_does_not_wait_is_found breaks RolloutPromise, 1_000_000;

    /// Failures do not stop a rollout.
    NoFailureBudget in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            for_each_strategy(object, |strategy| {
                let all = || IntOrString::String("100%".into());
                strategy.progressive.iter_mut().for_each(|p| p.max_failures = all());
                strategy.progressive_per_group.iter_mut().for_each(|p| p.max_failures = all());
            });
        }
    } a_failure_budget_without_effect_is_found breaks RolloutPromise, 8;

    /// A pause does not stop a rollout.
    NoPause in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
                policy.spec.paused = false;
            }
        }
    } a_pause_without_effect_is_found breaks RolloutPromise, 19;

    /// An add-on is installed on all clusters at once, regardless of the policy.
    InstallsAtOnce in hub_with "addon-install" {
        fn see(object: &mut dyn Any) {
            if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
                policy.spec.roll_out = RollOut::Content;
            }
        }
    } an_installation_beside_the_rollout_is_found breaks RolloutPromise, 2;

    /// Decisions use the state of add-ons before their last write.
    OneWriteBehind in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            if let Some(addon) = object.downcast_mut::<ManagedClusterAddOn>() {
                *addon = before(addon);
            }
        }
    } a_decision_on_an_old_snapshot_is_found breaks RolloutPromise NoWriteAtRest, 0;

    /// Every plan writes something.
    WritesAlways in hub_with "clusterset" {
        fn plan(plan: &mut Plan, now: Timestamp) {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "seen"},
                "data": {"at": now.to_string()}});
            plan.step(Object::from_value(map).map(Action::apply));
        }
    } a_controller_that_writes_at_rest_is_found breaks NoWriteAtRest, 1_000_000;

    /// Finalizers are never removed.
    KeepsFinalizers in agent_with "work-agent" {
        fn plan(plan: &mut Plan, _: Timestamp) {
            for step in &mut plan.steps {
                step.retain(|action| !removes_finalizers(action));
            }
        }
    } a_finalizer_that_stays_is_found breaks FinalizersDrain, 20;

    /// Every second plan differs.
    Wavers in hub_with "clusterset" {
        fn plan(plan: &mut Plan, now: Timestamp) {
            thread_local! {
                static WAVERS: Cell<bool> = const { Cell::new(false) };
            }
            if WAVERS.replace(!WAVERS.get()) {
                plan.wake(later(now, seconds(60)));
            }
        }
    } two_plans_for_one_input_are_found breaks SameInputSamePlan, 0;

    /// Every plan requests another plan at once.
    NeverWaits in hub_with "clusterset" {
        fn plan(plan: &mut Plan, now: Timestamp) {
            plan.wake(now);
        }
    } a_controller_that_never_waits_is_found breaks ComesToRest, 0;

    /// Works are rendered from template content other than the assigned content.
    RendersAnother in hub_with "addon-deploy" {
        fn see(object: &mut dyn Any) {
            if let Some(snapshot) = object.downcast_mut::<ControllerRevision>() {
                let other = snapshot.data.0.to_string().replace("app:1", "app:0");
                snapshot.data.0 = serde_json::from_str(&other).unwrap();
            }
        }
    } works_of_another_revision_than_the_assigned_are_found breaks WorksHaveAssignedContent, 1;

    /// The hub never changes the works of an add-on after creating them.
    KeepsWorks in hub_with "addon-deploy" {
        fn plan(plan: &mut Plan, _: Timestamp) {
            for step in &mut plan.steps {
                step.retain(|action| !changes_work(action));
            }
        }
    } works_that_do_not_follow_the_assignment_are_found breaks NoMixOfRevisions, 1;

    /// The agent leaves part of an add-on at its first version.
    KeepsSidecar in agent_with "work-agent" {
        fn see(object: &mut dyn Any) {
            let Some(work) = object.downcast_mut::<ManifestWork>() else { return };
            for manifest in &mut work.spec.workload.manifests {
                let is_sidecar = manifest["metadata"]["name"] == "sidecar";
                if let Some(image) = manifest.get_mut("spec").filter(|_| is_sidecar) {
                    image["template"]["spec"]["containers"][0]["image"] = json!("app:0");
                }
            }
        }
    } a_cluster_with_two_revisions_of_an_addon_is_found breaks NoMixOfRevisions, 1;

    /// Every report differs from the last.
    ReportsAlways in hub_with "report" {
        fn see(object: &mut dyn Any) {
            let status = object.downcast_mut::<ConfigRepo>().and_then(|repo| repo.status.as_mut());
            if let Some(report) = status.and_then(|status| status.report.as_mut()) {
                report.digest.clear();
            }
        }
    } a_report_without_a_change_is_found breaks ReportsCauseNoCommit, 0;
}

fn for_each_strategy(object: &mut dyn Any, change: impl Fn(&mut api::cluster::v1alpha1::RolloutStrategy)) {
    if let Some(cma) = object.downcast_mut::<ClusterManagementAddOn>() {
        cma.spec.install_strategy.placements.iter_mut().for_each(|p| change(&mut p.rollout_strategy));
    }
    if let Some(set) = object.downcast_mut::<ManifestWorkReplicaSet>() {
        set.spec.placement_refs.iter_mut().for_each(|p| change(&mut p.rollout_strategy));
    }
}

/// Returns true if an action changes an existing work.
fn changes_work(action: &Action) -> bool {
    let Action::Apply { object, .. } = action else { return false };
    object.kind() == "ManifestWork" && !object.resource_version().is_empty()
}

fn removes_finalizers(action: &Action) -> bool {
    let Action::Patch { patch, .. } = action else { return false };
    let finalizers = patch.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// The last two states of each observed add-on, by uid.
type Seen = BTreeMap<String, (ManagedClusterAddOn, ManagedClusterAddOn)>;

/// Returns an add-on's state before its last write.
fn before(addon: &ManagedClusterAddOn) -> ManagedClusterAddOn {
    thread_local! {
        static SEEN: RefCell<Seen> = const { RefCell::new(Seen::new()) };
    }
    SEEN.with_borrow_mut(|seen| {
        let uid = addon.metadata.uid.clone().unwrap_or_default();
        let (old, new) = seen.entry(uid).or_insert_with(|| (addon.clone(), addon.clone()));
        if new.metadata.resource_version != addon.metadata.resource_version {
            *old = std::mem::replace(new, addon.clone());
        }
        old.clone()
    })
}

fn without_preconditions(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    let mut action = action.clone();
    if let Action::Patch { precondition, .. } | Action::Delete { precondition, .. } = &mut action {
        *precondition = Precondition::default();
    }
    sim::execute(sites, manager, &action, now)
}

/// Drops written objects from answers, so that plans see them only through the watch.
fn without_feedback(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    sim::execute(sites, manager, action, now).map(|_| Answer::Nothing)
}

/// Reports every write as successful, so that the next step starts although a write failed.
fn without_failures(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    sim::execute(sites, manager, action, now).or(Ok(Answer::Nothing))
}

#[test]
fn every_invariant_has_a_bug_that_breaks_it() {
    // A bug that may violate one of several invariants proves nothing about any single one.
    let alone = |line: &'static str| {
        let (_, rest) = ["breaks ", "&[Invariant::", "invariant, Invariant::"]
            .iter()
            .find_map(|it| line.split_once(it))?;
        let (invariant, end) = rest.split_at_checked(rest.find(|c: char| !c.is_alphanumeric())?)?;
        end.starts_with([',', ']']).then_some(invariant)
    };
    let bugs = [
        include_str!("broken.rs"),
        include_str!("broken/access.rs"),
        include_str!("broken/removals.rs"),
        include_str!("broken/selected.rs"),
    ];
    let broken: BTreeSet<_> = bugs.iter().flat_map(|it| it.lines()).filter_map(alone).collect();
    let sentences = include_str!("../../src/check/invariant.rs").lines();
    let invariants = sentences.filter_map(|line| line.trim().strip_prefix("Self::")?.split(' ').next());
    let invariants: Vec<_> = invariants.collect();
    assert!(invariants.contains(&"DeletionBudget"), "{invariants:?}");
    for invariant in invariants {
        assert!(broken.contains(invariant), "no bug breaks {invariant} alone");
    }
}

#[test]
fn an_executor_without_preconditions_is_found() {
    let setup = Setup { execute: without_preconditions, ..Setup::default() };
    check(setup, history::draw, 1_000_000, &[Invariant::Preconditions]);
}

#[test]
fn an_executor_that_drops_own_writes_is_found() {
    // A watch without delay shows every write before the next plan.
    let late = |seed| with_faults(history::draw(seed), Faults { stale: 700, ..Faults::default() });
    let setup = Setup { execute: without_feedback, ..Setup::default() };
    check(setup, late, 16, &[Invariant::OwnWritesAreSeen]);
}

#[test]
fn an_executor_that_continues_after_a_failure_is_found() {
    // Only the operator writes the inventories, so only a failed write prevents one. A failed write that counts as
    // successful is also still needed when the fleet is at rest.
    let refused = |seed| with_faults(history::draw(seed), Faults { refused: 300, ..Faults::default() });
    let setup = Setup { execute: without_failures, ..Setup::default() };
    check(setup, refused, 11, &[Invariant::InventoryNamesEveryObject, Invariant::NoWriteAtRest]);
}
