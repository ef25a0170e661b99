//! The part of a cluster that a process watches.

use api::names::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL, WORK_REPLICA_SET_LABEL};
use object::Gvk;

/// The part of the hub that a process may watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    #[default]
    Everything,
    /// The objects of one managed cluster, which are all that its agent may read: its namespace and the
    /// cluster-scoped objects of its name.
    OneCluster(String),
    /// The objects of one add-on on all clusters, and every object that no add-on has a name or a label for.
    OneAddOn(String),
    /// What rollouts are decided from: of the ManifestWorks, those of a ManifestWorkReplicaSet.
    Rollouts,
}

/// A collection, narrowed; empty parts do not narrow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowed {
    /// Namespace.
    pub namespace: String,
    /// Field selector, as in a query string.
    pub fields: String,
    /// Label selector, as in a query string.
    pub labels: String,
}

impl Scope {
    /// Returns the part of a kind's objects that is in scope.
    pub fn narrow(&self, gvk: &Gvk, namespaced: bool) -> Narrowed {
        match self {
            Self::Everything => Narrowed::default(),
            Self::OneCluster(cluster) => of_cluster(cluster, gvk, namespaced),
            Self::OneAddOn(addon) => of_addon(addon, gvk),
            Self::Rollouts if gvk.kind == "ManifestWork" => {
                Narrowed { labels: WORK_REPLICA_SET_LABEL.to_owned(), ..Narrowed::default() }
            }
            Self::Rollouts => Narrowed::default(),
        }
    }
}

fn of_cluster(cluster: &str, gvk: &Gvk, namespaced: bool) -> Narrowed {
    match gvk.kind.as_str() {
        _ if namespaced => Narrowed { namespace: cluster.to_owned(), ..Narrowed::default() },
        // Signing requests have generated names.
        "CertificateSigningRequest" => {
            Narrowed { labels: format!("{CLUSTER_NAME_LABEL}={cluster}"), ..Narrowed::default() }
        }
        _ => Narrowed { fields: format!("metadata.name={cluster}"), ..Narrowed::default() },
    }
}

fn of_addon(addon: &str, gvk: &Gvk) -> Narrowed {
    match gvk.kind.as_str() {
        "ClusterManagementAddOn" | "ManagedClusterAddOn" => {
            Narrowed { fields: format!("metadata.name={addon}"), ..Narrowed::default() }
        }
        "ManifestWork" | "CertificateSigningRequest" | "Role" | "RoleBinding" => {
            Narrowed { labels: format!("{ADDON_NAME_LABEL}={addon}"), ..Narrowed::default() }
        }
        _ => Narrowed::default(),
    }
}
