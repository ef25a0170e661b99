//! Reports in the status of a RolloutPolicy whether it is valid, which of its rules are in force alongside other
//! policies, and whether a person must approve something.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::rollout_policy::{applicable, combined, is_for_all, with_owner};
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, set_condition};
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicyStatus};
use api::names::gitops_conditions::{APPROVAL_NEEDED, IN_FORCE, READY};
use engine::plural::counted;
use engine::rollout::Policy;
use engine::rollout::policy::Contribution;
use object::text::plain;
use object::{Key, Metadata as _};
use reconcile::{Controller, Plan, Query, Read, StatusWrite, View, Watches};

/// Maximum length of the message about the rules in force.
const MESSAGE: usize = 2_000;

pub(crate) struct PolicyStatusController;

impl Controller for PolicyStatusController {
    const NAME: &'static str = "policy-status";
    type Primary = RolloutPolicy;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<RolloutPolicy>(|change, view| {
            let is_news = change.differs_in(|policy| &policy.spec);
            if is_news { view.keys::<RolloutPolicy>(Query::ALL) } else { Vec::new() }
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(policy) = view.get::<RolloutPolicy>(key)? else { return Ok(Plan::nothing()) };
        let generation = policy.metadata.generation.unwrap_or_default();
        let mut new = RolloutPolicy::clone(&policy);
        let status = new.status.get_or_insert_default();
        status.observed_generation = Some(generation);
        let ready = match Policy::read(&policy.spec) {
            Ok(_) => Observation::new(READY, True, "Valid").message("the policy is valid"),
            Err(refused) => Observation::new(READY, False, "InvalidPolicy")
                .message(format!("{refused}; until then nothing starts under this policy")),
        };
        let tokens = tokens(status);
        let needed = match tokens.as_slice() {
            [] => Observation::new(APPROVAL_NEEDED, False, "NothingWaits"),
            [first, ..] => Observation::new(APPROVAL_NEEDED, True, "Waiting").message(format!(
                "waiting for a person: {}, such as {first}; to approve, add it to spec.approved",
                counted(tokens.len(), "approval")
            )),
        };
        let in_force = in_force(&policy, &view.list::<RolloutPolicy>(Query::ALL)?);
        for condition in [ready, in_force, needed] {
            set_condition(&mut status.conditions, condition.at(generation), now);
        }
        let status = StatusWrite::between(policy.as_ref(), &new);
        Ok(Plan { status, ..Plan::nothing() })
    }
}

/// Returns the pending approvals of rollouts and removals.
fn tokens(status: &RolloutPolicyStatus) -> Vec<String> {
    let rollouts = status.rollouts.iter().flat_map(|rollout| &rollout.waiting_approvals);
    let removals = status.removals.iter().map(|removal| &removal.approval);
    rollouts.chain(removals.filter(|token| !token.is_empty())).cloned().collect()
}

/// Returns the condition with the origin of each rule, for each group of subjects that have the same policies.
fn in_force(policy: &RolloutPolicy, policies: &[Arc<RolloutPolicy>]) -> Observation {
    let named = |policy: &RolloutPolicy| -> Vec<String> {
        policy.spec.add_ons.iter().chain(&policy.spec.replica_sets).cloned().collect()
    };
    let mut subjects = match is_for_all(policy) {
        true => policies.iter().flat_map(|policy| named(policy)).collect(),
        false => named(policy),
    };
    subjects.sort();
    subjects.dedup();
    let mut groups: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    // The empty name stands for all subjects that no policy names.
    let others = is_for_all(policy).then_some("");
    for subject in subjects.iter().map(String::as_str).chain(others) {
        let names = with_owner(subject, |owner| applicable(policies, owner));
        groups.entry(names.iter().map(|policy| policy.name()).collect()).or_default().push(subject);
    }
    let (mut lines, mut contributes, mut is_alone) = (Vec::new(), false, false);
    for (names, subjects) in &groups {
        let Some(subject) = subjects.first() else { continue };
        let rules = with_owner(subject, |owner| combined(policies, owner));
        is_alone |= names.len() == 1;
        let rules = match rules {
            Ok(rules) => {
                let is_ours = |rule: &Contribution| rule.policies.iter().any(|name| name == policy.name());
                contributes |= rules.contributions.iter().any(is_ours);
                listed(&rules.contributions)
            }
            Err(refused) => format!("nothing starts, because {refused}"),
        };
        let subjects: Vec<&str> =
            subjects.iter().map(|name| if name.is_empty() { "everything else" } else { name }).collect();
        lines.push(format!("{}: {rules}", subjects.join(", ")));
    }
    let message = plain(&lines.join("; "), MESSAGE);
    let (status, reason) = match (contributes, is_alone) {
        (true, _) => (True, "Contributes"),
        (false, true) => (True, "NoRules"),
        (false, false) => (False, "NothingContributed"),
    };
    Observation::new(IN_FORCE, status, reason).message(message)
}

/// Lists each rule with its policies, such as `soak of own, paused of all`.
fn listed(rules: &[Contribution]) -> String {
    if rules.is_empty() {
        return "no policy sets a rule, so the defaults apply".to_owned();
    }
    let rules =
        rules.iter().map(|Contribution { rule, policies }| format!("{rule} of {}", policies.join(" and ")));
    rules.collect::<Vec<_>>().join(", ")
}
