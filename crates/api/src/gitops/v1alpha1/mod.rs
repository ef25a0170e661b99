//! ConfigRepo, RolloutPolicy, and the kinds that only the operator writes.

mod cluster_decision;
mod config_repo;
mod config_repo_commit_status;
mod config_repo_inventory;
mod config_repo_notification;
mod config_repo_report;
mod config_repo_status;
mod ignored_fields;
mod rollout_policy;
mod rollout_policy_status;

pub use cluster_decision::{ClusterDecision, ClusterDecisionStatus, HeldDecisions};
pub use config_repo::{
    ChartRepositories, ConfigRepo, ConfigRepoMode, ConfigRepoSpec, Decryption, DeletionBudget,
    DeletionPolicy, Dependency, GitRef, PlanApproval, RewindPolicy, SecretHandling, SecretRef,
    SignerIdentity, Takeover, Verify, VerifyMode, Webhook,
};
pub use config_repo_commit_status::{CommitState, LastCommitStatus};
pub use config_repo_inventory::{ConfigRepoInventory, ConfigRepoInventorySpec};
pub use config_repo_notification::{LastNotification, NotificationReceiver, NotificationType, NotifiedState};
pub use config_repo_report::{
    BranchDeletedPolicy, CommitAuthor, CommitStatusProvider, ConfigRepoReport, ProviderType, RewrittenPolicy,
};
pub use config_repo_status::{
    ApprovedDeletions, ChangedField, ConfigRepoStatus, CorrectedObject, DriftStatus, HeldChanges,
    HeldDeletions, InventoryEntry, ListedObjects, PushedReport, RandomValues, RecentDeletion, RecentResult,
    RemoteChart, RenderedPath, ReportStatus, Revision, SharedChange, UnchangeableObject, UnhealthyObjects,
};
pub use ignored_fields::IgnoredFields;
pub use rollout_policy::{
    Approval, ApprovalMode, Joining, OnBreach, RollOut, RolloutPolicy, RolloutPolicySpec, Success,
    Superseding, TimeWindow,
};
pub use rollout_policy_status::{
    RecentRemoval, RefusedAddOn, RemovalStatus, RolloutCounts, RolloutPolicyStatus, RolloutStatus,
};
