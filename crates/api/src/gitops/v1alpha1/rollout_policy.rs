//! RolloutPolicy: how rollouts of add-ons and works are held, stopped and undone.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown, names};

kind! {
    /// Rules that hold, stop and undo the rollouts of add-ons and of ManifestWorkReplicaSets.
    ///
    /// It comes on top of the strategy of a placement. Where no policy is for an add-on or a set, the
    /// strategy alone counts.
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
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// Rules that hold, stop and undo rollouts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {}))]
pub struct RolloutPolicySpec {
    /// The add-ons that the policy is for. A policy that names no add-on and no set is for all that no other
    /// policy names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 253)))]
    pub add_ons: Vec<String>,
    /// The ManifestWorkReplicaSets that the policy is for, as NAMESPACE/NAME.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), inner(length(min = 3, max = 317)))]
    pub replica_sets: Vec<String>,
    /// Changes nothing anywhere: no start, no rollback, no removal. Clusters in flight arrive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The rule for more failed clusters than are tolerated.
    #[serde(default)]
    pub on_breach: OnBreach,
    /// The condition under which a change has succeeded on a cluster.
    #[serde(default)]
    pub success: Success,
    /// The rule for clusters in flight to the revision before a new one.
    #[serde(default)]
    pub superseding: Superseding,
    /// The revision that a cluster without any gets until its turn.
    #[serde(default)]
    pub joining: Joining,
    /// Longest time a cluster may take if the strategy sets no deadline, such as 10m; None waits for ever.
    #[serde(default = "ten_minutes")]
    #[schemars(extend("pattern" = names::DURATION_OR_NONE_PATTERN))]
    pub default_deadline: String,
    /// Shortest time a cluster must have succeeded before its place goes to the next one; a longer one of the
    /// strategy wins.
    #[serde(default = "no_time")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub soak: String,
    /// Time between the end of the last cluster of a group and the start of the next group.
    #[serde(default = "no_time")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub group_soak: String,
    /// Number or percentage of clusters that may be unreachable before nothing more is started; they are not
    /// failures.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default = "ten_percent")]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub unreachable_budget: IntOrString,
    /// Number or percentage, rounded up, of clusters that may lose an add-on at once; more wait for approval.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default = "two_percent")]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub removal_budget: IntOrString,
    /// The groups that start only when a person approves.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub approval: Approval,
    /// Tokens that persons have approved; the status shows those that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), length(max = 256), inner(length(max = 512)))]
    pub approved: Vec<String>,
    /// Times at which nothing is started. Rollbacks go on: a freeze protects what works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub freeze_windows: Vec<FreezeWindow>,
    /// Revisions that may be rolled out again although they failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"), length(max = 64), inner(length(max = 255)))]
    pub released_revisions: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

const COUNT_PATTERN: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";

fn ten_minutes() -> String {
    "10m".into()
}

fn no_time() -> String {
    "0s".into()
}

fn ten_percent() -> IntOrString {
    IntOrString::String("10%".into())
}

fn two_percent() -> IntOrString {
    IntOrString::String("2%".into())
}

/// The values of the schema.
impl Default for RolloutPolicySpec {
    fn default() -> Self {
        Self {
            add_ons: Vec::new(),
            replica_sets: Vec::new(),
            paused: false,
            on_breach: OnBreach::default(),
            success: Success::default(),
            superseding: Superseding::default(),
            joining: Joining::default(),
            default_deadline: ten_minutes(),
            soak: no_time(),
            group_soak: no_time(),
            unreachable_budget: ten_percent(),
            removal_budget: two_percent(),
            approval: Approval::default(),
            approved: Vec::new(),
            freeze_windows: Vec::new(),
            released_revisions: Vec::new(),
            unknown: Unknown::new(),
        }
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

/// A time at which nothing is started, again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FreezeWindow {
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

/// The state of the rollouts under the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPolicyStatus {
    /// The metadata.generation the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the policy can be read, and whether something waits for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The rollouts under the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["addOn", "replicaSet", "placementNamespace", "placementName"]))]
    pub rollouts: Vec<RolloutStatus>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One rollout: an add-on or a ManifestWorkReplicaSet on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Name of the add-on; empty in the rollout of a set.
    pub add_on: String,
    /// The ManifestWorkReplicaSet as NAMESPACE/NAME; empty in the rollout of an add-on.
    #[serde(default)]
    pub replica_set: String,
    /// Namespace of the placement.
    pub placement_namespace: String,
    /// Name of the placement.
    pub placement_name: String,
    /// Hash of the revision that is rolled out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Hash of the last revision that succeeded everywhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_good: String,
    /// Hash that failed and is not rolled out again until it is released or another one comes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub quarantined: String,
    /// The reason why nothing more is started, and the time until which that holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hold: String,
    /// Tokens that wait for a person; to approve one, add it to spec.approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub waiting_approvals: Vec<String>,
    /// Number of clusters by state.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub counts: RolloutCounts,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Number of clusters by state of the rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutCounts {
    /// All clusters.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub total: i32,
    /// Clusters that run the revision and succeeded.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub done: i32,
    /// Clusters that succeeded and have not soaked for long enough.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub soaking: i32,
    /// Clusters that get the revision or have it, without an outcome.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub progressing: i32,
    /// Clusters that wait for their turn.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub waiting: i32,
    /// Clusters that failed.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub failed: i32,
    /// Clusters that had no success before their deadline.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub timed_out: i32,
    /// Clusters that do not answer.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub unreachable: i32,
    /// Clusters whose revision is quarantined.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub quarantined: i32,
    /// Clusters that are left alone.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub skipped: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
