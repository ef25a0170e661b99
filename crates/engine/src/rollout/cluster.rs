//! A cluster of a rollout: what it runs, what it should run, and what it reported.

use std::fmt::{Display, Formatter};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// When the turn of the cluster came, if the API server refuses to create what would run `wants` there.
    /// Its deadline counts from then.
    pub refused_since: Option<Timestamp>,
    /// When the cluster joined the fleet. Stages do not wait for a cluster that joined after the rollout
    /// began: the rollout of a fleet that always grows would never be complete.
    pub joined: Option<Timestamp>,
    /// Whether the cluster is skipped: the rollout changes nothing on it.
    pub skip: bool,
    /// The object of its content. Only the removal from a cluster that left its groups reads it.
    pub instance: Instance,
}

/// The object on the hub with which a cluster has the content: its add-on or its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// The uid of the object. Content that is removed and comes back has another one.
    pub uid: String,
    /// True if the removal was decided before and is not complete.
    pub is_decided: bool,
}

impl Cluster {
    /// Returns the cluster as it is known at a time. That time replaces a later one, which a clock that was
    /// ahead wrote.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let since = self.health.as_mut().map(|health| &mut health.since);
        let others = [&mut self.runs_since, &mut self.answers_since, &mut self.refused_since];
        for time in since.into_iter().chain(others) {
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
    /// It succeeded, and does not work any longer.
    Relapsed {
        /// Whether it says that it has failed. Otherwise it may recover by itself, like a node that restarts.
        failed: bool,
    },
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
            refused_since: Some(at(times[1])),
            health: Some(Health { of: "r1".into(), report: Report::Succeeded, since: Some(at(times[2])) }),
            ..Cluster::default()
        };
        assert_eq!(cluster([5, 20, 30]).at(at(10)), cluster([5, 10, 10]));
        assert_eq!(cluster([20, 5, 5]).at(at(10)), cluster([10, 5, 5]));
    }
}
