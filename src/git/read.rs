//! Reads a commit into a [`FileTree`], directly from the object database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use git2::{ErrorCode, ObjectType, Odb, Oid, Repository, Tree, TreeEntry};
use icu_normalizer::DecomposingNormalizerBorrowed;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::pack_limits::MAX_FILE_BYTES;
use object::text;
use object::tree::{Collision, FileTree};

/// Limits on the commits to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// The maximum number of directories, files, links and submodules.
    pub entries: usize,
    /// The maximum number of files and links.
    pub files: usize,
    /// The maximum size of a file in bytes. Larger files are listed in the tree but not read.
    pub file_bytes: usize,
    /// The maximum total size of the files in bytes.
    pub total_bytes: usize,
    /// The maximum nesting of directories.
    pub depth: usize,
    /// The maximum length in bytes of a path, or of a link's target.
    pub path_bytes: usize,
}

impl Default for TreeLimits {
    /// Returns limits for a fleet, whose configuration is thousands of small files: up to 50,000 files with at
    /// most 8 MiB each (etcd accepts objects of 1.5 MiB) and 256 MiB in total, and as many directories. Paths
    /// have the limit of Linux.
    fn default() -> Self {
        Self {
            entries: 100_000,
            files: 50_000,
            file_bytes: MAX_FILE_BYTES,
            total_bytes: 256 << 20,
            depth: 64,
            path_bytes: 4096,
        }
    }
}

/// File contents by id, so that successive commits share unchanged files.
pub(super) type Blobs = BTreeMap<Oid, Arc<[u8]>>;

const MODE_LINK: i32 = 0o120_000;

/// The limits on reading a commit, and its cancellation.
pub(super) struct Bounds<'a> {
    pub(super) limits: &'a TreeLimits,
    pub(super) cancel: &'a CancellationToken,
    /// The remote, for messages.
    pub(super) url: &'a str,
}

/// Reads the tree of a commit, and replaces `known` with its blobs.
pub(super) fn read(
    repo: &Repository,
    commit: Oid,
    bounds: &Bounds<'_>,
    known: &mut Blobs,
) -> Result<FileTree, Error> {
    let tree = repo.find_commit(commit).and_then(|commit| commit.tree()).map_err(|e| Error::cache(&e))?;
    let odb = repo.odb().map_err(|e| Error::cache(&e))?;
    let mut reader = Reader {
        repo,
        odb,
        bounds,
        known: &*known,
        used: Blobs::new(),
        found: FileTree::default(),
        entries: 0,
        files: 0,
        bytes: 0,
    };
    reader.directory(&tree, "", 0)?;
    let (used, found) = reader.end();
    *known = used;
    Ok(found)
}

/// Rejects commits with too deeply nested directories. libgit2's push recurses into the directories of all
/// commits that the server advertises and the mirror has. Each directory is visited once per depth, so that
/// this ends even for trees that reference each other.
pub(super) fn refuse_deep(
    repo: &Repository,
    ids: impl Iterator<Item = Oid>,
    bounds: &Bounds<'_>,
) -> Result<(), Error> {
    let commits = ids.filter_map(|id| repo.find_object(id, None).ok()?.peel_to_commit().ok());
    let mut left: Vec<(Oid, usize)> = commits.map(|commit| (commit.tree_id(), 0)).collect();
    let mut seen = BTreeSet::new();
    while let Some((id, depth)) = left.pop() {
        if bounds.cancel.is_cancelled() {
            return Err(Error::Cancelled { url: bounds.url.to_owned(), received: 0 });
        }
        let most = bounds.limits.depth;
        if depth > most {
            let reason = format!("{} has a commit with more than {most} levels of directories", bounds.url);
            return Err(Error::Content(reason));
        }
        let Ok(tree) = repo.find_tree(id) else { continue };
        let below = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Tree));
        left.extend(below.map(|entry| (entry.id(), depth + 1)).filter(|one| seen.insert(*one)));
    }
    Ok(())
}

struct Reader<'a> {
    repo: &'a Repository,
    odb: Odb<'a>,
    bounds: &'a Bounds<'a>,
    known: &'a Blobs,
    used: Blobs,
    found: FileTree,
    entries: usize,
    files: usize,
    bytes: usize,
}

impl Reader<'_> {
    fn end(self) -> (Blobs, FileTree) {
        (self.used, self.found)
    }

    fn directory(&mut self, tree: &Tree<'_>, dir: &str, depth: usize) -> Result<(), Error> {
        if depth > self.bounds.limits.depth {
            return Err(refuse(
                dir,
                &format!("more than {} levels of directories", self.bounds.limits.depth),
            ));
        }
        let (mut order, mut folded) = (Order::default(), BTreeMap::new());
        for entry in tree {
            self.count()?;
            if !order.takes(&entry) {
                return Err(refuse(dir, "a name is in it twice or in the wrong order"));
            }
            let path = self.path(dir, &entry)?;
            self.compare(&path, &mut folded);
            match entry.kind() {
                Some(ObjectType::Tree) => {
                    let below = self.repo.find_tree(entry.id()).map_err(|e| Error::cache(&e))?;
                    self.directory(&below, &path, depth + 1)?;
                }
                Some(ObjectType::Blob) => self.blob(path, entry.id(), entry.filemode_raw() == MODE_LINK)?,
                Some(ObjectType::Commit) => self.found.insert_submodule(path),
                Some(ObjectType::Tag | ObjectType::Any) | None => {
                    return Err(refuse(&path, "it is neither a file, a link, a directory nor a submodule"));
                }
            }
        }
        Ok(())
    }

    /// Counts an entry. Directories count too: a few trees that reference each other twice can form 2^64
    /// directories without a file.
    fn count(&mut self) -> Result<(), Error> {
        if self.bounds.cancel.is_cancelled() {
            return Err(Error::Cancelled { url: self.bounds.url.to_owned(), received: 0 });
        }
        self.entries += 1;
        if self.entries > self.bounds.limits.entries {
            return Err(Error::Content(format!(
                "the commit has more than {} directories, files and links",
                self.bounds.limits.entries
            )));
        }
        Ok(())
    }

    fn path(&self, dir: &str, entry: &TreeEntry<'_>) -> Result<String, Error> {
        let name = std::str::from_utf8(entry.name_bytes())
            .map_err(|_| refuse(dir, "a file name in it is not UTF-8"))?;
        if !is_name(name) {
            return Err(refuse(
                dir,
                &format!("it contains {:?}, which a checkout cannot contain", text::plain(name, 60)),
            ));
        }
        let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        if path.len() > self.bounds.limits.path_bytes {
            return Err(refuse(
                &path,
                &format!("its path is longer than {} bytes", self.bounds.limits.path_bytes),
            ));
        }
        Ok(path)
    }

    /// Records a path if it collides with an earlier one. `paths` has the paths in its directory, keyed by
    /// their folded names.
    fn compare(&mut self, path: &str, paths: &mut BTreeMap<String, String>) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let first = paths.entry(fold(name)).or_insert_with(|| path.to_owned());
        if *first != path {
            self.found.insert_collision(Collision { first: first.clone(), second: path.to_owned() });
        }
    }

    fn blob(&mut self, path: String, id: Oid, link: bool) -> Result<(), Error> {
        self.files += 1;
        if self.files > self.bounds.limits.files {
            return Err(Error::Content(format!(
                "the commit has more than {} files; keep the configuration in a separate repository",
                self.bounds.limits.files
            )));
        }
        let known = self.used.get(&id).or_else(|| self.known.get(&id)).cloned();
        let size = match &known {
            Some(bytes) => bytes.len(),
            None => self.size(id)?,
        };
        let TreeLimits { file_bytes, path_bytes, .. } = *self.bounds.limits;
        if link && size > path_bytes {
            return Err(refuse(&path, &format!("the target of the link has more than {path_bytes} bytes")));
        }
        if size > file_bytes {
            self.found.insert_large(path, file_bytes);
            return Ok(());
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.bounds.limits.total_bytes {
            return Err(Error::Content(format!(
                "the files of the commit are larger than {} MiB in total",
                self.bounds.limits.total_bytes >> 20
            )));
        }
        if link {
            let target = self.odb.read(id).map_err(|e| Error::cache(&e))?;
            let target = std::str::from_utf8(target.data())
                .map_err(|_| refuse(&path, "the target of the link is not UTF-8"))?;
            self.found.insert_link(path, target);
            return Ok(());
        }
        let bytes = match known {
            Some(bytes) => bytes,
            None => Arc::from(self.odb.read(id).map_err(|e| Error::cache(&e))?.data()),
        };
        self.used.insert(id, Arc::clone(&bytes));
        self.found.insert(path, bytes);
        Ok(())
    }

    /// Returns the size of a blob from its header. A missing blob was larger than the file limit, so the server
    /// omitted it.
    fn size(&self, id: Oid) -> Result<usize, Error> {
        match self.odb.read_header(id) {
            Ok((size, _)) => Ok(size),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(usize::MAX),
            Err(error) => Err(Error::cache(&error)),
        }
    }
}

/// Checks the order of names in a tree, as `git fsck` does (`treeNotSorted`, `duplicateEntries`).
///
/// If two entries had the same name, people could review one file while the other is applied.
#[derive(Default)]
struct Order {
    /// The last name. Directories sort as if their names ended with `/`.
    last: Vec<u8>,
    names: BTreeSet<Vec<u8>>,
}

impl Order {
    fn takes(&mut self, entry: &TreeEntry<'_>) -> bool {
        let name = entry.name_bytes().to_vec();
        let mut sorted = name.clone();
        if entry.kind() == Some(ObjectType::Tree) {
            sorted.push(b'/');
        }
        let is_later = sorted > self.last;
        self.last = sorted;
        is_later && self.names.insert(name)
    }
}

/// Returns a name as stored by a file system that folds case and Unicode forms, such as APFS.
pub(super) fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    DecomposingNormalizerBorrowed::new_nfd().normalize(&name.to_lowercase()).into_owned()
}

/// Returns true if a work tree could contain a name. git itself rejects other names, so only an attacker
/// creates a commit with one.
pub(super) fn is_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'))
        .filter(|c| !matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}'))
        .collect();
    let plain = plain.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    !matches!(name, "" | "." | "..") && plain != ".git" && plain != "git~1" && !name.contains(['/', '\0'])
}

fn refuse(path: &str, reason: &str) -> Error {
    let path = if path.is_empty() { "the root directory".into() } else { text::plain(path, 200) };
    Error::Content(format!("cannot read {path}: {reason}"))
}
