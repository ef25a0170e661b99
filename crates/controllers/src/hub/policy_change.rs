//! Changes of RolloutPolicies by people, for the commands `wheelwright rollout` and the dashboard.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::addon_config::PlacementRollout;
use super::addon_removal::Removal;
use crate::rollout_policy::{RolloutOwner, choose};
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec, RolloutStatus};
use engine::plural::counted;
use engine::rollout::RolloutDecision;
use object::{Key, Metadata as _, merge_diff};

/// Clusters of a removal that are named.
const NAMED: usize = 5;

/// The policy that a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyScope {
    /// The one in effect. The change is about revisions of the subject, so it concerns nothing else.
    InEffect,
    /// One that names the subject, so that a policy for everything stays as it is.
    Named,
}

/// The write that makes a change.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyChange {
    /// The policy is already as wanted.
    Unchanged(RolloutPolicy),
    /// A merge patch of a policy, in the version that was read.
    Patch {
        /// The policy as it was read.
        policy: RolloutPolicy,
        /// The patch.
        patch: Value,
    },
    /// A new policy.
    Create {
        /// The policy.
        policy: RolloutPolicy,
        /// The records of the subject, which belong into its status, so that the operator goes on from them.
        record: Vec<RolloutStatus>,
    },
    /// The name of the new policy is that of a policy for something else.
    NameTaken(String),
}

/// Returns the key of a ManifestWorkReplicaSet that a subject names as NAMESPACE/NAME; other subjects are
/// add-ons.
fn set_key(subject: &str) -> Option<Key> {
    subject.split_once('/').map(|(namespace, name)| Key::namespaced(namespace, name))
}

/// Returns the policy that is in effect for an add-on, or for a ManifestWorkReplicaSet as NAMESPACE/NAME.
pub fn in_effect<'a>(policies: &'a [RolloutPolicy], subject: &str) -> Option<&'a RolloutPolicy> {
    let set = set_key(subject);
    choose(policies, set.as_ref().map_or(RolloutOwner::AddOn(subject), RolloutOwner::ReplicaSet))
}

/// Decides how a change of the policy of a subject is written; a policy is made where none fits.
pub fn change(
    policies: &[RolloutPolicy],
    subject: &str,
    scope: PolicyScope,
    edit: impl Fn(&mut RolloutPolicySpec),
) -> PolicyChange {
    let set = set_key(subject);
    let owner = set.as_ref().map_or(RolloutOwner::AddOn(subject), RolloutOwner::ReplicaSet);
    let present = choose(policies, owner);
    let fits = |policy: &&RolloutPolicy| scope == PolicyScope::InEffect || owner.is_named_by(&policy.spec);
    if let Some(policy) = present.filter(fits) {
        let mut spec = policy.spec.clone();
        edit(&mut spec);
        if spec == policy.spec {
            return PolicyChange::Unchanged(policy.clone());
        }
        let patch = json!({
            "metadata": {"resourceVersion": policy.metadata.resource_version},
            "spec": merge_diff(&json!(policy.spec), &json!(spec)),
        });
        return PolicyChange::Patch { policy: policy.clone(), patch };
    }
    // It has the rules of the policy for everything. The defaults of a policy are the rules without one.
    let mut spec = present.map(|policy| policy.spec.clone()).unwrap_or_default();
    let named = if set.is_some() { &mut spec.replica_sets } else { &mut spec.add_ons };
    named.push(subject.to_owned());
    edit(&mut spec);
    let name = subject.replace('/', ".");
    if policies.iter().any(|policy| policy.name() == name) {
        return PolicyChange::NameTaken(name);
    }
    let mut policy = RolloutPolicy { spec, ..RolloutPolicy::default() };
    policy.metadata.name = Some(name);
    let record = present.and_then(|policy| policy.status.as_ref()).map(|status| status.rollouts.as_slice());
    let record = record.unwrap_or_default().iter().filter(|rollout| owner.is_that_of(rollout)).cloned();
    PolicyChange::Create { policy, record: record.collect() }
}

/// Returns the approvals that the rollouts of a subject wait for, and what each of them is about.
pub fn waiting_approvals(rollouts: &[PlacementRollout], removal: &Removal) -> BTreeMap<String, String> {
    let decisions = rollouts.iter().filter_map(|rollout| Some((rollout, rollout.decision.as_ref().ok()?)));
    let asked = decisions.flat_map(|(rollout, decision)| {
        decision
            .approvals
            .iter()
            .map(move |token| (token.clone(), format!("{} of {}", about(token, decision), rollout.placement)))
    });
    let removal = &removal.decision;
    let removal = removal.approval.iter().map(|token| (token.clone(), removal_of(&removal.kept)));
    asked.chain(removal).collect()
}

fn about(token: &str, decision: &RolloutDecision) -> String {
    match token.rsplit_once('/') {
        Some((revision, stage)) if revision != "remove" => {
            let clusters = decision.stages.iter().find(|one| one.name == stage).map(|stage| stage.clusters);
            format!("the start of {stage} ({})", counted(clusters.unwrap_or_default(), "cluster"))
        }
        _ => removal_of(&decision.kept),
    }
}

fn removal_of(kept: &[String]) -> String {
    let named: Vec<_> = kept.iter().take(NAMED).map(String::as_str).collect();
    let more = if kept.len() > NAMED { ", ..." } else { "" };
    format!("the removal from {} ({}{more})", counted(kept.len(), "cluster"), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, add_ons: &[&str]) -> RolloutPolicy {
        let mut policy = RolloutPolicy::default();
        policy.metadata.name = Some(name.into());
        policy.metadata.resource_version = Some("7".into());
        policy.spec.add_ons = add_ons.iter().map(|&name| name.to_owned()).collect();
        policy
    }

    fn pause(policies: &[RolloutPolicy], subject: &str) -> PolicyChange {
        change(policies, subject, PolicyScope::Named, |spec| spec.paused = true)
    }

    #[test]
    fn a_policy_that_names_the_subject_is_patched_in_the_version_that_was_read() {
        let policies = [policy("all", &[]), policy("mine", &["proxy", "other"])];
        let PolicyChange::Patch { policy, patch } = pause(&policies, "proxy") else { panic!("no patch") };
        assert_eq!(policy.name(), "mine");
        assert_eq!(patch, json!({"metadata": {"resourceVersion": "7"}, "spec": {"paused": true}}));
    }

    #[test]
    fn a_policy_for_everything_stays_and_its_rules_and_records_go_into_a_new_one() {
        let mut all = policy("all", &[]);
        all.spec.soak = "5m".into();
        let record = |add_on: &str| RolloutStatus { add_on: add_on.into(), ..RolloutStatus::default() };
        all.status.get_or_insert_default().rollouts = vec![record("proxy"), record("other")];
        let PolicyChange::Create { policy, record: kept } = pause(&[all], "proxy") else {
            panic!("nothing is made")
        };
        assert_eq!((policy.name(), policy.spec.soak.as_str(), policy.spec.paused), ("proxy", "5m", true));
        assert_eq!(kept, [record("proxy")]);
    }

    #[test]
    fn what_is_already_so_is_not_written_and_a_foreign_policy_is_not_taken() {
        let mut paused = policy("mine", &["proxy"]);
        paused.spec.paused = true;
        assert_eq!(pause(std::slice::from_ref(&paused), "proxy"), PolicyChange::Unchanged(paused));
        let foreign = [policy("n.set", &["proxy"])];
        assert_eq!(pause(&foreign, "n/set"), PolicyChange::NameTaken("n.set".into()));
    }
}
