//! Reports that a ConfigRepo pushes to a branch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretRef;
use crate::{Unknown, names};

/// Reports and commit statuses of a ConfigRepo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRepoReport {
    /// URL of the repository to push to. If empty, `spec.url`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048), extend("pattern" = r"^[^-\s]\S*$"))]
    pub url: String,
    /// Branch to push to. In the repository of `spec.url`, it must be another branch than the one in
    /// `spec.ref`. Several hubs can share it.
    #[serde(default = "status_branch")]
    #[schemars(length(min = 1, max = 255))]
    pub branch: String,
    /// Directory on the branch to write reports to. `/` is the root. If empty, it is `hubs/` and the first
    /// eight characters of the uid of the namespace `kube-system`, so that each hub has its own directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Secret in the same namespace with the credentials to push. It has the same keys as the Secret in
    /// `spec.secretRef`, but must be another Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Secret in the same namespace with the key that signs the commits: `ssh-privatekey` or `openpgp.asc`,
    /// and `password` if the key is encrypted. If absent, the commits are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key_ref: Option<SecretRef>,
    /// Author and committer of the commits. Default: Wheelwright.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<CommitAuthor>,
    /// Sends the state of each commit (pending, success or failure) to the service that hosts the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_status: Option<CommitStatusProvider>,
    /// Adds a snapshot of the fleet for `wheelwright plan --report`, without the values of Secrets. Everyone
    /// who can read the branch can read the snapshot. It is omitted if it would be larger than 64 MiB, if an
    /// object cannot be read, or if the ConfigRepo acts as a service account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
    /// Rule for a branch that is deleted after a report was pushed to it. `Recreate`: the next report creates
    /// it again. `Stop`: no reports are pushed until the branch exists again, or the spec changes.
    #[serde(default)]
    pub on_branch_deleted: BranchDeletedPolicy,
    /// Rule for a branch that no longer contains the last commit that was pushed. `Adopt`: the next report is
    /// added to the current tip. `Stop`: no reports are pushed until the branch contains that commit again,
    /// or the spec changes.
    #[serde(default)]
    pub on_rewritten: RewrittenPolicy,
    /// Maximum number of commits on the branch, at least 10. The next commit has no parent, and the server
    /// keeps the earlier ones under `refs/wheelwright/archive`. If the server refuses this, the commit is
    /// added to the branch.
    #[serde(default = "thousand")]
    #[schemars(range(min = 10))]
    pub history_limit: i32,
    /// Minimum time between two commits, such as `30s`. The end of a rollout is reported immediately, once
    /// per interval.
    #[serde(default = "thirty_seconds")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub interval: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn status_branch() -> String {
    "wheelwright/status".into()
}

fn thirty_seconds() -> String {
    "30s".into()
}

fn thousand() -> i32 {
    1_000
}

/// The defaults of the schema.
impl Default for ConfigRepoReport {
    fn default() -> Self {
        Self {
            url: String::new(),
            branch: status_branch(),
            path: String::new(),
            secret_ref: None,
            signing_key_ref: None,
            author: None,
            commit_status: None,
            snapshot: false,
            on_branch_deleted: BranchDeletedPolicy::default(),
            on_rewritten: RewrittenPolicy::default(),
            history_limit: thousand(),
            interval: thirty_seconds(),
            unknown: Unknown::new(),
        }
    }
}

/// Author of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitAuthor {
    /// Name, such as `Fleet Reports`.
    #[schemars(length(max = 200), extend("pattern" = r"^[^<>\x00-\x20\x7f]([^<>\x00-\x1f\x7f]*[^<>\x00-\x20\x7f])?$"))]
    pub name: String,
    /// Email address, such as `fleet@example.com`.
    #[schemars(length(max = 254), extend("pattern" = r"^[^<>\x00-\x20\x7f]+$"))]
    pub email: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Service that receives the states of commits. The fields are the same as in Flux's Provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitStatusProvider {
    /// API of the service. `github` includes GitHub Enterprise Server, and `gitea` includes Forgejo. `notes`
    /// needs no API. The states are then git notes in `refs/notes/wheelwright` of the repository.
    pub r#type: ProviderType,
    /// Address of the API, such as `https://git.example.com/api/v4`. If empty, it is the standard address for
    /// the host of `spec.url`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), extend("pattern" = r"^[^-\s]\S*$"))]
    pub address: String,
    /// Secret in the same namespace with `token` or `password`, or the keys of a GitHub App. It can also
    /// contain `ca.crt`, `tls.crt` and `tls.key`, and `proxy`. For `notes`, it has the same keys as the
    /// Secret in `spec.report.secretRef`.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// API of a service that hosts repositories.
    pub enum ProviderType {
        /// GitHub, and GitHub Enterprise Server.
        GitHub = "github",
        /// GitLab.
        GitLab = "gitlab",
        /// Gitea and Forgejo.
        Gitea = "gitea",
        /// None. The states are git notes in `refs/notes/wheelwright` of the repository.
        Notes = "notes",
    }
}

open_enum! {
    /// Rule for a report branch that is deleted after a report was pushed to it.
    pub enum BranchDeletedPolicy {
        /// The next report creates it again.
        Recreate = "Recreate",
        /// No reports are pushed until the branch exists again, or the spec changes.
        Stop = "Stop",
    }
}

open_enum! {
    /// Rule for a report branch that no longer contains the last commit that was pushed.
    pub enum RewrittenPolicy {
        /// The next report is added to the current tip of the branch.
        Adopt = "Adopt",
        /// No reports are pushed until the branch contains that commit again, or the spec changes.
        Stop = "Stop",
    }
}
