//! Reasons why the condition `Ready` of a ConfigRepo waits for an approval or a point in time.

/// The plan of the commit needs an approval.
pub const PLAN_NOT_APPROVED: &str = "PlanNotApproved";
/// Deletions need an approval, or wait for a point in time.
pub const DELETIONS_HELD: &str = "DeletionsHeld";
/// A RolloutPolicy would allow a deletion in another ConfigRepo, which must be approved first.
pub const POLICY_HELD: &str = "PolicyHeld";
/// A freeze window is open.
pub const FROZEN: &str = "Frozen";
/// No apply window is open.
pub const OUTSIDE_APPLY_WINDOWS: &str = "OutsideApplyWindows";
