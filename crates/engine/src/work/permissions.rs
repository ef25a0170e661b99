//! The permissions with which a work is applied. The agent writes as itself; an executor limits its writes.

use super::executor::Executor;
use super::manifest::{Served, Wanted};
use crate::registration::rbac::RBAC;
use api::work::v1::UpdateStrategyType;

/// The permissions that a service account needs for a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Its user name.
    pub user: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// The verbs on the object.
    pub verbs: Vec<String>,
    /// Whether the object gives permissions, which the subject must have itself.
    pub grants: bool,
}

/// Returns the groups of the service accounts of a namespace.
pub(super) fn groups(namespace: &str) -> [String; 3] {
    [
        "system:serviceaccounts".into(),
        "system:authenticated".into(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

impl Executor {
    /// Returns the permissions that it needs for a manifest; `None` if no review is needed.
    pub fn permissions(&self, wanted: &Wanted) -> Option<Permissions> {
        let Self::ServiceAccount { namespace, name } = self else { return None };
        let mut verbs = vec!["create", "update", "patch", "get"];
        if wanted.owned {
            verbs.push("delete");
        }
        let grants = wanted.meta.group == RBAC
            && matches!(
                &*wanted.meta.resource,
                "roles" | "rolebindings" | "clusterroles" | "clusterrolebindings"
            )
            && wanted.strategy.r#type != UpdateStrategyType::ReadOnly;
        Some(Permissions {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            groups: groups(namespace).into(),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            grants,
        })
    }
}

impl Wanted {
    /// Returns the words of Open Cluster Management for a manifest that the executor may not apply.
    pub fn not_allowed(&self, escalates: bool) -> String {
        let meta = &self.meta;
        let resource = match &self.served {
            Served::As { resource, .. } => resource,
            Served::Not | Served::Unread => &meta.kind,
        };
        let why = if escalates { ", error: permission escalation" } else { "" };
        format!(
            "not allowed to apply the resource {} {resource}, {} {}{why}, will try again in 1m0s",
            meta.group, meta.namespace, meta.name
        )
    }
}
