//! The input of the engine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::cluster::{Cluster, Group, Hash};
use super::policy::Policy;
use super::refused::Refused;
use super::strategy::Strategy;

/// One rollout: the clusters of one placement and the revision that they should run.
///
/// The order of lists has no meaning.
#[derive(Clone, Debug)]
pub struct Input {
    /// What is rolled out: an add-on, or a ManifestWorkReplicaSet as NAMESPACE/NAME. Approvals of removals are bound to it.
    pub owner: String,
    /// The revision that is rolled out. Approvals and quarantine are bound to it. A cluster of a group
    /// without an entry in `clusters` should run it.
    pub revision: Hash,
    /// The strategy, or why it cannot be used.
    pub strategy: Result<Strategy, Refused>,
    /// The last strategy that was valid: it stays in force while `strategy` is refused. Without one, no
    /// cluster starts.
    pub last_strategy: Option<Strategy>,
    /// The policy, or why it cannot be used: then no cluster starts, because the rules of the policy are
    /// unknown.
    pub policy: Result<Policy, Refused>,
    /// The decision groups, without the clusters of another rollout.
    pub groups: Vec<Group>,
    /// The clusters: those of the groups, and those to remove.
    pub clusters: Vec<Cluster>,
    /// The revision in quarantine: the last
    /// [`RolloutDecision::quarantine`](super::RolloutDecision::quarantine).
    pub quarantined: Option<Hash>,
    /// Since when a breach of this revision that needs late clusters is on record: the last
    /// [`RolloutDecision::late_since`](super::RolloutDecision::late_since). One in the future counts as now.
    pub late_since: Option<Timestamp>,
    /// When clusters lost their content without an approval: those that were
    /// [`RolloutDecision::counted`](super::RolloutDecision::counted).
    pub recent_removals: BTreeMap<String, Timestamp>,
    /// When the rollout of `revision` began. If absent, it began at the earliest known time at which a
    /// cluster was moved.
    pub began: Option<Timestamp>,
    /// Tokens of [`RolloutDecision::approvals`](super::RolloutDecision::approvals) that people granted.
    pub granted: BTreeSet<String>,
}

impl Input {
    /// Returns a rollout of a revision without groups and memory, under the default policy.
    pub fn new(revision: impl Into<Hash>, strategy: Result<Strategy, Refused>) -> Self {
        Self {
            owner: String::new(),
            revision: revision.into(),
            strategy,
            last_strategy: None,
            policy: Ok(Policy::default()),
            groups: Vec::new(),
            clusters: Vec::new(),
            quarantined: None,
            late_since: None,
            recent_removals: BTreeMap::new(),
            began: None,
            granted: BTreeSet::new(),
        }
    }
}
