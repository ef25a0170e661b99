//! Commits of reports on a branch that is followed.
//!
//! A report names the commit that a hub has seen. If each report were a commit to apply, it would cause the
//! next report, of this hub or of another one, without end. The trailer of a report alone does not count: a
//! commit that a person squashes may quote it.

use std::collections::BTreeMap;

use git2::{Commit, ObjectType, Oid, Repository, Tree};

use super::commit::{RECORD, read_record};
use super::report_history::is_report;

/// Most reports that are left out; a branch with more of them at its tip is followed as it is.
const MAX_REPORTS: usize = 10_000;
/// Most changed files and directories of a report, which has three for each of 1,500 workloads and some for clusters.
const MAX_CHANGES: usize = 10_000;
/// Most directories above a file of a report.
const MAX_DEPTH: usize = 16;

/// Returns the newest commit of a branch that is more than a report: the tip, or the first commit below it
/// that changes other files than those of reports, or that was `accepted` before.
pub(super) fn below_reports(repo: &Repository, tip: Oid, accepted: Option<&str>) -> Result<Oid, git2::Error> {
    let mut commit = repo.find_commit(tip)?;
    for _ in 0..MAX_REPORTS {
        if accepted == Some(commit.id().to_string().as_str()) || commit.parent_count() != 1 {
            return Ok(commit.id());
        }
        let parent = commit.parent(0)?;
        if !is_report(&commit) || !changes_reports_only(repo, &parent, &commit)? {
            return Ok(commit.id());
        }
        commit = parent;
    }
    Ok(tip)
}

/// Returns whether all files that differ between two commits are files of reports.
fn changes_reports_only(
    repo: &Repository,
    parent: &Commit<'_>,
    commit: &Commit<'_>,
) -> Result<bool, git2::Error> {
    let (old, new) = (parent.tree()?, commit.tree()?);
    let mut changes = Changes::default();
    if !find_changes(repo, [Some(&old), Some(&new)], "", &mut changes)? {
        return Ok(false);
    }
    let of_directory = |directory: &str| {
        let record = if directory.is_empty() { RECORD.to_owned() } else { format!("{directory}/{RECORD}") };
        let records = [&old, &new].map(|tree| tree.get_path(record.as_ref()).ok());
        records.into_iter().flatten().filter_map(|entry| read_record(repo, entry.id())).collect::<Vec<_>>()
    };
    let mut records = BTreeMap::new();
    let is_of_report = |path: &String| {
        path.match_indices('/').map(|(at, _)| at + 1).chain([0]).any(|start| {
            let (directory, file) = path.split_at(start);
            let directory = directory.trim_end_matches('/');
            let records = records.entry(directory.to_owned()).or_insert_with(|| of_directory(directory));
            records.iter().any(|record| file == RECORD || record.files.contains(file))
        })
    };
    Ok(!changes.files.is_empty() && changes.files.iter().all(is_of_report))
}

/// An entry of a tree: its object, its mode, and whether it is a tree.
type Entry = (Oid, i32, bool);

/// The differences between two trees.
#[derive(Default)]
struct Changes {
    /// The paths of files.
    files: Vec<String>,
    /// The number of files and directories.
    entries: usize,
}

/// Collects the differences between two directories; returns false where there are too many.
fn find_changes(
    repo: &Repository,
    trees: [Option<&Tree<'_>>; 2],
    directory: &str,
    changes: &mut Changes,
) -> Result<bool, git2::Error> {
    if directory.matches('/').count() > MAX_DEPTH {
        return Ok(false);
    }
    let mut entries: BTreeMap<Vec<u8>, [Option<Entry>; 2]> = BTreeMap::new();
    for (side, tree) in trees.into_iter().enumerate() {
        for entry in tree.into_iter().flat_map(Tree::iter) {
            let is_tree = entry.kind() == Some(ObjectType::Tree);
            let sides = entries.entry(entry.name_bytes().to_vec()).or_default();
            if let Some(side) = sides.get_mut(side) {
                *side = Some((entry.id(), entry.filemode(), is_tree));
            }
        }
    }
    for (name, [old, new]) in entries {
        if old == new {
            continue;
        }
        let path = format!("{directory}{}", String::from_utf8_lossy(&name));
        if [old, new].into_iter().flatten().any(|(_, _, is_tree)| !is_tree) {
            changes.files.push(path.clone());
        }
        changes.entries += 1;
        let tree = |side: Option<Entry>| {
            side.filter(|(_, _, is_tree)| *is_tree).map(|(id, _, _)| repo.find_tree(id)).transpose()
        };
        let (old, new) = (tree(old)?, tree(new)?);
        let is_within = (old.is_none() && new.is_none())
            || find_changes(repo, [old.as_ref(), new.as_ref()], &format!("{path}/"), changes)?;
        if !is_within || changes.entries > MAX_CHANGES {
            return Ok(false);
        }
    }
    Ok(true)
}
