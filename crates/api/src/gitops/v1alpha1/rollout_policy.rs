//! RolloutPolicy: how rollouts of add-ons and works are held, stopped and undone.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollout_policy_status::RolloutPolicyStatus;
use crate::{Unknown, names};

kind! {
    /// Rules that hold, stop and undo the rollouts of add-ons and ManifestWorkReplicaSets.
    ///
    /// The rules apply in addition to the rollout strategy of a placement. A policy applies to the add-ons
    /// and sets that it names, or to all of them if it names none. If several policies apply, the strictest
    /// value of each field counts. If no policy sets a field, its default applies, even if there is no
    /// policy. The condition `InForce` of each policy shows the rules that it contributes.
    RolloutPolicy {
        group: names::GITOPS_GROUP,
        version: "v1alpha1",
        plural: "rolloutpolicies",
        scope: Cluster,
        spec: RolloutPolicySpec,
        status: RolloutPolicyStatus,
        columns: [
            ("Add-ons", "string", ".spec.addOns"),
            ("Replica Sets", "string", ".spec.replicaSets"),
            ("Paused", "boolean", ".spec.paused"),
            ("On Breach", "string", ".spec.onBreach"),
            ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
            ("Approval Needed", "string", ".status.conditions[?(@.type==\"ApprovalNeeded\")].status"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// Rules that hold, stop and undo rollouts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {}))]
pub struct RolloutPolicySpec {
    /// Names of the add-ons that the policy applies to. A policy that names no add-on and no set applies to
    /// all of them, including those that other policies name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 253)))]
    pub add_ons: Vec<String>,
    /// ManifestWorkReplicaSets that the policy applies to, as `NAMESPACE/NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), inner(length(min = 3, max = 317)))]
    pub replica_sets: Vec<String>,
    /// Stops all changes: no cluster starts, is rolled back, or loses an add-on or a work. Clusters in flight
    /// finish. One policy with `true` is enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Effect if more clusters fail than the strategy tolerates. `Pause`: no cluster starts until the
    /// failures are within the limit again. `Rollback`: the revision is quarantined, and its clusters return
    /// to the last revision that succeeded. Default: `Pause`. If several policies set it, `Pause` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_breach: Option<OnBreach>,
    /// Condition for the success of a change on a cluster. `Available`: the objects are applied and healthy,
    /// or the condition `Available` of an add-on with its own manager is True. `Applied`: the objects are
    /// applied and exist. Default: `Available`. If several policies set it, `Available` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<Success>,
    /// Effect of a new revision if clusters are in flight to the previous one. `Latest`: the new revision
    /// starts immediately. `FinishCurrent`: it starts when these clusters have an outcome or reach their
    /// deadline. If any policy sets `FinishCurrent`, it counts.
    #[serde(default)]
    pub superseding: Superseding,
    /// Revision that a cluster without a revision gets before its turn. `InTurn`: none. `LastGood`: the last
    /// revision that succeeded. If any policy sets `LastGood`, it counts.
    #[serde(default)]
    pub joining: Joining,
    /// Time after which a cluster that has not succeeded counts as failed, such as `10m`, if the strategy
    /// sets no deadline. `None`: there is no deadline. Default: `10m`. If several policies set it, the
    /// shortest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = names::DURATION_OR_NONE_PATTERN))]
    pub default_deadline: Option<String>,
    /// Minimum time that a cluster must stay healthy before it is done and the next one can start, such as
    /// `5m`. The longest time of the policies and the strategy counts.
    #[serde(default = "no_time")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub soak: String,
    /// Time between the end of the last cluster of a group and the start of the next group, such as `1h`. If
    /// several policies set it, the longest counts.
    #[serde(default = "no_time")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub group_soak: String,
    /// Number or percentage of clusters that can be unreachable before no further cluster starts. Unreachable
    /// clusters do not count as failed. Default: `10%`. If several policies set it, the smallest counts.
    #[serde(
        deserialize_with = "crate::lenient::optional_int_or_string",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("pattern" = names::COUNT_PATTERN))]
    pub unreachable_budget: Option<IntOrString>,
    /// Number or percentage (rounded up) of clusters that can lose an add-on, or their works of a set, within
    /// `removalWindow`. If more clusters would lose it, the removal waits for an approval. At most 1,000
    /// removals need no approval, unless the budget covers all clusters, as `100%` does. Default: `2%`. If
    /// several policies set it, the smallest counts.
    #[serde(
        deserialize_with = "crate::lenient::optional_int_or_string",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("pattern" = names::COUNT_PATTERN))]
    pub removal_budget: Option<IntOrString>,
    /// Time for which a removal counts against the budget. Default: `1h`. If several policies set it, the
    /// longest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub removal_window: Option<String>,
    /// Changes that follow the rollout strategy of a placement. `Content`: the configurations of add-ons. An
    /// add-on is installed on all clusters of a placement at once. `InstallAndContent`: also the installation
    /// and removal of add-ons. If any policy sets `InstallAndContent`, it counts.
    #[serde(default)]
    pub roll_out: RollOut,
    /// Groups that start only after an approval. The groups of all policies count.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub approval: Approval,
    /// Tokens of approvals that people have given. The status lists the tokens that wait. An entry in one
    /// policy is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), length(max = 256), inner(length(max = 512)))]
    pub approved: Vec<String>,
    /// Times during which no cluster starts. Rollbacks continue. The windows of all policies count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub freeze_windows: Vec<TimeWindow>,
    /// Hashes of revisions that can be rolled out again although they failed or were undone. An entry in one
    /// policy is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), length(max = 64), inner(length(max = 255)))]
    pub released_revisions: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn no_time() -> String {
    "0s".into()
}

/// The defaults of the schema.
impl Default for RolloutPolicySpec {
    fn default() -> Self {
        Self {
            add_ons: Vec::new(),
            replica_sets: Vec::new(),
            paused: false,
            on_breach: None,
            success: None,
            superseding: Superseding::default(),
            joining: Joining::default(),
            default_deadline: None,
            soak: no_time(),
            group_soak: no_time(),
            unreachable_budget: None,
            removal_budget: None,
            removal_window: None,
            roll_out: RollOut::default(),
            approval: Approval::default(),
            approved: Vec::new(),
            freeze_windows: Vec::new(),
            released_revisions: Vec::new(),
            unknown: Unknown::new(),
        }
    }
}

open_enum! {
    /// Changes that follow the rollout strategy of a placement.
    pub enum RollOut {
        /// The configurations of add-ons. An add-on is installed on all clusters of a placement at once.
        Content = "Content",
        /// Also the installation and removal of add-ons. No more clusters lose an add-on at a time than the
        /// removal budget allows.
        InstallAndContent = "InstallAndContent",
    }
}

open_enum! {
    /// Effect if more clusters fail than the strategy tolerates.
    pub enum OnBreach {
        /// No cluster starts until the failures are within the limit again.
        Pause = "Pause",
        /// The revision is quarantined, and its clusters return to the last revision that succeeded.
        Rollback = "Rollback",
    }
}

open_enum! {
    /// Condition for the success of a change on a cluster.
    pub enum Success {
        /// The objects are applied and healthy, or the condition `Available` of an add-on with its own
        /// manager is True.
        Available = "Available",
        /// The objects are applied and exist.
        Applied = "Applied",
    }
}

open_enum! {
    /// Effect of a new revision if clusters are in flight to the previous one.
    pub enum Superseding {
        /// The new revision starts immediately, so that a fix does not wait for what it fixes.
        Latest = "Latest",
        /// The new revision starts when these clusters have an outcome or reach their deadline.
        FinishCurrent = "FinishCurrent",
    }
}

open_enum! {
    /// Revision that a cluster without a revision gets before its turn.
    pub enum Joining {
        /// None.
        InTurn = "InTurn",
        /// The last revision that succeeded.
        LastGood = "LastGood",
    }
}

/// Groups that start only after an approval. Each revision needs its own approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Selection of the groups. `Never`: no group. `BetweenGroups`: every group except the first to start.
    /// `Groups`: the groups in `groups`.
    #[serde(default)]
    pub mode: ApprovalMode,
    /// Names of the groups for the mode `Groups`. With a `Progressive` strategy, the clusters outside the
    /// mandatory groups are the group `rest`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), length(max = 64), inner(length(min = 1, max = 63)))]
    pub groups: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Selection of the groups that start only after an approval.
    pub enum ApprovalMode {
        /// No group.
        Never = "Never",
        /// Every group except the first to start.
        BetweenGroups = "BetweenGroups",
        /// The groups in `groups`.
        Groups = "Groups",
    }
}

/// A recurring time window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeWindow {
    /// Name of the window, shown in messages.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Cron expression for the start of the window, such as `0 18 * * fri`.
    #[schemars(length(min = 1, max = 255))]
    pub schedule: String,
    /// IANA time zone of the schedule, such as `Europe/Berlin`. If empty, UTC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub time_zone: String,
    /// Length of the window, such as `62h`, at most 8784h (366 days).
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub duration: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
