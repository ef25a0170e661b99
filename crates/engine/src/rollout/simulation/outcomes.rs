//! The outcomes of clusters in a simulation, and external events.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::scenario::{PlainState, ScenarioError, read};
use crate::rollout::Input;
use crate::rollout::cluster::Hash;
use object::duration;

/// A file of outcomes, as described in `docs/simulate.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcomes {
    /// The time at which the simulation stops in any case.
    #[serde(default = "a_day", deserialize_with = "span")]
    pub(super) until: SignedDuration,
    /// The rules for outcomes. The first matching rule applies.
    #[serde(default)]
    pub(super) outcomes: Vec<Outcome>,
    /// External events.
    #[serde(default)]
    pub(super) events: Vec<ScenarioEvent>,
}

impl Default for Outcomes {
    fn default() -> Self {
        Self { until: a_day(), outcomes: Vec::new(), events: Vec::new() }
    }
}

/// The outcome of revisions on clusters.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Outcome {
    /// Empty for every cluster.
    #[serde(default)]
    clusters: Vec<String>,
    /// Absent for every revision.
    #[serde(default)]
    revision: Option<Hash>,
    /// The time from the assignment to the first report.
    #[serde(default = "applies", deserialize_with = "span")]
    pub(super) applies: SignedDuration,
    /// The time from the first report to the outcome.
    #[serde(default = "after", deserialize_with = "span")]
    pub(super) after: SignedDuration,
    #[serde(default)]
    pub(super) result: Conclusion,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Conclusion {
    #[default]
    Succeeded,
    Failed,
    /// The cluster reports progress but never an outcome.
    Never,
    /// The cluster reports nothing.
    Silent,
}

/// An event that happens once.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "PlainEvent")]
pub(super) struct ScenarioEvent {
    pub(super) at: SignedDuration,
    pub(super) what: EventKind,
}

#[derive(Deserialize)]
struct PlainEvent {
    #[serde(deserialize_with = "span")]
    at: SignedDuration,
    #[serde(flatten)]
    what: Map<String, Value>,
}

impl TryFrom<PlainEvent> for ScenarioEvent {
    type Error = String;

    fn try_from(PlainEvent { at, what }: PlainEvent) -> Result<Self, String> {
        if what.len() > 1 {
            let names: Vec<_> = what.keys().map(String::as_str).collect();
            return Err(format!(
                "an event must have exactly one action, not {}; write separate events",
                names.join(" and ")
            ));
        }
        let what = serde_json::from_value(Value::Object(what)).map_err(|e| e.to_string())?;
        Ok(Self { at, what })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum EventKind {
    /// All clusters get a new revision.
    Commit(Hash),
    /// A person grants an approval token.
    Approve(String),
    /// A person pauses or resumes.
    Pause(bool),
    /// A cluster that runs nothing joins a group.
    Join { cluster: String, group: String },
    /// A cluster leaves its group.
    Leave(String),
    /// A cluster becomes unreachable.
    Unreachable(String),
    /// A cluster becomes reachable again.
    Reachable(String),
    /// A cluster reports on the revision that it runs.
    Report { cluster: String, state: PlainState },
}

impl EventKind {
    /// Returns the cluster that the event affects.
    fn cluster(&self) -> Option<&String> {
        match self {
            Self::Commit(_) | Self::Approve(_) | Self::Pause(_) => None,
            Self::Join { cluster, .. } | Self::Leave(cluster) | Self::Unreachable(cluster) => Some(cluster),
            Self::Reachable(cluster) | Self::Report { cluster, .. } => Some(cluster),
        }
    }
}

impl Outcomes {
    /// Parses outcomes in YAML or JSON.
    ///
    /// # Errors
    /// Names the place of the error.
    pub fn read(text: &str) -> Result<Self, ScenarioError> {
        read(text)
    }

    /// Checks that the groups in the file exist in the input, and that its clusters exist or join by an event.
    ///
    /// # Errors
    /// Names the first group or cluster that does not exist.
    pub(super) fn check(&self, input: &Input) -> Result<(), ScenarioError> {
        let joining = self.events.iter().filter_map(|event| match &event.what {
            EventKind::Join { cluster, .. } => Some(cluster),
            _ => None,
        });
        let known: BTreeSet<&String> =
            input.clusters.iter().map(|cluster| &cluster.name).chain(joining).collect();
        let outcomes = self.outcomes.iter().enumerate();
        let outcomes = outcomes.flat_map(|(at, outcome)| {
            outcome.clusters.iter().map(move |name| (format!("outcomes[{at}].clusters"), name))
        });
        let events = self
            .events
            .iter()
            .enumerate()
            .filter_map(|(at, event)| Some((format!("events[{at}]"), event.what.cluster()?)));
        if let Some((at, name)) = outcomes.chain(events).find(|(_, name)| !known.contains(name)) {
            return Err(ScenarioError::UnknownName { at, what: "cluster", name: name.clone() });
        }
        let groups: BTreeSet<String> = input.groups.iter().map(|group| group.key.to_string()).collect();
        let mut events = self.events.iter().enumerate();
        events.try_for_each(|(at, event)| match &event.what {
            EventKind::Join { group, .. } if !groups.contains(group) => Err(ScenarioError::UnknownName {
                at: format!("events[{at}]"),
                what: "group",
                name: group.clone(),
            }),
            _ => Ok(()),
        })
    }

    /// Returns the outcome of a revision on a cluster.
    pub(super) fn of(&self, cluster: &str, revision: &Hash) -> Outcome {
        let matches = |outcome: &&Outcome| {
            let named = outcome.clusters.is_empty() || outcome.clusters.iter().any(|name| name == cluster);
            named && outcome.revision.as_ref().is_none_or(|wanted| wanted == revision)
        };
        let default = Outcome {
            clusters: Vec::new(),
            revision: None,
            applies: applies(),
            after: after(),
            result: Conclusion::Succeeded,
        };
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

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed = duration::parse(&text).filter(|d| !d.is_negative());
    parsed.ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{text:?} is not a duration; write a number and h, m or s, such as 90s"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Scenario, run};
    use super::*;

    #[test]
    fn impossible_outcomes_are_named() {
        let check = |text: &str, expected: &str| {
            let input = Scenario::read("{revision: r2, strategy: {}, groups: [{name: g, clusters: [a]}]}")
                .unwrap()
                .into_input();
            let played =
                Outcomes::read(text).and_then(|outcomes| run(input, &outcomes, jiff::Timestamp::UNIX_EPOCH));
            let message = played.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                message.contains(expected) && message.is_empty() == expected.is_empty(),
                "{text}: {message}"
            );
        };
        check(
            "{outcomes: [{clusters: [a]}, {clusters: [a, c]}]}",
            "outcomes[1].clusters: there is no cluster \"c\"",
        );
        check("{events: [{at: 1m, leave: c}]}", "events[0]: there is no cluster \"c\"");
        check(
            "{events: [{at: 1m, join: {cluster: c, group: g}}, {at: 2m, leave: c}], outcomes: [{clusters: [c]}]}",
            "",
        );
        check("{events: [{at: 1m, join: {cluster: c, group: h}}]}", "events[0]: there is no group \"h\"");
        check(
            "{events: [{at: 1m, commit: r3, pause: true}]}",
            "an event must have exactly one action, not commit and pause",
        );
        check("{events: [{at: 1m, comit: r3}]}", "comit");
        check("{events: [{at: 1m}]}", "event");
        check("{events: [{at: 1m, report: {cluster: a, stat: Failed}}]}", "stat");
        check("{events: [{at: soon, commit: r3}]}", "soon");
    }
}
