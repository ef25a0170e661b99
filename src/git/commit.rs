//! Creates the commit that puts the files of a report on top of a branch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, IndexEntry, IndexTime, ObjectType, Oid, Repository, Signature, Tree};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::report_history;
use super::{CommitSigner, Error};
use object::text;

const AUTHOR: &str = "Wheelwright";
const EMAIL: &str = "wheelwright@gitops.wheelwright.dev";

/// The file in a directory that names the owner of its report.
pub(super) const RECORD: &str = ".wheelwright.json";

/// The maximum size of a record: 30,000 of the longest paths. A report has a file for each add-on, set and
/// work, and for at most 1,000 clusters.
const MAX_RECORD_BYTES: usize = 8 << 20;

/// Files to commit to a branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The branch, created without parents if it does not exist.
    pub branch: String,
    /// The directory of the files in the branch; empty for the root.
    pub directory: String,
    /// The owner of the files. Files of another owner stay unchanged.
    pub owner: String,
    /// The writing process. It distinguishes two hubs with the same owner, such as a hub and a copy of it.
    pub writer: String,
    /// The report of another process with the same owner that this commit may replace.
    pub replaces: Replaces,
    /// The last push to the branch.
    pub last: LastPush,
    /// All files of the owner below the directory.
    pub files: BTreeMap<String, String>,
    /// The maximum number of commits in the branch. One more restarts the branch, if the server allows it.
    pub history_limit: usize,
    /// The commit message.
    pub message: String,
    /// The time of author and committer, or the parent's time if that is later.
    pub time: Timestamp,
    /// The name and e-mail address of author and committer; `None` for Wheelwright.
    pub author: Option<(String, String)>,
    /// The key that signs the commit, if any.
    pub signer: Option<CommitSigner>,
}

impl Commit {
    /// Returns the reference of the branch.
    pub(super) fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }
}

/// The last push to a branch, and what later commits may do to the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastPush {
    /// The pushed commit; empty before the first push.
    pub commit: String,
    /// The commit of the push before that; empty if there is none.
    pub previous: String,
    /// True if a deleted branch may be recreated.
    pub recreates: bool,
    /// True if commits may continue on a branch that does not contain the commit.
    pub adopts: bool,
}

/// The report of another process with the same owner that a commit replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// No report.
    Nothing,
    /// The report from the last push, or from the one after it.
    Last,
    /// Any report.
    Any,
}

/// The owner of the report in a directory, the process that wrote it, and the files of the report.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    owner: String,
    /// Empty in records of older versions.
    #[serde(default)]
    writer: String,
    /// The last commit that the process had pushed, as recorded by its hub.
    #[serde(default)]
    after: String,
    pub(super) files: BTreeSet<String>,
}

pub(super) enum Written {
    /// The tip already has the files.
    Unchanged,
    /// The directory has files of another owner.
    NotOurs(String),
    /// Another process with the same owner wrote the files.
    Fenced(String),
    /// Signing failed.
    Unsigned(Error),
    /// The new commit.
    Commit(Oid),
}

/// Creates the commit that puts the files on top of a tip. If the tip is archived, the commit has no parents.
pub(super) fn write_commit(
    repo: &Repository,
    tip: Option<Oid>,
    commit: &Commit,
    archive: Option<&str>,
) -> Result<Written, git2::Error> {
    let parent = tip.map(|tip| repo.find_commit(tip)).transpose()?;
    // Read only the directories of the report: others push to the branch too, and a few trees that reference
    // each other can form an endless directory.
    let base = match &parent {
        Some(parent) => parent.tree()?,
        None => repo.find_tree(repo.treebuilder(None)?.write()?)?,
    };
    let path_of = |file: &str| match commit.directory.as_str() {
        "" => file.to_owned(),
        directory => format!("{directory}/{file}"),
    };
    let found = |file: &str| base.get_path(Path::new(&path_of(file))).ok();
    let before = match found(RECORD) {
        None => Record { owner: commit.owner.clone(), ..Record::default() },
        Some(entry) => match read_record(repo, entry.id()) {
            Some(record) => record,
            None => {
                return Ok(Written::NotOurs(format!(
                    "a file {} that is not the record of a report",
                    path_of(RECORD)
                )));
            }
        },
    };
    if before.owner != commit.owner {
        let owner = text::plain(&before.owner, 200);
        return Ok(Written::NotOurs(format!("the report of {owner}, as {} says", path_of(RECORD))));
    }
    let is_foreign = |file: &&String| !before.files.contains(*file) && found(file).is_some();
    if let Some(foreign) = commit.files.keys().find(is_foreign) {
        return Ok(Written::NotOurs(format!("a file {} that no report wrote", path_of(foreign))));
    }
    if let Some(foreign) = file_above(&base, commit.files.keys().map(|file| path_of(file))) {
        return Ok(Written::NotOurs(format!("a file {foreign} where the report has a directory")));
    }
    let mut update = TreeUpdateBuilder::new();
    for gone in before.files.iter().filter(|file| !commit.files.contains_key(*file)) {
        if found(gone).is_some_and(|entry| entry.kind() != Some(ObjectType::Tree)) {
            update.remove(path_of(gone));
        }
    }
    for (file, content) in &commit.files {
        update.upsert(path_of(file), repo.blob(content.as_bytes())?, FileMode::Blob);
    }
    // If the files are equal, keep another process's record, so that a restart creates no commit.
    let files: BTreeSet<String> = commit.files.keys().cloned().collect();
    let unchanged = update.create_updated(repo, &base)?;
    if before.files == files && parent.is_some() && base.id() == unchanged {
        return Ok(Written::Unchanged);
    }
    let is_of_other = !before.writer.is_empty() && before.writer != commit.writer;
    if is_of_other && !replaces(commit, &before) {
        return Ok(Written::Fenced(before.writer));
    }
    let record = Record {
        owner: commit.owner.clone(),
        writer: commit.writer.clone(),
        after: commit.last.commit.clone(),
        files,
    };
    let record =
        serde_json::to_string_pretty(&record).map_err(|e| git2::Error::from_str(&e.to_string()))? + "\n";
    update.upsert(path_of(RECORD), repo.blob(record.as_bytes())?, FileMode::Blob);
    let tree = repo.find_tree(update.create_updated(repo, &base)?)?;
    let message = report_history::written_by(&commit.message, &commit.writer);
    match archive {
        None => sign_commit(repo, &tree, parent.as_ref(), &message, commit),
        Some(archive) => sign_commit(repo, &tree, None, &report_history::begin(&message, archive), commit),
    }
}

/// Returns a file in the tree at a path where the report needs a directory.
fn file_above(tree: &Tree<'_>, paths: impl Iterator<Item = String>) -> Option<String> {
    let above = |path: String| -> Vec<String> {
        path.match_indices('/').filter_map(|(at, _)| path.get(..at).map(str::to_owned)).collect()
    };
    let directories: BTreeSet<String> = paths.flat_map(above).collect();
    let is_file = |path: &String| {
        tree.get_path(Path::new(path)).is_ok_and(|entry| entry.kind() != Some(ObjectType::Tree))
    };
    directories.into_iter().find(is_file)
}

/// Returns true if a commit may replace the report of another process. The branch may no longer contain the
/// commit that `before` was written after.
fn replaces(commit: &Commit, before: &Record) -> bool {
    let LastPush { commit: last, previous, .. } = &commit.last;
    match commit.replaces {
        Replaces::Nothing => false,
        Replaces::Last => last.is_empty() || [last, previous].contains(&&before.after),
        Replaces::Any => true,
    }
}

/// Creates the commit of a tree, signed if there is a key.
fn sign_commit(
    repo: &Repository,
    tree: &git2::Tree<'_>,
    parent: Option<&git2::Commit<'_>>,
    message: &str,
    commit: &Commit,
) -> Result<Written, git2::Error> {
    let signature = signature(commit.author.as_ref(), not_before(parent, commit.time))?;
    let parents: Vec<_> = parent.into_iter().collect();
    let Some(signer) = &commit.signer else {
        return repo.commit(None, &signature, &signature, message, tree, &parents).map(Written::Commit);
    };
    let unsigned = repo.commit_create_buffer(&signature, &signature, message, tree, &parents)?;
    let content = std::str::from_utf8(&unsigned).map_err(|e| git2::Error::from_str(&e.to_string()))?;
    match signer.sign(content.as_bytes(), commit.time) {
        Ok(armored) => repo.commit_signed(content, armored.trim_end(), None).map(Written::Commit),
        Err(error) => Ok(Written::Unsigned(error)),
    }
}

/// Returns `time`, or the parent's time if it is later, because the clock of the hub that wrote the parent may
/// be ahead.
pub(super) fn not_before(parent: Option<&git2::Commit<'_>>, time: Timestamp) -> Timestamp {
    let before = parent.map(|parent| Timestamp::from_second(parent.time().seconds()).unwrap_or_default());
    before.map_or(time, |before| before.max(time))
}

/// Returns the author and committer of a commit. The default is Wheelwright.
pub(super) fn signature(
    author: Option<&(String, String)>,
    time: Timestamp,
) -> Result<Signature<'static>, git2::Error> {
    let (name, email) = author.map_or((AUTHOR, EMAIL), |(name, email)| (name, email));
    Signature::new(&of_a_line(name), &of_a_line(email), &git2::Time::new(time.as_second(), 0))
}

/// Removes the characters that would end a name in a commit. The schema rejects them too.
fn of_a_line(name: &str) -> String {
    name.chars().filter(|char| !char.is_control() && !['<', '>'].contains(char)).collect()
}

/// Reads the record of a directory; `None` if the file is not a record.
pub(super) fn read_record(repo: &Repository, id: Oid) -> Option<Record> {
    let blob = repo.find_blob(id).ok().filter(|blob| blob.size() <= MAX_RECORD_BYTES)?;
    serde_json::from_slice(blob.content()).ok()
}

/// Returns an index entry. There is no work tree, so the fields about files on disk are zero.
pub fn entry(path: String, id: Oid) -> IndexEntry {
    let never = IndexTime::new(0, 0);
    IndexEntry {
        ctime: never,
        mtime: never,
        dev: 0,
        ino: 0,
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.into_bytes(),
    }
}
