//! Tests for the layout: which clusters a change moves, and which stay.

use std::num::NonZeroUsize;

use super::super::fleet::Id;
use super::super::layout::{DecidedCluster, LayoutInput, Slice, lay_out};
use super::super::published::PublishedSlice;

/// Returns the id of a cluster such as `c012`, from a letter and a number. The ids are in order of arrival.
fn id(prefix: char, number: usize) -> Id {
    Id::from(u8::try_from(prefix).unwrap()) * 1000 + Id::try_from(number).unwrap()
}

fn clusters(prefix: char, count: usize, group: usize) -> Vec<DecidedCluster> {
    (0..count).map(|number| DecidedCluster { id: id(prefix, number), group }).collect()
}

/// Lays out members over the published slices.
fn check(
    groups: &[&str],
    size: usize,
    members: &[DecidedCluster],
    spare: usize,
    published: &[PublishedSlice],
) -> Vec<Slice> {
    let mut members = members.to_vec();
    members.sort_by_key(|member| member.id);
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    let size = NonZeroUsize::new(size).unwrap();
    lay_out(&LayoutInput { placement: "p", groups: &groups, size, members: &members, spare }, published)
}

fn published(slices: &[Slice]) -> Vec<PublishedSlice> {
    let published = |slice: &Slice| PublishedSlice {
        name: slice.name.clone(),
        index: Some(slice.index),
        group: slice.group.clone(),
        members: slice.members.clone(),
        ..PublishedSlice::default()
    };
    slices.iter().map(published).collect()
}

fn shape(slices: &[Slice]) -> Vec<(&str, u32, &str, usize)> {
    slices.iter().map(|s| (s.name.as_str(), s.index, s.group.as_str(), s.members.len())).collect()
}

#[test]
fn the_first_layout_matches_ocm() {
    let wishes = [clusters('w', 10, 0), clusters('e', 10, 1), clusters('c', 290, 2)].concat();
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
    let before = check(&[], 300, &clusters('c', 250, 0), usize::MAX, &[]);
    assert_eq!(shape(&check(&[], 1, &[], usize::MAX, &published(&before))), [("p-decision-1", 0, "", 0)]);
}

#[test]
fn an_early_name_moves_no_other_cluster() {
    let before = check(&[], 50, &clusters('c', 145, 0), usize::MAX, &[]);
    let after = check(
        &[],
        50,
        &[clusters('a', 1, 0), clusters('c', 145, 0)].concat(),
        usize::MAX,
        &published(&before),
    );
    assert_eq!(before[..2], after[..2]);
    assert_eq!(after[2].members.first(), Some(&id('a', 0)));
}

#[test]
fn an_emptied_named_group_keeps_its_index() {
    let before = check(
        &["west", "east"],
        9,
        &[clusters('w', 1, 0), clusters('e', 2, 1), clusters('c', 3, 2)].concat(),
        usize::MAX,
        &[],
    );
    let after = check(
        &["west", "east"],
        9,
        &[clusters('e', 2, 1), clusters('c', 3, 2)].concat(),
        usize::MAX,
        &published(&before),
    );
    assert_eq!(
        shape(&after),
        [("p-decision-1", 0, "west", 0), ("p-decision-2", 1, "east", 2), ("p-decision-3", 2, "", 3)]
    );
}

#[test]
fn slices_and_groups_dissolve_when_the_others_have_room() {
    let before = check(&[], 300, &clusters('c', 250, 0), usize::MAX, &[]);
    let fewer: Vec<_> = clusters('c', 250, 0).into_iter().step_by(3).collect();
    assert_eq!(
        shape(&check(&[], 300, &fewer, usize::MAX, &published(&before))),
        [("p-decision-1", 0, "", 84)]
    );
    let before = check(&[], 10, &clusters('c', 30, 0), usize::MAX, &[]);
    let fewer: Vec<_> = clusters('c', 30, 0).into_iter().step_by(2).collect();
    let after = check(&[], 10, &fewer, usize::MAX, &published(&before));
    assert_eq!(after.iter().map(|s| s.members.len()).sum::<usize>(), 15);
    assert_eq!(after.len(), 2);
}

#[test]
fn a_smaller_group_size_moves_only_the_surplus() {
    let before = check(&[], 10, &clusters('c', 20, 0), usize::MAX, &[]);
    let after = check(&[], 8, &clusters('c', 20, 0), usize::MAX, &published(&before));
    assert_eq!(after.iter().map(|s| s.members.len()).collect::<Vec<_>>(), [8, 8, 4]);
    assert!(after[..2].iter().zip(&before).all(|(a, b)| a.members == b.members[..8]));
}

#[test]
fn without_spare_only_successors_in_the_same_slice_come_in() {
    let before = check(&[], 300, &clusters('c', 2, 0), usize::MAX, &[]);
    let next = [clusters('c', 1, 0), clusters('d', 5, 0)].concat();
    let after = check(&[], 300, &next, 0, &published(&before));
    assert_eq!(after[0].members, [id('c', 0), id('d', 0)]);
}

#[test]
fn a_cluster_found_in_two_slices_stays_in_the_first() {
    let [a, b] = [id('a', 0), id('b', 0)];
    let slice = |name: &str, members: &[Id]| PublishedSlice {
        name: name.into(),
        index: Some(0),
        members: members.to_vec(),
        ..PublishedSlice::default()
    };
    let members = [clusters('a', 1, 0), clusters('b', 1, 0)].concat();
    let published = [slice("p-decision-1", &[a]), slice("p-decision-2", &[a, b])];
    assert_eq!(shape(&check(&[], 9, &members, 0, &published)), [("p-decision-1", 0, "", 2)]);
}

#[test]
fn a_smaller_group_size_takes_members_from_the_last_slices_alone() {
    let members = clusters('c', 250, 0);
    let before = check(&[], 300, &members, usize::MAX, &[]);
    assert_eq!(before.iter().map(|slice| slice.members.len()).collect::<Vec<_>>(), [100, 100, 50]);
    let after = check(&[], 150, &members, usize::MAX, &published(&before));
    assert_eq!(after[0].members, before[0].members);
    assert_eq!(after[1].members, before[1].members[..50]);
}

#[test]
fn a_slice_dissolves_when_the_others_have_exactly_the_room_for_it() {
    let members = clusters('c', 100, 0);
    let whole = published(&check(&[], 100, &members, usize::MAX, &[]));
    let part = |name: &str, members: &[Id]| PublishedSlice {
        name: name.into(),
        index: Some(0),
        members: members.to_vec(),
        ..PublishedSlice::default()
    };
    let (first, second) = whole[0].members.split_at(60);
    let halves = [part("p-decision-1", first), part("p-decision-2", second)];
    let slices = check(&[], 100, &members, usize::MAX, &halves);
    assert_eq!(shape(&slices), [("p-decision-1", 0, "", 100)]);
}

#[test]
fn successors_never_make_a_group_larger_than_its_size() {
    let before = check(&[], 150, &clusters('c', 150, 0), usize::MAX, &[]);
    let gone = |id: &Id| before.iter().any(|slice| slice.members.iter().take(3).any(|member| member == id));
    let mut members = clusters('c', 150, 0);
    members.retain(|member| !gone(&member.id));
    members.extend(clusters('d', 10, 0));
    let after = check(&[], 147, &members, 0, &published(&before));
    let first = after.iter().filter(|slice| slice.index == 0);
    assert_eq!(first.map(|slice| slice.members.len()).sum::<usize>(), 147);
}
