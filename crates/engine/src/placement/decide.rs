//! Turns the selection into writes: groups the members, divides them into slices, and publishes the difference.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::events::{EventSource, events};
use super::fleet::Id;
use super::input::{Cycle, ScheduleInput};
use super::layout::{DecidedCluster, LayoutInput, Slice, lay_out};
use super::prioritizer::{Range, measure};
use super::publish::{DecisionWrite, DesiredSlice, publish};
use super::published::LEAVING;
use super::rank::total;
use super::removal::{ClusterRemoval, removals};
use super::schedule::Schedule;
use super::select::CycleSelection;
use super::status;
use api::cluster::v1beta1::{ClusterDecision, PlacementDecision};
use object::duration::later;

/// Decides the writes for the clusters whose published decisions are out of date.
///
/// `unsettled` is `None` if every slice is known to be up to date. In that case only scores may need to be
/// written.
pub(super) fn decide(
    cycle: &Cycle<'_>,
    input: &ScheduleInput<'_>,
    selection: &CycleSelection,
    unsettled: Option<&BTreeSet<Id>>,
) -> Schedule {
    let mut schedule =
        Schedule { status: input.placement.status.clone().unwrap_or_default(), ..Schedule::default() };
    let refresh_at = refresh_scores_at(cycle, input, selection);
    let refreshes = refresh_at.is_some_and(|at| at <= cycle.now);
    let mut wake_at = vec![selection.deadline, refresh_at.filter(|_| !refreshes)];
    let published = if unsettled.is_some() || refreshes {
        let unsettled = unsettled.into_iter().flatten().copied().collect::<Vec<_>>();
        let removals = removals(cycle, selection, unsettled.iter().copied());
        wake_at.push(removals.values().filter_map(|removal| removal.ends()).min());
        let decision =
            LayoutBuilder { cycle, input, selection, removals, refreshes, ranges: OnceCell::new() };
        let slices = decision.lay_out(&unsettled);
        decision.publish(&slices, &mut schedule);
        status::count(&mut schedule.status, slices.iter().map(status::SliceCount::new))
    } else {
        status::count(&mut schedule.status, cycle.published.slices.iter().map(status::SliceCount::published))
    };
    schedule.wake_at = wake_at.into_iter().flatten().min();
    status::scheduled(&mut schedule.status, cycle, input, selection);
    debug_assert!(
        cycle.policy.wanted.is_none_or(|wanted| published <= wanted.max(cycle.published.len())),
        "more decisions than wanted"
    );
    schedule
}

/// Returns the time from which changed scores alone may rewrite decisions that are ordered by score; `None` if
/// no score changed.
fn refresh_scores_at(
    cycle: &Cycle<'_>,
    input: &ScheduleInput<'_>,
    selection: &CycleSelection,
) -> Option<Timestamp> {
    if !cycle.policy.by_score {
        return None;
    }
    let is_stale = |entry: &ClusterDecision| {
        let id = cycle.fleet.id(&entry.cluster_name).filter(|id| selection.is_feasible(*id));
        entry.score != id.map(|id| i64::from(total(cycle, &selection.ranges, id).value))
    };
    input.decisions.iter().flat_map(|decision| entries(decision)).find(|entry| is_stale(entry))?;
    let last = input.placement.status.as_ref().and_then(|status| status.last_score_update_time.as_ref());
    let interval = cycle.policy.score_interval;
    Some(last.map_or(cycle.now, |last| later(last.0, interval)))
}

fn entries(decision: &PlacementDecision) -> &[ClusterDecision] {
    decision.status.as_ref().map(|status| status.decisions.as_slice()).unwrap_or_default()
}

/// A layout in progress.
struct LayoutBuilder<'a> {
    cycle: &'a Cycle<'a>,
    input: &'a ScheduleInput<'a>,
    selection: &'a CycleSelection,
    removals: BTreeMap<Id, ClusterRemoval>,
    /// True to rewrite entries of which only the scores changed.
    refreshes: bool,
    ranges: OnceCell<Vec<Range>>,
}

impl LayoutBuilder<'_> {
    /// Divides the clusters to publish into slices.
    fn lay_out(&self, unsettled: &[Id]) -> Vec<Slice> {
        let Cycle { policy, published, .. } = *self.cycle;
        let members: Vec<DecidedCluster> = self
            .members(unsettled)
            .into_iter()
            .map(|id| DecidedCluster { id, group: self.group(id) })
            .collect();
        // Clusters that wait for a leaving cluster's place do not increase the group size.
        let places = policy.wanted.map_or(usize::MAX, |wanted| wanted.max(published.len()));
        let request = LayoutInput {
            placement: self.input.placement.metadata.name.as_deref().unwrap_or_default(),
            groups: &policy.groups.names,
            size: policy.group_size.of(members.len().min(places)),
            members: &members,
            spare: policy.wanted.map_or(usize::MAX, |wanted| wanted.saturating_sub(published.len())),
        };
        lay_out(&request, &published.slices)
    }

    /// Returns the clusters to publish, in order: first arriving clusters, then those that stay or leave later.
    fn members(&self, unsettled: &[Id]) -> Vec<Id> {
        let Cycle { policy, fleet, published, .. } = *self.cycle;
        let arriving = unsettled
            .iter()
            .copied()
            .filter(|id| !published.contains(*id) && self.selection.is_selected(self.cycle, *id));
        let staying = published.clusters().filter(|id| self.removals.get(id) != Some(&ClusterRemoval::Now));
        let mut members: Vec<Id> = arriving.chain(staying).collect();
        if policy.by_score {
            let ranks: BTreeMap<Id, usize> =
                self.selection.ranking.iter().enumerate().map(|(rank, id)| (*id, rank)).collect();
            members.sort_by_key(|id| (ranks.get(id).copied().unwrap_or(usize::MAX), fleet.name(*id)));
        } else {
            members.sort_by_key(|id| fleet.name(*id));
        }
        members
    }

    /// Returns the group of a cluster. A leaving cluster stays in its published group.
    fn group(&self, id: Id) -> usize {
        let Cycle { policy, fleet, published, .. } = *self.cycle;
        match (self.removals.contains_key(&id), fleet.attributes(id)) {
            (false, Some(attributes)) => policy.groups.of(attributes),
            (true, _) | (_, None) => {
                let group = published.slice_of(id).map(|slice| slice.group.as_str()).unwrap_or_default();
                policy.groups.named(group).unwrap_or(policy.groups.names.len())
            }
        }
    }

    /// Adds the writes that produce the slices, and their events.
    fn publish(&self, slices: &[Slice], schedule: &mut Schedule) {
        let Cycle { policy, fleet, published, now, .. } = *self.cycle;
        let positions: BTreeMap<&str, usize> =
            published.slices.iter().enumerate().map(|(at, slice)| (slice.name.as_str(), at)).collect();
        let targets: Vec<DesiredSlice<'_>> = slices
            .iter()
            .map(|slice| DesiredSlice {
                slice,
                changed: self.differs(slice, positions.get(slice.name.as_str())),
            })
            .collect();
        schedule.steps = publish(fleet, &published.slices, &targets, |id| self.entry(id));
        let writes = || schedule.steps.iter().flatten();
        if policy.by_score && writes().any(|write| matches!(write, DecisionWrite::Decide { .. })) {
            schedule.status.last_score_update_time = Some(Time(now.round(Unit::Second).unwrap_or(now)));
        }
        if !schedule.steps.is_empty() {
            let source = EventSource {
                cycle: self.cycle,
                placement: self.input.placement,
                selection: self.selection,
                ranges: self.ranges(),
            };
            schedule.events = events(&source, &schedule.steps);
        }
    }

    /// Returns true if the published entries of a slice differ from the desired ones.
    fn differs(&self, slice: &Slice, position: Option<&usize>) -> bool {
        let published = position.and_then(|at| self.cycle.published.slices.get(*at));
        let Some(published) = published.filter(|published| published.is_written) else { return true };
        if self.refreshes {
            let decision = position.and_then(|at| self.input.decisions.get(*at));
            let entries = decision.map(|decision| entries(decision)).unwrap_or_default();
            return !slice.members.iter().map(|id| self.entry(*id)).eq(entries.iter().cloned());
        }
        let reason = |id: &Id| Some((*id, self.reason(*id)?));
        sorted(&slice.members) != sorted(&published.members)
            || !slice.members.iter().filter_map(reason).collect::<BTreeMap<_, _>>().eq(&published.reasons)
    }

    fn entry(&self, id: Id) -> ClusterDecision {
        let feasible = self.selection.is_feasible(id);
        ClusterDecision {
            cluster_name: self.cycle.fleet.name(id).to_owned(),
            reason: self.reason(id).unwrap_or_default(),
            score: feasible.then(|| i64::from(total(self.cycle, self.ranges(), id).value)),
            ..ClusterDecision::default()
        }
    }

    fn reason(&self, id: Id) -> Option<String> {
        match self.removals.get(&id)? {
            ClusterRemoval::Now => None,
            ClusterRemoval::Since(since) => Some(format!("{LEAVING}{since}")),
        }
    }

    /// Returns the ranges to which scores are relative. Without a ranking, they are measured only when an entry
    /// is written.
    fn ranges(&self) -> &[Range] {
        if self.cycle.policy.is_ranked() {
            return &self.selection.ranges;
        }
        self.ranges.get_or_init(|| {
            let feasible: Vec<Id> = self.selection.feasible(self.cycle.fleet).collect();
            measure(self.cycle, &feasible)
        })
    }
}

fn sorted(members: &[Id]) -> Vec<Id> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members
}
