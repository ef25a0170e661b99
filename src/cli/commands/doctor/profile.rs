//! Lists the rules of the profile `ocm` that are looser than Wheelwright's defaults.

use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec};
use api::names::OCM_PROFILE;
use engine::rollout::policy::CombinedPolicy;
use object::Metadata as _;

use super::finding::{Finding, all};
use super::hub::ExaminedHub;

const CHECK: &str = "profile";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    match all::<RolloutPolicy>(CHECK, &hub.client, "").await {
        Ok(policies) => of(&policies).into_iter().collect(),
        Err(unread) => vec![unread],
    }
}

/// Returns `None` without the profile. A stricter policy for the whole fleet overrides it.
fn of(policies: &[RolloutPolicy]) -> Option<Finding> {
    let is_for_all = |spec: &RolloutPolicySpec| spec.add_ons.is_empty() && spec.replica_sets.is_empty();
    let named: Vec<_> = policies
        .iter()
        .filter(|policy| is_for_all(&policy.spec))
        .map(|policy| (policy.name(), &policy.spec))
        .collect();
    named.iter().find(|(name, _)| *name == OCM_PROFILE)?;
    // Another check reports invalid policies.
    let rules = CombinedPolicy::read(&named).ok()?.contributions;
    let looser: Vec<String> = rules
        .into_iter()
        .filter(|rule| rule.policies.iter().any(|policy| policy == OCM_PROFILE))
        .map(|rule| rule.rule)
        .collect();
    if looser.is_empty() {
        let message = "the profile ocm has no effect, because stricter policies apply";
        return Some(Finding::warning(CHECK, message, "remove it: wheelwright upgrade --profile default"));
    }
    let message = format!("the profile ocm leaves rules looser than the defaults: {}", looser.join(", "));
    let advice = "tighten them with a RolloutPolicy, or all at once: wheelwright upgrade --profile default";
    Some(Finding::warning(CHECK, message, advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(policies: &[(&str, Value)], expected: Option<&str>) {
        let policies: Vec<RolloutPolicy> = policies
            .iter()
            .map(|(name, spec)| {
                serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
            })
            .collect();
        assert_eq!(of(&policies).map(|finding| finding.message).as_deref(), expected);
    }

    #[test]
    fn the_rules_that_the_profile_decides_are_named() {
        let profile = (OCM_PROFILE, json!({"success": "Applied", "removalBudget": "100%"}));
        let fleet = |spec: Value| ("fleet", spec);
        check(&[fleet(json!({"success": "Applied"}))], None);
        let both = "the profile ocm leaves rules looser than the defaults: success, removalBudget";
        check(std::slice::from_ref(&profile), Some(both));
        let of_one = json!({"addOns": ["hello"], "success": "Available", "removalBudget": 1});
        check(&[profile.clone(), fleet(of_one)], Some(both));
        let one = "the profile ocm leaves rules looser than the defaults: success";
        check(&[profile.clone(), fleet(json!({"removalBudget": "2%"}))], Some(one));
        let none = "the profile ocm has no effect, because stricter policies apply";
        check(&[profile, fleet(json!({"success": "Available", "removalBudget": "2%"}))], Some(none));
    }
}
