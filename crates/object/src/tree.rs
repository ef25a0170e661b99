//! The files of a commit, in memory.
//!
//! The renderer reads repositories only through [`FileTree`], so nothing in a repository can reach the host's file
//! system.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::sync::Arc;

use crate::text::plain;

/// The maximum number of collisions that a tree records.
const MAX_COLLISIONS: usize = 10;
/// The maximum number of characters of a path in a message.
const PATH: usize = 200;

/// The regular files of a directory tree, by path.
///
/// Paths are relative to the repository root, with `/` between parts, and without `.`, `..`, empty parts or a
/// leading `/`. Symbolic links, submodules and large files have separate entries, so that readers can reject them
/// by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTree {
    files: BTreeMap<String, TreeEntry>,
    /// Archives of remote charts, by reference.
    charts: BTreeMap<String, Arc<[u8]>>,
    collisions: Vec<Collision>,
}

/// The entry at a path of a [`FileTree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeEntry {
    /// A file and its bytes, which are shared because trees of successive commits have mostly the same files.
    File(Arc<[u8]>),
    /// A symbolic link with its target as written, relative to the link's directory.
    Link(String),
    /// A submodule: a commit of another repository, which is not fetched.
    Submodule,
    /// A file that is not read because it exceeds the size limit.
    Large {
        /// The size limit, in bytes.
        limit: usize,
    },
}

/// Two paths whose last names differ only in case or Unicode form. A tree contains both, but a checkout may only
/// have one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The path that comes first in the tree.
    pub first: String,
    /// The other path.
    pub second: String,
}

impl Display for Collision {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (first, second) = (plain(&self.first, PATH), plain(&self.second, PATH));
        write!(
            f,
            "{first} and {second} differ only in case or Unicode form; a checkout on macOS or Windows may contain only one of them"
        )
    }
}

/// A tree and its commit or artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The commit ID, 40 or 64 hexadecimal digits, or the revision of an artifact, `TAG@sha256:DIGEST`.
    pub revision: String,
    /// The files at that commit.
    pub tree: FileTree,
}

impl FileTree {
    /// Adds or replaces a file.
    pub fn insert(&mut self, path: impl Into<String>, bytes: impl Into<Arc<[u8]>>) {
        self.files.insert(path.into(), TreeEntry::File(bytes.into()));
    }

    /// Adds or replaces a symbolic link.
    pub fn insert_link(&mut self, path: impl Into<String>, target: impl Into<String>) {
        self.files.insert(path.into(), TreeEntry::Link(target.into()));
    }

    /// Adds or replaces a submodule.
    pub fn insert_submodule(&mut self, path: impl Into<String>) {
        self.files.insert(path.into(), TreeEntry::Submodule);
    }

    /// Adds or replaces a file that is too large to read.
    pub fn insert_large(&mut self, path: impl Into<String>, limit: usize) {
        self.files.insert(path.into(), TreeEntry::Large { limit });
    }

    /// Adds the archive of a remote chart to which files of the tree refer as `REPO/NAME:VERSION`.
    pub fn insert_chart(&mut self, reference: impl Into<String>, archive: impl Into<Arc<[u8]>>) {
        self.charts.insert(reference.into(), archive.into());
    }

    /// Replaces the archives of remote charts.
    pub fn set_charts(&mut self, charts: BTreeMap<String, Arc<[u8]>>) {
        self.charts = charts;
    }

    /// Returns the archives of remote charts, by reference.
    pub fn charts(&self) -> &BTreeMap<String, Arc<[u8]>> {
        &self.charts
    }

    /// Records two colliding paths, up to a limit.
    pub fn insert_collision(&mut self, collision: Collision) {
        if self.collisions.len() < MAX_COLLISIONS {
            self.collisions.push(collision);
        }
    }

    /// Returns the recorded collisions.
    pub fn collisions(&self) -> &[Collision] {
        &self.collisions
    }

    /// Returns the entry at a path; `None` for absent paths and for directories.
    pub fn entry(&self, path: &str) -> Option<&TreeEntry> {
        self.files.get(path)
    }

    /// Returns the bytes of the file at a path; `None` also for links, submodules and large files.
    pub fn file(&self, path: &str) -> Option<&Arc<[u8]>> {
        match self.files.get(path)? {
            TreeEntry::File(bytes) => Some(bytes),
            TreeEntry::Link(_) | TreeEntry::Submodule | TreeEntry::Large { .. } => None,
        }
    }

    /// Returns true if there is any file below a path; the root is the empty path.
    pub fn is_dir(&self, path: &str) -> bool {
        self.below(path).next().is_some()
    }

    /// Returns everything below a directory, in path order; the root is the empty path.
    pub fn below<'a>(&'a self, dir: &str) -> impl Iterator<Item = (&'a str, &'a TreeEntry)> + use<'a> {
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let from = self.files.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
            .map(|(path, entry)| (path.as_str(), entry))
    }
}

impl<P: Into<String>, B: Into<Arc<[u8]>>> FromIterator<(P, B)> for FileTree {
    fn from_iter<I: IntoIterator<Item = (P, B)>>(files: I) -> Self {
        Self {
            files: files
                .into_iter()
                .map(|(path, bytes)| (path.into(), TreeEntry::File(bytes.into())))
                .collect(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_contains_only_what_is_below_it() {
        let tree: FileTree =
            ["a/x", "a/y/z", "ab", "b"].map(|path| (path, path.as_bytes())).into_iter().collect();
        let below: Vec<_> = tree.below("a").map(|(path, _)| path).collect();
        assert_eq!(below, ["a/x", "a/y/z"]);
        assert_eq!(tree.below("").count(), 4);
        assert!(tree.is_dir("a/y") && !tree.is_dir("ab") && !tree.is_dir("c"));
    }

    #[test]
    fn a_link_is_not_a_file() {
        let mut tree = FileTree::default();
        tree.insert_link("a", "../b");
        assert_eq!(tree.file("a"), None);
        assert_eq!(tree.entry("a"), Some(&TreeEntry::Link("../b".into())));
    }
}
