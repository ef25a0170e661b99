//! The directories that a ConfigRepo renders.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

use super::status::count;
use api::gitops::v1alpha1::{ConfigRepoSpec, RenderedPath};
use object::text;
use object::tree::FileTree;
use render::matching_directories;

/// Maximum length of a directory in the status and in messages, in characters.
const MAX_PATH: usize = 200;

/// The directories that a ConfigRepo renders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Paths {
    /// The directory in `spec.path`.
    One(String),
    /// The patterns in `spec.paths`.
    Matching(Vec<String>),
}

/// Returns the directories that a ConfigRepo renders; the root is empty.
///
/// # Errors
/// Names the path that does not exist, or the pattern that matches no directory.
pub fn directories(spec: &ConfigRepoSpec, tree: &FileTree) -> Result<BTreeSet<String>, String> {
    Paths::of(spec).directories(tree)
}

/// Returns the rows of the status for directories with numbers of objects.
pub(super) fn rows(directories: &BTreeMap<String, usize>) -> Vec<RenderedPath> {
    let row = |(path, objects): (&String, &usize)| RenderedPath {
        path: if path.is_empty() { ".".into() } else { text::clip(path, MAX_PATH) },
        objects: count(*objects),
        ..RenderedPath::default()
    };
    directories.iter().map(row).collect()
}

impl Paths {
    pub(super) fn of(spec: &ConfigRepoSpec) -> Self {
        match spec.paths.as_slice() {
            [] => {
                let segments = spec.path.split('/').filter(|segment| !matches!(*segment, "" | "."));
                Self::One(segments.collect::<Vec<_>>().join("/"))
            }
            patterns => Self::Matching(patterns.to_vec()),
        }
    }

    /// Returns the directories, or an error that names what does not exist. The root is empty, also for `.` and `/`.
    pub(super) fn directories(&self, tree: &FileTree) -> Result<BTreeSet<String>, String> {
        match self {
            // Rendering reports a path with `..`.
            Self::One(path) if tree.is_dir(path) || path.contains("..") => Ok(BTreeSet::from([path.clone()])),
            Self::One(path) => {
                let path = text::plain(path, MAX_PATH);
                Err(format!(
                    "spec.path: there is no directory {path:?} in the repository; commit it, or correct spec.path"
                ))
            }
            Self::Matching(patterns) => {
                let found = matching_directories(tree, patterns.iter().map(String::as_str));
                found.map_err(|pattern| {
                    let pattern = text::plain(pattern, MAX_PATH);
                    format!(
                        "spec.paths: no directory in the repository matches {pattern:?}; commit one, or correct spec.paths"
                    )
                })
            }
        }
    }
}

impl Display for Paths {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(path) => f.write_str(path),
            Self::Matching(patterns) => f.write_str(&patterns.join(",")),
        }
    }
}
