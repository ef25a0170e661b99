//! Condition types that more than one controller reads or writes.

/// Condition types of ManagedCluster.
pub mod cluster_conditions {
    /// The hub accepts the agent.
    pub const HUB_ACCEPTED: &str = "HubAcceptedManagedCluster";
    /// The agent has joined.
    pub const JOINED: &str = "ManagedClusterJoined";
    /// The agent is alive and its API server answers.
    pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
    /// The clocks agree.
    pub const CLOCK_SYNCED: &str = "ManagedClusterConditionClockSynced";
    /// The progress of the deletion.
    pub const DELETING: &str = "Deleting";
    /// A cluster set has no members.
    pub const SET_EMPTY: &str = "ClusterSetEmpty";
    /// The cluster set of a binding exists.
    pub const BOUND: &str = "Bound";
}

/// Condition types of Placement.
pub mod placement_conditions {
    /// Enough clusters were found.
    pub const SATISFIED: &str = "PlacementSatisfied";
    /// The placement is not valid.
    pub const MISCONFIGURED: &str = "PlacementMisconfigured";
}

/// Reasons of the condition `Applied` of a manifest.
pub mod work_reasons {
    /// It is applied, but another work changes the same object. OCM's agents do not use this reason.
    pub const CONTESTED: &str = "AppliedManifestContested";
    /// The attempt failed, and the next one may succeed. OCM's agents use this reason for every failure.
    pub const FAILED: &str = "AppliedManifestFailed";
    /// The API server of the cluster rejects the object. OCM's agents do not use this reason.
    pub const REJECTED: &str = "AppliedManifestRejected";
    /// The fields that the manifest ignores cannot be determined.
    pub const IGNORED_FIELDS: &str = "AppliedManifestSSAIgnoreFieldError";
}

/// Reasons of the conditions of a ConfigRepo whose last fetch failed.
pub mod fetch_reasons {
    /// Reasons of failures that resolve without a person.
    pub const TRANSIENT: &[&str] =
        &["SourceUnreachable", "SourceTimeout", "SourceAbandoned", "GitCacheFailed"];
}

/// Condition types of ManifestWork.
pub mod work_conditions {
    /// Everything was applied.
    pub const APPLIED: &str = "Applied";
    /// Everything exists.
    pub const AVAILABLE: &str = "Available";
    /// The work has run to completion.
    pub const COMPLETE: &str = "Complete";
    /// The applied objects are being removed.
    pub const DELETING: &str = "Deleting";
    /// A rule says that the work is progressing.
    pub const PROGRESSING: &str = "Progressing";
    /// A rule says that the work is degraded.
    pub const DEGRADED: &str = "Degraded";
    /// On the manifest of an unhealthy workload: False, with the reason of its pods.
    pub const PODS_READY: &str = "PodsReady";
    /// On a manifest: feedback was read.
    pub const STATUS_FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
}

/// Condition types of ManifestWorkReplicaSet.
pub mod replica_set_conditions {
    /// The placements exist and select clusters.
    pub const PLACEMENT_VERIFIED: &str = "PlacementVerified";
    /// The template has succeeded on every selected cluster.
    pub const PLACEMENT_ROLLED_OUT: &str = "PlacementRolledOut";
    /// The works are applied and available. The spelling is OCM's.
    pub const MANIFESTWORK_APPLIED: &str = "ManifestworkApplied";
}

/// Condition types of ManagedClusterAddOn and ClusterManagementAddOn.
pub mod addon_conditions {
    /// The add-on works.
    pub const AVAILABLE: &str = "Available";
    /// The add-on is degraded.
    pub const DEGRADED: &str = "Degraded";
    /// A configuration is being rolled out.
    pub const PROGRESSING: &str = "Progressing";
    /// The configurations are decided.
    pub const CONFIGURED: &str = "Configured";
    /// The configurations that succeeded on the cluster before the assigned ones, as JSON in the message.
    pub const LAST_GOOD: &str = "LastGood";
    /// The works are applied.
    pub const MANIFEST_APPLIED: &str = "ManifestApplied";
    /// The works on the cluster that hosts the add-on are applied.
    pub const HOSTING_MANIFEST_APPLIED: &str = "HostingManifestApplied";
    /// The hub can deploy to the cluster that hosts the add-on.
    pub const HOSTING_CLUSTER_VALIDITY: &str = "HostingClusterValidity";
    /// The jobs that run before the add-on is deleted are complete.
    pub const HOOK_MANIFEST_COMPLETED: &str = "HookManifestCompleted";
    /// The agent of the cluster can get tokens for the add-on.
    pub const TOKEN_INFRASTRUCTURE_READY: &str = "TokenInfrastructureReady";
    /// The registration is set up on the hub.
    pub const REGISTRATION_APPLIED: &str = "RegistrationApplied";
}

/// Condition types of our own kinds, named as kstatus expects. A ManifestWorkReplicaSet also has `Reconciling` and
/// `Stalled`.
pub mod gitops_conditions {
    /// The hub matches the repository.
    pub const READY: &str = "Ready";
    /// A change is being applied.
    pub const RECONCILING: &str = "Reconciling";
    /// A person must act.
    pub const STALLED: &str = "Stalled";
    /// The status branch has the latest state.
    pub const REPORTED: &str = "Reported";
    /// The git provider has the latest state of the commit.
    pub const COMMIT_STATUS_REPORTED: &str = "CommitStatusReported";
    /// Every receiver of notifications has the latest state.
    pub const NOTIFIED: &str = "Notified";
    /// Rules of a RolloutPolicy are in force.
    pub const IN_FORCE: &str = "InForce";
    /// Something requires approval.
    pub const APPROVAL_NEEDED: &str = "ApprovalNeeded";
}
