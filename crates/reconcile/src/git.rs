//! What plans write to git servers, as data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use api::gitops::v1alpha1::{BranchDeletedPolicy, CommitAuthor, CommitState, ProviderType, RewrittenPolicy};
use object::Key;

/// Files to commit to a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Push {
    /// The `ConfigRepo` it reports on.
    pub repo: Key,
    /// URL of the remote.
    pub url: String,
    /// The Secret with credentials that may write, if any are needed.
    pub secret: Option<Key>,
    /// Branch to push to; created as an orphan where it does not exist.
    pub branch: String,
    /// Directory of the branch; empty for the root.
    pub directory: String,
    /// The hub and the ConfigRepo of the report. Files of another owner stay.
    pub owner: String,
    /// Name of the commit that was pushed to the branch last; empty before the first push.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last: String,
    /// Name of the commit that was pushed before that one; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub previous: String,
    /// The rule for a branch that is gone although a commit was pushed to it.
    pub on_branch_deleted: BranchDeletedPolicy,
    /// The rule for a branch that does not hold the last commit.
    pub on_rewritten: RewrittenPolicy,
    /// Most commits of the branch.
    pub history_limit: i32,
    /// When it replaces the report of another process with the same owner.
    pub takes_over: ReportTakeover,
    /// All files of the owner below that directory.
    pub files: BTreeMap<String, String>,
    /// Commit message with its trailers.
    pub message: String,
    /// Time of the commit: the time of the last change in the report, so that the same report gives the same
    /// commit.
    pub time: Timestamp,
    /// Author and committer; `None` for Wheelwright.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<CommitAuthor>,
    /// The Secret with the key that signs the commit, if it is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<Key>,
}

/// When a push replaces the report of another process with the same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ReportTakeover {
    /// It does not.
    Never,
    /// A process that has pushed no such report yet replaces the one that was pushed last, and the next one
    /// after it. A process that ends may not have recorded that one.
    Continued,
    /// A person decided that this hub is the writer.
    Always,
}

/// A status of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitStatus {
    /// The `ConfigRepo` it is about.
    pub repo: Key,
    /// The API of the service.
    pub provider: ProviderType,
    /// Address of the API; empty for the usual one on the host of the repository.
    pub address: String,
    /// URL of the repository.
    pub url: String,
    /// The Secret with the token.
    pub secret: Key,
    /// Name of the commit.
    pub commit: String,
    /// Name of the status. Statuses of one commit with other names stay.
    pub context: String,
    /// State.
    pub state: CommitState,
    /// A line for people.
    pub description: String,
}
