//! Writes to git servers, as data.

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
    /// The URL of the remote.
    pub url: String,
    /// The Secret with credentials for writing, if any are needed.
    pub secret: Option<Key>,
    /// The branch to push to; created as an orphan if it does not exist.
    pub branch: String,
    /// The directory in the branch; empty for the root.
    pub directory: String,
    /// The hub and the ConfigRepo of the report. Files of other owners are kept.
    pub owner: String,
    /// The name of the commit that was last pushed to the branch; empty before the first push.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last: String,
    /// The name of the commit pushed before `last`; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub previous: String,
    /// The policy if the branch is gone although a commit was pushed to it.
    pub on_branch_deleted: BranchDeletedPolicy,
    /// The policy if the branch does not contain the last commit.
    pub on_rewritten: RewrittenPolicy,
    /// The maximum number of commits in the branch.
    pub history_limit: i32,
    /// The rule for replacing the report of another process with the same owner.
    pub takes_over: ReportTakeover,
    /// All files of the owner below `directory`.
    pub files: BTreeMap<String, String>,
    /// The commit message with its trailers.
    pub message: String,
    /// The time of the commit. It is the time of the last change in the report, so that the same report gives the
    /// same commit.
    pub time: Timestamp,
    /// The author and committer; `None` for Wheelwright.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<CommitAuthor>,
    /// The Secret with the key that signs the commit; `None` if it is unsigned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<Key>,
}

/// When a push may replace the report of another process with the same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ReportTakeover {
    /// Never.
    Never,
    /// A process that has not yet pushed such a report replaces the last pushed one, and also its direct
    /// successor, because the process that ended may not have recorded that one.
    Continued,
    /// A person decided that this hub is the writer.
    Always,
}

/// The status to set on a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitStatus {
    /// The `ConfigRepo` it is about.
    pub repo: Key,
    /// The API of the git provider.
    pub provider: ProviderType,
    /// The address of the API; empty for the usual one on the host of the repository.
    pub address: String,
    /// The URL of the repository.
    pub url: String,
    /// The Secret with the token.
    pub secret: Key,
    /// The name of the commit.
    pub commit: String,
    /// The name of the status. Other statuses of the commit are kept.
    pub context: String,
    /// GitLab receives `Failure` as `failed`.
    pub state: CommitState,
    /// A line for people to read.
    pub description: String,
}
