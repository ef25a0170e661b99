//! The spec of a placement, parsed and validated.

use std::num::NonZeroUsize;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::filter::ClusterAttributes;
use super::filter::predicate::{Matcher, Predicate};
use super::filter::taint;
use super::prioritizer::{ScoreKey, Weighted, weights};
use super::spread::Constraint;
use api::cluster::v1beta1::{
    DecisionGroup, DecisionStrategy, GroupClusterSelector, GroupStrategy, PlacementSpec, SortBy,
    SpreadPolicy, Toleration,
};

/// The maximum length of a name that fits in a label of the decisions.
const MAX_NAME: usize = 63;

/// An invalid spec. The decisions are kept until it is fixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{plugin}:{message}")]
pub struct Misconfigured {
    /// The filter that rejected the spec, by OCM's name; empty for everything else.
    pub plugin: &'static str,
    pub message: String,
}

impl Misconfigured {
    /// Returns a rejection by the given filter, or by none.
    pub fn new(plugin: &'static str, message: impl Into<String>) -> Self {
        Self { plugin, message: message.into() }
    }
}

/// The parsed spec of a placement.
#[derive(Debug)]
pub struct SchedulingPolicy {
    /// The number of requested clusters; `None` for all feasible clusters.
    pub wanted: Option<usize>,
    /// The predicates, one of which must match. An empty list matches every cluster.
    pub predicates: Vec<Predicate>,
    /// The tolerated taints.
    pub tolerations: Vec<Toleration>,
    /// The active prioritizers with their weights.
    pub weights: Vec<Weighted>,
    /// The constraints for spreading clusters over domains.
    pub spread: Vec<Constraint>,
    /// The named groups.
    pub groups: Groups,
    /// The maximum size of a decision group.
    pub group_size: GroupSize,
    /// True if decisions are ordered by score.
    pub by_score: bool,
    /// The minimum interval at which scores alone may change decisions that are ordered by them.
    pub score_interval: SignedDuration,
}

/// The named groups. Groups with the same name are merged, because published decisions contain only the name.
#[derive(Debug)]
pub struct Groups {
    /// The names, in order.
    pub names: Vec<String>,
    /// The matchers with the positions of their groups. The first match counts.
    members: Vec<(usize, Matcher)>,
}

impl Groups {
    fn read(groups: &[DecisionGroup]) -> Result<Self, Misconfigured> {
        let mut all = Self { names: Vec::new(), members: Vec::new() };
        for DecisionGroup { group_name: name, group_cluster_selector, unknown: _ } in groups {
            let GroupClusterSelector { label_selector, claim_selector, unknown: _ } = group_cluster_selector;
            let matcher = Matcher::read(label_selector.as_ref(), claim_selector.as_ref());
            if !name.is_empty() && !all.names.contains(name) {
                all.names.push(name.clone());
            }
            let matcher = matcher.map_err(|e| Misconfigured { plugin: "", ..e })?;
            let position = all.names.iter().position(|known| known == name);
            all.members.push((position.unwrap_or(usize::MAX), matcher));
        }
        Ok(all)
    }

    /// Returns the position of a cluster's group, or the number of groups if it is in none.
    pub fn of(&self, attributes: &ClusterAttributes) -> usize {
        let first = self.members.iter().find(|(_, matcher)| matcher.matches(attributes));
        first.map_or(self.names.len(), |(position, _)| *position.min(&self.names.len()))
    }

    /// Returns the position of a group by name. The empty name stands for clusters in no group.
    pub fn named(&self, name: &str) -> Option<usize> {
        if name.is_empty() {
            Some(self.names.len())
        } else {
            self.names.iter().position(|known| known == name)
        }
    }
}

/// The maximum size of a decision group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSize {
    /// A number of clusters; 0 or less is unlimited.
    Count(i64),
    /// A percentage of the clusters, rounded up.
    Percent(i64),
}

impl GroupSize {
    /// Returns the size for the given number of selected clusters.
    pub fn of(self, selected: usize) -> NonZeroUsize {
        let all = i64::try_from(selected).unwrap_or(i64::MAX);
        let size = match self {
            Self::Count(count) => count,
            Self::Percent(percent) => all.saturating_mul(percent).saturating_add(99) / 100,
        };
        let size = if size <= 0 || size > all { all } else { size };
        usize::try_from(size).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
    }
}

impl SchedulingPolicy {
    /// Parses and validates a spec. Every part is validated, even parts that no cluster would reach.
    ///
    /// # Errors
    /// Returns the first invalid part, in the order in which OCM finds it.
    pub fn read(spec: &PlacementSpec) -> Result<Self, Misconfigured> {
        let PlacementSpec {
            // Read by `ScheduleInput::eligible`.
            cluster_sets: _,
            number_of_clusters,
            predicates,
            prioritizer_policy,
            spread_policy,
            tolerations,
            decision_strategy,
            sort_by,
            score_rate_limit,
            unknown: _,
        } = spec;
        let predicates = Predicate::read(predicates)?;
        taint::validate(tolerations)?;
        let weights = weights(prioritizer_policy.as_ref())?;
        let wanted = number_of_clusters.map(wanted).transpose()?;
        let (groups, group_size) = match decision_strategy {
            Some(DecisionStrategy { group_strategy: Some(strategy), unknown: _ }) => read_groups(strategy)?,
            Some(DecisionStrategy { group_strategy: None, unknown: _ }) | None => {
                (Groups::read(&[])?, GroupSize::Count(0))
            }
        };
        let spread = match spread_policy {
            Some(SpreadPolicy { spread_constraints, unknown: _ }) => {
                spread_constraints.iter().map(Constraint::read).collect()
            }
            None => Vec::new(),
        };
        Ok(Self {
            wanted,
            predicates,
            tolerations: tolerations.clone(),
            weights,
            spread,
            groups,
            group_size,
            by_score: *sort_by == SortBy::Score,
            score_interval: score_rate_limit
                .as_deref()
                .and_then(interval)
                .unwrap_or(SignedDuration::from_mins(1)),
        })
    }

    /// Validates the name of a placement, which is a label of its decisions.
    ///
    /// # Errors
    /// Fails if the name is longer than a label value may be.
    pub(crate) fn check_name(name: &str) -> Result<(), Misconfigured> {
        if name.len() <= MAX_NAME {
            return Ok(());
        }
        let length = name.len();
        Err(Misconfigured::new(
            "",
            format!("the name has {length} characters; the label of decisions allows at most {MAX_NAME}"),
        ))
    }

    /// Returns true if there are CEL expressions, which may read every field of a cluster.
    pub(crate) fn has_expressions(&self) -> bool {
        self.predicates.iter().any(Predicate::has_expressions)
    }

    /// Returns true if scores of this name affect the placement.
    pub fn reads_score(&self, name: &str) -> bool {
        let reads = |score: &ScoreKey| score.resource == name;
        self.has_expressions()
            || self.weights.iter().any(|weighted| weighted.add_on.as_ref().is_some_and(reads))
    }

    /// Returns true if scores determine the selection or order of clusters.
    pub(crate) fn is_ranked(&self) -> bool {
        self.wanted.is_some() || self.by_score || !self.spread.is_empty()
    }
}

fn wanted(number: i32) -> Result<usize, Misconfigured> {
    usize::try_from(number).map_err(|_| {
        let problem = format!("Invalid value: {number}: must be greater than or equal to 0");
        Misconfigured::new("", format!("numberOfClusters: {problem}"))
    })
}

fn read_groups(strategy: &GroupStrategy) -> Result<(Groups, GroupSize), Misconfigured> {
    let GroupStrategy { decision_groups, clusters_per_decision_group, unknown: _ } = strategy;
    Ok((Groups::read(decision_groups)?, group_size(clusters_per_decision_group)?))
}

fn group_size(size: &IntOrString) -> Result<GroupSize, Misconfigured> {
    match size {
        IntOrString::Int(count) => Ok(GroupSize::Count(i64::from(*count))),
        IntOrString::String(text) => match text.strip_suffix('%').and_then(|percent| percent.parse().ok()) {
            Some(percent) => Ok(GroupSize::Percent(percent)),
            None => Err(Misconfigured::new("", format!("{text} invalid type: string is not a percentage"))),
        },
    }
}

fn interval(text: &str) -> Option<SignedDuration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(seconds).map(SignedDuration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_sizes_round_up_and_never_exceed_the_selection() {
        for (size, selected, expected) in [
            (GroupSize::Percent(34), 10, 4),
            (GroupSize::Percent(100), 10, 10),
            (GroupSize::Percent(1), 10, 1),
            (GroupSize::Percent(11), 91, 11),
            (GroupSize::Percent(50), 3, 2),
            (GroupSize::Count(150), 300, 150),
            (GroupSize::Count(0), 300, 300),
            (GroupSize::Count(-5), 300, 300),
            (GroupSize::Count(500), 300, 300),
            (GroupSize::Percent(50), 0, 1),
        ] {
            assert_eq!(size.of(selected).get(), expected, "{size:?} of {selected}");
        }
    }

    #[test]
    fn groups_with_one_name_are_one_group_and_are_found_by_it() {
        let group = |name: &str| serde_json::json!({ "groupName": name, "groupClusterSelector": {} });
        let groups = serde_json::json!([group("twin"), group(""), group("other"), group("twin")]);
        let groups = Groups::read(&serde_json::from_value::<Vec<_>>(groups).unwrap()).unwrap();
        assert_eq!(groups.names, ["twin", "other"]);
        let found = ["twin", "other", "", "none"].map(|name| groups.named(name));
        assert_eq!(found, [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn a_name_fits_the_label_of_decisions() {
        assert!(SchedulingPolicy::check_name(&"n".repeat(MAX_NAME)).is_ok());
        assert!(SchedulingPolicy::check_name(&"n".repeat(MAX_NAME + 1)).is_err());
    }

    #[test]
    fn intervals_are_seconds_minutes_or_hours() {
        let seconds = ["30s", "2m", "3h", "4d", "m"].map(|text| interval(text).map(|time| time.as_secs()));
        assert_eq!(seconds, [Some(30), Some(120), Some(10_800), None, None]);
    }

    #[test]
    fn a_configured_prioritizer_does_not_change_the_weights_of_others() {
        let cpu =
            serde_json::json!({ "scoreCoordinate": { "builtIn": "ResourceAllocatableCPU" }, "weight": 3 });
        let spec = serde_json::json!({ "prioritizerPolicy": { "configurations": [cpu] } });
        let policy = SchedulingPolicy::read(&serde_json::from_value(spec).unwrap()).unwrap();
        let weights: Vec<_> =
            policy.weights.iter().map(|known| (known.prioritizer.name, known.weight)).collect();
        assert_eq!(weights, [("Balance", 1), ("Steady", 1), ("ResourceAllocatableCPU", 3)]);
    }

    #[test]
    fn refusals_name_the_plugin_and_the_value() {
        for (spec, message) in [
            (
                serde_json::json!({ "numberOfClusters": -1 }),
                ":numberOfClusters: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                serde_json::json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": "5" } } }),
                ":5 invalid type: string is not a percentage",
            ),
            (
                serde_json::json!({ "prioritizerPolicy": { "mode": "Precise" } }),
                ":incorrect prioritizer policy mode: Precise",
            ),
            (
                serde_json::json!({ "tolerations": [{ "value": "v" }] }),
                "TaintToleration:If the key is empty, operator must be Exists.",
            ),
        ] {
            let spec: PlacementSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(SchedulingPolicy::read(&spec).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn empty_fields_of_go_clients_mean_nothing() {
        let spec = serde_json::json!({
            "prioritizerPolicy": {},
            "spreadPolicy": {},
            "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": 0 } },
            "predicates": [{ "requiredClusterSelector": { "labelSelector": {}, "claimSelector": {}, "celSelector": {} } }],
        });
        let policy = SchedulingPolicy::read(&serde_json::from_value(spec).unwrap()).unwrap();
        assert_eq!((policy.wanted, policy.group_size, policy.weights.len()), (None, GroupSize::Count(0), 2));
    }
}
