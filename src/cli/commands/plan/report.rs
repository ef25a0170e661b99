//! Reads the fleet from a report in git.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;

use crate::cli::CommandError;
use crate::cli::checkout::Revisions;
use crate::git::{self, PathChange};
use engine::report::{SNAPSHOT, SnapshotReader};
use object::text::short_commit;
use object::tree::{Checkout, FileTree, TreeEntry};
use object::{Key, Object};
use preview::{HubSnapshot, same_as_applied};

/// The hint for a commit that is missing in the repository.
const LOST: &str = "fetch the whole history (git fetch --unshallow); if it was rewritten, name the commit to start from with \
                    wheelwright plan --base, or read the hub as it is with --kubeconfig or --snapshot";

pub(in crate::cli::commands) struct ReadReport {
    /// The objects of the snapshot.
    pub(in crate::cli::commands) objects: Vec<Object>,
    /// The commit of the report.
    pub(super) commit: PathChange,
}

/// Reads the snapshot of the report in a directory. The default is the only report. `read` parses each file.
///
/// # Errors
/// Fails if the branch cannot be read or has no snapshot, or it has several and no directory is given.
pub(in crate::cli::commands) fn read(
    repository: &Revisions,
    branch: &str,
    directory: Option<&str>,
    mut read: impl FnMut(&mut SnapshotReader, &str) -> serde_json::Result<Vec<Object>>,
) -> Result<ReadReport, CommandError> {
    let tip = repository.checkout(branch)?;
    let directory = match directory {
        Some(directory) => directory.trim_matches('/'),
        None => only_report(&tip.tree, branch)?,
    };
    let place = if directory.is_empty() { SNAPSHOT.to_owned() } else { format!("{directory}/{SNAPSHOT}") };
    let (mut objects, mut reader) = (Vec::new(), SnapshotReader::default());
    for (path, entry) in tip.tree.below(&place) {
        let file = match entry {
            TreeEntry::File(file) => file,
            TreeEntry::Large { limit } => return Err(anyhow!("{path} has more than {limit} bytes").into()),
            TreeEntry::Link(_) | TreeEntry::Submodule => continue,
        };
        let text = std::str::from_utf8(file).with_context(|| format!("cannot read {path}"))?;
        objects.extend(read(&mut reader, text).with_context(|| format!("cannot read {path}"))?);
    }
    if objects.is_empty() {
        let hint = "set spec.report.snapshot of the ConfigRepo, which must act as the operator; if the fleet is too large for a snapshot, the condition Reported of the ConfigRepo says so";
        return Err(CommandError::hinted(anyhow!("the branch {branch} has no directory {place}"), hint));
    }
    let mut changes = repository.changes(&tip.revision, directory, 1)?;
    Ok(ReadReport { objects, commit: changes.swap_remove(0) })
}

/// A commit for each ConfigRepo.
type Commits = BTreeMap<Key, Arc<Checkout>>;

/// The commits that the ConfigRepos with one URL and reference had applied at the time of a report.
pub(in crate::cli::commands) struct AppliedCommits {
    /// The commits that exist in the repository.
    pub(super) found: Commits,
    /// The ids of the commits that are missing in the repository.
    lost: BTreeMap<Key, String>,
}

impl AppliedCommits {
    /// Reads the commits.
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub(in crate::cli::commands) fn read(
        repository: &Revisions,
        commits: BTreeMap<Key, String>,
    ) -> Result<Self, CommandError> {
        let mut read: BTreeMap<String, Option<Arc<Checkout>>> = BTreeMap::new();
        let mut applied = Self { found: BTreeMap::new(), lost: BTreeMap::new() };
        for (repo, commit) in commits {
            let checkout = match read.get(&commit) {
                Some(checkout) => checkout.clone(),
                None => find(repository, &commit)?,
            };
            read.insert(commit.clone(), checkout.clone());
            if let Some(checkout) = checkout {
                applied.found.insert(repo, checkout);
            } else {
                applied.lost.insert(repo, commit);
            }
        }
        Ok(applied)
    }

    /// Returns the base commits of a plan for `repo`, and warnings. If the commit of another ConfigRepo is missing
    /// in the repository, the commit of `repo` replaces it, provided that it has the same objects for that
    /// ConfigRepo.
    ///
    /// # Errors
    /// Fails if a missing commit cannot be replaced, or the controllers do not settle.
    pub(in crate::cli::commands) fn base(
        self,
        repo: &Key,
        snapshot: &HubSnapshot,
        now: Timestamp,
    ) -> Result<(Commits, Vec<String>), CommandError> {
        let Self { found: mut base, lost } = self;
        if lost.is_empty() {
            return Ok((base, Vec::new()));
        }
        if let Some(commit) = lost.get(repo) {
            let error = anyhow!("{}, so there is nothing to compare with", lacks(repo, commit));
            return Err(CommandError::hinted(error, LOST));
        }
        let own = base.get(repo).cloned();
        base.extend(lost.keys().filter_map(|other| Some((other.clone(), Arc::clone(own.as_ref()?)))));
        let same = same_as_applied(snapshot, &base, now)?;
        let mut warnings = Vec::new();
        for (other, commit) in &lost {
            let lacks = lacks(other, commit);
            let Some(own) = own.as_ref().filter(|_| same.contains(other)) else {
                let error = anyhow!(
                    "{lacks}: it follows the same commits as {repo}, and objects may move between the two, so a plan would be wrong without it"
                );
                return Err(CommandError::hinted(error, LOST));
            };
            let own = short_commit(&own.revision);
            warnings.push(format!(
                "{lacks}: the plan uses {own} as its base instead, which has the same objects"
            ));
        }
        Ok((base, warnings))
    }
}

fn lacks(repo: &Key, commit: &str) -> String {
    format!("the repository does not have {}, which ConfigRepo {repo} had applied", short_commit(commit))
}

/// Reads a commit; returns `None` if the repository does not have it.
fn find(repository: &Revisions, commit: &str) -> Result<Option<Arc<Checkout>>, CommandError> {
    match repository.checkout(commit) {
        Ok(checkout) => Ok(Some(checkout)),
        Err(CommandError { error, .. }) if is_missing(&error) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<git::Error>(), Some(git::Error::MissingRef { .. }))
}

/// Returns the directory of the only report with a snapshot; the root if there is none.
fn only_report<'a>(tree: &'a FileTree, branch: &str) -> Result<&'a str, CommandError> {
    let all = tree.below("").filter_map(|(path, _)| {
        let (place, _) = path.rsplit_once('/')?;
        let report = place.strip_suffix(SNAPSHOT)?;
        (report.is_empty() || report.ends_with('/')).then(|| report.trim_end_matches('/'))
    });
    let found: BTreeSet<&str> = all.collect();
    let mut found = found.into_iter();
    let (first, second) = (found.next().unwrap_or_default(), found.next());
    second.map_or(Ok(first), |second| {
        let [named, other] =
            [first, second].map(|directory| if directory.is_empty() { "/" } else { directory });
        let error = anyhow!("the branch {branch} has several reports, such as {named} and {other}");
        Err(CommandError::hinted(error, format!("name one, such as --report-path {named}")))
    })
}

#[cfg(test)]
#[path = "tests/report.rs"]
mod tests;
