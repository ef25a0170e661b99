//! Controllers and executors with one bug each. The checker must find every bug.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::fixtures::seconds;
use crate::removals;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::gitops::v1alpha1::{ConfigRepo, RollOut, RolloutPolicy, Takeover};
use object::{Key, Kind, Object, ObjectRef};
use reconcile::{
    Action, Answer, Change, Controller, Dispatcher, Executed, Lookup, LookupAnswer, Outcome, Plan,
    Precondition, Query, Read, Register, Site, Source, StatusWrite, Subresource, Unreadable, View, Watches,
};
use sim::history::{self, Event};
use sim::{Faults, Invariant, Servers, Setup};

/// Number of histories in which a bug must show. The rarest shows in one of some hundred.
const SEEDS: u64 = 600;

/// Plays histories until one breaks an invariant, which must be the expected one. The `likely` seed showed
/// the bug before, so it is played first. Another one is printed: name it instead.
fn check(setup: Setup, events: fn(u64) -> Vec<Event>, likely: u64, expected: &[Invariant]) {
    let play = |seed| Some((seed, history::play(setup, seed, &events(seed), false).violation?));
    let broken = std::iter::once(likely).chain(0..SEEDS).find_map(play);
    let (seed, violation) = broken.expect("no history shows the bug");
    assert!(expected.contains(&violation.invariant), "{violation}");
    if seed != likely {
        println!("seed {seed} shows the bug, and seed {likely} does not any more");
    }
}

/// Returns a history with constant faults.
fn with_faults(seed: u64, faults: Faults) -> Vec<Event> {
    let mut events = history::draw(seed);
    events.retain(|event| !matches!(event, Event::Faults(_)));
    events.insert(0, Event::Faults(faults));
    events
}

/// A bug of a controller: in its input or in its plan.
trait Bug: 'static {
    /// The name of the controller.
    const CONTROLLER: &'static str;

    /// Changes an object that the controller reads.
    fn see(object: &mut dyn Any) {
        let _ = object;
    }

    /// Changes the plan.
    fn plan(plan: &mut Plan, now: Timestamp) {
        let _ = (plan, now);
    }
}

/// A controller with a bug.
struct Broken<B, C>(PhantomData<(B, C)>);

impl<B: Bug, C: Controller> Controller for Broken<B, C> {
    const NAME: &'static str = C::NAME;
    type Primary = C::Primary;
    const PRIMARY_SITE: Site = C::PRIMARY_SITE;
    const EXPECTED: &'static [&'static str] = C::EXPECTED;
    const REPORTER: &'static str = C::REPORTER;
    const MAX_CONCURRENT_RECONCILES: usize = C::MAX_CONCURRENT_RECONCILES;

    fn concerns(change: &Change<C::Primary>) -> bool {
        C::concerns(change)
    }

    fn watches<W: Watches>(watches: &mut W) {
        C::watches(watches);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = C::plan(key, &Distorted::<B, _>(view, PhantomData), now)?;
        B::plan(&mut plan, now);
        Ok(plan)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        C::conclude(key, view, done, now)
    }
}

/// A view in which a bug changes the objects.
struct Distorted<'a, B, V>(&'a V, PhantomData<B>);

impl<B: Bug, V: View> Distorted<'_, B, V> {
    fn see<K: Kind>(object: &Arc<K>) -> Arc<K> {
        let mut copy = K::clone(object);
        B::see(&mut copy);
        Arc::new(copy)
    }
}

impl<B: Bug, V: View> View for Distorted<'_, B, V> {
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>> {
        Ok(self.0.get_on::<K>(site, key)?.as_ref().map(Self::see))
    }

    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        Ok(self.0.list_on::<K>(site, query)?.iter().map(Self::see).collect())
    }

    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        Ok(self.0.list_readable_on::<K>(site, query)?.iter().map(Self::see).collect())
    }

    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        self.0.unreadable_on::<K>(site, query)
    }

    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        self.0.observed(object)
    }

    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer> {
        self.0.lookup(lookup)
    }

    fn source(&self, repo: &Key) -> Option<Arc<Source>> {
        self.0.source(repo)
    }
}

/// Registers all controllers, one of them with a bug.
struct WithBug<'a, B>(&'a mut Dispatcher, PhantomData<B>);

impl<B: Bug> Register for WithBug<'_, B> {
    fn add<C: Controller>(&mut self) {
        if C::NAME == B::CONTROLLER {
            self.0.add::<Broken<B, C>>();
        } else {
            self.0.add::<C>();
        }
    }
}

fn hub_with<B: Bug>() -> Setup {
    Setup { hub: |process| controllers::hub(&mut WithBug::<B>(process, PhantomData)), ..Setup::default() }
}

fn agent_with<B: Bug>() -> Setup {
    Setup { agent: |process| controllers::agent(&mut WithBug::<B>(process, PhantomData)), ..Setup::default() }
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
    /// The inventory of the repository is not written before the objects.
    NoInventory in hub_with "config-repo" {
        fn plan(plan: &mut Plan, _: Timestamp) {
            let ahead = |action: &Action| action.gvk().is_some_and(|gvk| gvk.kind == "ConfigRepoInventory");
            plan.steps.retain(|step| !step.iter().all(ahead));
        }
    } an_inventory_that_is_not_written_ahead_is_found breaks InventoryNamesEveryObject, 1_000_000;

    /// The inventory of a work is not written before the objects.
    NoWorkInventory in agent_with "work-agent" {
        fn plan(plan: &mut Plan, _: Timestamp) {
            let ahead = |action: &Action| {
                matches!(action, Action::Patch { site: Site::Spoke, subresource: Subresource::Status, .. })
            };
            plan.steps.retain(|step| !step.iter().any(ahead));
        }
    } a_work_that_does_not_list_its_objects_is_found breaks InventoryNamesEveryObject, 1_000_000;

    /// Deletions have no precondition on the uid.
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

    /// Objects of others are taken over although nobody requested it.
    TakesOver in hub_with "config-repo" {
        fn see(object: &mut dyn Any) {
            if let Some(repo) = object.downcast_mut::<ConfigRepo>() {
                repo.spec.takeover = Takeover::Always;
            }
        }
    } an_object_of_others_that_is_overwritten_is_found breaks NothingUnownedIsOverwritten, 140;

    /// One cluster too many is in flight.
    OneTooMany in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            for_each_strategy(object, |strategy| {
                let progressive = strategy.progressive.as_mut();
                if let Some(IntOrString::Int(slots)) = progressive.and_then(|p| p.max_concurrency.as_mut()) {
                    *slots += 1;
                }
            });
        }
    } a_slot_too_many_is_found breaks RolloutPromise, 0;

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
    } a_failure_budget_without_effect_is_found breaks RolloutPromise, 1_000_000;

    /// A pause does not stop a rollout.
    NoPause in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
                policy.spec.paused = false;
            }
        }
    } a_pause_without_effect_is_found breaks RolloutPromise, 1_000_000;

    /// An add-on is installed on all clusters at once, whatever the policy says.
    InstallsAtOnce in hub_with "addon-install" {
        fn see(object: &mut dyn Any) {
            if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
                policy.spec.roll_out = RollOut::Content;
            }
        }
    } an_installation_beside_the_rollout_is_found breaks RolloutPromise, 2;

    /// Decisions are made on the state of add-ons before their last write.
    OneWriteBehind in hub_with "addon-config" {
        fn see(object: &mut dyn Any) {
            if let Some(addon) = object.downcast_mut::<ManagedClusterAddOn>() {
                *addon = before(addon);
            }
        }
    } a_decision_on_an_old_snapshot_is_found breaks RolloutPromise NoWriteAtRest, 1_000_000;

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
}

fn for_each_strategy(object: &mut dyn Any, change: impl Fn(&mut api::cluster::v1alpha1::RolloutStrategy)) {
    if let Some(cma) = object.downcast_mut::<ClusterManagementAddOn>() {
        cma.spec.install_strategy.placements.iter_mut().for_each(|p| change(&mut p.rollout_strategy));
    }
}

fn removes_finalizers(action: &Action) -> bool {
    let Action::Patch { patch, .. } = action else { return false };
    let finalizers = patch.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// The last two states of each observed add-on, by uid.
type Seen = BTreeMap<String, (ManagedClusterAddOn, ManagedClusterAddOn)>;

/// Returns an add-on as it was before its last write.
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

/// Returns no written object, so that plans see it only after the watch.
fn without_feedback(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    sim::execute(sites, manager, action, now).map(|_| Answer::Nothing)
}

/// Reports every write as done, so that the next step starts although a write failed.
fn without_failures(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    sim::execute(sites, manager, action, now).or(Ok(Answer::Nothing))
}

/// Removals of add-ons are counted one at a time.
struct NoRemovalWindow;

impl Bug for NoRemovalWindow {
    const CONTROLLER: &'static str = "addon-install";

    fn see(object: &mut dyn Any) {
        if let Some(policy) = object.downcast_mut::<RolloutPolicy>() {
            policy.spec.removal_window = "0s".into();
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

#[test]
fn an_executor_without_preconditions_is_found() {
    let setup = Setup { execute: without_preconditions, ..Setup::default() };
    check(setup, history::draw, 1_000_000, &[Invariant::Preconditions]);
}

#[test]
fn an_executor_that_drops_own_writes_is_found() {
    // A watch without delay shows every write before the next plan.
    let late = |seed| with_faults(seed, Faults { stale: 700, ..Faults::default() });
    let setup = Setup { execute: without_feedback, ..Setup::default() };
    check(setup, late, 1_000_000, &[Invariant::OwnWritesAreSeen]);
}

#[test]
fn an_executor_that_goes_on_after_a_failure_is_found() {
    // Only the operator writes the inventories, so only a refused write prevents one. A refused write that
    // counts as done is also still wanted when the fleet is at rest.
    let refused = |seed| with_faults(seed, Faults { refused: 300, ..Faults::default() });
    let setup = Setup { execute: without_failures, ..Setup::default() };
    check(setup, refused, 81, &[Invariant::InventoryNamesEveryObject, Invariant::NoWriteAtRest]);
}
