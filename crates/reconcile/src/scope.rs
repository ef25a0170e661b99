//! The part of a cluster that a process watches.

use api::names::CLUSTER_NAME_LABEL;
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
        let Self::OneCluster(cluster) = self else { return Narrowed::default() };
        match gvk.kind.as_str() {
            _ if namespaced => Narrowed { namespace: cluster.clone(), ..Narrowed::default() },
            // Signing requests have generated names.
            "CertificateSigningRequest" => {
                Narrowed { labels: format!("{CLUSTER_NAME_LABEL}={cluster}"), ..Narrowed::default() }
            }
            _ => Narrowed { fields: format!("metadata.name={cluster}"), ..Narrowed::default() },
        }
    }
}
