//! Strings of Argo CD, and of the integration that delivers Applications of a hub to clusters in works.

/// API group of Argo CD's kinds.
pub const ARGO_GROUP: &str = "argoproj.io";

/// On an ApplicationSet, makes Argo CD regenerate its applications (`argo-cd/common/common.go`).
pub const APPLICATION_SET_REFRESH_ANNOTATION: &str = "argocd.argoproj.io/application-set-refresh";
/// On a Secret, `cluster` declares a cluster to Argo CD.
pub const ARGO_SECRET_TYPE_LABEL: &str = "argocd.argoproj.io/secret-type";
/// On an Application, `true` makes the Argo CD on the same cluster ignore it.
pub const SKIP_RECONCILE_ANNOTATION: &str = "argocd.argoproj.io/skip-reconcile";
/// On an Application, makes Argo CD compare it again. Argo CD then removes the annotation.
pub const APPLICATION_REFRESH_ANNOTATION: &str = "argocd.argoproj.io/refresh";
/// On an object that Argo CD applies: its application and key, as `app:group/Kind:namespace/name`.
pub const TRACKING_ID_ANNOTATION: &str = "argocd.argoproj.io/tracking-id";
/// On an object that Argo CD applies in one phase of its sync, such as `PreSync`, or never (`Skip`).
pub const HOOK_ANNOTATION: &str = "argocd.argoproj.io/hook";
/// On an object: comma-separated sync options of Argo CD, such as `Prune=false`.
pub const SYNC_OPTIONS_ANNOTATION: &str = "argocd.argoproj.io/sync-options";

/// Finalizers that make Argo CD delete the objects of an application before the application.
pub const RESOURCES_FINALIZERS: [&str; 3] = [
    "resources-finalizer.argocd.argoproj.io",
    "resources-finalizer.argocd.argoproj.io/background",
    "resources-finalizer.argocd.argoproj.io/foreground",
];

/// The prefix of the labels and annotations of `argocd-pull-integration`.
pub const PULL_PREFIX: &str = "apps.open-cluster-management.io/";
/// On an Application, `true` delivers it to the Argo CD of a managed cluster. Its work has the label too.
pub const PULL_LABEL: &str = "apps.open-cluster-management.io/pull-to-ocm-managed-cluster";
/// On such an Application: the managed cluster.
pub const PULL_CLUSTER_ANNOTATION: &str = "apps.open-cluster-management.io/ocm-managed-cluster";
/// On such an Application: its namespace on the cluster. The default is its namespace on the hub.
pub const PULL_NAMESPACE_ANNOTATION: &str =
    "apps.open-cluster-management.io/ocm-managed-cluster-app-namespace";
/// On such an Application: the name of the destination in the Argo CD of the cluster.
pub const PULL_DESTINATION_NAME_ANNOTATION: &str = "apps.open-cluster-management.io/destination-name";
/// On such an Application: the URL of the destination. The default is the cluster itself.
pub const PULL_DESTINATION_SERVER_ANNOTATION: &str = "apps.open-cluster-management.io/destination-server";
/// On the work of such an Application: the namespace of the Application on the hub.
pub const HUB_APPLICATION_NAMESPACE_ANNOTATION: &str =
    "apps.open-cluster-management.io/hub-application-namespace";
/// On the work of such an Application: the name of the Application on the hub.
pub const HUB_APPLICATION_NAME_ANNOTATION: &str = "apps.open-cluster-management.io/hub-application-name";
/// On the work of such an Application: the UID of the Application, by which its works are looked up.
pub const APPLICATION_UID_LABEL: &str = "gitops.wheelwright.dev/application-uid";
/// Finalizer of such an Application, until its works are deleted. An ApplicationSet removes all finalizers that
/// its template lacks, except those with this prefix.
pub const PULL_FINALIZER: &str = "post-delete-finalizer.argocd.argoproj.io/wheelwright";
