//! Types of conditions that more than one controller reads or writes.

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
    /// The set of a binding exists.
    pub const BOUND: &str = "Bound";
}

/// Condition types of Placement.
pub mod placement_conditions {
    /// As many clusters as wanted were found.
    pub const SATISFIED: &str = "PlacementSatisfied";
    /// The placement is not valid.
    pub const MISCONFIGURED: &str = "PlacementMisconfigured";
}

/// Reasons of the condition `Applied` of a manifest that is False.
pub mod work_reasons {
    /// The attempt failed, and the next one may succeed; from OCM's agents, any failure.
    pub const FAILED: &str = "AppliedManifestFailed";
    /// The API server of the cluster rejects the object. OCM's agents do not say so.
    pub const REJECTED: &str = "AppliedManifestRejected";
    /// The fields that the manifest leaves to the cluster cannot be found.
    pub const IGNORED_FIELDS: &str = "AppliedManifestSSAIgnoreFieldError";
}

/// Condition types of ManifestWork.
pub mod work_conditions {
    /// Everything was applied.
    pub const APPLIED: &str = "Applied";
    /// Everything exists.
    pub const AVAILABLE: &str = "Available";
    /// The work has run to its end.
    pub const COMPLETE: &str = "Complete";
    /// The applied objects are being removed.
    pub const DELETING: &str = "Deleting";
    /// A rule says that the work is progressing.
    pub const PROGRESSING: &str = "Progressing";
    /// A rule says that the work is degraded.
    pub const DEGRADED: &str = "Degraded";
    /// Of the manifest of a workload that is not healthy: it is False, with the reason of its pods.
    pub const PODS_READY: &str = "PodsReady";
    /// Of a manifest: feedback was read.
    pub const STATUS_FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
}

/// Condition types of ManifestWorkReplicaSet.
pub mod replica_set_conditions {
    /// The placements exist and select clusters.
    pub const PLACEMENT_VERIFIED: &str = "PlacementVerified";
    /// Every selected cluster has the template, with success.
    pub const PLACEMENT_ROLLED_OUT: &str = "PlacementRolledOut";
    /// The works are applied and available; OCM's spelling.
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

/// Condition types of our own kinds, as kstatus reads them. A ManifestWorkReplicaSet has `Reconciling` and
/// `Stalled` too.
pub mod gitops_conditions {
    /// The hub is as the repository says.
    pub const READY: &str = "Ready";
    /// A change is being applied.
    pub const RECONCILING: &str = "Reconciling";
    /// A person has to act.
    pub const STALLED: &str = "Stalled";
    /// The newest state is on the status branch.
    pub const REPORTED: &str = "Reported";
    /// The git provider has the newest state of the commit.
    pub const COMMIT_STATUS_REPORTED: &str = "CommitStatusReported";
    /// Rules of a RolloutPolicy are in force.
    pub const IN_FORCE: &str = "InForce";
    /// A person has something to approve.
    pub const APPROVAL_NEEDED: &str = "ApprovalNeeded";
}
