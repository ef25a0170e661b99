//! Deletions that remove an add-on or work from clusters.

use jiff::Timestamp;

use crate::rollout::Policy;
use crate::rollout::removal::{end, first_within};

/// The effect of an object's deletion on clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uninstall {
    /// The number of clusters that lose the add-on or work.
    pub clusters: usize,
    /// The times at which other clusters lost it, within the window of the removal budget.
    pub recent: Vec<Timestamp>,
    /// The time at which the budget allows the removal; `None` if only an approval does.
    pub until: Option<Timestamp>,
}

impl Uninstall {
    /// Returns the time from which a policy's removal budget allows the removal from all clusters at once;
    /// `None` if it never does, or if the policy pauses.
    pub fn allowed_from(&self, policy: &Policy) -> Option<Timestamp> {
        let is_within = |left: usize| self.clusters + left <= policy.removals.of(self.clusters + left);
        let ends = self.recent.iter().map(|at| end(*at, policy));
        let at_once = is_within(self.recent.len()).then_some(Timestamp::MIN);
        at_once.or_else(|| first_within(ends, is_within)).filter(|_| !policy.paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::Size;
    use jiff::SignedDuration;

    #[test]
    fn a_deletion_waits_until_few_enough_removals_before_it_count() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let policy = |removals, paused| Policy {
            removals,
            paused,
            removal_window: SignedDuration::from_mins(60),
            ..Policy::default()
        };
        let from = |clusters, recent: &[i64], removals| {
            let recent = recent.iter().copied().map(at).collect();
            Uninstall { clusters, recent, until: None }.allowed_from(&policy(removals, false))
        };
        assert_eq!(from(2, &[], Size::Count(2)), Some(Timestamp::MIN));
        assert_eq!(from(3, &[], Size::Count(2)), None);
        assert_eq!(from(1, &[3, 1, 2], Size::Count(2)), Some(at(62)), "the two oldest count no more");
        assert_eq!(from(2, &[1], Size::Percent(100)), Some(Timestamp::MIN));
        let of_one = Uninstall { clusters: 1, ..Uninstall::default() };
        assert_eq!(of_one.allowed_from(&policy(Size::Count(2), true)), None, "a pause");
    }
}
