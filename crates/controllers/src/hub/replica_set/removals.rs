//! The record of clusters that lost a work of a set, in the status of its RolloutPolicy.
//!
//! The removal budget counts over a window of time, so that clusters that leave one after the other do not
//! all lose the work.

use jiff::Timestamp;

use crate::hub::addon_removal::{count, entries};
use api::gitops::v1alpha1::RecentRemoval;
use engine::rollout::removal::within_window;
use engine::rollout::{Input, RolloutDecision};

/// Returns the removals that count, with those of a decision.
pub(super) fn record(input: &Input, decision: &RolloutDecision, now: Timestamp) -> Vec<RecentRemoval> {
    let known = &input.recent_removals;
    let within = input.policy.as_ref().map(|policy| within_window(known, policy, now));
    let mut recent = within.unwrap_or_else(|_| known.clone());
    count(&mut recent, &decision.counted, now);
    entries(&recent)
}
