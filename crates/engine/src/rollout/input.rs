//! What the engine is told.

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::policy::Policy;
use super::refused::Refused;
use super::strategy::Strategy;

/// The address of a content: two clusters with equal hashes run the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(pub String);

impl Hash {
    /// As people read it: of a SHA-256 in hexadecimal the first 12 digits, as git shortens.
    pub fn short(&self) -> &str {
        let is_sum = self.0.len() == 64 && self.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.0.get(..12).filter(|_| is_sum).unwrap_or(&self.0)
    }
}

impl Display for Hash {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<&str> for Hash {
    fn from(hash: &str) -> Self {
        Self(hash.into())
    }
}

impl From<String> for Hash {
    fn from(hash: String) -> Self {
        Self(hash)
    }
}

/// One rollout: the clusters of one placement and what should become of them.
///
/// The order of lists has no meaning.
#[derive(Clone, Debug)]
pub struct Input {
    /// What is being rolled out. Approvals and quarantine are bound to it, and a cluster of a group without
    /// an entry in `clusters` should run it.
    pub revision: Hash,
    /// The strategy, or why it cannot be used.
    pub strategy: Result<Strategy, Refused>,
    /// The last strategy that could be used: it stays in force while `strategy` is refused. Without one,
    /// nothing starts.
    pub last_strategy: Option<Strategy>,
    /// The policy, or why it cannot be used: nothing starts then, because what it forbids is not known.
    pub policy: Result<Policy, Refused>,
    /// The decision groups. Clusters that another rollout looks after are left out here.
    pub groups: Vec<Group>,
    /// What is known of clusters: those of the groups, and those to remove.
    pub clusters: Vec<Cluster>,
    /// The revision in quarantine, as the last
    /// [`RolloutDecision::quarantine`](super::RolloutDecision::quarantine) said.
    pub quarantined: Option<Hash>,
    /// When the rollout of `revision` began. Where absent, it began when the first cluster was moved, as far
    /// as clusters tell.
    pub began: Option<Timestamp>,
    /// Tokens of [`RolloutDecision::approvals`](super::RolloutDecision::approvals) that people granted.
    pub granted: BTreeSet<String>,
}

impl Input {
    /// A rollout of a revision without groups, policy or memory.
    pub fn new(revision: impl Into<Hash>, strategy: Result<Strategy, Refused>) -> Self {
        Self {
            revision: revision.into(),
            strategy,
            last_strategy: None,
            policy: Ok(Policy::default()),
            groups: Vec::new(),
            clusters: Vec::new(),
            quarantined: None,
            began: None,
            granted: BTreeSet::new(),
        }
    }
}

/// Name and index of a decision group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupKey {
    /// Groups go in the order of their index; gaps mean nothing.
    pub index: i32,
    /// May be empty.
    pub name: String,
}

/// The name, or `#index` where it is empty.
impl Display for GroupKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if self.name.is_empty() { write!(f, "#{}", self.index) } else { f.write_str(&self.name) }
    }
}

/// A decision group with its clusters. A cluster of several groups belongs to the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Which group.
    pub key: GroupKey,
    /// Names of clusters.
    pub clusters: Vec<String>,
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// `metadata.name` of the ManagedCluster.
    pub name: String,
    /// What it should run once its turn has come.
    pub wants: Hash,
    /// What was assigned to it last, whether it arrived or not; `None` before the first assignment.
    pub runs: Option<Hash>,
    /// When `runs` was assigned, by the hub's clock. Outcomes are never older than this.
    pub runs_since: Option<Timestamp>,
    /// The last report.
    pub health: Option<Health>,
    /// What it returns to if `wants` turns out bad: what it ran with success before `wants` was rolled out to
    /// it. Only once the rollout is complete everywhere is this `wants` itself; a cluster that succeeded
    /// early returns with the others.
    pub last_good: Option<Hash>,
    /// The cluster does not answer.
    pub unreachable: bool,
    /// Since when it answers, if it did not before: no deadline runs while a cluster is silent, so that one
    /// that comes back is not taken for one that timed out.
    pub answers_since: Option<Timestamp>,
    /// When the cluster joined the fleet. Stages do not wait for one that joined after the rollout began: a
    /// fleet that always grows would never get through.
    pub joined: Option<Timestamp>,
    /// The cluster is left alone.
    pub skip: bool,
}

impl Cluster {
    /// Returns the same as it is known at a time. What was written with a later time, by a clock
    /// that was ahead, counts as this very moment.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let since = self.health.as_mut().map(|health| &mut health.since);
        for time in since.into_iter().chain([&mut self.runs_since, &mut self.answers_since]) {
            *time = time.map(|time| time.min(now));
        }
        self
    }
}

/// A report of a cluster, fenced to the hash it was measured on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Health {
    /// The hash the report is about; a report about any other than the assigned one counts for nothing.
    pub of: Hash,
    /// What was reported.
    pub report: Report,
    /// Since when, by the hub's clock; `None` counts as this very moment.
    pub since: Option<Timestamp>,
}

/// How a cluster does with a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// It has not been applied yet.
    ToApply,
    /// It is applied and its outcome is open.
    Progressing,
    /// It is applied and good.
    Succeeded,
    /// It is applied and bad.
    Failed,
    /// Whoever reports ran out of patience; normally the engine decides this.
    TimeOut,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sum_is_shortened() {
        let check = |hash: &str, short: &str| assert_eq!(Hash::from(hash.to_owned()).short(), short);
        check(&"0123456789abcdef".repeat(4), "0123456789ab");
        check(&"0123456789abcdeg".repeat(4), &"0123456789abcdeg".repeat(4));
        check("0123456789abcdef", "0123456789abcdef");
    }
}
