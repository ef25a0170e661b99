//! Reports about a ConfigRepo, on a branch of a repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretRef;
use crate::{Unknown, names};

/// The branch that gets reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRepoReport {
    /// Repository to write to; if empty, the one that is read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048), extend("pattern" = r"^[^-\s]\S*$"))]
    pub url: String,
    /// Branch to write to. Nothing else follows it. Hubs may share it.
    #[serde(default = "status_branch")]
    #[schemars(length(min = 1, max = 255))]
    pub branch: String,
    /// Directory of the branch that reports are written to; `/` for the root. If empty, `hubs/` and the first
    /// eight characters of the uid of the namespace kube-system, so that each hub has its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Secret of the same namespace with the credentials to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Secret of the same namespace with the key that signs the commits: ssh-privatekey or openpgp.asc, and
    /// the password of either. They are not signed if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key_ref: Option<SecretRef>,
    /// Author and committer of the commits; Wheelwright if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<CommitAuthor>,
    /// Sets the state of each commit at the service that hosts the repository, beside the commit: pending,
    /// success or failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_status: Option<CommitStatusProvider>,
    /// Adds the objects of the fleet, without the values of Secrets, for `wheelwright plan --report`. Who
    /// reads the branch sees them. A snapshot of more than 64 MiB is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
    /// The rule for a branch that is deleted after a report was pushed to it.
    #[serde(default)]
    pub on_branch_deleted: BranchDeletedPolicy,
    /// The rule for a branch that no longer holds the commit that was pushed last.
    #[serde(default)]
    pub on_rewritten: RewrittenPolicy,
    /// Most commits of the branch. The next one has no parent; the server keeps the commits before it below
    /// refs/wheelwright/archive. A server that refuses either gets one more commit.
    #[serde(default = "thousand")]
    #[schemars(range(min = 10))]
    pub history_limit: i32,
    /// Shortest time between two commits, such as 30s.
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

/// The values of the schema.
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

/// The author of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitAuthor {
    /// Name, such as Fleet Reports.
    #[schemars(length(max = 200), extend("pattern" = r"^[^<>\x00-\x20\x7f]([^<>\x00-\x1f\x7f]*[^<>\x00-\x20\x7f])?$"))]
    pub name: String,
    /// E-mail address, such as fleet@example.com.
    #[schemars(length(max = 254), extend("pattern" = r"^[^<>\x00-\x20\x7f]+$"))]
    pub email: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The service that gets the states of commits, with the fields of a Provider of Flux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitStatusProvider {
    /// The API of the service.
    pub r#type: ProviderType,
    /// Address of the API, such as https://git.example.com/api/v4; if empty, the usual one on the host of
    /// spec.url.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), extend("pattern" = r"^[^-\s]\S*$"))]
    pub address: String,
    /// Secret of the same namespace with the token: token or password, or the keys of a GitHub App; also
    /// ca.crt, tls.crt and tls.key, and proxy. For notes, with the keys of spec.report.secretRef.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The API of a service that hosts repositories.
    pub enum ProviderType {
        /// GitHub, and GitHub Enterprise Server.
        GitHub = "github",
        /// GitLab.
        GitLab = "gitlab",
        /// Gitea and Forgejo.
        Gitea = "gitea",
        /// None: the states are git notes of the repository, in refs/notes/wheelwright.
        Notes = "notes",
    }
}

open_enum! {
    /// The rule for a report branch that is deleted after a report was pushed to it.
    pub enum BranchDeletedPolicy {
        /// The next report creates it again.
        Recreate = "Recreate",
        /// There are no reports until the branch is back, or the rule is changed.
        Stop = "Stop",
    }
}

open_enum! {
    /// The rule for a report branch that no longer holds the commit that was pushed last.
    pub enum RewrittenPolicy {
        /// The next report follows the commit that the branch is at.
        Adopt = "Adopt",
        /// There are no reports until the branch holds the commit again, or the rule is changed.
        Stop = "Stop",
    }
}
