//! Builds the commit of a report.

use crate::git::{Commit, CommitSigner, LastPush, Replaces};
use api::gitops::v1alpha1::{BranchDeletedPolicy, CommitAuthor, RewrittenPolicy};
use reconcile::{Push, ReportTakeover};

/// Returns the commit of a report. A process that `has_pushed` only replaces reports of other processes with
/// [`ReportTakeover::Always`].
pub(super) fn report_commit(
    push: Push,
    has_pushed: bool,
    writer: String,
    signer: Option<CommitSigner>,
) -> Commit {
    let Push { branch, directory, owner, takes_over, files, message, time, author, .. } = push;
    let last = LastPush {
        commit: push.last,
        previous: push.previous,
        recreates: push.on_branch_deleted != BranchDeletedPolicy::Stop,
        adopts: push.on_rewritten != RewrittenPolicy::Stop,
    };
    let replaces = match takes_over {
        ReportTakeover::Continued if !has_pushed => Replaces::Last,
        ReportTakeover::Continued | ReportTakeover::Never => Replaces::Nothing,
        ReportTakeover::Always => Replaces::Any,
    };
    Commit {
        branch,
        directory,
        owner,
        message,
        writer,
        replaces,
        last,
        history_limit: usize::try_from(push.history_limit).unwrap_or(usize::MAX),
        files,
        time,
        author: author.map(|CommitAuthor { name, email, unknown: _ }| (name, email)),
        signer,
    }
}
