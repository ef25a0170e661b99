//! Reads the fleet from a report in git.

use anyhow::{Context as _, anyhow};

use crate::cli::CommandError;
use crate::cli::checkout::checkout;
use crate::cli::objects;
use engine::report::SNAPSHOT_FILE;
use object::Object;

/// Reads the snapshot of a report.
///
/// # Errors
/// The branch cannot be read, or has no snapshot.
pub(super) fn read(url: &str, branch: &str, path: &str) -> Result<Vec<Object>, CommandError> {
    let tip = checkout(url, branch)?;
    let path = format!("{}/{SNAPSHOT_FILE}", path.trim_matches('/'));
    let path = path.trim_start_matches('/');
    let file = tip.tree.file(path).ok_or_else(|| {
        let hint = "set spec.report.snapshot of the ConfigRepo, which must act as the operator; a fleet of more than 4 MiB has none";
        CommandError::hinted(anyhow!("the branch {branch} has no {path}"), hint)
    })?;
    let text = std::str::from_utf8(file).with_context(|| format!("cannot read {path}"))?;
    Ok(objects::of_text(text).with_context(|| format!("cannot read {path}"))?)
}
