//! A cluster in a rollout: what it runs, what it should run, and what it reported.

use std::fmt::{Display, Formatter};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A content hash. Clusters with equal hashes run the same content.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(pub String);

impl Hash {
    /// Returns the short form for people: the first 12 digits of a hexadecimal SHA-256, like git's short hashes.
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

/// The name and index of a decision group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupKey {
    /// Groups start in index order; gaps have no meaning.
    pub index: i32,
    /// May be empty.
    pub name: String,
}

/// Prints the name, or `#index` if the name is empty.
impl Display for GroupKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if self.name.is_empty() { write!(f, "#{}", self.index) } else { f.write_str(&self.name) }
    }
}

/// A decision group with its clusters. A cluster that is listed in several groups belongs to the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The name and index of the group.
    pub key: GroupKey,
    /// The names of the clusters.
    pub clusters: Vec<String>,
}

/// A cluster, as seen by the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// `metadata.name` of the ManagedCluster.
    pub name: String,
    /// The hash that the cluster should run once it may start.
    pub wants: Hash,
    /// The hash that was assigned last, whether or not it succeeded; `None` before the first assignment.
    pub runs: Option<Hash>,
    /// The time at which `runs` was assigned, by the hub's clock. No result counts from an earlier time.
    pub runs_since: Option<Timestamp>,
    /// The last report.
    pub health: Option<Health>,
    /// The hash to return to if `wants` fails: the last one that succeeded before `wants` was rolled out. It
    /// becomes `wants` only when the whole rollout is complete. Until then, a cluster that succeeded early
    /// returns with the others.
    pub last_good: Option<Hash>,
    /// True if the cluster is unreachable.
    pub unreachable: bool,
    /// The time at which the cluster became reachable again. Deadlines do not run while a cluster is
    /// unreachable, so a returning cluster has not timed out.
    pub answers_since: Option<Timestamp>,
    /// The time at which the cluster's turn came, if the API server refuses to create the object that would run
    /// `wants`. The deadline runs from this time.
    pub refused_since: Option<Timestamp>,
    /// The time at which the cluster joined the fleet. Stages do not wait for clusters that joined after the
    /// rollout began. Otherwise, a rollout in a constantly growing fleet would never complete.
    pub joined: Option<Timestamp>,
    /// True if `runs` works again after it had stopped working.
    pub recovered: bool,
    /// True if the rollout changes nothing on this cluster.
    pub skip: bool,
    /// The object that carries the content. Only used to remove it after the cluster left its groups.
    pub instance: Instance,
}

/// The object on the hub that carries the content of a cluster: its add-on or its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// The uid of the object. Content that is removed and recreated gets a new one.
    pub uid: String,
    /// True if the removal was already decided and is not complete.
    pub is_decided: bool,
}

impl Cluster {
    /// Caps the times at `now`, because a clock that ran ahead may have written later ones.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let since = self.health.as_mut().map(|health| &mut health.since);
        let others = [&mut self.runs_since, &mut self.answers_since, &mut self.refused_since];
        for time in since.into_iter().chain(others) {
            *time = time.map(|time| time.min(now));
        }
        self
    }

    /// Counts the soak of a success from a recovery. Otherwise, a container that keeps crashing would let the next
    /// cluster start each time it runs, once the first soak is over.
    pub fn restart_soak(&mut self, recovered: Timestamp) {
        let success = self.health.as_mut().filter(|health| health.report == Report::Succeeded);
        if let Some(since) = success.and_then(|health| health.since.as_mut()) {
            self.recovered = recovered > *since;
            *since = recovered.max(*since);
        }
    }
}

/// A report from a cluster, bound to the hash that it describes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Health {
    /// The hash that the report describes. Reports about a hash other than the assigned one are ignored.
    pub of: Hash,
    /// The reported state.
    pub report: Report,
    /// The time of the state, by the hub's clock; `None` means now.
    pub since: Option<Timestamp>,
}

/// The state of a hash on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// The hash has not been applied yet.
    ToApply,
    /// The hash is applied, and the result is still open.
    Progressing,
    /// The hash is applied and works.
    Succeeded,
    /// The hash is applied and does not work.
    Failed,
    /// The hash succeeded and has since stopped working.
    Relapsed {
        /// True if the cluster reports a failure. Otherwise it may recover without help, like a node that
        /// restarts.
        failed: bool,
    },
    /// The reporter says that the hash timed out. Normally the engine decides this.
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
