//! The results of a preview.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::content::FieldChange;
use engine::rollout::removal::REMOVAL_TOKEN;
use object::{Key, hex};

/// The effects of a commit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The ConfigRepo, as `namespace/name`.
    pub repo: String,
    /// The commit that is applied now; empty where none is.
    pub applied: String,
    /// The commit that is previewed.
    pub commit: String,
    /// The result in a word.
    pub verdict: Verdict,
    /// Why the commit is not applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The value of the annotation that approves the commit, where the ConfigRepo asks for an approval. A
    /// preview grants it at once.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_approval: String,
    /// The freeze window of the ConfigRepo that the commit waits for: it is applied at the end, and times
    /// count from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<CommitWindow>,
    /// The apply window of the ConfigRepo that the commit waits for: it is applied at the beginning, and
    /// times count from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens: Option<CommitWindow>,
    /// The other ConfigRepos of the same URL and reference. They get the commit too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<RepoPreview>,
    /// The objects of the hub that are created, changed and deleted, in order.
    pub objects: Vec<ObjectChange>,
    /// The deletions that wait for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldObjects>,
    /// The placements whose clusters change.
    pub placements: Vec<PlacementPreview>,
    /// The add-ons that change on a cluster.
    pub add_ons: Vec<WorkloadPreview>,
    /// The ManifestWorkReplicaSets that change on a cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replica_sets: Vec<WorkloadPreview>,
    /// The works that change; clusters with the same change share an entry.
    pub works: Vec<WorkChange>,
    /// The approvals that rollouts ask for. A preview grants them at once.
    pub approvals: Vec<ApprovalRequest>,
    /// The waits that rollout policies ask for, such as freeze windows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<RolloutWait>,
    /// The removals of add-ons that wait for an approval in the end. A preview does not grant it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removals: Vec<HeldRemoval>,
    /// The rollouts that are not complete when nothing more happens.
    pub outcomes: Vec<IncompleteRollout>,
    /// The rollouts that were not complete before the commit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRollout>,
    /// The kinds in works that neither the hub nor a work defines, such as `Proxy.example.com`. A preview
    /// takes them for kinds with namespaces and a regular plural.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed_kinds: Vec<String>,
    /// What a preview assumes about the time that clusters take, where a rollout has a short deadline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// The digests of the objects that each ConfigRepo applies then.
    #[serde(skip)]
    pub digests: BTreeMap<Key, String>,
    /// What is odd and changes nothing: paths that differ only in case or in their Unicode form, and commits
    /// that another one with the same objects stands for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Seconds after which nothing more happens.
    pub ends_after: i64,
}

impl Preview {
    /// Returns the result of a commit that is not applied, whatever the hub is.
    pub fn refused(repo: &Key, applied: String, commit: String, why: String) -> Self {
        Self {
            repo: repo.to_string(),
            applied,
            commit,
            verdict: Verdict::Refused,
            refused: Some(why),
            plan_approval: String::new(),
            frozen: None,
            opens: None,
            others: Vec::new(),
            objects: Vec::new(),
            held: None,
            placements: Vec::new(),
            add_ons: Vec::new(),
            replica_sets: Vec::new(),
            works: Vec::new(),
            approvals: Vec::new(),
            waits: Vec::new(),
            removals: Vec::new(),
            outcomes: Vec::new(),
            earlier: Vec::new(),
            assumed_kinds: Vec::new(),
            assumptions: Vec::new(),
            digests: BTreeMap::new(),
            warnings: Vec::new(),
            ends_after: 0,
        }
    }

    /// Returns a hash of the effects. It leaves out times and waits, the names of commits, because a merge
    /// gives a commit another name, the rollouts before the commit, what was assumed, and warnings.
    pub fn hash(&self) -> String {
        let mut effects = self.clone();
        effects.applied.clear();
        effects.commit.clear();
        effects.refused = None;
        effects.frozen = None;
        effects.opens = None;
        effects.waits.clear();
        effects.earlier.clear();
        for other in &mut effects.others {
            other.refused = other.refused.take().map(|_| String::new());
        }
        effects.assumed_kinds.clear();
        effects.assumptions.clear();
        effects.warnings.clear();
        effects.ends_after = 0;
        for held in effects.held_mut() {
            held.why.clear();
            // It names the uids of the objects, which a report may not know.
            held.approval.clear();
        }
        effects.forget_removals();
        let workloads = effects.add_ons.iter_mut().chain(&mut effects.replica_sets);
        for batch in workloads.flat_map(|workload| &mut workload.batches) {
            batch.after = 0;
            batch.arrived_after = batch.arrived_after.map(|_| 0);
        }
        for approval in &mut effects.approvals {
            approval.after = 0;
        }
        let text = serde_json::to_vec(&effects).expect("a preview has no map with keys that are no text");
        hex(Sha256::digest(text).get(..16).unwrap_or_default())
    }

    /// Clears the tokens of removals. They name the uids of add-ons and works, which a report may not know.
    pub(super) fn forget_removals(&mut self) {
        let approvals = self.approvals.iter_mut().map(|approval| &mut approval.token);
        let of_works = approvals.filter(|token| token.starts_with(REMOVAL_TOKEN));
        let of_add_ons = self.removals.iter_mut().map(|removal| &mut removal.approval);
        of_works.chain(of_add_ons).for_each(String::clear);
    }

    /// Returns the deletions that wait for approval, of every ConfigRepo.
    pub(super) fn held_mut(&mut self) -> impl Iterator<Item = &mut HeldObjects> {
        self.held.iter_mut().chain(self.others.iter_mut().filter_map(|other| other.held.as_mut()))
    }
}

/// The result of a commit at one ConfigRepo.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoPreview {
    /// The ConfigRepo, `namespace/name`.
    pub repo: String,
    /// Why the commit is not applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The value of the annotation that approves the commit, as [`Preview::plan_approval`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_approval: String,
    /// The deletions that wait for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldObjects>,
}

/// The result of a preview in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The hub stays as it is.
    NoChange,
    /// Something changes, and no part of it waits for an approval.
    Change,
    /// A part of it waits until a person approves.
    NeedsApproval,
    /// The commit is not applied.
    Refused,
}

/// The change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeType {
    /// It is new.
    Created,
    /// Fields of it change.
    Changed,
    /// It is deleted.
    Deleted,
}

/// An object that changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// `Kind.group namespace/name`.
    pub object: String,
    /// The change.
    pub change: ChangeType,
    /// The ConfigRepo of the object, where it is not the one of the plan.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub repo: String,
    /// The ConfigRepo that it moves from, where it moves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub moved_from: String,
    /// The fields that change; none of an object that is created or deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

/// Deletions that wait for approval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldObjects {
    /// The message of the ConfigRepo about them.
    pub why: String,
    /// The value of the annotation that approves exactly these deletions; empty where the snapshot does not
    /// know the uids of the objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub approval: String,
    /// How many objects.
    pub total: usize,
    /// The first of them.
    pub objects: Vec<String>,
}

/// A placement whose clusters change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementPreview {
    /// `namespace/name`.
    pub placement: String,
    /// How many clusters it has afterwards.
    pub clusters: usize,
    /// Clusters that it did not have before.
    pub enter: Vec<String>,
    /// Clusters that it does not have any more.
    pub leave: Vec<String>,
}

/// An add-on or a ManifestWorkReplicaSet that changes on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPreview {
    /// Its name; NAMESPACE/NAME of a set.
    pub name: String,
    /// Clusters that get it.
    pub enter: Vec<String>,
    /// Clusters that lose it.
    pub leave: Vec<String>,
    /// Clusters that get another configuration, in the order in which they get it.
    #[serde(rename = "waves")]
    pub batches: Vec<Batch>,
}

/// Clusters that get a configuration at the same moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Seconds after the commit.
    pub after: i64,
    /// Their decision groups.
    pub groups: Vec<String>,
    /// Their names.
    pub clusters: Vec<String>,
    /// Seconds after the commit until the last of them has it; absent if one of them does not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_after: Option<i64>,
}

/// A work that changes on some clusters in the same way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkChange {
    /// Its name.
    pub work: String,
    /// The change of the work itself.
    pub change: ChangeType,
    /// The changes of its manifests.
    pub objects: Vec<ObjectChange>,
    /// The clusters.
    pub clusters: Vec<String>,
}

/// An approval that a rollout asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Seconds after the commit.
    pub after: i64,
    /// The RolloutPolicy whose `spec.approved` takes the token.
    pub policy: String,
    /// The add-on; empty if the rollout is that of a ManifestWorkReplicaSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub add_on: String,
    /// The ManifestWorkReplicaSet, as `namespace/name`; empty if the rollout is that of an add-on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_set: String,
    /// The token; empty for a removal if the snapshot does not know the uids of the works.
    pub token: String,
}

/// The wait of a rollout whose next clusters do not start yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWait {
    /// Seconds after the commit at which it begins.
    pub after: i64,
    /// The add-on; empty if the rollout is that of a ManifestWorkReplicaSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub add_on: String,
    /// The ManifestWorkReplicaSet, as `namespace/name`; empty if the rollout is that of an add-on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_set: String,
    /// The placement, as `namespace/name`.
    pub placement: String,
    /// What it waits for, and until when where that is known.
    pub why: String,
}

/// The removal of an add-on from clusters, above the budget of its RolloutPolicy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldRemoval {
    /// The RolloutPolicy whose `spec.approved` takes the token.
    pub policy: String,
    /// The add-on.
    pub add_on: String,
    /// The number of clusters that keep it.
    pub clusters: i32,
    /// The token; empty if the snapshot does not know the uids of the add-ons.
    pub approval: String,
}

/// A rollout that does not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IncompleteRollout {
    /// The add-on; empty if the rollout is that of a ManifestWorkReplicaSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub add_on: String,
    /// The ManifestWorkReplicaSet, as `namespace/name`; empty if the rollout is that of an add-on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_set: String,
    /// The placement of the add-on; empty for a set, which tells of all its placements at once.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub placement: String,
    /// The message of the ClusterManagementAddOn or the set.
    pub message: String,
}

/// A rollout that was not complete before a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierRollout {
    /// Its state before the commit.
    #[serde(flatten)]
    pub rollout: IncompleteRollout,
    /// What the commit changes of it.
    pub changes: RolloutChanges,
}

/// What a commit changes of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RolloutChanges {
    /// Nothing.
    Nothing,
    /// Its strategy: the same revision is rolled out in another way.
    Strategy,
    /// Its revision: another one is rolled out.
    Revision,
    /// It ends, because the add-on, the set or its placement goes.
    End,
}

/// A window that a commit waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitWindow {
    /// Its name.
    pub window: String,
    /// When the commit is applied.
    pub until: Timestamp,
}
