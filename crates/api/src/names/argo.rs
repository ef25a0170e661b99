//! The strings of Argo CD, and those by which an Application of a hub reaches a cluster in a work.

/// API group of Argo CD's kinds.
pub const ARGO_GROUP: &str = "argoproj.io";

/// On an ApplicationSet, asks Argo CD to generate its applications again (`argo-cd/common/common.go`).
pub const APPLICATION_SET_REFRESH_ANNOTATION: &str = "argocd.argoproj.io/application-set-refresh";
/// On a Secret, `cluster` makes it one by which Argo CD knows a cluster.
pub const ARGO_SECRET_TYPE_LABEL: &str = "argocd.argoproj.io/secret-type";
/// On an Application, `true` has the Argo CD of its cluster leave it alone.
pub const SKIP_RECONCILE_ANNOTATION: &str = "argocd.argoproj.io/skip-reconcile";
/// On an Application, asks Argo CD to compare it again. Argo CD removes the annotation.
pub const APPLICATION_REFRESH_ANNOTATION: &str = "argocd.argoproj.io/refresh";
/// On an object that Argo CD applies: `app:group/Kind:namespace/name`.
pub const TRACKING_ID_ANNOTATION: &str = "argocd.argoproj.io/tracking-id";
/// On an object that Argo CD applies at a point of its sync, such as `PreSync`, or never (`Skip`).
pub const HOOK_ANNOTATION: &str = "argocd.argoproj.io/hook";
/// On an object: options of Argo CD's sync between commas, such as `Prune=false`.
pub const SYNC_OPTIONS_ANNOTATION: &str = "argocd.argoproj.io/sync-options";

/// The finalizers by which Argo CD deletes the objects of an application first.
pub const RESOURCES_FINALIZERS: [&str; 3] = [
    "resources-finalizer.argocd.argoproj.io",
    "resources-finalizer.argocd.argoproj.io/background",
    "resources-finalizer.argocd.argoproj.io/foreground",
];

/// The prefix of the labels and annotations of `argocd-pull-integration`.
pub const PULL_PREFIX: &str = "apps.open-cluster-management.io/";
/// On an Application, `true` has the Argo CD of a managed cluster run it. Its work has the label too.
pub const PULL_LABEL: &str = "apps.open-cluster-management.io/pull-to-ocm-managed-cluster";
/// On such an Application: the cluster.
pub const PULL_CLUSTER_ANNOTATION: &str = "apps.open-cluster-management.io/ocm-managed-cluster";
/// On such an Application: its namespace on the cluster; that on the hub without it.
pub const PULL_NAMESPACE_ANNOTATION: &str =
    "apps.open-cluster-management.io/ocm-managed-cluster-app-namespace";
/// On such an Application: the name of the destination as the Argo CD of the cluster knows it.
pub const PULL_DESTINATION_NAME_ANNOTATION: &str = "apps.open-cluster-management.io/destination-name";
/// On such an Application: the address of the destination; that of the cluster itself without it.
pub const PULL_DESTINATION_SERVER_ANNOTATION: &str = "apps.open-cluster-management.io/destination-server";
/// On the work of such an Application: its namespace on the hub.
pub const HUB_APPLICATION_NAMESPACE_ANNOTATION: &str =
    "apps.open-cluster-management.io/hub-application-namespace";
/// On the work of such an Application: its name on the hub.
pub const HUB_APPLICATION_NAME_ANNOTATION: &str = "apps.open-cluster-management.io/hub-application-name";
/// On the work of such an Application: its uid, by which its works are found.
pub const APPLICATION_UID_LABEL: &str = "gitops.wheelwright.dev/application-uid";
/// On such an Application, until its works are deleted. An ApplicationSet removes all finalizers that its
/// template lacks, except those with this beginning.
pub const PULL_FINALIZER: &str = "post-delete-finalizer.argocd.argoproj.io/wheelwright";
