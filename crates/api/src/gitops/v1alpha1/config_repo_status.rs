//! The status of a ConfigRepo.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LastCommitStatus;
use crate::{Condition, Unknown};

/// The revisions of a repository that were seen and applied, and the objects on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRepoStatus {
    /// The metadata.generation the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Reconciling and Stalled, as kstatus reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The newest revision that was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Revision>,
    /// The last revision that was rendered and applied without an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Revision>,
    /// The last revision that was applied in part: later stages wait for the health of earlier ones, a write
    /// failed, or an object waits for its namespace or for an approval. Absent once a revision is applied as
    /// a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Revision>,
    /// The last revision whose objects were all healthy, as kstatus judges them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<Revision>,
    /// The last results of commits, the newest first: five at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<RecentResult>,
    /// Number of objects that the ConfigRepo owns. Its ConfigRepoInventories list them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i32>,
    /// Owned objects as earlier versions recorded them. Their next plan moves them into
    /// ConfigRepoInventories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub inventory: Vec<InventoryEntry>,
    /// Deletions that are over the budget and wait for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_deletions: Option<HeldDeletions>,
    /// The approved deletions of which some are not made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_deletions: Option<ApprovedDeletions>,
    /// The objects that were deleted lately without an approval. They count against the deletion budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub recent_deletions: Vec<RecentDeletion>,
    /// Hash of the plan that waits for its approval; empty if none waits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_plan: String,
    /// What the plan that waits does to objects of the hub; absent if none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_changes: Option<HeldChanges>,
    /// Objects that are applied and not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<UnhealthyObjects>,
    /// Objects that somebody changed on the hub and that were corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// Objects with fields that cannot change. They are deleted and created again, as their annotation says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub recreate: Vec<UnchangeableObject>,
    /// The last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportStatus>,
    /// The last commit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_status: Option<LastCommitStatus>,
    /// The last value of the reconcile-at annotation that was answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A commit, and the hash of the objects that were rendered from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revision {
    /// Name of the commit.
    pub commit: String,
    /// The URL it was fetched from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The branch or tag that led to it.
    #[serde(default, rename = "ref", skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// Hash of the objects that were rendered from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Time at which it was first seen, applied or healthy.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What became of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentResult {
    /// Name of the commit.
    pub commit: String,
    /// Hash of its objects; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The reason of the condition Ready, such as Applied.
    pub reason: String,
    /// Time at which it last got this result.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object that the ConfigRepo owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryEntry {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version it was applied in.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Deletions that wait for approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldDeletions {
    /// The value of the annotation gitops.wheelwright.dev/approve-deletions that approves exactly these.
    pub approval: String,
    /// Number of objects that would be deleted.
    pub total: i32,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryEntry>,
    /// Time at which they are within the budget; absent if only an approval allows them.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Approved deletions. The approval holds for those that are left, until the ConfigRepo has other objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovedDeletions {
    /// The value of the annotation gitops.wheelwright.dev/approve-deletions that approved them.
    pub approval: String,
    /// The digest of the objects of the commit with which they leave.
    pub digest: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What a plan that waits for its approval does to objects of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldChanges {
    /// Objects that are created, or taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<ListedObjects>,
    /// Objects that are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<ListedObjects>,
    /// Objects that are deleted. If they are over the deletion budget, they wait for an approval of their own
    /// afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<ListedObjects>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The first of some objects, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedObjects {
    /// Number of the objects.
    pub total: i32,
    /// The first of them, up to 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryEntry>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object that was deleted because it left the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentDeletion {
    /// The object, as `group/Kind/namespace/name`.
    pub object: String,
    /// When.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub time: Time,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object with a field that cannot change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnchangeableObject {
    /// uid of the object.
    pub uid: String,
    /// Hash of the object as it is wanted.
    pub digest: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Objects that are applied and not healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnhealthyObjects {
    /// Hash of the objects of the commit, as in a revision.
    pub digest: String,
    /// Time since which some object of the commit is not healthy.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<Time>,
    /// Number of the objects.
    pub total: i32,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryEntry>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Objects that somebody changed on the hub and that were corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// The objects that were corrected lately, up to 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["object"]))]
    pub corrected: Vec<CorrectedObject>,
    /// Number of corrections in a row of the objects that are not listed.
    pub corrections: i32,
    /// Time of the last of these corrections.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub last_time: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object that somebody changed on the hub and that was corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorrectedObject {
    /// The object, as `group/Kind/namespace/name`.
    pub object: String,
    /// Number of corrections in a row; the wait before the next one doubles with each.
    pub corrections: i32,
    /// The field managers that changed it before the last correction, with the fields, and the Argo CD application
    /// that tracks it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub changed_by: String,
    /// Time of the last correction.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub last_time: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The last report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportStatus {
    /// The URL of the repository it is in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The branch it is on.
    pub branch: String,
    /// The directory of the branch; empty for the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Name of the commit that was pushed last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// Hash of the files of the report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Time of the last push or attempt.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub time: Option<Time>,
    /// Time of the last push that did not wait for the interval, because a rollout had ended.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub flushed: Option<Time>,
    /// The reason why the newest state could not be reported; empty if it was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The last reports that were pushed there, the newest first: ten at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<PushedReport>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A report that was pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PushedReport {
    /// Name of its commit.
    pub commit: String,
    /// Time of the push.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub time: Option<Time>,
    /// Its content in one line, as in its commit message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
