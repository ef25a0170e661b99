//! The ranges of prioritizers, cached across cycles.

use std::collections::BTreeMap;

use super::{Range, Scale, Weighted};
use crate::placement::fleet::Id;
use crate::placement::input::Cycle;
use crate::placement::select::CycleSelection;

/// The values that feasible clusters report to comparing prioritizers, by the position of the prioritizer.
#[derive(Debug, Default)]
pub(in crate::placement) struct Reported(BTreeMap<usize, BTreeMap<Id, f64>>);

impl Reported {
    /// Measures every weighted prioritizer like [`measure`](super::measure()), given only the clusters that
    /// changed.
    pub(in crate::placement) fn measure(
        &mut self,
        cycle: &Cycle<'_>,
        selection: &CycleSelection,
        clusters: &[Id],
    ) -> Vec<Range> {
        let weights = cycle.policy.weights.iter().enumerate();
        let range = |(position, weighted): (usize, &Weighted)| {
            let before = selection.ranges.get(position).copied().unwrap_or_default();
            match weighted.prioritizer.scale {
                Scale::Absolute => Range::default(),
                Scale::Hub(measure) => measure(cycle.fleet, cycle.published),
                Scale::Feasible(reported) => {
                    let feasible = |id: Id| cycle.fleet.cluster(id).filter(|_| selection.is_feasible(id));
                    let values =
                        clusters.iter().map(|id| (*id, feasible(*id).and_then(|cluster| reported(cluster))));
                    update(self.0.entry(position).or_default(), before, values)
                }
            }
        };
        weights.map(range).collect()
    }
}

/// Applies changed values. Visits the others only if the minimum or maximum is gone.
fn update(
    values: &mut BTreeMap<Id, f64>,
    mut range: Range,
    changed: impl Iterator<Item = (Id, Option<f64>)>,
) -> Range {
    let mut shrinks = false;
    for (id, value) in changed {
        let before = match value {
            Some(value) => values.insert(id, value),
            None => values.remove(&id),
        };
        shrinks |=
            before != value && before.is_some_and(|before| before <= range.least || before >= range.most);
        range = value.map_or(range, |value| range.with(value));
    }
    if shrinks { values.values().copied().fold(Range::default(), Range::with) } else { range }
}
