//! The part of a cluster that a process watches.

use crate::Representation;
use api::names::argo::{ARGO_GROUP, ARGO_SECRET_TYPE_LABEL};
use api::names::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL, WORK_REPLICA_SET_LABEL};
use object::Gvk;

/// The part of the hub that a process watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All objects.
    #[default]
    Everything,
    /// All objects, but only Argo CD's cluster Secrets and the token Secrets for them, and only the Applications
    /// in Argo CD's namespace. The permissions for these do not allow listing others.
    ArgoCd {
        /// The namespace of Argo CD.
        namespace: String,
        /// The name of the token Secrets, one in the namespace of each cluster.
        account: String,
    },
    /// The objects of one managed cluster, which are all that its agent may read: its namespace, and the
    /// cluster-scoped objects with its name.
    OneCluster(String),
    /// The objects of one add-on on all clusters, and every object of kinds that belong to no add-on.
    OneAddOn(String),
    /// The objects that rollout decisions need. Only ManifestWorks of a ManifestWorkReplicaSet are included.
    Rollouts,
}

/// A restriction of a collection. Empty fields do not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowed {
    /// The only namespace to list.
    pub namespace: String,
    /// The field selector, as in a query string.
    pub fields: String,
    /// The label selector, as in a query string.
    pub labels: String,
}

impl Scope {
    /// Returns the part of a kind's objects that is in scope.
    pub fn narrow(&self, gvk: &Gvk, representation: Representation, namespaced: bool) -> Narrowed {
        match self {
            Self::Everything => Narrowed::default(),
            Self::ArgoCd { namespace, account }
                if (gvk.group.as_str(), gvk.kind.as_str()) == ("", "Secret") =>
            {
                of_argo_cd(namespace, account, representation)
            }
            Self::ArgoCd { namespace, .. }
                if (gvk.group.as_str(), gvk.kind.as_str(), representation)
                    == (ARGO_GROUP, "Application", Representation::Typed) =>
            {
                Narrowed { namespace: namespace.clone(), ..Narrowed::default() }
            }
            Self::ArgoCd { .. } => Narrowed::default(),
            Self::OneCluster(cluster) => of_cluster(cluster, gvk, namespaced),
            Self::OneAddOn(addon) => of_addon(addon, gvk),
            Self::Rollouts if gvk.kind == "ManifestWork" => {
                Narrowed { labels: WORK_REPLICA_SET_LABEL.to_owned(), ..Narrowed::default() }
            }
            Self::Rollouts => Narrowed::default(),
        }
    }
}

fn of_argo_cd(namespace: &str, account: &str, representation: Representation) -> Narrowed {
    match representation {
        Representation::Typed => Narrowed {
            namespace: namespace.to_owned(),
            labels: format!("{ARGO_SECRET_TYPE_LABEL}=cluster"),
            ..Narrowed::default()
        },
        Representation::Metadata => {
            Narrowed { fields: format!("metadata.name={account}"), ..Narrowed::default() }
        }
        // A ConfigRepo with Secrets among its objects observes all Secrets.
        Representation::Whole => Narrowed::default(),
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;
    use api::argoproj::v1alpha1::Application;

    #[test]
    fn only_applications_of_argo_cd_are_watched() {
        let scope = Scope::ArgoCd { namespace: "argocd".into(), account: String::new() };
        let narrowed =
            |representation| scope.narrow(&Gvk::of::<Application>(), representation, true).namespace;
        assert_eq!(narrowed(Representation::Typed), "argocd");
        assert_eq!(narrowed(Representation::Whole), "", "a ConfigRepo may apply others");
    }

    #[test]
    fn only_secrets_of_argo_cd_and_tokens_for_them_are_watched() {
        let scope = Scope::ArgoCd { namespace: "argocd".into(), account: "reader".into() };
        let secrets = |representation| {
            let Narrowed { namespace, fields, labels } =
                scope.narrow(&Gvk::of::<Secret>(), representation, true);
            [namespace, fields, labels]
        };
        let of_argo_cd = ["argocd", "", "argocd.argoproj.io/secret-type=cluster"];
        assert_eq!(secrets(Representation::Typed), of_argo_cd);
        assert_eq!(secrets(Representation::Metadata), ["", "metadata.name=reader", ""]);
        assert_eq!(secrets(Representation::Whole), ["", "", ""]);
        let others = scope.narrow(&Gvk::of::<ConfigMap>(), Representation::Typed, true);
        assert_eq!(others, Narrowed::default());
    }
}
