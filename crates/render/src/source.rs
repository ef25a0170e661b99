//! Reads files for the renderer, only from the tree of one commit, and records every path that was read.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::MemoryBudget;
use super::closure::{Closure, PathEntry, all_paths, entry, file_names};
use super::decryption::{Decryption, quotes};
use super::error::{Reason, RenderError, did_you_mean};
use super::limits::{MAX_DIRECTORIES, MAX_FILE_BYTES, MAX_LINK_BYTES, MAX_LINKS, MAX_PATTERN_BYTES};
use object::tree::{FileTree, TreeEntry};
use yaml::limits::VALUE_BYTES;

type Result<T> = std::result::Result<T, Box<RenderError>>;

/// A tree that one rendering reads.
pub(super) struct Source<'a> {
    tree: &'a FileTree,
    /// The paths that were read, for the overlay and for each nested part being read, outermost first.
    records: RefCell<Vec<Closure>>,
    directories: Cell<usize>,
    decryption: Decryption<'a>,
    pub budget: MemoryBudget<'a>,
}

/// The target of a path in a kustomization.
pub(super) enum PathTarget {
    /// A file: its path with links resolved, and its bytes after decryption.
    File(String, Arc<[u8]>),
    /// A directory: its path with links resolved.
    Directory(String),
}

impl<'a> Source<'a> {
    pub(super) fn new(tree: &'a FileTree, decryption: Decryption<'a>, budget: MemoryBudget<'a>) -> Self {
        let records = RefCell::new(vec![Closure::default()]);
        Self { tree, records, directories: Cell::new(0), decryption, budget }
    }

    /// Returns the paths that were read so far.
    pub(super) fn into_closure(self) -> Closure {
        self.records.into_inner().into_iter().next().unwrap_or_default()
    }

    /// Starts the record of a part.
    pub(super) fn begin(&self) {
        self.records.borrow_mut().push(Closure::default());
    }

    /// Ends the record of the innermost part. Its paths also belong to the enclosing part.
    pub(super) fn end(&self) -> Closure {
        let closure = self.records.borrow_mut().pop().unwrap_or_default();
        self.has_read(&closure);
        closure
    }

    /// Records the paths of a reused part.
    pub(super) fn has_read(&self, closure: &Closure) {
        if let Some(record) = self.records.borrow_mut().last_mut() {
            record.seen.extend(closure.seen.iter().map(|(path, seen)| (path.clone(), seen.clone())));
        }
    }

    /// Returns true if the tree has the same entries as a closure.
    pub(super) fn holds(&self, closure: &Closure) -> bool {
        closure.holds_in(self.tree)
    }

    fn record(&self, path: String, seen: PathEntry) {
        if let Some(record) = self.records.borrow_mut().last_mut() {
            record.seen.insert(path, seen);
        }
    }

    /// Returns the number of directories entered so far.
    pub(super) fn directories(&self) -> usize {
        self.directories.get()
    }

    /// Returns true if the limit allows entering more directories.
    pub(super) fn may_enter(&self, more: usize) -> bool {
        self.directories.get().saturating_add(more) <= MAX_DIRECTORIES
    }

    /// Counts the directories of a reused part.
    pub(super) fn has_entered(&self, more: usize) {
        self.directories.set(self.directories.get() + more);
    }

    /// Returns the text of a file that was already read, for excerpts.
    pub(super) fn text_of(&self, file: &str) -> Option<String> {
        self.tree.file(file).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns true if an error is about a decrypted file, or quotes a value of one that was read.
    pub(super) fn quotes_plaintext(&self, error: &RenderError) -> bool {
        let records = self.records.borrow();
        let mut files = records.iter().flat_map(Closure::files);
        error.reason != Reason::Encrypted
            && files.any(|(path, bytes)| match self.decryption.open(path, bytes) {
                Ok(Some(decrypted)) => path == error.file || quotes(error, &decrypted),
                Ok(None) | Err(_) => false,
            })
    }

    /// Returns the bytes of a file after decryption.
    fn plain(&self, path: &str, bytes: Arc<[u8]>) -> Result<Arc<[u8]>> {
        let Some(decrypted) = self.decryption.open(path, &bytes)? else { return Ok(bytes) };
        self.budget.spend(decrypted.bytes.len())?;
        Ok(decrypted.bytes.into())
    }

    /// Counts an entered directory.
    ///
    /// # Errors
    /// Fails above the limit. The error has no file yet.
    pub(super) fn enter(&self) -> Result<()> {
        self.directories.set(self.directories.get() + 1);
        if self.directories.get() > MAX_DIRECTORIES {
            let message = format!("more than {MAX_DIRECTORIES} directories are read for one overlay");
            return Err(RenderError::new(Reason::TooLarge, "", message)
                .hint("include each shared base only once")
                .into());
        }
        Ok(())
    }

    fn entry(&self, path: &str) -> PathEntry {
        let seen = entry(self.tree, path);
        self.record(path.to_owned(), seen.clone());
        seen
    }

    /// Returns the names of the files directly in a directory, sorted.
    pub(super) fn names(&self, dir: &str) -> Vec<String> {
        let names = file_names(self.tree, dir);
        self.record(format!("{dir}/"), PathEntry::Names(names.clone()));
        names
    }

    /// Returns the files of a directory and its subdirectories by relative path, following links.
    ///
    /// # Errors
    /// Fails on a submodule, a broken link, a link out of the repository, or deeply nested directories. The error
    /// has no file yet.
    pub(super) fn files(&self, dir: &str) -> Result<BTreeMap<String, Arc<[u8]>>> {
        let mut files = BTreeMap::new();
        self.collect(dir, "", &mut files)?;
        Ok(files)
    }

    fn collect(&self, dir: &str, prefix: &str, files: &mut BTreeMap<String, Arc<[u8]>>) -> Result<()> {
        if prefix.len() > MAX_PATTERN_BYTES {
            return Err(bare(Reason::Cycle, format!("the links in {dir:?} form a loop")));
        }
        let paths = all_paths(self.tree, dir);
        let memory = paths.iter().map(|path| VALUE_BYTES + prefix.len() + path.len()).sum();
        self.budget.spend(memory)?;
        self.record(format!("{dir}//"), PathEntry::Paths(paths.clone()));
        let skip = if dir.is_empty() { 0 } else { dir.len() + 1 };
        for path in paths {
            let name = format!("{prefix}{}", path.get(skip..).unwrap_or_default());
            match self.follow(&path)? {
                Some(PathTarget::File(_, bytes)) => {
                    files.insert(name, bytes);
                }
                Some(PathTarget::Directory(below)) => self.collect(&below, &format!("{name}/"), files)?,
                None => return Err(bare(Reason::NotFound, format!("the link {path:?} leads nowhere"))),
            }
        }
        Ok(())
    }

    /// Returns the file at a path. Links to directories are not followed.
    ///
    /// # Errors
    /// Fails if the file is too large to read or cannot be decrypted, so that callers do not treat it as absent.
    pub(super) fn file_at(&self, path: &str) -> Result<Option<Arc<[u8]>>> {
        let in_place = |error: Box<RenderError>| RenderError { file: path.to_owned(), ..*error };
        Ok(match self.entry(path) {
            PathEntry::File(bytes) => Some(self.plain(path, bytes).map_err(in_place)?),
            PathEntry::Large(limit) => return Err(in_place(too_large(path, limit)).into()),
            PathEntry::Link(_) => match self.follow(path) {
                Ok(Some(PathTarget::File(_, bytes))) => Some(bytes),
                Err(error) if matches!(error.reason, Reason::TooLarge | Reason::Encrypted) => {
                    return Err(in_place(error).into());
                }
                Ok(Some(PathTarget::Directory(_)) | None) | Err(_) => None,
            },
            PathEntry::Submodule | PathEntry::Absent | PathEntry::Names(_) | PathEntry::Paths(_) => None,
        })
    }

    /// Returns the archive of a remote chart, if the tree has it.
    pub(super) fn chart(&self, reference: &str) -> Option<Arc<[u8]>> {
        self.entry(reference).file().cloned()
    }

    /// Finds the target of a path in a file of directory `dir`. Returns None if it does not exist.
    ///
    /// # Errors
    /// Fails if the path or a link leaves the repository, or if links form a cycle. The error has no file yet.
    pub(super) fn find(&self, dir: &str, path: &str) -> Result<Option<PathTarget>> {
        self.follow(&join(dir, path)?)
    }

    /// Returns the file at a path.
    ///
    /// # Errors
    /// See [`Source::find`]. Also fails if the file does not exist.
    pub(super) fn read(&self, dir: &str, path: &str) -> Result<(String, Arc<[u8]>)> {
        match self.find(dir, path)? {
            Some(PathTarget::File(path, bytes)) => Ok((path, bytes)),
            Some(PathTarget::Directory(_)) => {
                Err(bare(Reason::InvalidValue, format!("{path:?} is a directory, not a file")))
            }
            None => Err(self.missing(dir, path, "file")),
        }
    }

    /// Returns an error for a missing path, with a suggestion if a similar path exists.
    pub(super) fn missing(&self, dir: &str, path: &str, what: &str) -> Box<RenderError> {
        let full = join(dir, path).unwrap_or_default();
        let (parent, name) = full.rsplit_once('/').unwrap_or(("", &full));
        let skip = if parent.is_empty() { 0 } else { parent.len() + 1 };
        let beside = self.tree.below(parent).filter_map(|(path, _)| path.get(skip..)?.split('/').next());
        let hint = did_you_mean(name, beside);
        let shown = if parent.is_empty() { "the repository's root".into() } else { format!("{parent:?}") };
        let hint = hint.unwrap_or_else(|| format!("looked for {name:?} in {shown}"));
        Box::new(RenderError::new(Reason::NotFound, "", format!("there is no {what} {path:?}")).hint(hint))
    }

    /// Resolves a path part by part, following links.
    fn follow(&self, path: &str) -> Result<Option<PathTarget>> {
        let mut rest: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).rev().map(String::from).collect();
        let mut at = String::new();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            let next = if at.is_empty() { part } else { format!("{at}/{part}") };
            // Directories have no entry in the tree. Only links on the path and the last part need a lookup.
            let seen = if rest.is_empty()
                || matches!(self.tree.entry(&next), Some(TreeEntry::Link(_) | TreeEntry::Submodule))
            {
                self.entry(&next)
            } else {
                PathEntry::Absent
            };
            match seen {
                PathEntry::File(bytes) if bytes.len() > MAX_FILE_BYTES => {
                    return Err(too_large(&next, MAX_FILE_BYTES));
                }
                PathEntry::Large(limit) => return Err(too_large(&next, limit)),
                PathEntry::File(bytes) => {
                    let bytes = self.plain(&next, bytes)?;
                    return Ok(Some(PathTarget::File(next, bytes)));
                }
                PathEntry::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(bare(
                            Reason::Cycle,
                            format!("the link {next:?} follows more than {MAX_LINKS} links"),
                        ));
                    }
                    let resolved = follow_link(&at, &next, &target)?;
                    rest.extend(resolved.split('/').filter(|part| !part.is_empty()).rev().map(String::from));
                    at = String::new();
                }
                PathEntry::Submodule => return Err(submodule(&next)),
                PathEntry::Absent | PathEntry::Names(_) | PathEntry::Paths(_) => at = next,
            }
        }
        Ok(self.tree.is_dir(&at).then_some(PathTarget::Directory(at)))
    }
}

fn too_large(path: &str, limit: usize) -> Box<RenderError> {
    bare(Reason::TooLarge, format!("{path:?} has more than {limit} bytes"))
}

fn submodule(path: &str) -> Box<RenderError> {
    let message = format!("{path:?} is a submodule, and submodules are not fetched");
    Box::new(
        RenderError::new(Reason::OutsideRepository, "", message)
            .hint("copy its files into the repository, or create a separate ConfigRepo for it"),
    )
}

fn follow_link(dir: &str, link: &str, target: &str) -> Result<String> {
    if target.len() > MAX_LINK_BYTES || target.contains('\0') {
        return Err(bare(Reason::InvalidValue, format!("the link {link:?} has an invalid target")));
    }
    join(dir, target).map_err(|_| {
        let message = format!("the link {link:?} points to {target:?}, outside the repository");
        Box::new(
            RenderError::new(Reason::OutsideRepository, "", message)
                .hint("copy its target into the repository"),
        )
    })
}

fn bare(reason: Reason, message: String) -> Box<RenderError> {
    Box::new(RenderError::new(reason, "", message))
}

/// Joins a directory and a relative path, and resolves `.` and `..`.
///
/// # Errors
/// Fails if the path is absolute or leaves the repository. The error has no file yet.
pub(super) fn join(dir: &str, path: &str) -> Result<String> {
    if path.len() > MAX_PATTERN_BYTES || path.contains('\0') {
        return Err(bare(Reason::InvalidValue, "not a valid path".into()));
    }
    if path.starts_with('/') {
        let message = format!("{path:?} is an absolute path");
        return Err(Box::new(
            RenderError::new(Reason::OutsideRepository, "", message).hint("write it relative to this file"),
        ));
    }
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| {
                    bare(Reason::OutsideRepository, format!("{path:?} leaves the repository"))
                })?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Joins two relative paths. The result may start with `..`.
pub(super) fn relative_join(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            (part, _) => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
#[path = "tests/source.rs"]
mod tests;
