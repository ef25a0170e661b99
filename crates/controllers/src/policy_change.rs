//! Changes that people make to RolloutPolicies, for the `wheelwright rollout` commands and the dashboard.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::addon_removal::Removal;
use crate::placement_rollout::PlacementRollout;
use crate::rollout_policy::{applicable, choose, combined, is_for_all, with_owner};
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec};
use api::names::DEFAULT_ROLLOUT_POLICY;
use engine::plural::counted;
use engine::rollout::policy::CombinedPolicy;
use engine::rollout::{Refused, RolloutDecision};
use object::{Metadata as _, merge_diff};

/// Maximum number of clusters that are listed for a removal.
const NAMED: usize = 5;

/// The policy to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyScope {
    /// The policy in effect. The change is about revisions of the subject, so it affects nothing else.
    InEffect,
    /// A policy that names the subject, so that a policy for everything is not changed.
    Named,
    /// The policy for everything that the operator creates for its records.
    Fleet,
}

/// The write for a change.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyChange {
    /// The policy already has the change.
    Unchanged(RolloutPolicy),
    /// A merge patch for the version of the policy that was read.
    Patch {
        /// The policy that was read.
        policy: RolloutPolicy,
        patch: Value,
    },
    /// A new policy.
    Create(RolloutPolicy),
    /// The new policy would have the name of a policy for something else.
    NameTaken(String),
}

/// Returns the policies that apply to an add-on, or to a ManifestWorkReplicaSet as NAMESPACE/NAME, and pause it.
pub fn pausing<'a>(policies: &'a [RolloutPolicy], subject: &str) -> Vec<&'a RolloutPolicy> {
    let mut policies = all_for(policies, subject);
    policies.retain(|policy| policy.spec.paused);
    policies
}

/// Returns the policies that apply to a subject.
pub fn all_for<'a>(policies: &'a [RolloutPolicy], subject: &str) -> Vec<&'a RolloutPolicy> {
    with_owner(subject, |owner| applicable(policies, owner))
}

/// Combines the rules of the policies that apply to a subject.
///
/// # Errors
/// Fails if a rule is invalid.
pub fn combined_for(policies: &[RolloutPolicy], subject: &str) -> Result<CombinedPolicy, Refused> {
    with_owner(subject, |owner| combined(policies, owner))
}

/// Returns true if a policy applies to everything, not to individual subjects.
pub fn is_for_everything(policy: &RolloutPolicy) -> bool {
    is_for_all(policy)
}

/// Returns the command that resumes everything under a policy.
pub fn resume_everything(policy: &str) -> String {
    match policy {
        DEFAULT_ROLLOUT_POLICY => "wheelwright resume --all".to_owned(),
        policy => format!("kubectl edit rolloutpolicy {policy}"),
    }
}

/// Returns the write for a change of a policy.
pub fn edit(policy: &RolloutPolicy, edit: impl Fn(&mut RolloutPolicySpec)) -> PolicyChange {
    let mut spec = policy.spec.clone();
    edit(&mut spec);
    // Others may change its lists at the same time.
    let metadata = json!({"resourceVersion": policy.metadata.resource_version});
    match merge_diff(&json!(policy.spec), &json!(spec)) {
        Some(changes) => PolicyChange::Patch {
            policy: policy.clone(),
            patch: json!({"metadata": metadata, "spec": changes}),
        },
        None => PolicyChange::Unchanged(policy.clone()),
    }
}

/// Returns the write for a change of a subject's policy. If no policy matches, creates one.
pub fn change(
    policies: &[RolloutPolicy],
    subject: &str,
    scope: PolicyScope,
    edit: impl Fn(&mut RolloutPolicySpec),
) -> PolicyChange {
    let present = with_owner(subject, |owner| match scope {
        PolicyScope::InEffect => choose(policies, owner),
        PolicyScope::Named => choose(policies, owner).filter(|policy| owner.is_named_by(&policy.spec)),
        PolicyScope::Fleet => policies.iter().find(|policy| policy.name() == DEFAULT_ROLLOUT_POLICY),
    });
    if let Some(policy) = present {
        return self::edit(policy, edit);
    }
    // The new policy has only this rule. The rules of the other policies stay in force.
    let mut spec = RolloutPolicySpec::default();
    let name = match scope {
        PolicyScope::Fleet => DEFAULT_ROLLOUT_POLICY.to_owned(),
        PolicyScope::InEffect | PolicyScope::Named => {
            let named = if subject.contains('/') { &mut spec.replica_sets } else { &mut spec.add_ons };
            named.push(subject.to_owned());
            subject.replace('/', ".")
        }
    };
    edit(&mut spec);
    if policies.iter().any(|policy| policy.name() == name) {
        return PolicyChange::NameTaken(name);
    }
    let mut policy = RolloutPolicy { spec, ..RolloutPolicy::default() };
    policy.metadata.name = Some(name);
    PolicyChange::Create(policy)
}

/// Returns the approvals that the rollouts of a subject wait for, with their descriptions.
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
    fn a_policy_for_everything_stays_and_a_new_one_has_only_the_new_rule() {
        let mut all = policy("all", &[]);
        all.spec.soak = "5m".into();
        let PolicyChange::Create(policy) = pause(&[all], "proxy") else { panic!("nothing is made") };
        assert_eq!((policy.name(), policy.spec.add_ons.as_slice()), ("proxy", &["proxy".to_owned()][..]));
        let rules = RolloutPolicySpec {
            paused: true,
            add_ons: policy.spec.add_ons.clone(),
            ..RolloutPolicySpec::default()
        };
        assert_eq!(policy.spec, rules);
    }

    #[test]
    fn the_fleet_is_paused_in_the_policy_of_the_operator() {
        let fleet =
            |policies: &[RolloutPolicy]| change(policies, "", PolicyScope::Fleet, |spec| spec.paused = true);
        let PolicyChange::Create(made) = fleet(&[policy("all", &[])]) else { panic!("nothing is made") };
        assert_eq!(
            (made.name(), made.spec.paused, made.spec.add_ons.len()),
            (DEFAULT_ROLLOUT_POLICY, true, 0)
        );
        let PolicyChange::Patch { policy, .. } = fleet(&[self::policy(DEFAULT_ROLLOUT_POLICY, &[])]) else {
            panic!("no patch")
        };
        assert_eq!(policy.name(), DEFAULT_ROLLOUT_POLICY);
        let paused: Vec<RolloutPolicy> = [("all", &[][..]), ("mine", &["proxy"]), ("other", &["other"])]
            .map(|(name, add_ons)| {
                let mut policy = self::policy(name, add_ons);
                policy.spec.paused = true;
                policy
            })
            .to_vec();
        let names: Vec<&str> = pausing(&paused, "proxy").iter().map(|policy| policy.name()).collect();
        assert_eq!(names, ["all", "mine"]);
    }

    #[test]
    fn an_already_paused_policy_is_unchanged_and_a_foreign_name_is_not_taken() {
        let mut paused = policy("mine", &["proxy"]);
        paused.spec.paused = true;
        assert_eq!(pause(std::slice::from_ref(&paused), "proxy"), PolicyChange::Unchanged(paused));
        let foreign = [policy("n.set", &["proxy"])];
        assert_eq!(pause(&foreign, "n/set"), PolicyChange::NameTaken("n.set".into()));
    }
}
