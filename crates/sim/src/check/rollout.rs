//! Checks that clusters change only as the rollout engine's oracle allows. Covers add-ons; `replica_set.rs` covers
//! replica sets.
//!
//! The oracle gets the objects that the controller read and the assignments that the plan writes. It does not
//! matter how the controller made the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::budget::policies;
use super::{CheckResult, CheckedDecision, Checker, Invariant, Violation};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::gitops::v1alpha1::RollOut;
use controllers::hub::addon_config::{AddOnRollouts, explain};
use engine::addon::config::address;
use engine::addon::config_refs;
use engine::rollout::cluster::Hash;
use engine::rollout::{Input, RolloutDecision, oracle};
use object::{Key, Kind, Object};
use reconcile::{Action, Plan, Subresource, View};

impl Checker {
    /// Checks that one plan's assignments keep the promises of a rollout.
    pub(super) fn rollout(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        match decided.controller {
            "addon-config" => self.addon_rollout(decided),
            "replica-set" => self.set_rollout(decided),
            _ => Ok(()),
        }
    }

    fn addon_rollout(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        let CheckedDecision { key, view, plan, now, .. } = decided;
        let Ok(Some(explanation)) = explain(&key.name, *view, *now) else { return Ok(()) };
        self.installs_in_turn(decided, &explanation)?;
        let moves = moves(plan, *view);
        for rollout in explanation.rollouts {
            let (Some(input), Ok(mut decision)) = (rollout.input, rollout.decision) else { continue };
            self.own_writes_are_seen(&key.name, &input)?;
            let has_addon = |cluster: &str| {
                let addon = view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, &key.name));
                addon.is_ok_and(|addon| addon.is_some())
            };
            replace_assignments(Arc::make_mut(&mut decision), &input, &moves, has_addon);
            promise(&input, &decision, *now, &key.name)?;
        }
        Ok(())
    }

    /// Checks that a cluster gets the add-on when it is its turn, if a policy rolls out installations.
    fn installs_in_turn(&self, decided: &CheckedDecision<'_>, explanation: &AddOnRollouts) -> CheckResult {
        let decisions = explanation.rollouts.iter().filter_map(|rollout| rollout.decision.as_deref().ok());
        let inputs = explanation.rollouts.iter().filter_map(|rollout| rollout.input.as_deref());
        let refused =
            inputs.flat_map(|input| &input.clusters).filter(|cluster| cluster.refused_since.is_some());
        let had_turn = refused.map(|cluster| cluster.name.as_str());
        let in_turn: BTreeSet<&str> = decisions.flat_map(RolloutDecision::starting).chain(had_turn).collect();
        match installed(decided.plan).find(|cluster| !in_turn.contains(cluster)) {
            Some(cluster) => {
                let blames = Key::namespaced(cluster, &decided.key.name);
                Err(Violation::new(Invariant::RolloutPromise, blames, "it is installed before its turn"))
            }
            None => Ok(()),
        }
    }

    /// Checks that nothing installs an add-on outside the rollout if a policy rolls out installations.
    pub(super) fn installs_beside_rollout(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        let CheckedDecision { controller: "addon-install", key, view, plan, .. } = decided else {
            return Ok(());
        };
        let policies = policies(&key.name, *view);
        let is_rolled_out = policies.iter().any(|it| it.spec.roll_out == RollOut::InstallAndContent);
        match installed(plan).next().filter(|_| is_rolled_out) {
            Some(cluster) => {
                let blames = Key::namespaced(cluster, &key.name);
                Err(Violation::new(Invariant::RolloutPromise, blames, "it is installed beside the rollout"))
            }
            None => Ok(()),
        }
    }

    /// Checks that an assignment counts from its write, regardless of what the watch has delivered.
    fn own_writes_are_seen(&self, addon: &str, input: &Input) -> CheckResult {
        for cluster in &input.clusters {
            let key = Key::namespaced(&cluster.name, addon);
            let written = self.hub.typed::<ManagedClusterAddOn>(&key).as_ref().and_then(assigned);
            self.own_write_is_seen(key, written, cluster.runs.as_ref())?;
        }
        Ok(())
    }

    /// Checks that a plan is based on the assignment stored in the cluster's object.
    pub(super) fn own_write_is_seen(
        &self,
        key: Key,
        written: Option<Hash>,
        runs: Option<&Hash>,
    ) -> CheckResult {
        let unseen = written.filter(|written| runs != Some(written) && !self.unanswered.contains(&key));
        let Some(written) = unseen else { return Ok(()) };
        let reason = format!("a plan is made of {runs:?}, and {} was written", written.short());
        Err(Violation::new(Invariant::OwnWritesAreSeen, key, reason))
    }
}

/// Checks a decision with the oracle; a broken promise blames the object with this name on the cluster.
pub(super) fn promise(input: &Input, decision: &RolloutDecision, now: Timestamp, name: &str) -> CheckResult {
    oracle::check(input, decision, now).map_err(|broken| {
        let blames = Key::namespaced(broken.subject, name);
        Violation::new(Invariant::RolloutPromise, blames, broken.promise)
    })
}

/// Returns the clusters on which a plan installs the add-on.
fn installed(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.steps.iter().flatten().filter_map(|action| match action {
        Action::Create { object, .. } if object.kind() == "ManagedClusterAddOn" => Some(object.namespace()),
        _ => None,
    })
}

/// Returns the clusters to which a plan assigns something new, with the assignment.
fn moves(plan: &Plan, view: &impl View) -> BTreeMap<String, Hash> {
    let mut moves = BTreeMap::new();
    for action in plan.steps.iter().flatten() {
        let Action::Patch { target, subresource: Subresource::Status, patch, .. } = action else { continue };
        if target.gvk.kind != "ManagedClusterAddOn" {
            continue;
        }
        let Ok(Some(before)) = view.get::<ManagedClusterAddOn>(&target.key) else { continue };
        let (old, new) = (assigned(&before), assigned(&after(before.as_ref(), patch)));
        if let Some(new) = new.filter(|new| old.as_ref() != Some(new)) {
            moves.insert(target.key.namespace.clone(), new);
        }
    }
    moves
}

/// Replaces a decision's assignments with the plan's. A cluster whose add-on was not read cannot have a write yet.
fn replace_assignments(
    decision: &mut RolloutDecision,
    input: &Input,
    moves: &BTreeMap<String, Hash>,
    has_addon: impl Fn(&str) -> bool,
) {
    for cluster in input.clusters.iter().filter(|cluster| has_addon(&cluster.name)) {
        let Some(assignment) = decision.clusters.get_mut(&cluster.name) else { continue };
        assignment.assigned = moves.get(&cluster.name).or(cluster.runs.as_ref()).cloned();
    }
}

fn assigned(addon: &ManagedClusterAddOn) -> Option<Hash> {
    let references = &addon.status.as_ref()?.config_references;
    config_refs::desired(references)
        .filter(|configs| !configs.is_empty())
        .map(|configs| Hash(address(&configs)))
}

/// Returns an object with a patch applied.
pub(super) fn after<K: Kind + Clone>(before: &K, patch: &Map<String, Value>) -> K {
    let mut value = Object::from_typed(before).into_value();
    json_patch::merge(&mut value, &Value::Object(patch.clone()));
    serde_json::from_value(value).unwrap_or_else(|_| before.clone())
}
