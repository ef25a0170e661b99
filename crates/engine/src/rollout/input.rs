//! The input of the engine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::cluster::{Cluster, Group, Hash};
use super::policy::Policy;
use super::refused::Refused;
use super::strategy::Strategy;

/// One rollout: the clusters of one placement and the revision that they should run.
///
/// The order of the lists has no meaning.
#[derive(Clone, Debug)]
pub struct Input {
    /// The owner of the rollout: an add-on, or a ManifestWorkReplicaSet as NAMESPACE/NAME. Removal approvals are
    /// bound to it.
    pub owner: String,
    /// The revision to roll out. Approvals and the quarantine are bound to it. A cluster that is in a group but
    /// not in `clusters` should run it.
    pub revision: Hash,
    /// The strategy, or the reason it is invalid.
    pub strategy: Result<Strategy, Refused>,
    /// The last valid strategy, which stays in force while `strategy` is invalid. Without one, no cluster
    /// starts.
    pub last_strategy: Option<Strategy>,
    /// The policy, or the reason it is invalid. In that case no cluster starts, because the rules are unknown.
    pub policy: Result<Policy, Refused>,
    /// The decision groups, without the clusters of another rollout.
    pub groups: Vec<Group>,
    /// The clusters of the groups, and the clusters that lose their content.
    pub clusters: Vec<Cluster>,
    /// The quarantined revision: the last [`RolloutDecision::quarantine`](super::RolloutDecision::quarantine).
    pub quarantined: Option<Hash>,
    /// The time at which a breach of this revision that depends on late clusters was recorded: the last
    /// [`RolloutDecision::late_since`](super::RolloutDecision::late_since). A time in the future counts as now.
    pub late_since: Option<Timestamp>,
    /// The times at which clusters lost their content without an approval, from
    /// [`RolloutDecision::counted`](super::RolloutDecision::counted).
    pub recent_removals: BTreeMap<String, Timestamp>,
    /// The start of the rollout of `revision`. If absent, the rollout began at the earliest known assignment of
    /// the revision.
    pub began: Option<Timestamp>,
    /// The granted tokens from [`RolloutDecision::approvals`](super::RolloutDecision::approvals).
    pub granted: BTreeSet<String>,
}

impl Input {
    /// Returns a rollout without groups or recorded state, under the default policy.
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
