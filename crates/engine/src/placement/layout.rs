//! How selected clusters are divided into decision groups and slices, so that what need not move stays.
//!
//! From nothing, the layout is that of Open Cluster Management: named groups in order, then the rest, each sorted and cut into
//! runs of the group size, each run cut into slices of 100, slices numbered from 1. From there, a cluster keeps its slice for as
//! long as it belongs to the group; arrivals fill holes; a run or a slice is dissolved when the others have room for all of it; a
//! named group that has become empty keeps its place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;

/// Most clusters in one slice.
pub const SLICE: usize = 100;

/// A published PlacementDecision, as far as the layout is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Name of the object.
    pub name: String,
    /// Its group's index, where its label is one.
    pub index: Option<u32>,
    /// Its group's name.
    pub group: String,
    /// The clusters in it.
    pub members: Vec<String>,
}

/// A cluster that should be in the decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Position of its group: that of a named one, or the number of named ones.
    pub lane: usize,
    /// Where it comes among those that arrive with it.
    pub order: usize,
}

/// The wanted division.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Name of the placement, which objects are named after.
    pub placement: &'a str,
    /// Names of the groups, in order.
    pub groups: Vec<&'a str>,
    /// Largest size of a group.
    pub size: NonZeroUsize,
    /// Every cluster that should be in the decisions.
    pub wishes: BTreeMap<&'a str, Wish>,
    /// How many of them may be added beyond those that take the place of one that leaves the same slice.
    pub spare: usize,
}

/// A PlacementDecision as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Name of the object.
    pub name: String,
    /// Index of its group.
    pub index: u32,
    /// Name of its group.
    pub group: String,
    /// The clusters in it.
    pub members: Vec<String>,
}

/// A slice while it is filled.
struct Work<'a> {
    held: Option<&'a Held>,
    members: Vec<&'a str>,
    /// Members that move elsewhere; they leave only after they have arrived, so until then they take up room.
    moving: usize,
    /// Members that leave the placement; each makes room for one newcomer in the same write.
    leaving: usize,
}

/// The slices of one group index.
type Run<'a> = Vec<Work<'a>>;

/// Divides clusters into slices.
pub fn lay_out<'a>(request: &'a Request<'a>, held: &'a [Held]) -> Vec<Slice> {
    let mut spare = request.spare;
    let mut kept = Kept::sort(request, held);
    let was_held: BTreeSet<&str> =
        held.iter().flat_map(|held| held.members.iter().map(String::as_str)).collect();
    let mut groups: Vec<(&str, Run<'a>)> = Vec::new();
    let rest = request.groups.len();
    let mut lanes: Vec<BTreeSet<(usize, &str)>> = vec![BTreeSet::new(); rest + 1];
    for (cluster, wish) in &request.wishes {
        lanes.get_mut(wish.lane.min(rest)).map(|lane| lane.insert((wish.order, cluster)));
    }
    for (lane, wished) in lanes.iter().enumerate() {
        let name = request.groups.get(lane).copied().unwrap_or_default();
        let mut runs =
            fill_runs(request, kept.runs.remove(&lane).unwrap_or_default(), wished, &was_held, &mut spare);
        runs.retain(|run| run.iter().any(|work| !work.members.is_empty()));
        if let (true, true, Some(first)) = (runs.is_empty(), lane < rest, kept.firsts.get(&lane)) {
            runs.push(vec![Work::empty(first)]);
        }
        groups.extend(runs.into_iter().map(|run| (name, run)));
    }
    if groups.is_empty() {
        let numbered = held.iter().filter_map(|held| Some((number(request.placement, &held.name)?, held)));
        let first = numbered.min_by_key(|(number, _)| *number).map(|(_, held)| held);
        groups.push(("", vec![first.map_or_else(Work::fresh, Work::empty)]));
    }
    name_slices(request, held, groups)
}

/// What of the published slices stays as it is.
struct Kept<'a> {
    runs: BTreeMap<usize, BTreeMap<u32, Run<'a>>>,
    firsts: BTreeMap<usize, &'a Held>,
}

impl<'a> Kept<'a> {
    fn sort(request: &'a Request<'a>, held: &'a [Held]) -> Self {
        let mut kept = Self { runs: BTreeMap::new(), firsts: BTreeMap::new() };
        let mut placed = BTreeSet::new();
        let mut ordered: Vec<&Held> = held.iter().collect();
        ordered.retain(|held| number(request.placement, &held.name).is_some());
        ordered.sort_by_key(|held| number(request.placement, &held.name));
        let mut index = BTreeMap::new();
        for held in ordered {
            let lane = match held.group.as_str() {
                "" => Some(request.groups.len()),
                name => request.groups.iter().position(|group| *group == name),
            };
            let Some(lane) = lane else { continue };
            kept.firsts.entry(lane).or_insert(held);
            let mut work = Work::empty(held);
            for member in held.members.iter().map(String::as_str) {
                match request.wishes.get(member) {
                    Some(wish) if wish.lane == lane && placed.insert(member) => work.members.push(member),
                    Some(_) => work.moving += 1,
                    None => work.leaving += 1,
                }
            }
            // A slice whose index somebody took away belongs with the one before it.
            let index = held
                .index
                .or_else(|| index.get(&lane).copied())
                .inspect(|known| _ = index.insert(lane, *known));
            kept.runs.entry(lane).or_default().entry(index.unwrap_or(u32::MAX)).or_default().push(work);
        }
        kept
    }
}

impl<'a> Work<'a> {
    fn fresh() -> Self {
        Self { held: None, members: Vec::new(), moving: 0, leaving: 0 }
    }

    fn empty(held: &'a Held) -> Self {
        Self { held: Some(held), ..Self::fresh() }
    }

    fn room(&self) -> usize {
        SLICE.saturating_sub(self.members.len() + self.moving)
    }
}

fn size(run: &Run<'_>) -> usize {
    run.iter().map(|work| work.members.len()).sum()
}

/// Divides the clusters of one lane into runs of at most the group size, and these into slices.
fn fill_runs<'a>(
    request: &Request<'_>,
    kept: BTreeMap<u32, Run<'a>>,
    wished: &BTreeSet<(usize, &'a str)>,
    was_held: &BTreeSet<&str>,
    spare: &mut usize,
) -> Vec<Run<'a>> {
    let group_size = request.size.get();
    let mut runs: Vec<Run<'a>> = kept.into_values().collect();
    let old = wished.iter().filter(|(_, cluster)| was_held.contains(cluster)).count();
    let places = runs.iter().flatten().map(|work| work.leaving).sum::<usize>().saturating_add(*spare);
    runs.truncate((old + places.min(wished.len() - old)).div_ceil(group_size));
    for run in &mut runs {
        let mut excess = size(run).saturating_sub(group_size);
        for work in run.iter_mut().rev() {
            let stay = work.members.len().saturating_sub(excess);
            excess -= work.members.len() - stay;
            work.moving += work.members.len() - stay;
            work.members.truncate(stay);
        }
    }
    let settled: BTreeSet<&str> =
        runs.iter().flatten().flat_map(|work| work.members.iter().copied()).collect();
    let arrivals = wished.iter().map(|(_, cluster)| *cluster).filter(|cluster| !settled.contains(cluster));
    let (movers, newcomers): (Vec<&str>, Vec<&str>) =
        arrivals.partition(|cluster| was_held.contains(cluster));
    let mut newcomers = VecDeque::from(newcomers);
    for run in &mut runs {
        let mut open = group_size.saturating_sub(size(run));
        for work in run {
            let successors = open.min(work.leaving).min(work.room()).min(newcomers.len());
            open -= successors;
            work.members.extend(newcomers.drain(..successors));
        }
    }
    newcomers.truncate(*spare);
    *spare -= newcomers.len();
    let mut arrivals: Vec<&str> = movers.into_iter().chain(newcomers).collect();
    arrivals.sort_by_key(|cluster| request.wishes.get(cluster).map(|wish| wish.order));
    let mut arrivals = arrivals.into_iter().peekable();
    for at in 0.. {
        if arrivals.peek().is_none() {
            break;
        }
        if at == runs.len() {
            runs.push(Vec::new());
        }
        let Some(run) = runs.get_mut(at) else { break };
        let open = group_size.saturating_sub(size(run));
        fill_slices(run, arrivals.by_ref().take(open).collect());
    }
    runs.iter_mut().for_each(compact);
    runs
}

/// Puts clusters into the slices of a run that have room, then into new ones.
fn fill_slices<'a>(run: &mut Run<'a>, mut arrivals: VecDeque<&'a str>) {
    for work in run.iter_mut() {
        let room = work.room().min(arrivals.len());
        work.members.extend(arrivals.drain(..room));
    }
    while !arrivals.is_empty() {
        let members = arrivals.drain(..SLICE.min(arrivals.len())).collect();
        run.push(Work { members, ..Work::fresh() });
    }
}

/// Dissolves the last slice of a run for as long as the others have room for all of it.
fn compact(run: &mut Run<'_>) {
    while run.len() > 1 {
        let Some((last, others)) = run.split_last() else { break };
        if others.iter().map(Work::room).sum::<usize>() < last.members.len() {
            break;
        }
        let members = run.pop().map(|work| work.members).unwrap_or_default();
        fill_slices(run, members.into());
    }
}

/// Numbers the groups and names the slices that are new.
fn name_slices(request: &Request<'_>, held: &[Held], groups: Vec<(&str, Run<'_>)>) -> Vec<Slice> {
    let taken: BTreeSet<u32> = held.iter().filter_map(|held| number(request.placement, &held.name)).collect();
    let mut free = (1..).filter(|number| !taken.contains(number));
    let mut slices = Vec::new();
    for (index, (group, run)) in (0..).zip(groups) {
        for work in run {
            let mut members: Vec<&str> = work.members;
            members.sort_by_key(|cluster| request.wishes.get(cluster).map(|wish| wish.order));
            let name = match work.held {
                Some(held) => held.name.clone(),
                None => format!("{}-decision-{}", request.placement, free.next().unwrap_or(u32::MAX)),
            };
            let members = members.into_iter().map(str::to_owned).collect();
            slices.push(Slice { name, index, group: group.to_owned(), members });
        }
    }
    slices
}

/// The number at the end of a slice's name. Objects of another name are not ours: their clusters move, and they are deleted.
fn number(placement: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(placement)?.strip_prefix("-decision-")?;
    digits.parse().ok().filter(|number: &u32| *number > 0 && number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lays out `wishes` (cluster, lane) over `held`, and writes slices as `name[index group]: members`.
    fn check(
        groups: &[&str],
        size: usize,
        wishes: &[(String, usize)],
        spare: usize,
        held: &[Held],
    ) -> Vec<Slice> {
        let mut names: Vec<_> = wishes.iter().collect();
        names.sort();
        let wishes = names
            .iter()
            .enumerate()
            .map(|(order, (name, lane))| (name.as_str(), Wish { lane: *lane, order }))
            .collect();
        let size = NonZeroUsize::new(size).unwrap();
        lay_out(&Request { placement: "p", groups: groups.to_vec(), size, wishes, spare }, held)
    }

    fn held(slices: &[Slice]) -> Vec<Held> {
        let held = |s: &Slice| Held {
            name: s.name.clone(),
            index: Some(s.index),
            group: s.group.clone(),
            members: s.members.clone(),
        };
        slices.iter().map(held).collect()
    }

    fn clusters(prefix: &str, count: usize, lane: usize) -> Vec<(String, usize)> {
        (0..count).map(|i| (format!("{prefix}{i:03}"), lane)).collect()
    }

    fn shape(slices: &[Slice]) -> Vec<(&str, u32, &str, usize)> {
        slices.iter().map(|s| (s.name.as_str(), s.index, s.group.as_str(), s.members.len())).collect()
    }

    #[test]
    fn the_first_layout_is_that_of_ocm() {
        let wishes = [clusters("w", 10, 0), clusters("e", 10, 1), clusters("c", 290, 2)].concat();
        let slices = check(&["west", "east"], 150, &wishes, usize::MAX, &[]);
        assert_eq!(
            shape(&slices),
            [
                ("p-decision-1", 0, "west", 10),
                ("p-decision-2", 1, "east", 10),
                ("p-decision-3", 2, "", 100),
                ("p-decision-4", 2, "", 50),
                ("p-decision-5", 3, "", 100),
                ("p-decision-6", 3, "", 40),
            ]
        );
        assert!(
            slices[2].members.last() < slices[3].members.first()
                && slices[3].members.last() < slices[4].members.first()
        );
    }

    #[test]
    fn nothing_selected_is_one_empty_slice() {
        let slices = check(&["west"], 1, &[], usize::MAX, &[]);
        assert_eq!(shape(&slices), [("p-decision-1", 0, "", 0)]);
        let before = check(&[], 300, &clusters("c", 250, 0), usize::MAX, &[]);
        assert_eq!(shape(&check(&[], 1, &[], usize::MAX, &held(&before))), [("p-decision-1", 0, "", 0)]);
    }

    #[test]
    fn an_early_name_moves_nobody() {
        let before = check(&[], 50, &clusters("c", 145, 0), usize::MAX, &[]);
        let after = check(
            &[],
            50,
            &[clusters("a", 1, 0), clusters("c", 145, 0)].concat(),
            usize::MAX,
            &held(&before),
        );
        assert_eq!(before[..2], after[..2]);
        assert_eq!(after[2].members.first().map(String::as_str), Some("a000"));
    }

    #[test]
    fn an_emptied_named_group_keeps_its_index() {
        let before = check(
            &["west", "east"],
            9,
            &[clusters("w", 1, 0), clusters("e", 2, 1), clusters("c", 3, 2)].concat(),
            usize::MAX,
            &[],
        );
        let after = check(
            &["west", "east"],
            9,
            &[clusters("e", 2, 1), clusters("c", 3, 2)].concat(),
            usize::MAX,
            &held(&before),
        );
        assert_eq!(
            shape(&after),
            [("p-decision-1", 0, "west", 0), ("p-decision-2", 1, "east", 2), ("p-decision-3", 2, "", 3)]
        );
    }

    #[test]
    fn slices_and_groups_dissolve_when_the_others_have_room() {
        let before = check(&[], 300, &clusters("c", 250, 0), usize::MAX, &[]);
        let fewer: Vec<_> = clusters("c", 250, 0).into_iter().step_by(3).collect();
        assert_eq!(
            shape(&check(&[], 300, &fewer, usize::MAX, &held(&before))),
            [("p-decision-1", 0, "", 84)]
        );
        let before = check(&[], 10, &clusters("c", 30, 0), usize::MAX, &[]);
        let fewer: Vec<_> = clusters("c", 30, 0).into_iter().step_by(2).collect();
        let after = check(&[], 10, &fewer, usize::MAX, &held(&before));
        assert_eq!(after.iter().map(|s| s.members.len()).sum::<usize>(), 15);
        assert_eq!(after.len(), 2);
    }

    #[test]
    fn a_smaller_group_size_moves_only_the_surplus() {
        let before = check(&[], 10, &clusters("c", 20, 0), usize::MAX, &[]);
        let after = check(&[], 8, &clusters("c", 20, 0), usize::MAX, &held(&before));
        assert_eq!(after.iter().map(|s| s.members.len()).collect::<Vec<_>>(), [8, 8, 4]);
        assert!(after[..2].iter().zip(&before).all(|(a, b)| a.members == b.members[..8]));
    }

    #[test]
    fn without_spare_only_successors_in_the_same_slice_come_in() {
        let before = check(&[], 300, &clusters("c", 2, 0), usize::MAX, &[]);
        let next = [clusters("c", 1, 0), clusters("d", 5, 0)].concat();
        let after = check(&[], 300, &next, 0, &held(&before));
        assert_eq!(after[0].members, ["c000", "d000"]);
    }

    #[test]
    fn a_cluster_found_in_two_slices_stays_in_the_first() {
        let slice = |name: &str, members: &[&str]| Held {
            name: name.into(),
            index: Some(0),
            group: String::new(),
            members: members.iter().map(|m| (*m).to_owned()).collect(),
        };
        let after = check(
            &[],
            9,
            &[("a".into(), 0), ("b".into(), 0)],
            0,
            &[slice("p-decision-1", &["a"]), slice("p-decision-2", &["a", "b"])],
        );
        assert_eq!(shape(&after), [("p-decision-1", 0, "", 2)]);
    }
}
