//! The commit of a report.

use crate::git::{Commit, Signer};
use reconcile::Push;

/// Returns the commit of a report. A process that `has_pushed` there takes nothing over.
pub(super) fn report_commit(push: Push, has_pushed: bool, writer: String, signer: Option<Signer>) -> Commit {
    let Push { branch, directory, owner, takes_over, files, message, time, author, .. } = push;
    Commit {
        branch,
        directory,
        owner,
        message: format!("{message}Wheelwright-Writer: {writer}\n"),
        writer,
        takes_over: takes_over && !has_pushed,
        files,
        time,
        author: author.map(|author| (author.name, author.email)),
        signer,
    }
}
