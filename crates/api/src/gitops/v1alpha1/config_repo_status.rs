//! The status of a ConfigRepo.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LastCommitStatus, LastNotification};
use crate::{Condition, Unknown};

/// Revisions of the repository that were fetched and applied, and the objects on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRepoStatus {
    /// The `metadata.generation` that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the ConfigRepo. `Ready`, `Reconciling` and `Stalled` have the meaning that kstatus gives
    /// them. `Reported`, `CommitStatusReported` and `Notified` describe reports, commit statuses and notifications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Time since which every fetch has failed for a reason that usually resolves without a person, such as a git server
    /// that does not respond. Absent otherwise.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub unreachable_since: Option<Time>,
    /// Newest revision that was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Revision>,
    /// Last revision that was rendered and applied completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Revision>,
    /// Last revision that was applied only in part, because later stages wait for the health of earlier ones,
    /// a write failed, or an object waits for its namespace or an approval. Absent as soon as a revision is
    /// applied completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Revision>,
    /// Last revision whose objects were all healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<Revision>,
    /// Results of the last commits, newest first, up to 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<RecentResult>,
    /// Number of objects that the ConfigRepo owns. Its ConfigRepoInventories list them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i32>,
    /// Directories that match `spec.paths`, in the last commit that was applied, also if only in part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub paths: Vec<RenderedPath>,
    /// Owned objects as earlier versions of the operator recorded them. The next plan moves them into
    /// ConfigRepoInventories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub inventory: Vec<InventoryEntry>,
    /// Deletions that wait for an approval, or until the budget allows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_deletions: Option<HeldDeletions>,
    /// Approved deletions, if some of them have not been made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_deletions: Option<ApprovedDeletions>,
    /// Objects that were deleted recently without an approval. They count against the deletion budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub recent_deletions: Vec<RecentDeletion>,
    /// The releases of charts that draw random values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub random_values: Vec<RandomValues>,
    /// The remote charts that the repository's kustomizations refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub charts: Vec<RemoteChart>,
    /// Hash of the plan that waits for an approval. Empty if none waits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_plan: String,
    /// Changes that the waiting plan makes on the hub. Absent if none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_changes: Option<HeldChanges>,
    /// Applied objects that are not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<UnhealthyObjects>,
    /// Objects that another client changed on the hub and that the operator corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// Objects with a changed immutable field. They are deleted and created again, which their annotation
    /// allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub recreate: Vec<UnchangeableObject>,
    /// Last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportStatus>,
    /// Last commit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_status: Option<LastCommitStatus>,
    /// Last notification to each receiver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub notifications: Vec<LastNotification>,
    /// Last value of the annotation `gitops.wheelwright.dev/reconcile-at` for which the conditions have the result.
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
    /// Hash of the commit, or `TAG@DIGEST` of the artifact.
    pub commit: String,
    /// URL that the commit was fetched from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Branch or tag that pointed to the commit.
    #[serde(default, rename = "ref", skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// Hash of the objects that were rendered from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Time at which the revision was first seen, applied or healthy.
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

/// Result of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentResult {
    /// Hash of the commit.
    pub commit: String,
    /// Hash of the objects of the commit. Empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Reason of the condition `Ready`, such as `Applied`.
    pub reason: String,
    /// Time at which the commit last got this result.
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

/// A directory that was rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenderedPath {
    /// Path of the directory, cut to 200 characters. `.` is the root of the repository.
    pub path: String,
    /// Number of objects in the commit.
    pub objects: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object that the ConfigRepo owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryEntry {
    /// API group. Empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version in which the object was applied.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace. Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Deletions that wait for an approval, or until the budget allows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldDeletions {
    /// Value of the annotation `gitops.wheelwright.dev/approve-deletions` that approves exactly these
    /// deletions.
    pub approval: String,
    /// Number of objects to delete.
    pub total: i32,
    /// First of these objects, up to 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryEntry>,
    /// Time at which the budget allows the deletions. Absent if only an approval allows them.
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

/// Approved deletions. The approval stays valid for the remaining ones until the ConfigRepo has a commit with
/// other objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovedDeletions {
    /// Value of the annotation `gitops.wheelwright.dev/approve-deletions` that approved the deletions.
    pub approval: String,
    /// Hash of the objects of the commit that removes them from the repository.
    pub digest: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Changes that a waiting plan makes on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldChanges {
    /// Objects that are created or taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<ListedObjects>,
    /// Objects that are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<ListedObjects>,
    /// Objects that are deleted. If they exceed the deletion budget, they need another approval afterward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<ListedObjects>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Number of some objects, the first of them, and their fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedObjects {
    /// Number of the objects.
    pub total: i32,
    /// First of these objects, up to 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryEntry>,
    /// Changes of fields. Changes that most objects share come first. The changes of some objects are left out if they
    /// are too many or too large. Deleted objects have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SharedChange>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A change of fields that is the same in some objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedChange {
    /// Number of the objects.
    pub total: i32,
    /// First of these objects, up to 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryEntry>,
    /// First of the fields, up to 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<ChangedField>,
    /// Number of fields that are not listed.
    #[serde(default)]
    pub more_fields: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A field that changes, with its values as JSON. Long values are cut off, and values of Secrets are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedField {
    /// Path of the field, such as `spec.template.spec.containers[name=app].image`.
    pub path: String,
    /// Value on the hub. Empty if the field is added, or if the ConfigRepo has not applied the object yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub before: String,
    /// Value in the commit. Empty if the field is removed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object that was deleted because it was removed from the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentDeletion {
    /// The object, as `group/Kind/namespace/name`.
    pub object: String,
    /// Time of the deletion.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub time: Time,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A release of a chart that draws random values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RandomValues {
    /// The release, as `namespace/name`.
    pub release: String,
    /// Time at which it first drew values. Its certificates are valid from then on.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub time: Time,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A chart in another repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteChart {
    /// The chart, as `REPOSITORY/NAME:VERSION`.
    pub chart: String,
    /// SHA-256 digest of the archive that was fetched first, as `sha256:HEX`. The repository may serve no other
    /// content for this version. Empty until it is fetched.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object with a changed immutable field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnchangeableObject {
    /// uid of the object.
    pub uid: String,
    /// Hash of the wanted object.
    pub digest: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Applied objects that are not healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnhealthyObjects {
    /// Hash of the objects of the commit, as in `digest` of a revision.
    pub digest: String,
    /// Time since which at least one object of the commit is not healthy; absent if all of these are being
    /// rolled out to clusters.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<Time>,
    /// Number of the objects.
    pub total: i32,
    /// First of these objects, up to 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryEntry>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Objects that another client changed on the hub and that the operator corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// Recently corrected objects, up to 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["object"]))]
    pub corrected: Vec<CorrectedObject>,
    /// Number of consecutive corrections of the objects that are not listed.
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

/// An object that another client changed on the hub and that the operator corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorrectedObject {
    /// The object, as `group/Kind/namespace/name`.
    pub object: String,
    /// Number of consecutive corrections. The wait before the next correction doubles with each.
    pub corrections: i32,
    /// Field managers that changed the object before the last correction, with the fields, and the Argo CD
    /// Application that tracks it.
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

/// Last report of a ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportStatus {
    /// URL of the repository with the report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Branch with the report.
    pub branch: String,
    /// Directory on the branch. Empty for the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Hash of the last commit that was pushed.
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
    /// Error that prevented the newest state from being reported. Empty if it was reported.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Last reports that were pushed there, newest first, up to 10.
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
    /// Hash of the commit.
    pub commit: String,
    /// Time of the push.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub time: Option<Time>,
    /// Summary in one line, as in the message of the commit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
