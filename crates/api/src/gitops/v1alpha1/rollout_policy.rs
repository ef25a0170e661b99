//! RolloutPolicy: how rollouts of add-ons and works are held, stopped and undone.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollout_policy_status::RolloutPolicyStatus;
use crate::{Unknown, names};

kind! {
    /// Rules that hold, stop and undo the rollouts of add-ons and of ManifestWorkReplicaSets.
    ///
    /// It comes on top of the strategy of a placement. If no policy is for an add-on or a set, the strategy
    /// alone counts. If several are, those that name it and those that name nothing combine to the strictest
    /// rules; a field that a policy does not set contributes nothing. The condition InForce of each policy
    /// says what it contributes.
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
    /// The add-ons that the policy is for. A policy that names no add-on and no set is for all of them, also
    /// for those that another policy names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 253)))]
    pub add_ons: Vec<String>,
    /// The ManifestWorkReplicaSets that the policy is for, as NAMESPACE/NAME.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), inner(length(min = 3, max = 317)))]
    pub replica_sets: Vec<String>,
    /// Changes nothing anywhere: no start, no rollback, no removal. Clusters in flight arrive. One policy that
    /// pauses is enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The rule for more failed clusters than are tolerated; Pause if no policy sets it. Of several policies
    /// one with Pause wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_breach: Option<OnBreach>,
    /// The condition under which a change has succeeded on a cluster; Available if no policy sets it. Of
    /// several policies one with Available wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<Success>,
    /// The rule for clusters in flight to the revision before a new one. Of several policies one with
    /// FinishCurrent wins.
    #[serde(default)]
    pub superseding: Superseding,
    /// The revision that a cluster without any gets until its turn. Of several policies one with LastGood
    /// wins.
    #[serde(default)]
    pub joining: Joining,
    /// Longest time a cluster may take if the strategy sets no deadline, such as 10m; None waits for ever.
    /// 10m if no policy sets it; of several policies the shortest wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = names::DURATION_OR_NONE_PATTERN))]
    pub default_deadline: Option<String>,
    /// Shortest time a cluster must have succeeded before its place goes to the next one; a longer one of the
    /// strategy or of another policy wins.
    #[serde(default = "no_time")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub soak: String,
    /// Time between the end of the last cluster of a group and the start of the next group. Of several
    /// policies the longest wins.
    #[serde(default = "no_time")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub group_soak: String,
    /// Number or percentage of clusters that may be unreachable before nothing more is started; they are not
    /// failures. 10% if no policy sets it; of several policies the smallest wins.
    #[serde(
        deserialize_with = "crate::lenient::optional_int_or_string",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("pattern" = names::COUNT_PATTERN))]
    pub unreachable_budget: Option<IntOrString>,
    /// Number or percentage, rounded up, of clusters that may lose an add-on, or their works of a set, within
    /// the window; more wait for approval. At most 1,000 do without one, but 100% sets no limit. 2% if no
    /// policy sets it; of several policies the smallest wins.
    #[serde(
        deserialize_with = "crate::lenient::optional_int_or_string",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("pattern" = names::COUNT_PATTERN))]
    pub removal_budget: Option<IntOrString>,
    /// How long a removal counts against the budget. 1h if no policy sets it; of several policies the longest
    /// wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub removal_window: Option<String>,
    /// The changes that follow the rollout strategy of a placement. Of several policies one with
    /// InstallAndContent wins.
    #[serde(default)]
    pub roll_out: RollOut,
    /// The groups that start only when a person approves. Those of several policies add up.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub approval: Approval,
    /// Tokens that persons have approved; the status shows those that wait. An approval in one of several
    /// policies is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), length(max = 256), inner(length(max = 512)))]
    pub approved: Vec<String>,
    /// Times at which nothing is started. Rollbacks go on: a freeze protects what works. Those of several
    /// policies add up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub freeze_windows: Vec<TimeWindow>,
    /// Revisions that may be rolled out again although they failed. A release in one of several policies is
    /// enough.
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

/// The values of the schema.
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
    /// The changes that follow the rollout strategy of a placement.
    pub enum RollOut {
        /// The configurations of add-ons. An add-on is installed on all clusters of a placement at once.
        Content = "Content",
        /// An add-on is installed on a cluster and removed from it when its turn comes. No more clusters lose
        /// it at a time than the removal budget.
        InstallAndContent = "InstallAndContent",
    }
}

open_enum! {
    /// The rule for more failed clusters than are tolerated.
    pub enum OnBreach {
        /// Nothing more is started until failures are within the budget again.
        Pause = "Pause",
        /// The revision is quarantined, and its clusters return to the last one that succeeded.
        Rollback = "Rollback",
    }
}

open_enum! {
    /// The condition under which a change has succeeded on a cluster.
    pub enum Success {
        /// The add-on is available with it.
        Available = "Available",
        /// Its objects are applied and exist.
        Applied = "Applied",
    }
}

open_enum! {
    /// The rule for clusters in flight to the revision before a new one.
    pub enum Superseding {
        /// It starts at once: a fix is never held back by what it fixes.
        Latest = "Latest",
        /// It waits for their outcome or their deadline.
        FinishCurrent = "FinishCurrent",
    }
}

open_enum! {
    /// The revision that a cluster without any gets until its turn.
    pub enum Joining {
        /// Nothing.
        InTurn = "InTurn",
        /// The last revision that succeeded.
        LastGood = "LastGood",
    }
}

/// The groups that start only when a person approves, for each revision anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The rule that selects the groups.
    #[serde(default)]
    pub mode: ApprovalMode,
    /// Names of the groups, for the mode Groups. The clusters outside the mandatory groups of a Progressive
    /// strategy are the group rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), length(max = 64), inner(length(min = 1, max = 63)))]
    pub groups: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The groups that start only when a person approves.
    pub enum ApprovalMode {
        /// None.
        Never = "Never",
        /// Every group but the first to start.
        BetweenGroups = "BetweenGroups",
        /// Those that are named.
        Groups = "Groups",
    }
}

/// A window of time that begins again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeWindow {
    /// Name of the window, for people.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Cron expression for its beginnings, such as "0 18 * * fri".
    #[schemars(length(min = 1, max = 255))]
    pub schedule: String,
    /// Time zone of the schedule, such as Europe/Berlin; empty for UTC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub time_zone: String,
    /// Time from its beginning to its end, such as 62h.
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub duration: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
