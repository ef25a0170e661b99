//! The results of a preview.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use engine::changes::FieldChange;
use engine::rollout::removal::REMOVAL_TOKEN;
use object::{Key, hex};

/// The effects of a commit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The ConfigRepo, as `namespace/name`.
    pub repo: String,
    /// The commit that is currently applied; empty if there is none.
    pub applied: String,
    /// The previewed commit.
    pub commit: String,
    /// The result in a word.
    pub verdict: Verdict,
    /// The reason why the commit is not applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The annotation value that approves the commit, if the ConfigRepo requires approval. A preview grants it at
    /// once.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_approval: String,
    /// The ConfigRepo's freeze window that delays the commit until its end. Times count from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<CommitWindow>,
    /// The ConfigRepo's apply window that delays the commit until its start. Times count from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens: Option<CommitWindow>,
    /// The results for the other ConfigRepos with the same URL and reference, which get the commit too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<RepoPreview>,
    /// The objects that are created, changed and deleted on the hub, in order.
    pub objects: Vec<ObjectChange>,
    /// The deletions that are waiting for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldObjects>,
    /// The placements whose clusters change.
    pub placements: Vec<PlacementPreview>,
    /// The add-ons that change on some cluster.
    pub add_ons: Vec<WorkloadPreview>,
    /// The ManifestWorkReplicaSets that change on some cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replica_sets: Vec<WorkloadPreview>,
    /// The works that change. Clusters with the same change share an entry.
    pub works: Vec<WorkChange>,
    /// The approvals that rollouts require. A preview grants them at once.
    pub approvals: Vec<ApprovalRequest>,
    /// The waits that rollout policies impose, such as freeze windows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<RolloutWait>,
    /// The add-on removals that are still waiting for approval at the end. A preview does not grant it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removals: Vec<HeldRemoval>,
    /// The rollouts that are incomplete when nothing more happens.
    pub outcomes: Vec<IncompleteRollout>,
    /// The rollouts that were incomplete before the commit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRollout>,
    /// The kinds in works that neither the hub nor a work defines, such as `Proxy.example.com`. A preview assumes
    /// that they are namespaced and have a regular plural.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed_kinds: Vec<String>,
    /// The preview's assumptions about how long clusters take, if a rollout has a short deadline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// The digests of the objects that each ConfigRepo applies at the end.
    #[serde(skip)]
    pub digests: BTreeMap<Key, String>,
    /// Oddities that change nothing: paths that differ only in case or Unicode form, and commits represented by
    /// another commit with the same objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The number of seconds after which nothing more happens.
    pub ends_after: i64,
}

impl Preview {
    /// Returns the result for a commit that is not applied, whatever state the hub is in.
    pub fn refused(repo: &Key, applied: String, commit: String, reason: String) -> Self {
        Self {
            repo: repo.to_string(),
            applied,
            commit,
            verdict: Verdict::Refused,
            refused: Some(reason),
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

    /// Returns a hash of the effects. It excludes times and waits, commit names (a merge renames a commit),
    /// rollouts from before the commit, assumptions, and warnings.
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
            // The token covers the uids of the objects, which a report may not know.
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

    /// Clears the tokens of removals. They cover the uids of add-ons and works, which a report may not know.
    pub(super) fn forget_removals(&mut self) {
        let approvals = self.approvals.iter_mut().map(|approval| &mut approval.token);
        let of_works = approvals.filter(|token| token.starts_with(REMOVAL_TOKEN));
        let of_add_ons = self.removals.iter_mut().map(|removal| &mut removal.approval);
        of_works.chain(of_add_ons).for_each(String::clear);
    }

    /// Returns every ConfigRepo's deletions that are waiting for approval.
    pub(super) fn held_mut(&mut self) -> impl Iterator<Item = &mut HeldObjects> {
        self.held.iter_mut().chain(self.others.iter_mut().filter_map(|other| other.held.as_mut()))
    }
}

/// The result of a commit for one ConfigRepo.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoPreview {
    /// The ConfigRepo, as `namespace/name`.
    pub repo: String,
    /// The reason why the commit is not applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The annotation value that approves the commit, as in [`Preview::plan_approval`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_approval: String,
    /// The deletions that are waiting for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldObjects>,
}

/// The result of a preview in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The commit changes nothing on the hub.
    NoChange,
    /// The commit changes something and needs no approval.
    Change,
    /// Part of the commit waits until a person approves.
    NeedsApproval,
    /// The commit is not applied.
    Refused,
}

/// The type of an object's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeType {
    /// The object is new.
    Created,
    /// Fields of the object change.
    Changed,
    /// The object is deleted.
    Deleted,
}

/// An object that changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// The object, as `Kind.group namespace/name`.
    pub object: String,
    /// The type of the change.
    pub change: ChangeType,
    /// The ConfigRepo of the object, if it is not the plan's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub repo: String,
    /// The ConfigRepo from which the object moves, if it moves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub moved_from: String,
    /// The fields that change; empty for a created or deleted object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

/// Deletions that are waiting for approval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldObjects {
    /// The message of the ConfigRepo about these deletions.
    pub why: String,
    /// The annotation value that approves exactly these deletions; empty if the snapshot does not know the uids of
    /// the objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub approval: String,
    /// The number of objects.
    pub total: usize,
    /// The first objects.
    pub objects: Vec<String>,
}

/// A placement whose clusters change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementPreview {
    /// The placement, as `namespace/name`.
    pub placement: String,
    /// The number of clusters that the placement has afterwards.
    pub clusters: usize,
    /// The clusters that the placement gains.
    pub enter: Vec<String>,
    /// The clusters that the placement loses.
    pub leave: Vec<String>,
}

/// An add-on or ManifestWorkReplicaSet that changes on some cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPreview {
    /// The name of the add-on, or `namespace/name` of the set.
    pub name: String,
    /// The clusters that get it.
    pub enter: Vec<String>,
    /// The clusters that lose it.
    pub leave: Vec<String>,
    /// The clusters that get another configuration, in rollout order.
    #[serde(rename = "waves")]
    pub batches: Vec<Batch>,
}

/// Clusters that get a configuration at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Seconds after the commit.
    pub after: i64,
    /// The decision groups of the clusters; empty if some of them are in no named group.
    pub groups: Vec<String>,
    /// The names of the clusters.
    pub clusters: Vec<String>,
    /// Seconds from the commit until the last of the clusters has it; absent if one of them does not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_after: Option<i64>,
}

/// A work that changes in the same way on some clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkChange {
    /// The name of the work.
    pub work: String,
    /// The type of the work's own change.
    pub change: ChangeType,
    /// The changes of the work's manifests.
    pub objects: Vec<ObjectChange>,
    /// The clusters on which the work changes.
    pub clusters: Vec<String>,
}

/// An approval that a rollout requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Seconds after the commit.
    pub after: i64,
    /// The RolloutPolicy whose `spec.approved` accepts the token.
    pub policy: String,
    /// The add-on; empty for a rollout of a ManifestWorkReplicaSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub add_on: String,
    /// The ManifestWorkReplicaSet, as `namespace/name`; empty for a rollout of an add-on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_set: String,
    /// The token; empty for a removal if the snapshot does not know the uids of the works.
    pub token: String,
}

/// A wait during which a rollout does not start its next clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWait {
    /// Seconds from the commit until the wait begins.
    pub after: i64,
    /// The add-on; empty for a rollout of a ManifestWorkReplicaSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub add_on: String,
    /// The ManifestWorkReplicaSet, as `namespace/name`; empty for a rollout of an add-on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_set: String,
    /// The placement, as `namespace/name`.
    pub placement: String,
    /// The reason for the wait and, if known, its end.
    pub why: String,
}

/// The removal of an add-on from clusters that exceeds the budget of its RolloutPolicy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldRemoval {
    /// The RolloutPolicy whose `spec.approved` accepts the token.
    pub policy: String,
    /// The add-on.
    pub add_on: String,
    /// The number of clusters that keep the add-on.
    pub clusters: i32,
    /// The token; empty if the snapshot does not know the uids of the add-ons.
    pub approval: String,
}

/// A rollout that does not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IncompleteRollout {
    /// The add-on; empty for a rollout of a ManifestWorkReplicaSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub add_on: String,
    /// The ManifestWorkReplicaSet, as `namespace/name`; empty for a rollout of an add-on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_set: String,
    /// The add-on's placement; empty for a set, which reports all its placements together.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub placement: String,
    /// The message of the ClusterManagementAddOn or the set.
    pub message: String,
}

/// A rollout that was incomplete before a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierRollout {
    /// The rollout's state before the commit.
    #[serde(flatten)]
    pub rollout: IncompleteRollout,
    /// The commit's change to the rollout.
    pub changes: RolloutChanges,
}

/// A commit's change to a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RolloutChanges {
    /// The commit does not change it.
    Nothing,
    /// The strategy changes: the same revision is rolled out in another way.
    Strategy,
    /// The revision changes: another one is rolled out.
    Revision,
    /// The rollout ends because the add-on, the set or its placement is deleted.
    End,
}

/// A window that a commit waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitWindow {
    /// The name of the window.
    pub window: String,
    /// The time at which the commit is applied.
    pub until: Timestamp,
}
