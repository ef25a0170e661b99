//! The input of the engine.

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
    /// Returns the short form for people: the first 12 digits of a SHA-256 in hexadecimal, as git shortens.
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

/// One rollout: the clusters of one placement and the revision that they should run.
///
/// The order of lists has no meaning.
#[derive(Clone, Debug)]
pub struct Input {
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
            revision: revision.into(),
            strategy,
            last_strategy: None,
            policy: Ok(Policy::default()),
            groups: Vec::new(),
            clusters: Vec::new(),
            quarantined: None,
            late_since: None,
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
    /// The name and index of the group.
    pub key: GroupKey,
    /// Names of clusters.
    pub clusters: Vec<String>,
}

/// A cluster, as the engine sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// `metadata.name` of the ManagedCluster.
    pub name: String,
    /// The hash that it should run once it may start.
    pub wants: Hash,
    /// The hash that was assigned last, whether or not it succeeded; `None` before the first assignment.
    pub runs: Option<Hash>,
    /// When `runs` was assigned, by the hub's clock. No outcome counts from an earlier time.
    pub runs_since: Option<Timestamp>,
    /// The last report.
    pub health: Option<Health>,
    /// The hash that it returns to if `wants` fails: the one it ran with success before `wants` was rolled
    /// out to it. It becomes `wants` itself when the rollout is complete everywhere; until then, a
    /// cluster that succeeded early returns with the others.
    pub last_good: Option<Hash>,
    /// Whether the cluster does not answer.
    pub unreachable: bool,
    /// Since when the cluster answers, if it did not before. No deadline runs while a cluster does not
    /// answer, so that a cluster that comes back has not timed out.
    pub answers_since: Option<Timestamp>,
    /// When the cluster joined the fleet. Stages do not wait for a cluster that joined after the rollout
    /// began: the rollout of a fleet that always grows would never be complete.
    pub joined: Option<Timestamp>,
    /// Whether the cluster is skipped: the rollout changes nothing on it.
    pub skip: bool,
}

impl Cluster {
    /// Returns the cluster as it is known at a time. That time replaces a later one, which a clock that was
    /// ahead wrote.
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
    /// The state that was reported.
    pub report: Report,
    /// Since when, by the hub's clock; `None` counts as now.
    pub since: Option<Timestamp>,
}

/// The state of a hash on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// It has not been applied yet.
    ToApply,
    /// It is applied, and its outcome is open.
    Progressing,
    /// It is applied and works.
    Succeeded,
    /// It is applied and does not work.
    Failed,
    /// The reporter says that it timed out. Normally the engine decides this.
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

    #[test]
    fn a_time_ahead_of_the_clock_becomes_now_and_nothing_else_changes() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let cluster = |times: [i64; 3]| Cluster {
            name: "a".into(),
            runs: Some("r1".into()),
            runs_since: Some(at(times[0])),
            answers_since: Some(at(times[1])),
            health: Some(Health { of: "r1".into(), report: Report::Succeeded, since: Some(at(times[2])) }),
            ..Cluster::default()
        };
        assert_eq!(cluster([5, 20, 30]).at(at(10)), cluster([5, 10, 10]));
        assert_eq!(cluster([20, 5, 5]).at(at(10)), cluster([10, 5, 5]));
    }
}
