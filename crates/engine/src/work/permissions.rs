//! The permissions with which a work is applied. The agent writes as the executor, so the API server authorizes
//! each write. The agent reads as itself, so an access review comes first.

use super::executor::Executor;
use super::manifest::{Served, Wanted};

/// The permissions that a service account needs for a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// The user name of the service account.
    pub user: String,
    /// The groups of the service account.
    pub groups: Vec<String>,
    /// The required verbs on the object.
    pub verbs: Vec<String>,
}

/// Returns the groups of the service accounts of a namespace.
fn groups(namespace: &str) -> [String; 3] {
    [
        "system:serviceaccounts".into(),
        "system:authenticated".into(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

impl Executor {
    /// Returns the user that writes impersonate; `None` for the agent itself.
    pub fn user(&self) -> Option<String> {
        match self {
            Self::ServiceAccount { namespace, name } => {
                Some(format!("system:serviceaccount:{namespace}:{name}"))
            }
            Self::Agent | Self::Unknown => None,
        }
    }

    /// Returns the required permissions for a manifest; `None` if no review is needed.
    pub fn permissions(&self, wanted: &Wanted) -> Option<Permissions> {
        let mut verbs = vec!["create", "update", "patch", "get"];
        if wanted.owned {
            verbs.push("delete");
        }
        self.with_verbs(&verbs)
    }

    /// Returns the permission to delete an object; `None` if no review is needed.
    pub fn deletion(&self) -> Option<Permissions> {
        self.with_verbs(&["delete"])
    }

    fn with_verbs(&self, verbs: &[&str]) -> Option<Permissions> {
        let Self::ServiceAccount { namespace, name: _ } = self else { return None };
        let verbs = verbs.iter().map(|&verb| verb.to_owned()).collect();
        Some(Permissions { user: self.user()?, groups: groups(namespace).into(), verbs })
    }
}

impl Wanted {
    /// Returns OCM's message for a manifest that the executor may not apply.
    pub fn not_allowed(&self) -> String {
        let meta = &self.meta;
        let resource = match &self.served {
            Served::As { resource, .. } => resource,
            Served::Not | Served::Unread => &meta.kind,
        };
        format!(
            "not allowed to apply the resource {} {resource}, {} {}, will try again in 1m0s",
            meta.group, meta.namespace, meta.name
        )
    }
}
