//! What would become of clusters, and what happens meanwhile.

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};

use super::scenario::{PlainState, Unreadable, read};
use crate::engine::rollout::duration;
use crate::engine::rollout::input::Hash;

/// A file of outcomes: `docs/simulate.md` describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcomes {
    /// When to stop although something may still happen.
    #[serde(default = "a_day", deserialize_with = "span")]
    pub(super) until: SignedDuration,
    /// The first that matches decides.
    #[serde(default)]
    pub(super) outcomes: Vec<Outcome>,
    /// What happens to the rollout from outside.
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

impl Default for Outcomes {
    fn default() -> Self {
        Self { until: a_day(), outcomes: Vec::new(), events: Vec::new() }
    }
}

/// What becomes of some clusters with some revision.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Outcome {
    /// Every cluster where empty.
    #[serde(default)]
    clusters: Vec<String>,
    /// Every revision where absent.
    #[serde(default)]
    revision: Option<Hash>,
    /// From the assignment to the first report.
    #[serde(default = "applies", deserialize_with = "span")]
    pub(super) applies: SignedDuration,
    /// From the first report to the outcome.
    #[serde(default = "after", deserialize_with = "span")]
    pub(super) after: SignedDuration,
    /// The outcome.
    #[serde(default)]
    pub(super) result: Result,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Result {
    #[default]
    Succeeded,
    Failed,
    /// It reports that it progresses, and nothing more.
    Never,
    /// It reports nothing.
    Silent,
}

/// Something that happens once.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Event {
    #[serde(deserialize_with = "span")]
    pub(super) at: SignedDuration,
    #[serde(flatten)]
    pub(super) what: What,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum What {
    /// A new revision for every cluster.
    Commit(Hash),
    /// A person grants a token.
    Approve(String),
    /// A person pauses, or resumes.
    Pause(bool),
    /// A cluster joins a group, running nothing.
    Join { cluster: String, group: String },
    /// A cluster leaves its group.
    Leave(String),
    /// A cluster stops to answer.
    Unreachable(String),
    /// A cluster answers again.
    Reachable(String),
    /// A cluster reports about what it runs.
    Report { cluster: String, state: PlainState },
}

impl Outcomes {
    /// Reads outcomes in YAML or JSON.
    ///
    /// # Errors
    /// Names the place that cannot be read.
    pub fn read(text: &str) -> std::result::Result<Self, Unreadable> {
        read(text)
    }

    /// What becomes of a cluster with a revision.
    pub(super) fn of(&self, cluster: &str, revision: &Hash) -> Outcome {
        let matches = |outcome: &&Outcome| {
            let named = outcome.clusters.is_empty() || outcome.clusters.iter().any(|name| name == cluster);
            named && outcome.revision.as_ref().is_none_or(|wanted| wanted == revision)
        };
        let default = Outcome { clusters: Vec::new(), revision: None, applies: applies(), after: after(), result: Result::Succeeded };
        self.outcomes.iter().find(matches).cloned().unwrap_or(default)
    }
}

fn a_day() -> SignedDuration {
    SignedDuration::from_hours(24)
}

fn applies() -> SignedDuration {
    SignedDuration::from_secs(5)
}

fn after() -> SignedDuration {
    SignedDuration::from_secs(30)
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<SignedDuration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed = duration::parse(&text).filter(|d| !d.is_negative());
    parsed.ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a duration; write a number and h, m or s, such as 90s")))
}
