//! The input of one engine decision, in a format for people.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::rollout::cluster::{Cluster, Group, GroupKey, Hash, Health, Report};
use crate::rollout::{Input, Policy, Refused, Strategy};
use api::Unknown;
use api::cluster::v1alpha1::{MandatoryDecisionGroup, RolloutStrategy};
use api::gitops::v1alpha1::RolloutPolicySpec;

/// A rollout in a file, as described in `docs/simulate.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The revision to roll out.
    revision: Hash,
    /// The revision that clusters run successfully, unless their entries say otherwise.
    #[serde(default)]
    runs: Hash,
    /// The strategy, in the format of an add-on's placement or a ManifestWorkReplicaSet.
    strategy: RolloutStrategy,
    /// The previous strategy, in case `strategy` is invalid.
    #[serde(default)]
    last_strategy: Option<RolloutStrategy>,
    /// The `spec` of a RolloutPolicy.
    #[serde(default)]
    policy: Option<RolloutPolicySpec>,
    /// The decision groups. Without any, all clusters form one group.
    #[serde(default)]
    groups: Vec<PlainGroup>,
    /// The clusters that need more fields than a name.
    #[serde(default)]
    clusters: Vec<PlainCluster>,
    /// The quarantined revision.
    #[serde(default)]
    quarantined: Option<Hash>,
    /// The time at which a breach that depends on late clusters was recorded.
    #[serde(default)]
    late_since: Option<Timestamp>,
    /// The start of the rollout.
    #[serde(default)]
    began: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlainGroup {
    #[serde(default)]
    name: String,
    /// Defaults to the position in the list.
    #[serde(default)]
    index: Option<i32>,
    #[serde(default)]
    clusters: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlainCluster {
    name: String,
    #[serde(default)]
    wants: Option<Hash>,
    /// Empty for no revision.
    #[serde(default)]
    runs: Option<Hash>,
    #[serde(default)]
    runs_since: Option<Timestamp>,
    #[serde(default)]
    state: PlainState,
    /// The revision that `state` describes. Defaults to `runs`.
    #[serde(default)]
    of: Option<Hash>,
    #[serde(default)]
    since: Option<Timestamp>,
    #[serde(default)]
    last_good: Option<Hash>,
    #[serde(default)]
    answers_since: Option<Timestamp>,
    #[serde(default)]
    joined: Option<Timestamp>,
}

/// The states of OCM's library, plus `Silent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum PlainState {
    ToApply,
    Progressing,
    #[default]
    Succeeded,
    Failed,
    TimeOut,
    Skip,
    Unreachable,
}

impl PlainState {
    pub(super) fn report(self) -> Option<Report> {
        match self {
            Self::ToApply => Some(Report::ToApply),
            Self::Progressing => Some(Report::Progressing),
            Self::Succeeded => Some(Report::Succeeded),
            Self::Failed => Some(Report::Failed),
            Self::TimeOut => Some(Report::TimeOut),
            Self::Skip | Self::Unreachable => None,
        }
    }
}

/// The reason that a file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The file is not YAML or JSON of the right shape.
    #[error("{0}")]
    Shape(String),
    /// An unknown field.
    #[error("{at}: unknown field {field:?}")]
    Field {
        /// The object that contains the field.
        at: String,
        /// The name of the field.
        field: String,
    },
    /// A cluster with two entries.
    #[error("clusters[{second}]: {name} is described twice, before in clusters[{first}]")]
    Duplicate {
        /// The name of the cluster.
        name: String,
        /// The index of the first entry.
        first: usize,
        /// The index of the second entry.
        second: usize,
    },
    /// An unknown cluster or group.
    #[error("{at}: there is no {what} {name:?}")]
    UnknownName {
        /// The field that names it.
        at: String,
        /// `cluster` or `group`.
        what: &'static str,
        name: String,
    },
}

/// Parses a rollout strategy in YAML or JSON, in the format of an add-on's placement or a
/// ManifestWorkReplicaSet.
///
/// # Errors
/// Names the place of the error. A strategy that the engine rejects is not an error here.
pub fn strategy(text: &str) -> Result<Result<Strategy, Refused>, ScenarioError> {
    let strategy: RolloutStrategy = read(text)?;
    known_strategy("strategy", &strategy)?;
    Ok(Strategy::read(&strategy, None))
}

/// Parses YAML or JSON.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, ScenarioError> {
    serde_saphyr::from_str(text).map_err(|e| ScenarioError::Shape(e.to_string()))
}

impl Scenario {
    /// Parses a scenario in YAML or JSON.
    ///
    /// # Errors
    /// Names the place of the error. A strategy or policy that the engine rejects is not an error here; the
    /// decision reports it.
    pub fn read(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = read(text)?;
        known_strategy("strategy", &scenario.strategy)?;
        if let Some(last) = &scenario.last_strategy {
            known_strategy("lastStrategy", last)?;
        }
        if let Some(policy) = &scenario.policy {
            known("policy", &policy.unknown)?;
            known("policy.approval", &policy.approval.unknown)?;
            let mut windows = policy.freeze_windows.iter().enumerate();
            windows.try_for_each(|(at, window)| {
                known(&format!("policy.freezeWindows[{at}]"), &window.unknown)
            })?;
        }
        let mut described = BTreeMap::new();
        for (second, cluster) in scenario.clusters.iter().enumerate() {
            if let Some(first) = described.insert(&cluster.name, second) {
                return Err(ScenarioError::Duplicate { name: cluster.name.clone(), first, second });
            }
        }
        Ok(scenario)
    }

    /// Returns the input for the engine.
    pub fn into_input(self) -> Input {
        let mut input = Input::new(self.revision.clone(), Strategy::read(&self.strategy, None));
        input.last_strategy = self.last_strategy.as_ref().and_then(|last| Strategy::read(last, None).ok());
        if let Some(policy) = &self.policy {
            input.policy = Policy::read(policy);
            input.granted = policy.approved.iter().cloned().collect();
        }
        input.quarantined = self.quarantined.clone();
        (input.began, input.late_since) = (self.began, self.late_since);
        let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
        for name in self.groups.iter().flat_map(|group| &group.clusters) {
            clusters.insert(name.clone(), self.default_cluster(name));
        }
        for cluster in &self.clusters {
            clusters.insert(cluster.name.clone(), self.cluster(cluster));
        }
        input.groups = if self.groups.is_empty() {
            vec![Group { key: GroupKey::default(), clusters: clusters.keys().cloned().collect() }]
        } else {
            self.groups.into_iter().enumerate().map(|(at, group)| group.numbered(at)).collect()
        };
        input.clusters = clusters.into_values().collect();
        input
    }

    /// Returns a cluster that is named only in a group.
    pub(super) fn default_cluster(&self, name: &str) -> Cluster {
        self.cluster(&PlainCluster {
            name: name.into(),
            wants: None,
            runs: None,
            runs_since: None,
            state: PlainState::default(),
            of: None,
            since: None,
            last_good: None,
            answers_since: None,
            joined: None,
        })
    }

    fn cluster(&self, plain: &PlainCluster) -> Cluster {
        let some = |hash: &Hash| Some(hash.clone()).filter(|hash| !hash.0.is_empty());
        let runs = some(plain.runs.as_ref().unwrap_or(&self.runs));
        let of = plain.of.clone().or_else(|| runs.clone());
        let health =
            of.zip(plain.state.report()).map(|(of, report)| Health { of, report, since: plain.since });
        Cluster {
            name: plain.name.clone(),
            wants: plain.wants.clone().unwrap_or_else(|| self.revision.clone()),
            runs,
            runs_since: plain.runs_since,
            health,
            last_good: some(plain.last_good.as_ref().unwrap_or(&self.runs)),
            answers_since: plain.answers_since,
            joined: plain.joined,
            unreachable: plain.state == PlainState::Unreachable,
            skip: plain.state == PlainState::Skip,
            ..Cluster::default()
        }
    }
}

impl PlainGroup {
    fn numbered(self, at: usize) -> Group {
        let index = self.index.unwrap_or_else(|| i32::try_from(at).unwrap_or(i32::MAX));
        Group { key: GroupKey { index, name: self.name }, clusters: self.clusters }
    }
}

fn known_strategy(at: &str, strategy: &RolloutStrategy) -> Result<(), ScenarioError> {
    known(at, &strategy.unknown)?;
    if let Some(all) = &strategy.all {
        known(&format!("{at}.all"), &all.unknown)?;
    }
    if let Some(progressive) = &strategy.progressive {
        let at = format!("{at}.progressive");
        known(&at, &progressive.unknown)?;
        known_groups(&at, &progressive.mandatory_decision_groups)?;
    }
    if let Some(per_group) = &strategy.progressive_per_group {
        let at = format!("{at}.progressivePerGroup");
        known(&at, &per_group.unknown)?;
        known_groups(&at, &per_group.mandatory_decision_groups)?;
    }
    Ok(())
}

fn known_groups(at: &str, groups: &[MandatoryDecisionGroup]) -> Result<(), ScenarioError> {
    let mut groups = groups.iter().enumerate();
    groups.try_for_each(|(index, group)| {
        known(&format!("{at}.mandatoryDecisionGroups[{index}]"), &group.unknown)
    })
}

fn known(at: &str, unknown: &Unknown) -> Result<(), ScenarioError> {
    match unknown.keys().next() {
        Some(field) => Err(ScenarioError::Field { at: at.into(), field: field.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_field_is_named() {
        let check = |text: &str, expected: &str| {
            let error = Scenario::read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let field = "{revision: r2, strategy: {type: Progressive, progressive: {maxFailure: 1}}}";
        check(field, "strategy.progressive: unknown field \"maxFailure\"");
        check("{revision: r2, strategy: {}, policy: {pause: true}}", "policy: unknown field \"pause\"");
        let group = "{revision: r2, strategy: {type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: a}, {name: b}]}}}";
        check(group, "strategy.progressive.mandatoryDecisionGroups[1]: unknown field \"name\"");
        check(
            "{revision: r2, strategy: {}, policy: {freezeWindows: [{name: w, schedule: '', duration: 1h, zone: UTC}]}}",
            "policy.freezeWindows[0]: unknown field \"zone\"",
        );
        check("{revision: r2, strategy: {}, cluster: []}", "cluster");
        check("{strategy: {}}", "revision");
        check("{revision: r2, strategy: {}, clusters: [{name: c1, state: Sleeping}]}", "Sleeping");
    }

    #[test]
    fn a_cluster_is_described_once() {
        let text = "{revision: r2, strategy: {}, clusters: [{name: a}, {name: b}, {name: a, state: Failed}]}";
        let error = Scenario::read(text).unwrap_err().to_string();
        assert_eq!(error, "clusters[2]: a is described twice, before in clusters[0]");
    }

    #[test]
    fn json_is_read_as_well() {
        let input = Scenario::read(
            r#"{"revision": "r2", "runs": "r1", "strategy": {}, "groups": [{"clusters": ["c1"]}]}"#,
        )
        .unwrap()
        .into_input();
        assert_eq!(input.clusters.len(), 1);
        assert_eq!(input.clusters[0].runs, Some("r1".into()));
        assert_eq!(input.clusters[0].last_good, Some("r1".into()));
    }
}
