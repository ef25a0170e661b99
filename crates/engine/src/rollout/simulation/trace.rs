//! The trace of a simulation: its events, and the state of every cluster at each moment.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::rollout::RolloutDecision;
use crate::rollout::cluster::{GroupKey, Hash};
use crate::rollout::decision::Assignment;
use crate::rollout::state::ClusterState;
use object::duration;

/// The maximum size of a group whose clusters are shown individually. Larger groups are shown as counts.
const WIDE: usize = 60;
/// The maximum number of names in a list. Longer lists are shown as a count.
const MANY: usize = 8;

/// The trace of a whole rollout.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The start of the rollout.
    pub start: Timestamp,
    /// The time limit, if it ended the simulation.
    pub cut: Option<Timestamp>,
    /// The moments at which something changed.
    pub rows: Vec<Row>,
}

/// The state of a rollout at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub at: Timestamp,
    /// Descriptions of the events.
    pub happened: Vec<String>,
    /// The state of each cluster, by group.
    pub clusters: BTreeMap<GroupName, BTreeMap<String, char>>,
    /// The reason that no cluster may start.
    pub hold: String,
}

/// A group as the key of a JSON map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName(GroupKey);

impl GroupName {
    pub(super) fn name(&self) -> String {
        self.0.to_string()
    }
}

impl Serialize for GroupName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The letters of the states, the [words](ClusterState::word) that they stand for, and their colors.
pub(super) const LEGEND: [(char, &str, &str); 11] = [
    ('.', "Waiting", "#d0d7de"),
    ('>', "Starting, Progressing", "#54aeff"),
    ('~', "Soaking", "#aceebb"),
    ('+', "Done", "#2da44e"),
    ('x', "Failed", "#cf222e"),
    ('t', "TimedOut", "#a40e26"),
    ('u', "Unreachable", "#8c959f"),
    ('-', "Skipped", "#eaeef2"),
    ('q', "Quarantined", "#8250df"),
    ('<', "Returning", "#c297ff"),
    ('=', "Returned", "#bf8700"),
];

pub(super) fn letter(state: &ClusterState) -> char {
    match state {
        ClusterState::Waiting(_) => '.',
        ClusterState::Starting | ClusterState::Progressing { .. } => '>',
        ClusterState::Soaking { .. } => '~',
        ClusterState::Done => '+',
        ClusterState::Failed { .. } => 'x',
        ClusterState::TimedOut => 't',
        ClusterState::Unreachable { .. } => 'u',
        ClusterState::Skipped => '-',
        ClusterState::Quarantined => 'q',
        ClusterState::Returning { .. } => '<',
        ClusterState::Returned { .. } => '=',
    }
}

impl Row {
    pub(super) fn of(
        at: Timestamp,
        mut happened: Vec<String>,
        decision: &RolloutDecision,
        moved: &[String],
    ) -> Self {
        let all = |wanted: &dyn Fn(&ClusterState) -> bool| -> Vec<&str> {
            decision
                .clusters
                .iter()
                .filter(|(_, assignment)| wanted(&assignment.state))
                .map(|(name, _)| name.as_str())
                .collect()
        };
        let mut say = |verb: &str, names: &[&str]| {
            if !names.is_empty() {
                happened.push(format!("{verb} {}", listed(names)));
            }
        };
        let meanwhile = |state: &ClusterState| {
            matches!(state, ClusterState::Waiting(_) | ClusterState::Unreachable { .. })
        };
        let returns = |state: &ClusterState| matches!(state, ClusterState::Returning { .. });
        let gets = |name: &&str| moved.iter().any(|moved| moved == name);
        say("give what is good to", &all(&meanwhile).into_iter().filter(gets).collect::<Vec<_>>());
        say("start", &decision.starting().collect::<Vec<_>>());
        say("return", &all(&returns).into_iter().filter(gets).collect::<Vec<_>>());
        say("remove", &decision.removed.iter().map(String::as_str).collect::<Vec<_>>());
        let mut clusters = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (name, assignment) in &decision.clusters {
            clusters
                .entry(GroupName(assignment.group.clone()))
                .or_default()
                .insert(name.clone(), letter(&assignment.state));
        }
        let mut hold: Vec<String> = decision.corrections().collect();
        hold.extend(decision.hold.iter().map(ToString::to_string));
        hold.extend(decision.approvals.iter().map(|token| format!("approval {token} is asked for")));
        Self { at, happened, clusters, hold: hold.join("; ") }
    }

    fn differs_from(&self, before: &Self) -> bool {
        !self.happened.is_empty() || self.clusters != before.clusters || self.hold != before.hold
    }
}

impl Trace {
    pub(super) fn new(start: Timestamp) -> Self {
        Self { start, cut: None, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Row) {
        if self.rows.last().is_none_or(|last| row.differs_from(last)) {
            self.rows.push(row);
        }
    }

    pub(super) fn cut_at(&mut self, end: Timestamp) {
        self.cut = Some(end);
    }

    /// Returns the trace as text, with a line for each moment and a letter for each cluster.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut groups = BTreeMap::new();
        for (group, clusters) in self.rows.iter().flat_map(|row| &row.clusters) {
            groups.entry(group).or_insert_with(|| clusters.keys().map(String::as_str).collect::<Vec<_>>());
        }
        for (group, names) in &groups {
            let _ = writeln!(text, "group {}: {}", group.0, listed(names));
        }
        let legend: Vec<_> = LEGEND.iter().map(|(letter, word, _)| format!("{letter} {word}")).collect();
        let _ = writeln!(text, "{}\n", legend.join("   "));
        let mut hold = "";
        for row in &self.rows {
            let at = duration::format(row.at.duration_since(self.start));
            let states: Vec<_> = row
                .clusters
                .iter()
                .map(|(group, clusters)| format!("{} {}", group.0, letters(clusters)))
                .collect();
            let mut parts = row.happened.clone();
            if row.hold != hold {
                parts.push(if row.hold.is_empty() { "continues".into() } else { row.hold.clone() });
            }
            hold = &row.hold;
            let line = format!("{at:>9}  {}  {}", states.join("  "), parts.join("; "));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let end = match self.cut {
            Some(end) => format!("cut off after {}", duration::format(end.duration_since(self.start))),
            None => "nothing more happens".into(),
        };
        let _ = writeln!(text, "{end}");
        text
    }
}

fn letters(clusters: &BTreeMap<String, char>) -> String {
    if clusters.len() <= WIDE {
        return clusters.values().collect();
    }
    let count = |letter: char| clusters.values().filter(|found| **found == letter).count();
    let counts = LEGEND.iter().map(|(letter, _, _)| (letter, count(*letter))).filter(|(_, count)| *count > 0);
    counts.map(|(letter, count)| format!("{letter}{count}")).collect::<Vec<_>>().join(" ")
}

fn listed(names: &[&str]) -> String {
    match names {
        [first, .., last] if names.len() > MANY => format!("{} clusters ({first} to {last})", names.len()),
        names => names.join(", "),
    }
}

/// Renders a decision as a table with a line and an explanation for each cluster. `named` returns the display
/// name of a revision, and `causes` explains why clusters are not done.
pub fn decision_table(
    decision: &RolloutDecision,
    named: impl Fn(&Hash) -> String,
    causes: &BTreeMap<String, String>,
) -> String {
    let mut rows: Vec<(&GroupKey, &str, &Assignment)> =
        decision.clusters.iter().map(|(name, v)| (&v.group, name.as_str(), v)).collect();
    rows.sort_by_key(|(group, name, _)| (*group, *name));
    let columns = |(group, name, assignment): &(&GroupKey, &str, &Assignment)| {
        let assigned = assignment.assigned.as_ref().map_or_else(|| "-".to_owned(), &named);
        let state = &assignment.state;
        let message = match causes.get(*name) {
            Some(cause) => format!("{state}: {cause}"),
            None => state.to_string(),
        };
        [(*name).to_owned(), group.to_string(), assigned, state.word().to_owned(), message]
    };
    let mut table = vec![["CLUSTER", "GROUP", "RUNS", "STATE", "MESSAGE"].map(str::to_owned)];
    table.extend(rows.iter().map(columns));
    let width =
        |at: usize| table.iter().filter_map(|row| row.get(at)).map(String::len).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let mut text = String::new();
    for [name, group, runs, state, message] in &table {
        let [a, b, c, d] = widths;
        let _ = writeln!(text, "{name:a$}  {group:b$}  {runs:c$}  {state:d$}  {message}");
    }
    let removed = [("remove", &decision.removed), ("keep for now", &decision.kept)];
    for (verb, names) in removed.iter().filter(|(_, names)| !names.is_empty()) {
        let _ = writeln!(text, "{verb}: {}", names.join(", "));
    }
    for correction in decision.corrections() {
        let _ = writeln!(text, "{correction}");
    }
    for token in &decision.approvals {
        let _ = writeln!(text, "approval needed: {token}");
    }
    if let Some(revision) = &decision.quarantine {
        let _ = writeln!(text, "quarantined: {}", named(revision));
    }
    if let Some(at) = decision.recheck {
        let _ = writeln!(text, "check again at {at}");
    }
    text
}

/// Renders a decision as JSON: the decision, an explanation for each cluster, and the lists of OCM's library.
pub fn decision_json(decision: &RolloutDecision) -> Value {
    let mut value = serde_json::to_value(decision).unwrap_or_default();
    for (name, assignment) in &decision.clusters {
        let cluster = value
            .get_mut("clusters")
            .and_then(|clusters| clusters.get_mut(name))
            .and_then(Value::as_object_mut);
        if let Some(cluster) = cluster {
            cluster.insert("message".into(), assignment.state.to_string().into());
        }
    }
    if let Some(fields) = value.as_object_mut() {
        fields.insert("rollOut".into(), json!(decision.rolling().collect::<Vec<_>>()));
        fields.insert("start".into(), json!(decision.starting().collect::<Vec<_>>()));
        fields.insert("timedOut".into(), json!(decision.timed_out().collect::<Vec<_>>()));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::state::Wait;

    #[test]
    fn the_legend_has_the_words_of_the_states() {
        let states = [
            ClusterState::Waiting(Wait::Paused { policies: Vec::new() }),
            ClusterState::Starting,
            ClusterState::Progressing { deadline: None, reported: false },
            ClusterState::Soaking { until: Timestamp::UNIX_EPOCH },
            ClusterState::Done,
            ClusterState::Failed { deadline: None },
            ClusterState::TimedOut,
            ClusterState::Unreachable { moved: false },
            ClusterState::Skipped,
            ClusterState::Quarantined,
            ClusterState::Returning { to: Hash::default(), unreachable: false },
            ClusterState::Returned { to: Hash::default() },
        ];
        for state in states {
            let (_, words, _) = LEGEND.iter().find(|(known, ..)| *known == letter(&state)).unwrap();
            assert!(words.split(", ").any(|word| word == state.word()), "{words}: {}", state.word());
        }
    }
}
