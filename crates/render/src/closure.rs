//! The record of what a rendering read, which decides if the result can be reused.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use object::tree::{FileTree, TreeEntry};

/// The paths that a rendering read, and what it found there.
///
/// A rendering depends on nothing else: trees with the same entries at these paths render to the same objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// The entry at each path. The key of a directory ends with `/`, or with `//` if it was read recursively.
    pub seen: BTreeMap<String, PathEntry>,
}

/// The entry that a rendering found at a path.
#[derive(Clone, Debug)]
pub enum PathEntry {
    /// A file with these bytes.
    File(Arc<[u8]>),
    /// A link with this target.
    Link(String),
    Submodule,
    /// A file that was not read because it exceeds this limit, in bytes.
    Large(usize),
    /// Nothing.
    Absent,
    /// A directory whose file names were listed.
    Names(Vec<String>),
    /// A directory that was listed recursively: the paths below it.
    Paths(Vec<String>),
}

impl PathEntry {
    /// Returns the bytes of a file.
    pub(super) fn file(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::File(bytes) => Some(bytes),
            Self::Link(_)
            | Self::Submodule
            | Self::Large(_)
            | Self::Absent
            | Self::Names(_)
            | Self::Paths(_) => None,
        }
    }
}

impl PartialEq for PathEntry {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(a), Self::File(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Link(a), Self::Link(b)) => a == b,
            (Self::Submodule, Self::Submodule) | (Self::Absent, Self::Absent) => true,
            (Self::Large(a), Self::Large(b)) => a == b,
            (Self::Names(a), Self::Names(b)) | (Self::Paths(a), Self::Paths(b)) => a == b,
            (
                Self::File(_)
                | Self::Link(_)
                | Self::Submodule
                | Self::Large(_)
                | Self::Absent
                | Self::Names(_)
                | Self::Paths(_),
                _,
            ) => false,
        }
    }
}

impl Eq for PathEntry {}

impl Closure {
    /// Returns the files that were read, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Arc<[u8]>)> {
        self.seen.iter().filter_map(|(path, seen)| Some((path.as_str(), seen.file()?)))
    }

    /// Returns the references of the remote charts that were read or are missing.
    pub fn charts(&self) -> Vec<String> {
        let is_chart = |path: &&String| path.contains("://") && !path.ends_with('/');
        self.seen.keys().filter(is_chart).cloned().collect()
    }

    /// Returns a digest of all entries. Equal digests mean equal renderings.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (path, seen) in &self.seen {
            let (kind, content): (&str, Vec<u8>) = match seen {
                PathEntry::File(bytes) => ("file", Sha256::digest(bytes).to_vec()),
                PathEntry::Link(target) => ("link", target.clone().into_bytes()),
                PathEntry::Submodule => ("submodule", Vec::new()),
                PathEntry::Large(limit) => ("large", limit.to_string().into_bytes()),
                PathEntry::Absent => ("absent", Vec::new()),
                PathEntry::Names(names) => ("names", names.join("\0").into_bytes()),
                PathEntry::Paths(paths) => ("paths", paths.join("\0").into_bytes()),
            };
            for part in [path.as_bytes(), kind.as_bytes(), &content] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        object::hex(hash.finalize())
    }

    /// Returns true if a tree has the same entries.
    pub fn holds_in(&self, tree: &FileTree) -> bool {
        self.seen.iter().all(|(path, seen)| match seen {
            PathEntry::Names(names) => *names == file_names(tree, path.trim_end_matches('/')),
            PathEntry::Paths(paths) => *paths == all_paths(tree, path.trim_end_matches('/')),
            PathEntry::File(_)
            | PathEntry::Link(_)
            | PathEntry::Submodule
            | PathEntry::Large(_)
            | PathEntry::Absent => entry(tree, path) == *seen,
        })
    }
}

/// Returns the entry of a tree at a path, or the remote chart of a reference. A reference contains `//`, which no path
/// does.
pub(super) fn entry(tree: &FileTree, path: &str) -> PathEntry {
    match tree.entry(path) {
        Some(TreeEntry::File(bytes)) => PathEntry::File(bytes.clone()),
        Some(TreeEntry::Link(target)) => PathEntry::Link(target.clone()),
        Some(TreeEntry::Submodule) => PathEntry::Submodule,
        Some(TreeEntry::Large { limit }) => PathEntry::Large(*limit),
        None => tree.charts().get(path).map_or(PathEntry::Absent, |archive| PathEntry::File(archive.clone())),
    }
}

/// Returns the names of the files directly in a directory, sorted.
pub(super) fn file_names(tree: &FileTree, dir: &str) -> Vec<String> {
    let skip = if dir.is_empty() { 0 } else { dir.len() + 1 };
    let names = tree.below(dir).filter_map(|(path, _)| path.get(skip..)).filter(|name| !name.contains('/'));
    names.map(String::from).collect()
}

/// Returns the paths of everything below a directory, sorted.
pub(super) fn all_paths(tree: &FileTree, dir: &str) -> Vec<String> {
    tree.below(dir).map(|(path, _)| path.to_owned()).collect()
}
