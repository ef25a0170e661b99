//! Reasons of the conditions Stalled and Ready of a ConfigRepo that waits for an approval.

/// The plan of the commit needs an approval.
pub const PLAN_NOT_APPROVED: &str = "PlanNotApproved";
/// Deletions need an approval.
pub const DELETIONS_HELD: &str = "DeletionsHeld";
/// A RolloutPolicy waits for a deletion of another ConfigRepo.
pub const POLICY_HELD: &str = "PolicyHeld";
