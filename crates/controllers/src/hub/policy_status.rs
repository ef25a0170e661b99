//! Says in the status of a RolloutPolicy whether it can be used, and whether a person has something to
//! approve.

use jiff::Timestamp;

use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, set_condition};
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicyStatus};
use api::names::gitops_conditions::{APPROVAL_NEEDED, READY};
use engine::plural::counted;
use engine::rollout::Policy;
use object::Key;
use reconcile::{Controller, Plan, Read, StatusWrite, View, Watches};

pub(crate) struct PolicyStatusController;

impl Controller for PolicyStatusController {
    const NAME: &'static str = "policy-status";
    type Primary = RolloutPolicy;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(policy) = view.get::<RolloutPolicy>(key)? else { return Ok(Plan::nothing()) };
        let generation = policy.metadata.generation.unwrap_or_default();
        let mut new = RolloutPolicy::clone(&policy);
        let status = new.status.get_or_insert_default();
        status.observed_generation = Some(generation);
        let ready = match Policy::read(&policy.spec) {
            Ok(_) => Observation::new(READY, True, "Valid").message("the policy is in force"),
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
        for condition in [ready, needed] {
            set_condition(&mut status.conditions, condition.at(generation), now);
        }
        let status = StatusWrite::between(policy.as_ref(), &new);
        Ok(Plan { status, ..Plan::nothing() })
    }
}

/// Returns the approvals that wait, of rollouts and of removals.
fn tokens(status: &RolloutPolicyStatus) -> Vec<String> {
    let rollouts = status.rollouts.iter().flat_map(|rollout| &rollout.waiting_approvals);
    let removals = status.removals.iter().map(|removal| &removal.approval);
    rollouts.chain(removals.filter(|token| !token.is_empty())).cloned().collect()
}
