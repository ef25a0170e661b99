//! Commits of reports on a followed branch.
//!
//! A report names the commit that a hub has seen. If each report were a commit to apply, it would cause the
//! next report of this or another hub, endlessly. The trailer of a report alone does not count, because a
//! squashed commit may quote it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use git2::{Commit, ObjectType, Oid, Repository, Tree, TreeEntry};
use tokio_util::sync::CancellationToken;

use super::commit::{RECORD, read_record};
use super::report_history::is_report;

/// The maximum number of reports to skip. A branch with more of them at its tip is followed as it is.
const MAX_REPORTS: usize = 10_000;
/// The maximum number of changed files and directories in a report, which has three for each of 1,500 workloads
/// and some for clusters.
const MAX_CHANGES: usize = 10_000;
/// The maximum number of directories above a file of a report.
const MAX_DEPTH: usize = 16;
/// The maximum number of directory entries in the comparison of two commits, the limit of a followed commit.
const MAX_ENTRIES: usize = 100_000;
/// The maximum number of entries in all comparisons, which take a second or two.
const MAX_COMPARED: usize = 20_000_000;

/// Returns the newest commit of a branch that is more than a report: the tip, or the first commit below it that
/// changes files other than reports or that was `accepted` before. Returns the tip if the search takes too long
/// or is canceled.
pub(super) fn below_reports(
    repo: &Repository,
    tip: Oid,
    accepted: Option<&str>,
    cancel: &CancellationToken,
) -> Result<Oid, git2::Error> {
    let mut commit = repo.find_commit(tip)?;
    let mut compared = 0;
    for _ in 0..MAX_REPORTS {
        if accepted == Some(commit.id().to_string().as_str()) || commit.parent_count() != 1 {
            return Ok(commit.id());
        }
        let parent = commit.parent(0)?;
        if !is_report(&commit) || !changes_reports_only(repo, &parent, &commit, &mut compared)? {
            return Ok(commit.id());
        }
        if compared > MAX_COMPARED || cancel.is_cancelled() {
            return Ok(tip);
        }
        commit = parent;
    }
    Ok(tip)
}

/// Returns true if two commits differ only in files of reports.
fn changes_reports_only(
    repo: &Repository,
    parent: &Commit<'_>,
    commit: &Commit<'_>,
    compared: &mut usize,
) -> Result<bool, git2::Error> {
    let (old, new) = (parent.tree()?, commit.tree()?);
    let mut changes = Changes::default();
    let is_within = find_changes(repo, [Some(&old), Some(&new)], "", &mut changes)?;
    *compared += changes.compared;
    if !is_within {
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

/// The differences between two trees.
#[derive(Default)]
struct Changes {
    /// The paths of changed files.
    files: Vec<String>,
    /// The number of changed files and directories.
    entries: usize,
    /// The number of compared directory entries.
    compared: usize,
}

fn is_tree(entry: &TreeEntry<'_>) -> bool {
    entry.kind() == Some(ObjectType::Tree)
}

/// Returns git's sort key of an entry: the name of a directory ends with a slash.
fn sorts_as<'a>(entry: &'a TreeEntry<'_>) -> impl Iterator<Item = &'a u8> {
    entry.name_bytes().iter().chain(is_tree(entry).then_some(&b'/'))
}

/// Collects the differences between two directories. Returns false if there are too many differences or
/// entries. Directories are sorted, so both are iterated once. If a directory is not sorted, equal entries may
/// count as changes.
fn find_changes(
    repo: &Repository,
    trees: [Option<&Tree<'_>>; 2],
    directory: &str,
    changes: &mut Changes,
) -> Result<bool, git2::Error> {
    changes.compared += trees.iter().flatten().map(|tree| tree.len()).sum::<usize>();
    if directory.matches('/').count() > MAX_DEPTH || changes.compared > MAX_ENTRIES {
        return Ok(false);
    }
    let [mut old, mut new] = trees.map(|tree| tree.into_iter().flat_map(Tree::iter).peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return Ok(true),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => sorts_as(old).cmp(sorts_as(new)),
        };
        let old = if order.is_le() { old.next() } else { None };
        let new = if order.is_ge() { new.next() } else { None };
        let of = |entry: &TreeEntry<'_>| (entry.id(), entry.filemode());
        if old.as_ref().map(of) == new.as_ref().map(of) {
            continue;
        }
        let sides = [old, new];
        let name = sides.iter().flatten().next().map(|entry| entry.name_bytes().to_vec()).unwrap_or_default();
        let path = format!("{directory}{}", String::from_utf8_lossy(&name));
        if sides.iter().flatten().any(|entry| !is_tree(entry)) {
            changes.files.push(path.clone());
        }
        changes.entries += 1;
        if changes.entries > MAX_CHANGES {
            return Ok(false);
        }
        let below = |side: Option<TreeEntry<'_>>| {
            side.filter(is_tree).map(|entry| repo.find_tree(entry.id())).transpose()
        };
        let [old, new] = sides.map(below);
        let (old, new) = (old?, new?);
        if (old.is_some() || new.is_some())
            && !find_changes(repo, [old.as_ref(), new.as_ref()], &format!("{path}/"), changes)?
        {
            return Ok(false);
        }
    }
}
