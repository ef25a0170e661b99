//! Reads the fleet from a report in git.

use anyhow::{Context as _, anyhow};

use crate::cli::CommandError;
use crate::cli::checkout::checkout;
use crate::cli::objects;
use engine::report::SNAPSHOT_FILE;
use object::Object;
use object::tree::FileTree;

/// Reads the snapshot of the report in a directory, or of the only report.
///
/// # Errors
/// The branch cannot be read, or has no snapshot, or it has several and no directory is named.
pub(super) fn read(url: &str, branch: &str, directory: Option<&str>) -> Result<Vec<Object>, CommandError> {
    let tip = checkout(url, branch)?;
    let path = match directory {
        Some(directory) => format!("{}/{SNAPSHOT_FILE}", directory.trim_matches('/')),
        None => only_snapshot(&tip.tree, branch)?,
    };
    let path = path.trim_start_matches('/');
    let file = tip.tree.file(path).ok_or_else(|| {
        let hint = "set spec.report.snapshot of the ConfigRepo, which must act as the operator; a fleet of more than 4 MiB has none";
        CommandError::hinted(anyhow!("the branch {branch} has no {path}"), hint)
    })?;
    let text = std::str::from_utf8(file).with_context(|| format!("cannot read {path}"))?;
    Ok(objects::of_text(text).with_context(|| format!("cannot read {path}"))?)
}

/// Returns the path of the only snapshot; one in the root if there is none.
fn only_snapshot(tree: &FileTree, branch: &str) -> Result<String, CommandError> {
    let all = tree.below("").map(|(path, _)| path);
    let mut found = all.filter(|path| path.rsplit('/').next() == Some(SNAPSHOT_FILE));
    let (first, second) = (found.next(), found.next());
    match (first, second) {
        (Some(first), Some(second)) => Err(CommandError::hinted(
            anyhow!("the branch {branch} has the reports of several hubs, such as {first} and {second}"),
            format!("name one, such as --report-path {}", directory_of(first)),
        )),
        (only, _) => Ok(only.unwrap_or(SNAPSHOT_FILE).to_owned()),
    }
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(directory, _)| directory)
}
