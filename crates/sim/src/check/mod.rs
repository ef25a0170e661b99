//! Checks the product's invariants over the whole world.
//!
//! The world passes every decision ([`Checker::planned`]) and every write ([`Checker::observe`]) to the checker.
//! The checker maintains its own copy of every object from the journals of the stores, so the cost of a check
//! depends on the write and not on the size of the world. It reads the wire format and shares no state with the
//! controllers that it checks.

mod access;
mod add_on_works;
mod budget;
mod follow;
mod invariant;
mod inventory;
mod mirror;
mod ownership;
mod replica_set;
mod rest;
mod rollout;
mod selected;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use engine::sync::ObjectId;
use object::Key;
use reconcile::{Action, Caches, Plan};

pub use invariant::{Invariant, InvariantViolation};
use mirror::Mirror;
pub use mirror::Write;

/// The result of one check: the broken invariant, the object that shows it, and why.
type CheckResult = Result<(), Violation>;

/// A broken invariant, before the checker adds the time.
struct Violation {
    invariant: Invariant,
    blames: String,
    reason: String,
}

impl Violation {
    fn new(invariant: Invariant, blames: impl ToString, reason: impl Into<String>) -> Self {
        Self { invariant, blames: blames.to_string(), reason: reason.into() }
    }
}

/// The controller that acts, and its action.
#[derive(Clone, Copy)]
pub(crate) struct Author<'a> {
    /// The controller's name.
    pub(crate) controller: &'a str,
    /// The key being reconciled.
    pub(crate) key: &'a Key,
    /// The action being executed.
    pub(crate) action: &'a Action,
}

/// A decision of a controller.
pub(crate) struct CheckedDecision<'a> {
    /// The controller's name.
    pub(crate) controller: &'a str,
    /// The key being reconciled.
    pub(crate) key: &'a Key,
    /// The objects that the controller read.
    pub(crate) view: &'a Caches,
    pub(crate) plan: &'a Plan,
    /// A second plan for the same input, made without the controller's retained state.
    pub(crate) again: Plan,
    pub(crate) now: Timestamp,
}

/// The checker of one world.
#[derive(Default)]
pub(crate) struct Checker {
    hub: Mirror,
    spokes: BTreeMap<String, Mirror>,
    /// Uids of the objects that the world's controllers created.
    created: BTreeSet<String>,
    /// Objects that a ConfigRepo deleted without approval and has not reapplied, with the time and the commit.
    pruned: BTreeMap<Key, BTreeMap<ObjectId, (Timestamp, String)>>,
    /// Each ConfigRepo's most recently approved deletions, with the approval token.
    approved: BTreeMap<Key, (String, BTreeSet<(ObjectId, String)>)>,
    /// The clusters that lost an add-on without approval, with the time, by add-on.
    removed: BTreeMap<String, BTreeMap<String, Timestamp>>,
    /// Uids of clusters' add-ons whose removal a person approved.
    leaving: BTreeSet<String>,
    /// Add-ons and works of clusters whose last write lost its answer; the next answered write clears the entry.
    unanswered: BTreeSet<Key>,
    /// True if the world is at rest, so that no controller should write.
    at_rest: bool,
    history: Option<Vec<Write>>,
    /// The invariant that a test breaks on purpose.
    ignored: Option<Invariant>,
    violation: Option<InvariantViolation>,
}

impl Checker {
    /// Checks a decision before any of its writes is executed.
    pub(crate) fn planned(&mut self, decided: &CheckedDecision<'_>) {
        let checked = self.check_plan(decided);
        self.note(checked, decided.now);
    }

    /// Records if a process received the outcome of its write to a cluster's add-on, or of the replica set
    /// controller's write to a work.
    pub(crate) fn answered(&mut self, author: &Author<'_>, is_heard: bool) {
        let target = match author.action {
            Action::Patch { target, .. } => target.clone(),
            Action::Create { object, .. } => object.reference(),
            _ => return,
        };
        let is_followed = match target.gvk.kind.as_str() {
            "ManagedClusterAddOn" => matches!(author.action, Action::Patch { .. }),
            "ManifestWork" => author.controller == "replica-set",
            _ => false,
        };
        if !is_followed {
            return;
        }
        if is_heard {
            self.unanswered.remove(&target.key);
        } else {
            self.unanswered.insert(target.key);
        }
    }

    pub(crate) fn violation(&self) -> Option<&InvariantViolation> {
        self.violation.as_ref()
    }

    /// Stops checking an invariant.
    pub(crate) fn ignore(&mut self, invariant: Invariant) {
        self.ignored = Some(invariant);
    }

    /// Records every write from now on for [`Checker::take_history`].
    pub(crate) fn keep_history(&mut self) {
        self.history.get_or_insert_default();
    }

    pub(crate) fn take_history(&mut self) -> Vec<Write> {
        self.history.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records a broken invariant that the caller found.
    fn note(&mut self, checked: CheckResult, now: Timestamp) {
        let Err(Violation { invariant, blames, reason }) = checked else { return };
        if self.violation.is_none() && self.ignored != Some(invariant) {
            self.violation = Some(InvariantViolation { invariant, blames, reason, at: now });
        }
    }

    fn check(&self, write: &Write, author: &Author<'_>) -> CheckResult {
        self.rests(write, author)?;
        self.deletion(write, author)?;
        self.overwrite(write, author)?;
        self.creation(write)?;
        self.inventory(write)
    }

    fn check_plan(&mut self, decided: &CheckedDecision<'_>) -> CheckResult {
        if *decided.plan != decided.again {
            let CheckedDecision { controller, plan, again, .. } = decided;
            let reason = format!("{controller} plans {plan:#?}, and again {again:#?}");
            return Err(Violation::new(Invariant::SameInputSamePlan, decided.key, reason));
        }
        self.plans_nothing(decided)?;
        self.prunes_within_budget(decided)?;
        self.removals_within_budget(decided)?;
        self.installs_beside_rollout(decided)?;
        self.rollout(decided)?;
        self.has_assigned_content(decided)?;
        self.selected(decided)?;
        self.access(decided)
    }
}
