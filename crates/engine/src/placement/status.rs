//! The status of a placement: the counts of its published decisions, and its two conditions.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::filter::FilterResult;
use super::input::{Cycle, ScheduleInput};
use super::layout::{Slice, slice_name};
use super::policy::Misconfigured;
use super::publish::{DecisionLabels, DecisionWrite};
use super::published::{Published, PublishedSlice};
use super::schedule::Schedule;
use super::select::CycleSelection;
use super::sets::SetMembers;
use api::cluster::v1beta1::{DecisionGroupStatus, PlacementStatus};
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, find_condition, set_condition};
use api::names::placement_conditions::{MISCONFIGURED, SATISFIED};
use object::Metadata as _;

const UNMATCHED: &str = "No ManagedCluster matches any of the cluster predicate";

/// The data of a slice that is counted in the status.
pub(super) struct SliceCount<'a> {
    name: &'a str,
    index: u32,
    group: &'a str,
    clusters: usize,
}

impl<'a> SliceCount<'a> {
    pub(super) fn new(slice: &'a Slice) -> Self {
        Self { name: &slice.name, index: slice.index, group: &slice.group, clusters: slice.members.len() }
    }

    pub(super) fn published(slice: &'a PublishedSlice) -> Self {
        Self {
            name: &slice.name,
            index: slice.index.unwrap_or_default(),
            group: &slice.group,
            clusters: slice.members.len(),
        }
    }
}

/// Writes the groups and the number of clusters to the status. Slices are sorted by number, 2 before 10.
pub(super) fn count<'a>(status: &mut PlacementStatus, slices: impl Iterator<Item = SliceCount<'a>>) -> usize {
    let mut groups: BTreeMap<u32, DecisionGroupStatus> = BTreeMap::new();
    let mut published = 0;
    for SliceCount { name, index, group, clusters } in slices {
        let status = groups.entry(index).or_default();
        status.decision_group_index = i32::try_from(index).unwrap_or(i32::MAX);
        group.clone_into(&mut status.decision_group_name);
        status.decisions.push(name.to_owned());
        status.cluster_count += i32::try_from(clusters).unwrap_or(i32::MAX);
        published += clusters;
    }
    for group in groups.values_mut() {
        group.decisions.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    }
    status.number_of_selected_clusters = groups.values().map(|group| group.cluster_count).sum();
    status.decision_groups = groups.into_values().collect();
    published
}

/// Sets the conditions of a scheduled placement.
pub(super) fn scheduled(
    status: &mut PlacementStatus,
    cycle: &Cycle<'_>,
    input: &ScheduleInput<'_>,
    selection: &CycleSelection,
) {
    let configured = Observation::new(MISCONFIGURED, False, "Succeedconfigured")
        .message("Placement configurations check pass");
    set_condition(&mut status.conditions, configured, cycle.now);
    set_condition(&mut status.conditions, satisfied(cycle, input, selection), cycle.now);
}

/// Returns the schedule of an invalid placement, which keeps its decisions. As in OCM, a placement without
/// decisions gets an empty one. If an unread decision exists, this creation fails without harm.
pub(super) fn misconfigured(
    input: &ScheduleInput<'_>,
    published: &Published,
    refusal: &Misconfigured,
    now: Timestamp,
) -> Schedule {
    let mut status = input.placement.status.clone().unwrap_or_default();
    count(&mut status, published.slices.iter().map(SliceCount::published));
    let message = format!("{refusal}; the decisions are kept");
    let refused = Observation::new(MISCONFIGURED, True, "Misconfigured").message(message);
    set_condition(&mut status.conditions, refused, now);
    if find_condition(&status.conditions, SATISFIED).is_none() {
        set_condition(&mut status.conditions, unsatisfied("NoManagedClusterMatched", UNMATCHED), now);
    }
    let name = slice_name(input.placement.name(), 1);
    let first = DecisionWrite::Create(DecisionLabels { name, index: 0, group: String::new() });
    let steps = if published.slices.is_empty() { vec![vec![first]] } else { Vec::new() };
    Schedule { status, steps, ..Schedule::default() }
}

fn unsatisfied(reason: &str, message: impl Into<String>) -> Observation {
    Observation::new(SATISFIED, False, reason).message(message)
}

/// Returns the condition `PlacementSatisfied`.
fn satisfied(cycle: &Cycle<'_>, input: &ScheduleInput<'_>, selection: &CycleSelection) -> Observation {
    if input.bound.is_empty() {
        let message = "No valid ManagedClusterSetBindings found in placement namespace";
        return unsatisfied("NoManagedClusterSetBindings", message);
    }
    if cycle.sets.is_empty() {
        let asked = input.placement.spec.cluster_sets.join(",");
        let message = format!("None of ManagedClusterSets [{asked}] is bound to placement namespace");
        return unsatisfied("NoIntersection", message);
    }
    for set in cycle.sets {
        if let SetMembers::Unknown(set, reason) = set {
            let message = format!(
                "ManagedClusterSet {set}: {reason}; clusters that it may contain keep their decisions"
            );
            return unsatisfied("NotAllDecisionsScheduled", message);
        }
    }
    if selection.in_sets() == 0 {
        let eligible = cycle.sets.iter().map(SetMembers::name).collect::<Vec<_>>().join(",");
        let message = format!("All ManagedClusterSets [{eligible}] have no member ManagedCluster");
        return unsatisfied("AllManagedClusterSetsEmpty", message);
    }
    let selected = selection.selected(cycle.policy);
    if selected == 0 {
        // OCM blames only the predicates, even if something else removed the clusters. See
        // docs/hazards.md#predicates-blamed.
        let tainted = selection.count(FilterResult::Tainted) + selection.count(FilterResult::Expired);
        let message = match tainted {
            0 => UNMATCHED.into(),
            tainted => format!(
                "{UNMATCHED} and tolerates its taints; {tainted} match, with taints that are not tolerated"
            ),
        };
        return unsatisfied("NoManagedClusterMatched", message);
    }
    match cycle.policy.wanted.map(|wanted| wanted - selected) {
        None | Some(0) => Observation::new(SATISFIED, True, "AllDecisionsScheduled")
            .message("All cluster decisions scheduled"),
        Some(missing) => {
            unsatisfied("NotAllDecisionsScheduled", format!("{missing} cluster decisions unscheduled"))
        }
    }
}
