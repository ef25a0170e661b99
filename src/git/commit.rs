//! The commit that puts the files of a report on top of a branch.

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

/// The file of a directory that names the owner of its report.
pub(super) const RECORD: &str = ".wheelwright.json";

/// Longest record that is read: 30,000 paths of the longest names. A report has a file for each add-on, set
/// and work, and for 1,000 clusters.
const MAX_RECORD_BYTES: usize = 8 << 20;

/// Files to commit to a branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The branch; created without parents if it does not exist.
    pub branch: String,
    /// The directory of the branch that the files are in; empty for the root.
    pub directory: String,
    /// The owner of the files. Files of another owner stay as they are.
    pub owner: String,
    /// The process that writes. Two hubs with one owner, such as a hub and a copy of it, differ in it.
    pub writer: String,
    /// Which report of another process with the same owner it replaces.
    pub replaces: Replaces,
    /// The last push to the branch.
    pub last: LastPush,
    /// All files of the owner below the directory.
    pub files: BTreeMap<String, String>,
    /// Most commits of the branch. One more begins the branch again, where the server allows it.
    pub history_limit: usize,
    /// Commit message.
    pub message: String,
    /// Time of author and committer, unless that of the parent is later.
    pub time: Timestamp,
    /// Name and e-mail address of author and committer; `None` for Wheelwright.
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

/// The last push to a branch, and what may happen to the branch after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastPush {
    /// The commit; empty before the first push.
    pub commit: String,
    /// The commit of the push before it; empty if there is none.
    pub previous: String,
    /// Whether a branch that is gone is created again.
    pub recreates: bool,
    /// Whether commits follow on a branch that does not hold the commit.
    pub adopts: bool,
}

/// The report of another process with the same owner that a commit replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// None.
    Nothing,
    /// That of the last push, and the one after it.
    Last,
    /// Whatever is there.
    Any,
}

/// The owner of the report in a directory, the process that wrote it, and the files of the report.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    owner: String,
    /// Empty in records of earlier versions.
    #[serde(default)]
    writer: String,
    /// The commit that the process had pushed last, as its hub recorded it.
    #[serde(default)]
    after: String,
    pub(super) files: BTreeSet<String>,
}

/// The result of writing a commit.
pub(super) enum Written {
    /// The tip holds the files already.
    Unchanged,
    /// The directory holds files of another owner.
    NotOurs(String),
    /// Another process of the same owner wrote the files.
    Fenced(String),
    /// The key cannot sign.
    Unsigned(Error),
    /// The commit.
    Commit(Oid),
}

/// Writes the commit that puts the files on top of a tip; without parents where the tip is archived.
pub(super) fn write_commit(
    repo: &Repository,
    tip: Option<Oid>,
    commit: &Commit,
    archive: Option<&str>,
) -> Result<Written, git2::Error> {
    let parent = tip.map(|tip| repo.find_commit(tip)).transpose()?;
    // Only the directories of the report are read: others push to the branch too, and a few trees that name
    // each other make a directory without an end.
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
    // Equal files of another process stay its own, so that a restart makes no commit.
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

/// Returns a file that stands where one of the paths has a directory.
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

/// Returns whether a commit replaces the report of another process. The record says after which commit it was
/// written, which the branch may not hold any more.
fn replaces(commit: &Commit, before: &Record) -> bool {
    let LastPush { commit: last, previous, .. } = &commit.last;
    match commit.replaces {
        Replaces::Nothing => false,
        Replaces::Last => last.is_empty() || [last, previous].contains(&&before.after),
        Replaces::Any => true,
    }
}

/// Writes the commit of a tree, signed if there is a key.
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

/// Returns a time, or the time of the parent if it is later: the clock of the hub that wrote the parent may be ahead.
pub(super) fn not_before(parent: Option<&git2::Commit<'_>>, time: Timestamp) -> Timestamp {
    let before = parent.map(|parent| Timestamp::from_second(parent.time().seconds()).unwrap_or_default());
    before.map_or(time, |before| before.max(time))
}

/// Returns the author and committer of a commit; Wheelwright if there is no other.
pub(super) fn signature(
    author: Option<&(String, String)>,
    time: Timestamp,
) -> Result<Signature<'static>, git2::Error> {
    let (name, email) = author.map_or((AUTHOR, EMAIL), |(name, email)| (name, email));
    Signature::new(&of_a_line(name), &of_a_line(email), &git2::Time::new(time.as_second(), 0))
}

/// Returns a name without the characters that end it in a commit. The schema refuses them too.
fn of_a_line(name: &str) -> String {
    name.chars().filter(|char| !char.is_control() && !['<', '>'].contains(char)).collect()
}

/// Reads the record of a directory; `None` if the file is no record.
pub(super) fn read_record(repo: &Repository, id: Oid) -> Option<Record> {
    let blob = repo.find_blob(id).ok().filter(|blob| blob.size() <= MAX_RECORD_BYTES)?;
    serde_json::from_slice(blob.content()).ok()
}

/// Makes an entry of an index. There is no work tree, so the fields about files on disk are zero.
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
