//! A placement's spec, parsed and checked once.

use std::num::NonZeroUsize;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Misconfigured;
use super::filter::Facts;
use super::filter::predicate::{Matcher, Predicate};
use super::filter::taint;
use super::prioritizer::{Coordinate, weights};
use super::select::Constraint;
use api::cluster::v1beta1::{DecisionGroup, PlacementSpec, SortBy, Toleration};

/// What a placement wants.
#[derive(Debug)]
pub struct Policy {
    /// How many clusters; all that are feasible where absent.
    pub wanted: Option<usize>,
    /// Any of them must match; none means that every cluster does.
    pub predicates: Vec<Predicate>,
    /// Taints that do no harm.
    pub tolerations: Vec<Toleration>,
    /// What makes a cluster better than another, and by how much; no weight is 0.
    pub weights: Vec<(Coordinate, i32)>,
    /// Over what the clusters must be spread.
    pub spread: Vec<Constraint>,
    /// Named groups.
    pub groups: Groups,
    /// How large a group may be.
    pub group_size: GroupSize,
    /// Whether decisions are ordered by score.
    pub by_score: bool,
    /// How often scores alone may change decisions that are ordered by them.
    pub score_interval: SignedDuration,
}

/// Named groups. Those of one name are one group, because published decisions tell groups apart by nothing but their names.
#[derive(Debug)]
pub struct Groups {
    /// The names, in order.
    pub names: Vec<String>,
    /// Which clusters belong to which of them; the first that matches counts.
    members: Vec<(usize, Matcher)>,
}

impl Groups {
    fn read(groups: &[DecisionGroup]) -> Result<Self, Misconfigured> {
        let mut all = Self { names: Vec::new(), members: Vec::new() };
        for DecisionGroup { group_name: name, group_cluster_selector: selector, .. } in groups {
            let matcher = Matcher::read(selector.label_selector.as_ref(), selector.claim_selector.as_ref());
            if !name.is_empty() && !all.names.contains(name) {
                all.names.push(name.clone());
            }
            let matcher = matcher.map_err(|e| Misconfigured { plugin: "", ..e })?;
            let lane = all.names.iter().position(|known| known == name);
            all.members.push((lane.unwrap_or(usize::MAX), matcher));
        }
        Ok(all)
    }

    /// Which group a cluster belongs to: the first that matches, or the one without a name, which comes after them all.
    pub fn lane(&self, facts: &Facts) -> usize {
        let first = self.members.iter().find(|(_, matcher)| matcher.matches(facts));
        first.map_or(self.names.len(), |(lane, _)| *lane.min(&self.names.len()))
    }

    /// The position of a group by its name.
    pub fn lane_named(&self, name: &str) -> Option<usize> {
        if name.is_empty() {
            Some(self.names.len())
        } else {
            self.names.iter().position(|known| known == name)
        }
    }
}

/// The largest size of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSize {
    /// That many; 0 or less means all.
    Count(i64),
    /// Rounded up.
    Percent(i64),
}

impl GroupSize {
    /// The size for a number of selected clusters.
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

impl Policy {
    /// Reads and checks a spec; every part is checked even where no cluster would reach it.
    ///
    /// # Errors
    /// The first part that means nothing, in the order Open Cluster Management comes upon them.
    pub fn read(spec: &PlacementSpec) -> Result<Self, Misconfigured> {
        let predicates = Predicate::read(&spec.predicates)?;
        taint::validate(&spec.tolerations)?;
        let weights = weights(spec.prioritizer_policy.as_ref())?;
        let wanted = spec.number_of_clusters.map(usize::try_from).transpose().map_err(|_| {
            let number = spec.number_of_clusters.unwrap_or_default();
            Misconfigured::new(
                "",
                format!("numberOfClusters: Invalid value: {number}: must be greater than or equal to 0"),
            )
        })?;
        let strategy = spec.decision_strategy.as_ref().and_then(|strategy| strategy.group_strategy.as_ref());
        let groups =
            Groups::read(strategy.map(|strategy| strategy.decision_groups.as_slice()).unwrap_or_default())?;
        let constraints = spec
            .spread_policy
            .as_ref()
            .map(|spread| spread.spread_constraints.as_slice())
            .unwrap_or_default();
        Ok(Self {
            wanted,
            predicates,
            tolerations: spec.tolerations.clone(),
            weights,
            spread: constraints.iter().map(Constraint::read).collect(),
            groups,
            group_size: strategy.map_or(Ok(GroupSize::Count(0)), |strategy| {
                group_size(&strategy.clusters_per_decision_group)
            })?,
            by_score: spec.sort_by == SortBy::Score,
            score_interval: spec
                .score_rate_limit
                .as_deref()
                .and_then(interval)
                .unwrap_or(SignedDuration::from_mins(1)),
        })
    }

    /// Whether expressions may look at anything there is of a cluster.
    pub fn reads_everything(&self) -> bool {
        self.predicates.iter().any(Predicate::reads_everything)
    }

    /// Whether which clusters are selected, or in which order, depends on scores.
    pub fn is_ranked(&self) -> bool {
        self.wanted.is_some() || self.by_score || !self.spread.is_empty()
    }
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
            assert_eq!(Policy::read(&spec).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn what_go_clients_send_for_nothing_means_nothing() {
        let spec = serde_json::json!({
            "prioritizerPolicy": {},
            "spreadPolicy": {},
            "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": 0 } },
            "predicates": [{ "requiredClusterSelector": { "labelSelector": {}, "claimSelector": {}, "celSelector": {} } }],
        });
        let policy = Policy::read(&serde_json::from_value(spec).unwrap()).unwrap();
        assert_eq!((policy.wanted, policy.group_size, policy.weights.len()), (None, GroupSize::Count(0), 2));
    }
}
