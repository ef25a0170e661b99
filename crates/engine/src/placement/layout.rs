//! The group stage: divides the members into decision groups and slices, with as few moves as possible.
//!
//! The first layout is OCM's. Named groups come in order, then the remaining clusters. Each is cut into decision
//! groups of at most the group size, and each decision group into slices of 100, numbered from 1. Afterwards, a
//! cluster keeps its slice as long as it belongs to the named group, and new clusters fill gaps. A decision
//! group or slice is dissolved when the others have room for all its clusters. A named group that becomes empty
//! keeps its position.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use super::fleet::Id;
use super::published::PublishedSlice;

/// The maximum number of clusters in a slice.
pub(crate) const SLICE: usize = 100;

/// A cluster that belongs in the decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecidedCluster {
    pub id: Id,
    /// The index of its named group, or the number of named groups if it is in none.
    pub group: usize,
}

/// The desired layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutInput<'a> {
    /// The name of the placement, from which object names are derived.
    pub placement: &'a str,
    /// The named groups, in order.
    pub groups: &'a [String],
    /// The maximum size of a decision group.
    pub size: NonZeroUsize,
    /// The clusters that belong in the decisions, in order of arrival.
    pub members: &'a [DecidedCluster],
    /// The number of clusters that may be added beyond replacements for clusters that leave the same slice.
    pub spare: usize,
}

/// A desired PlacementDecision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The name of the object.
    pub name: String,
    /// The index of its decision group.
    pub index: u32,
    /// The name of its named group.
    pub group: String,
    /// The clusters in the slice.
    pub members: Vec<Id>,
}

/// A slice that is being filled.
#[derive(Default)]
struct SliceDraft<'a> {
    published: Option<&'a PublishedSlice>,
    members: Vec<Id>,
    /// The number of members that move to another slice. They leave only after they have arrived, so until then
    /// they take up room.
    moving: usize,
    /// The number of members that leave the placement. Each makes room for one newcomer in the same write.
    leaving: usize,
}

/// The slices of one decision group.
type GroupDraft<'a> = Vec<SliceDraft<'a>>;

/// Divides clusters into slices.
pub(crate) fn lay_out(request: &LayoutInput<'_>, published: &[PublishedSlice]) -> Vec<Slice> {
    let order: BTreeMap<Id, usize> =
        request.members.iter().enumerate().map(|(order, member)| (member.id, order)).collect();
    let mut previous = PreviousLayout::read(request, &order, published);
    let mut layout = Layout {
        group_size: request.size.get(),
        was_published: published.iter().flat_map(|slice| &slice.members).copied().collect(),
        order,
        spare: request.spare,
    };
    let rest = request.groups.len();
    let mut wanted: Vec<Vec<Id>> = vec![Vec::new(); rest + 1];
    for member in request.members {
        if let Some(group) = wanted.get_mut(member.group.min(rest)) {
            group.push(member.id);
        }
    }
    let mut groups: Vec<(&str, GroupDraft<'_>)> = Vec::new();
    for (position, wanted) in wanted.iter().enumerate() {
        let name = request.groups.get(position).map(String::as_str).unwrap_or_default();
        let mut drafts = layout.fill(previous.drafts.remove(&position).unwrap_or_default(), wanted);
        drafts.retain(|group| group.iter().any(|slice| !slice.members.is_empty()));
        if let (true, true, Some(first)) =
            (drafts.is_empty(), position < rest, previous.firsts.get(&position))
        {
            drafts.push(vec![SliceDraft::emptied(first)]);
        }
        groups.extend(drafts.into_iter().map(|group| (name, group)));
    }
    if groups.is_empty() {
        let numbered =
            published.iter().filter_map(|slice| Some((number(request.placement, &slice.name)?, slice)));
        let first = numbered.min_by_key(|(number, _)| *number).map(|(_, slice)| slice);
        groups.push(("", vec![first.map_or_else(SliceDraft::default, SliceDraft::emptied)]));
    }
    name_slices(request.placement, &layout.order, published, groups)
}

/// The published slices, with the members that may keep their places.
struct PreviousLayout<'a> {
    /// The decision groups of each named group.
    drafts: BTreeMap<usize, BTreeMap<u32, GroupDraft<'a>>>,
    /// The first slice of each named group.
    firsts: BTreeMap<usize, &'a PublishedSlice>,
}

impl<'a> PreviousLayout<'a> {
    fn read(request: &LayoutInput<'_>, order: &BTreeMap<Id, usize>, published: &'a [PublishedSlice]) -> Self {
        let mut previous = Self { drafts: BTreeMap::new(), firsts: BTreeMap::new() };
        let mut placed = BTreeSet::new();
        let mut numbered: Vec<(u32, &PublishedSlice)> = published
            .iter()
            .filter_map(|slice| Some((number(request.placement, &slice.name)?, slice)))
            .collect();
        numbered.sort_by_key(|(number, _)| *number);
        let mut last_index = BTreeMap::new();
        for (_, slice) in numbered {
            let group = match slice.group.as_str() {
                "" => Some(request.groups.len()),
                name => request.groups.iter().position(|group| group == name),
            };
            let Some(group) = group else { continue };
            previous.firsts.entry(group).or_insert(slice);
            let mut draft = SliceDraft::emptied(slice);
            for id in &slice.members {
                match order.get(id).and_then(|order| request.members.get(*order)) {
                    Some(member) if member.group == group && placed.insert(*id) => draft.members.push(*id),
                    Some(_) => draft.moving += 1,
                    None => draft.leaving += 1,
                }
            }
            // A slice without an index belongs to the group of the preceding slice.
            let index = slice.index.or_else(|| last_index.get(&group).copied());
            if let Some(index) = index {
                last_index.insert(group, index);
            }
            let groups = previous.drafts.entry(group).or_default();
            groups.entry(index.unwrap_or(u32::MAX)).or_default().push(draft);
        }
        previous
    }
}

impl<'a> SliceDraft<'a> {
    fn emptied(published: &'a PublishedSlice) -> Self {
        Self { published: Some(published), ..Self::default() }
    }

    fn remaining_capacity(&self) -> usize {
        SLICE.saturating_sub(self.members.len() + self.moving)
    }
}

fn size(group: &GroupDraft<'_>) -> usize {
    group.iter().map(|slice| slice.members.len()).sum()
}

/// The state while filling the named groups one by one.
struct Layout {
    group_size: usize,
    order: BTreeMap<Id, usize>,
    was_published: BTreeSet<Id>,
    /// The number of newcomers that may still be added.
    spare: usize,
}

impl Layout {
    /// Divides the clusters in one named group into decision groups of at most the group size, and these into
    /// slices.
    fn fill<'a>(&mut self, previous: BTreeMap<u32, GroupDraft<'a>>, wanted: &[Id]) -> Vec<GroupDraft<'a>> {
        let mut groups: Vec<GroupDraft<'a>> = previous.into_values().collect();
        let old = wanted.iter().filter(|id| self.was_published.contains(id)).count();
        let leaving: usize = groups.iter().flatten().map(|slice| slice.leaving).sum();
        let places = leaving.saturating_add(self.spare);
        groups.truncate((old + places.min(wanted.len() - old)).div_ceil(self.group_size));
        groups.iter_mut().for_each(|group| shrink(group, self.group_size));
        let settled: BTreeSet<Id> =
            groups.iter().flatten().flat_map(|slice| &slice.members).copied().collect();
        let arrivals = wanted.iter().copied().filter(|id| !settled.contains(id));
        let (mut arrivals, newcomers): (Vec<Id>, Vec<Id>) =
            arrivals.partition(|id| self.was_published.contains(id));
        let mut newcomers = VecDeque::from(newcomers);
        for group in &mut groups {
            let mut open = self.group_size.saturating_sub(size(group));
            for slice in group {
                let successors = open.min(slice.leaving).min(slice.remaining_capacity()).min(newcomers.len());
                open -= successors;
                slice.members.extend(newcomers.drain(..successors));
            }
        }
        newcomers.truncate(self.spare);
        self.spare -= newcomers.len();
        arrivals.extend(newcomers);
        arrivals.sort_by_key(|id| self.order.get(id));
        let mut arrivals = VecDeque::from(arrivals);
        for position in 0.. {
            if arrivals.is_empty() {
                break;
            }
            if position == groups.len() {
                groups.push(Vec::new());
            }
            let Some(group) = groups.get_mut(position) else { break };
            let open = self.group_size.saturating_sub(size(group)).min(arrivals.len());
            fill_slices(group, arrivals.drain(..open).collect());
        }
        groups.iter_mut().for_each(compact);
        groups
    }
}

/// Removes the members in excess of the group size from the last slices of a decision group.
fn shrink(group: &mut GroupDraft<'_>, group_size: usize) {
    let mut excess = size(group).saturating_sub(group_size);
    for slice in group.iter_mut().rev() {
        let stay = slice.members.len().saturating_sub(excess);
        let moving = slice.members.len() - stay;
        excess -= moving;
        slice.moving += moving;
        slice.members.truncate(stay);
    }
}

/// Puts clusters into slices of a decision group with room, then into new slices.
fn fill_slices(group: &mut GroupDraft<'_>, mut arrivals: VecDeque<Id>) {
    for slice in group.iter_mut() {
        let room = slice.remaining_capacity().min(arrivals.len());
        slice.members.extend(arrivals.drain(..room));
    }
    while !arrivals.is_empty() {
        let members = arrivals.drain(..SLICE.min(arrivals.len())).collect();
        group.push(SliceDraft { members, ..SliceDraft::default() });
    }
}

/// Dissolves the last slice of a decision group while the others have room for all its clusters.
fn compact(group: &mut GroupDraft<'_>) {
    while group.len() > 1 {
        let Some((last, others)) = group.split_last() else { break };
        if others.iter().map(SliceDraft::remaining_capacity).sum::<usize>() < last.members.len() {
            break;
        }
        let members = group.pop().map(|slice| slice.members).unwrap_or_default();
        fill_slices(group, members.into());
    }
}

/// Numbers the groups and names the new slices.
fn name_slices(
    placement: &str,
    order: &BTreeMap<Id, usize>,
    published: &[PublishedSlice],
    groups: Vec<(&str, GroupDraft<'_>)>,
) -> Vec<Slice> {
    let taken: BTreeSet<u32> = published.iter().filter_map(|slice| number(placement, &slice.name)).collect();
    let mut free = (1..).filter(|number| !taken.contains(number));
    let mut slices = Vec::new();
    for (index, (group, drafts)) in (0..).zip(groups) {
        for draft in drafts {
            let mut members = draft.members;
            members.sort_by_key(|id| order.get(id));
            let name = match draft.published {
                Some(published) => published.name.clone(),
                None => slice_name(placement, free.next().unwrap_or(u32::MAX)),
            };
            slices.push(Slice { name, index, group: group.to_owned(), members });
        }
    }
    slices
}

/// Returns the name of a slice of a placement.
pub(super) fn slice_name(placement: &str, number: u32) -> String {
    format!("{placement}-decision-{number}")
}

/// Returns the number at the end of a slice's name; `None` for objects that the scheduler did not create. Their
/// clusters move to other slices, and the objects are deleted.
fn number(placement: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(placement)?.strip_prefix("-decision-")?;
    digits.parse().ok().filter(|number: &u32| *number > 0 && number.to_string() == digits)
}
