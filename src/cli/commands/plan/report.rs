//! Reads the fleet from a report in git.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use crate::cli::CommandError;
use crate::cli::checkout::Revisions;
use crate::cli::objects;
use engine::report::SNAPSHOT;
use object::tree::{Checkout, FileTree, TreeEntry};
use object::{Key, Object};

/// Reads the snapshot of the report in a directory, or of the only report.
///
/// # Errors
/// The branch cannot be read, or has no snapshot, or it has several and no directory is named.
pub(in crate::cli::commands) fn read(
    repository: &Revisions,
    branch: &str,
    directory: Option<&str>,
) -> Result<Vec<Object>, CommandError> {
    let tip = repository.checkout(branch)?;
    let directory = match directory {
        Some(directory) => directory.trim_matches('/'),
        None => only_report(&tip.tree, branch)?,
    };
    let place = if directory.is_empty() { SNAPSHOT.to_owned() } else { format!("{directory}/{SNAPSHOT}") };
    let mut objects = Vec::new();
    for (path, entry) in tip.tree.below(&place) {
        let TreeEntry::File(file) = entry else { continue };
        let text = std::str::from_utf8(file).with_context(|| format!("cannot read {path}"))?;
        objects.extend(objects::of_text(text).with_context(|| format!("cannot read {path}"))?);
    }
    if objects.is_empty() {
        let hint = "set spec.report.snapshot of the ConfigRepo, which must act as the operator; a fleet of more than 64 MiB has none";
        return Err(CommandError::hinted(anyhow!("the branch {branch} has no directory {place}"), hint));
    }
    Ok(objects)
}

/// Reads the commits that ConfigRepos had applied.
///
/// # Errors
/// The repository cannot be read, or it lacks one of them.
pub(in crate::cli::commands) fn checkouts(
    repository: &Revisions,
    commits: BTreeMap<Key, String>,
) -> Result<BTreeMap<Key, Arc<Checkout>>, CommandError> {
    let mut read: BTreeMap<String, Arc<Checkout>> = BTreeMap::new();
    let mut checkouts = BTreeMap::new();
    for (repo, commit) in commits {
        let checkout = match read.get(&commit) {
            Some(checkout) => Arc::clone(checkout),
            None => repository.checkout(&commit)?,
        };
        read.insert(commit, Arc::clone(&checkout));
        checkouts.insert(repo, checkout);
    }
    Ok(checkouts)
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
        let why = anyhow!("the branch {branch} has several reports, such as {named} and {other}");
        Err(CommandError::hinted(why, format!("name one, such as --report-path {named}")))
    })
}
