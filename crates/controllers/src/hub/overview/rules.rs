//! Describes the rules of a rollout in sentences: its strategy, and the policy on top of it.

use engine::rollout::policy::{Approval, OnBreach};
use engine::rollout::{Policy, Strategy};
use jiff::SignedDuration;
use object::duration;

pub(super) fn rules(strategy: &Strategy, policy: &Policy) -> Vec<String> {
    let order = match strategy {
        Strategy::All(_) => "All clusters start at once.",
        Strategy::Progressive(_) => "Mandatory groups start one after the other, then the other clusters.",
        Strategy::ProgressivePerGroup(_) => {
            "Mandatory groups start one after the other, then every other group, one after the other."
        }
    };
    let limits = strategy.limits();
    let soak = limits.soak.map(|soak| soak.max(policy.soak)).filter(SignedDuration::is_positive);
    let Approval { between_groups, groups } = &policy.approval;
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    let between_groups =
        between_groups.then(|| "A person approves each group after the first one.".to_owned());
    let approval =
        (!groups.is_empty()).then(|| format!("A person approves the start of {}.", groups.join(", ")));
    let breach = match policy.on_breach {
        _ if !strategy.stops_on_failures() => "Failures stop nothing.",
        OnBreach::Pause => "If too many clusters of a stage fail, no further cluster starts.",
        OnBreach::Rollback => {
            "If too many clusters of a stage fail, all clusters return to their last successful revision."
        }
    };
    let windows: Vec<_> = policy.freezes.iter().map(|window| window.name.as_str()).collect();
    let deadline = limits.deadline.or(policy.deadline);
    let rules = [
        Some(order.to_owned()),
        deadline.map(|deadline| format!("A cluster has {} to become healthy.", duration::format(deadline))),
        soak.map(|soak| format!("It must stay healthy for {}.", duration::format(soak))),
        Some(policy.group_soak)
            .filter(SignedDuration::is_positive)
            .map(|soak| format!("The next group starts {} after the last.", duration::format(soak))),
        Some(breach.to_owned()),
        between_groups,
        approval,
        (!windows.is_empty()).then(|| format!("No cluster starts in the windows {}.", windows.join(", "))),
        Some(format!(
            "If more than {} of the clusters are unreachable, no further cluster starts.",
            policy.unreachable
        )),
    ];
    rules.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::rollout::Size;
    use engine::rollout::strategy::ProgressivePerGroup;

    #[test]
    fn a_strategy_and_a_policy_are_sentences() {
        let strategy = Strategy::ProgressivePerGroup(ProgressivePerGroup::default());
        let policy = Policy {
            on_breach: OnBreach::Rollback,
            approval: Approval { between_groups: false, groups: ["prod".to_owned()].into() },
            group_soak: SignedDuration::from_mins(30),
            deadline: Some(SignedDuration::from_mins(10)),
            unreachable: Size::Percent(10),
            ..Policy::default()
        };
        assert_eq!(
            rules(&strategy, &policy),
            [
                "Mandatory groups start one after the other, then every other group, one after the other.",
                "A cluster has 10m to become healthy.",
                "The next group starts 30m after the last.",
                "If too many clusters of a stage fail, all clusters return to their last successful revision.",
                "A person approves the start of prod.",
                "If more than 10% of the clusters are unreachable, no further cluster starts.",
            ]
        );
    }
}
