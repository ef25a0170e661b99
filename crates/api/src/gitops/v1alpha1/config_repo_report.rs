//! Reports about a ConfigRepo, on a branch of a repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretRef;
use crate::{Unknown, names};

/// The branch that gets reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Repository to write to; if empty, the one that is read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048), extend("pattern" = r"^[^-\s]\S*$"))]
    pub url: String,
    /// Branch to write to. Nothing else follows it, and every hub needs its own branch or path.
    #[serde(default = "status_branch")]
    #[schemars(length(min = 1, max = 255))]
    pub branch: String,
    /// Directory of the branch that reports are written to; empty for the root.
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
    /// Adds the objects of the fleet, without the values of Secrets, for `wheelwright plan --report`. Who
    /// reads the branch sees them. A fleet of more than 4 MiB has none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
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

/// The values of the schema.
impl Default for Report {
    fn default() -> Self {
        Self {
            url: String::new(),
            branch: status_branch(),
            path: String::new(),
            secret_ref: None,
            signing_key_ref: None,
            snapshot: false,
            interval: thirty_seconds(),
            unknown: Unknown::new(),
        }
    }
}
