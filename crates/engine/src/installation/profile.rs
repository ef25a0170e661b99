//! The profile `ocm`: OCM's rules for success, deadlines, unreachable clusters and removals.
//!
//! It is a RolloutPolicy for the whole fleet. Because the strictest of several policies applies, a team can add
//! policies that tighten one rule at a time, and remove the profile once it no longer has any effect.

use api::names::{GITOPS_GROUP, OCM_PROFILE};
use object::{Malformed, Object};
use serde_json::json;

/// Returns the policy of the profile, which the chart also contains.
///
/// OCM counts a cluster as done when its works are applied, waits indefinitely for the others, and removes an
/// add-on from all clusters at once.
pub(super) fn ocm() -> Result<Object, Malformed> {
    Object::from_value(json!({
        "apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "RolloutPolicy", "metadata": {"name": OCM_PROFILE},
        "spec": {"success": "Applied", "defaultDeadline": "None", "unreachableBudget": "100%", "removalBudget": "100%"},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::policy::CombinedPolicy;
    use crate::rollout::{Policy, Size};
    use api::gitops::v1alpha1::RolloutPolicy;

    #[test]
    fn the_profile_changes_four_rules_and_nothing_else() {
        let policy: RolloutPolicy = serde_json::from_value(ocm().unwrap().into_value()).unwrap();
        let combined = CombinedPolicy::read(&[(OCM_PROFILE, &policy.spec)]).unwrap();
        assert!(combined.applied_suffices);
        let all = Size::Percent(100);
        let expected = Policy { deadline: None, unreachable: all, removals: all, ..Policy::default() };
        assert_eq!(combined.policy, expected);
    }
}
