//! The strings that clusters store and other components read.
//!
//! A change of one is a breaking change: objects in clusters, OCM's components and users' scripts contain it.

pub mod approval_reasons;
pub mod argo;
pub mod cluster_profile;
mod conditions;

pub use conditions::{
    addon_conditions, cluster_conditions, gitops_conditions, placement_conditions, replica_set_conditions,
    work_conditions, work_reasons,
};

/// Clusters, sets, placements, scores, claims.
pub const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
/// Works.
pub const WORK_GROUP: &str = "work.open-cluster-management.io";
/// Add-ons.
pub const ADDON_GROUP: &str = "addon.open-cluster-management.io";
/// Our own kinds.
pub const GITOPS_GROUP: &str = "gitops.wheelwright.dev";
/// API group of ClusterManager and Klusterlet.
pub const OPERATOR_GROUP: &str = "operator.open-cluster-management.io";
/// The group in which permission to accept clusters is asked for.
pub const REGISTER_GROUP: &str = "register.open-cluster-management.io";

/// The pattern of the key of a label, and of the type of a condition.
pub(crate) const QUALIFIED_NAME_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// The pattern of the name of a signer in OCM's schemas.
pub(crate) const SIGNER_PATTERN: &str = "^([a-z0-9][a-z0-9-]*[a-z0-9]\\.)+[a-z]+\\/[a-z0-9-\\.]+$";

/// A duration as our own kinds take it: numbers with units, such as 1h30m.
pub(crate) const DURATION_PATTERN: &str = "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$";
/// A duration, or the word None.
pub(crate) const DURATION_OR_NONE_PATTERN: &str = "^(([0-9]+(\\.[0-9]+)?(ms|s|m|h))+|None)$";
/// A number of clusters, or a percentage of them.
pub(crate) const COUNT_PATTERN: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";

// Labels.

/// The exclusive cluster set of a cluster.
pub const CLUSTER_SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
/// The placement a decision belongs to.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
/// Place of a decision's group in the order of groups, in decimal.
pub const DECISION_GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";
/// Name of a decision's group; the value may be empty.
pub const DECISION_GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";
/// The cluster a CSR, lease, namespace or role belongs to.
pub const CLUSTER_NAME_LABEL: &str = "open-cluster-management.io/cluster-name";
/// The add-on a work, CSR or role binding belongs to.
pub const ADDON_NAME_LABEL: &str = "open-cluster-management.io/addon-name";
/// The name of the add-on, on the objects with which an agent gets tokens for it.
pub const ADDON_API_NAME_LABEL: &str = "addon.open-cluster-management.io/name";
/// Label of these objects; its value is `true`.
pub const TOKEN_INFRASTRUCTURE_LABEL: &str = "addon.open-cluster-management.io/token-infrastructure";
/// The namespace of the add-on, on works that live in another one (hosted mode).
pub const ADDON_NAMESPACE_LABEL: &str = "open-cluster-management.io/addon-namespace";
/// The prefix of the label with the health of an add-on; the name of the add-on follows. Placements select by
/// it.
pub const ADDON_FEATURE_LABEL_PREFIX: &str = "feature.open-cluster-management.io/addon-";
/// Marks hub role bindings made for add-ons that are defined by a template; the value is empty.
pub const ADDON_TEMPLATE_NAME_LABEL: &str = "open-cluster-management.io/addon-template-name";
/// The replica set a work was made by, as `<namespace>.<name>`.
pub const WORK_REPLICA_SET_LABEL: &str = "work.open-cluster-management.io/manifestworkreplicaset";
/// The placement a replica set's work was made for.
pub const WORK_PLACEMENT_LABEL: &str = "work.open-cluster-management.io/placementname";
/// Keeps a claim on the spoke, whatever the value.
pub const SPOKE_ONLY_LABEL: &str = "open-cluster-management.io/spoke-only";
/// On a ManagedCluster, `true` says that it is the hub itself.
pub const LOCAL_CLUSTER_LABEL: &str = "local-cluster";
/// Label of a namespace that a Klusterlet created; the value is the name of the Klusterlet. The namespace of
/// its agent is deleted with the Klusterlet.
pub const KLUSTERLET_LABEL: &str = "gitops.wheelwright.dev/klusterlet";
/// Labels objects are looked up by often enough to be indexed.
pub const INDEXED_LABELS: &[&str] = &[
    PLACEMENT_LABEL,
    ADDON_NAME_LABEL,
    ADDON_NAMESPACE_LABEL,
    CLUSTER_SET_LABEL,
    CLUSTER_NAME_LABEL,
    WORK_REPLICA_SET_LABEL,
    WORK_PLACEMENT_LABEL,
    argo::APPLICATION_UID_LABEL,
];

// Annotations.

/// Makes the scheduler leave a placement alone; `true`.
pub const SCHEDULING_DISABLED_ANNOTATION: &str =
    "cluster.open-cluster-management.io/experimental-scheduling-disable";
/// Whether the hub keeps the default and global cluster sets as they should be; `false` stops it.
pub const CLUSTER_SET_AUTO_UPDATE_ANNOTATION: &str = "cluster.open-cluster-management.io/autoupdate";
/// Hashes of the configurations a work was rendered from, as a JSON map; on spoke objects the hash of what
/// was applied.
pub const CONFIG_SPEC_HASH_ANNOTATION: &str = "open-cluster-management.io/config-spec-hash";
/// The manager of an add-on's lifecycle: `addon-manager` (also when absent) or `self`.
pub const ADDON_LIFECYCLE_ANNOTATION: &str = "addon.open-cluster-management.io/lifecycle";
/// The value of the lifecycle annotation for add-ons the add-on manager manages.
pub const ADDON_LIFECYCLE_ADDON_MANAGER: &str = "addon-manager";
/// Marks a manifest that runs before the add-on is deleted. Also a finalizer.
pub const ADDON_PRE_DELETE: &str = "addon.open-cluster-management.io/addon-pre-delete";
/// Finalizer of add-ons with such manifests on the cluster that hosts them.
pub const HOSTING_PRE_DELETE_FINALIZER: &str = "addon.open-cluster-management.io/hosting-addon-pre-delete";
/// Finalizer of add-ons with works on the cluster that hosts them.
pub const HOSTING_CLEANUP_FINALIZER: &str = "addon.open-cluster-management.io/hosting-manifests-cleanup";
/// Annotation of a ManagedClusterAddOn: the cluster of the hub that hosts a part of the add-on.
pub const HOSTING_CLUSTER_ANNOTATION: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// Annotation or label of a manifest of an add-on: where it goes if the add-on is hosted.
pub const HOSTED_MANIFEST_LOCATION: &str = "addon.open-cluster-management.io/hosted-manifest-location";
/// Annotation of a manifest of an add-on: its object stays on the cluster when the add-on goes.
pub const ADDON_DELETION_ORPHAN: &str = "addon.open-cluster-management.io/deletion-orphan";
/// `spec.installNamespace` of v1alpha1 in the v1beta1 view of an add-on.
pub(crate) const V1ALPHA1_INSTALL_NAMESPACE_ANNOTATION: &str =
    "addon.open-cluster-management.io/v1alpha1-install-namespace";
/// Image registries of a cluster, as JSON.
pub const IMAGE_REGISTRIES_ANNOTATION: &str = "open-cluster-management.io/image-registries";
/// Annotation of a ManagedCluster whose clock may differ from that of the hub; `true` is the only value that
/// counts.
pub const SKIP_CLOCK_SYNC_ANNOTATION: &str = "registration.open-cluster-management.io/skip-clock-sync-check";
/// When a cluster was accepted without a person.
pub const AUTO_ACCEPTED_ANNOTATION: &str = "open-cluster-management.io/automatically-accepted-on";
/// The prefix of annotations that are copied from a cluster to its add-ons.
pub const ADDON_ANNOTATION_PREFIX: &str = "addon.open-cluster-management.io/";
/// Values of an add-on on a cluster, as JSON.
pub const ADDON_VALUES_ANNOTATION: &str = "addon.open-cluster-management.io/values";
/// The config repository an object came from, as namespace/name.
pub const CONFIG_REPO_ANNOTATION: &str = "gitops.wheelwright.dev/config-repo";
/// Field manager of the objects that are applied from repositories.
pub const CONFIG_REPO_MANAGER: &str = "wheelwright-gitops";
/// Field manager of the dry runs that compare live objects with a repository.
pub const CONFIG_REPO_COMPARE_MANAGER: &str = "wheelwright-gitops-compare";
/// Digest of the manifest an object was last applied from.
pub const APPLIED_DIGEST_ANNOTATION: &str = "gitops.wheelwright.dev/applied-digest";
/// The object that kubectl applied last on the client's side; it is no part of a manifest.
pub const LAST_APPLIED_ANNOTATION: &str = object::LAST_APPLIED;
/// On an object: `disabled` keeps it when it leaves the repository, `confirm` lets its deletion wait for
/// approval.
pub const PRUNE_ANNOTATION: &str = "gitops.wheelwright.dev/prune";
/// On objects of a repository: IfNotPresent has it created and never changed, Merge leaves it the fields that
/// kubectl applied, Ignore leaves it to others.
pub const APPLY_ANNOTATION: &str = "gitops.wheelwright.dev/apply";
/// Set to `enabled` on objects of a repository, deletes an object and creates it again when a field of it
/// cannot change.
pub const FORCE_ANNOTATION: &str = "gitops.wheelwright.dev/force";
/// On objects of a repository: the fields that are left as they are on the hub, as paths between spaces.
pub const IGNORE_FIELDS_ANNOTATION: &str = "gitops.wheelwright.dev/ignore-fields";
/// Allows deletions that are over the budget; the value is the hash of exactly these.
pub const APPROVE_DELETION_ANNOTATION: &str = "gitops.wheelwright.dev/approve-deletions";
/// Allows a commit whose plan must be approved; the value is the hash of the plan.
pub const APPROVE_PLAN_ANNOTATION: &str = "gitops.wheelwright.dev/approve-plan";
/// Accepts a source that was rewound or force-pushed; the value is `FROM..TO`, the commits before
/// and after.
pub const ACCEPT_REVISION_ANNOTATION: &str = "gitops.wheelwright.dev/accept-revision";
/// Asks for a fetch now, with any new value.
pub const RECONCILE_AT_ANNOTATION: &str = "gitops.wheelwright.dev/reconcile-at";
/// Asks the leader for a fetch after a webhook that another replica received. It is no request of a person.
pub const WEBHOOK_AT_ANNOTATION: &str = "gitops.wheelwright.dev/webhook-at";
/// On a Placement, asks for a ClusterDecision with the labels and claims that the value lists.
pub const CLUSTER_DECISION_ANNOTATION: &str = "gitops.wheelwright.dev/cluster-decision";
/// On a Placement with a ClusterDecision, names the ApplicationSets of its namespace that read it. They are
/// refreshed when the list changes.
pub const REFRESH_APPLICATION_SETS_ANNOTATION: &str = "gitops.wheelwright.dev/refresh-application-sets";
/// On a Placement with a ClusterDecision, asks for a secret of Argo CD for each cluster of the list. The value
/// names the ManagedServiceAccount whose token it has; empty for secrets without credentials.
pub const CLUSTER_SECRETS_ANNOTATION: &str = "gitops.wheelwright.dev/cluster-secrets";
/// On a secret of Argo CD that the operator writes: the placements of its namespace that ask for it.
pub const PLACEMENTS_ANNOTATION: &str = "gitops.wheelwright.dev/placements";
/// On such a secret: since when no placement asks for it.
pub const LEFT_SINCE_ANNOTATION: &str = "gitops.wheelwright.dev/left-since";
/// On the Secret with the token of a ManagedServiceAccount.
pub const MANAGED_SERVICE_ACCOUNT_LABEL: &str =
    "authentication.open-cluster-management.io/is-managed-serviceaccount";
/// Label of a namespace whose ConfigRepos may act as the operator. Only users who may write namespaces can
/// set it.
pub const OPERATOR_IDENTITY_LABEL: &str = "gitops.wheelwright.dev/operator-identity";
/// The value of this label.
pub const OPERATOR_IDENTITY_ALLOWED: &str = "allowed";

// Finalizers.

/// On works, until the agent has removed the objects that it applied.
pub const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// On replica sets of works, until their works are deleted.
pub const WORK_REPLICA_SET_FINALIZER: &str = "work.open-cluster-management.io/manifest-work-cleanup";
/// On applied works of a spoke, until their objects are gone.
pub const APPLIED_WORK_FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";
/// On accepted clusters, until the objects of the acceptance are gone.
pub const CLUSTER_API_RESOURCE_FINALIZER: &str = "cluster.open-cluster-management.io/api-resource-cleanup";
/// On clusters, until their namespace is empty.
pub const CLUSTER_RESOURCE_FINALIZER: &str = "cluster.open-cluster-management.io/resource-cleanup";
/// On ClusterManagementAddOns that a RolloutPolicy of a person applies to, until every cluster has lost the
/// add-on.
pub const ADDON_REMOVAL_FINALIZER: &str = "gitops.wheelwright.dev/addon-removal";
/// On Klusterlets of hosted agents, until the agent has left the managed cluster.
pub const KLUSTERLET_HOSTED_FINALIZER: &str = "operator.open-cluster-management.io/klusterlet-hosted-cleanup";
/// On Klusterlets, until the agent is gone.
pub const KLUSTERLET_FINALIZER: &str = "operator.open-cluster-management.io/klusterlet-cleanup";
/// On ClusterManagers, until the hub side is gone.
pub const CLUSTER_MANAGER_FINALIZER: &str = "operator.open-cluster-management.io/cluster-manager-cleanup";
/// On a ClusterManager: the image of the hub side. The image fields of the spec are those of OCM's processes.
pub const HUB_IMAGE_ANNOTATION: &str = "gitops.wheelwright.dev/image";
/// On config repositories, until their objects are gone or released.
pub const CONFIG_REPO_FINALIZER: &str = "gitops.wheelwright.dev/cleanup";

// Objects of the operator.

/// Namespace of the operator's own objects: snapshots of configurations, its lease.
pub const SYSTEM_NAMESPACE: &str = "wheelwright-system";
/// Name of the operator's Deployment, role, service account and lease, as in its chart, and of the service in
/// its traces.
pub const OPERATOR: &str = "wheelwright-operator";
/// Name of the Service of the conversion webhook, and of the Secret with its certificate. Field manager of
/// the annotations by which the webhooks of git servers ask for a fetch.
pub const WEBHOOK: &str = "wheelwright-webhook";
/// Name of the Deployment of the dashboard, and of the Secret with its certificate. Field manager of the
/// changes that its visitors make.
pub const DASHBOARD: &str = "wheelwright-dashboard";
/// Field manager of the commands, and the value of the label `app.kubernetes.io/managed-by` of what they
/// install.
pub const CLI: &str = "wheelwright-cli";
/// On the operator's Deployment: the options that it was installed with, as JSON. On a ClusterManager: the options with
/// which the hub side is installed.
pub const INSTALL_OPTIONS_ANNOTATION: &str = "gitops.wheelwright.dev/install-options";
/// Name of the RolloutPolicy that the operator creates for its records if people made none.
pub const DEFAULT_ROLLOUT_POLICY: &str = "wheelwright-default";
/// Annotation on a ClusterManagementAddOn: `"true"` refuses a template with a variable that nothing defines.
pub const STRICT_VARIABLES_ANNOTATION: &str = "gitops.wheelwright.dev/strict-variables";
/// Annotation on a manifest of an AddOnTemplate of any kind: with `"true"` its pods, also their init
/// containers, get the environment, mirrors and so on that OCM gives to Deployments and DaemonSets, and a
/// rollout waits for their health.
pub const DECORATE_ANNOTATION: &str = "gitops.wheelwright.dev/decorate";
/// On add-ons of clusters: the placement strategy installed it, so it goes when no placement selects the
/// cluster any more.
pub const INSTALLED_BY_ANNOTATION: &str = "gitops.wheelwright.dev/installed-by-placement";
/// On add-ons of clusters: the annotations that were copied from the cluster, as JSON.
pub const COPIED_ANNOTATIONS_ANNOTATION: &str = "gitops.wheelwright.dev/copied-annotations";
/// On add-ons of clusters and on works of sets: the removal is decided, and continues even if its approval no
/// longer fits because other clusters of the removal are gone. On a ClusterManagementAddOn: an approved commit
/// decided its removal from all clusters; the value is the uid of the object.
pub const REMOVAL_DECIDED_ANNOTATION: &str = "gitops.wheelwright.dev/removal-decided";
/// On a ClusterManagementAddOn: `"true"` if the clusters own its add-ons too, so that the garbage collector keeps
/// them when it is deleted in the foreground.
pub const ADD_ONS_OWNED_ANNOTATION: &str = "gitops.wheelwright.dev/add-ons-owned-by-clusters";
/// The end of the name of the Secret with the seed of a ConfigRepo's random values; the name of the ConfigRepo stands
/// before it.
pub const RANDOM_VALUES_SUFFIX: &str = "-random-values";
/// On ClusterManagementAddOns and ManifestWorkReplicaSets: the name of the RolloutPolicy of people that
/// applies.
pub const ROLLOUT_POLICY_ANNOTATION: &str = "gitops.wheelwright.dev/rollout-policy";
/// On workloads of add-ons: the address of the configurations they were rendered from, so that their health
/// counts for these configurations only.
pub const CONFIG_FENCE_ANNOTATION: &str = "gitops.wheelwright.dev/config-address";
/// On works of a replica set: the hash of the template that was assigned to the cluster.
pub const TEMPLATE_HASH_ANNOTATION: &str = "gitops.wheelwright.dev/template-hash";
/// On works of a replica set: when the template was assigned, by the hub's clock.
pub const ASSIGNED_AT_ANNOTATION: &str = "gitops.wheelwright.dev/assigned-at";
/// On works of a replica set, while they soak: since when the template has succeeded, by the hub's clock.
pub const SUCCEEDED_AT_ANNOTATION: &str = "gitops.wheelwright.dev/succeeded-at";
/// On works of a replica set: the hash of the template that succeeded on the cluster before.
pub const LAST_GOOD_TEMPLATE_ANNOTATION: &str = "gitops.wheelwright.dev/last-good-template";
/// On a ManifestWorkReplicaSet: `ignore` lets a rollout not wait for the health of its objects. On a manifest:
/// `ignore` does the same for this object, and `started` lets a Job count as healthy once it runs.
pub const WORKLOAD_HEALTH_ANNOTATION: &str = "gitops.wheelwright.dev/workload-health";
/// The end of the name of the claims that identify the agents of a spoke; namespace and name of the secret
/// with the identity stand before it. The value is `<cluster>/<agent id>/<hash of the hub's URL>`. They stay
/// on the spoke.
pub const AGENT_CLAIM_SUFFIX: &str = "agent.wheelwright.dev";
/// Namespace of the agent on its cluster.
pub const AGENT_NAMESPACE: &str = "open-cluster-management-agent";
/// Name of the agent's Deployment and service account, as in its chart. Field manager of what the agent
/// keeps on its cluster.
pub const AGENT: &str = "wheelwright-agent";
/// The namespace of OCM's operators in their documented installation. On the hub it has the identity with
/// which clusters join.
pub const OCM_NAMESPACE: &str = "open-cluster-management";
/// The secret with the bootstrap kubeconfig of an agent.
pub const BOOTSTRAP_SECRET: &str = "bootstrap-hub-kubeconfig";
/// The secret an agent keeps its identity on the hub in.
pub const HUB_KUBECONFIG_SECRET: &str = "hub-kubeconfig-secret";
/// On the claim with the identity of an agent: how long it waits before it deletes an AppliedManifestWork
/// without a work on the hub, as a duration of Go.
pub const EVICTION_ANNOTATION: &str = "gitops.wheelwright.dev/eviction-grace-period";
/// On works and add-ons of a cluster that leaves: those with a lower number, of 0 to 100, are deleted first.
pub const CLEANUP_PRIORITY_ANNOTATION: &str = "open-cluster-management.io/cleanup-priority";
/// The prefix of a label on namespaces of a spoke; the hash of a hub's URL follows. The value is `true` while
/// a cluster set of that hub wants the namespace.
pub const MANAGED_NAMESPACE_LABEL_PREFIX: &str = "clusterset.open-cluster-management.io/";
/// The prefix of annotations that an agent writes to its cluster.
pub const AGENT_ANNOTATION_PREFIX: &str = "agent.open-cluster-management.io/";
/// Type of the secrets in which an agent keeps the works of its hub on its cluster.
pub const KEPT_WORK_TYPE: &str = "gitops.wheelwright.dev/kept-work";
/// Label of these secrets; the value is the first half of the hash of the hub's URL.
pub const KEPT_WORK_LABEL: &str = KEPT_WORK_TYPE;
/// Label of the secrets with the credentials of add-ons; the value is the first half of the hash of the hub's
/// URL.
pub const ADDON_CREDENTIALS_LABEL: &str = "gitops.wheelwright.dev/addon-credentials";

/// The reason of the condition `HubAcceptedManagedCluster` of a cluster that was accepted and could not get
/// its permissions; the word is OCM's.
pub const ACCEPT_FAILED: &str = "Error";
/// When the cluster of a namespace was first accepted. It outlives the cluster, so that a bootstrap identity gets the
/// name again only from a person.
pub const FIRST_ACCEPTED_ANNOTATION: &str = "registration.wheelwright.dev/first-accepted-on";
/// The user whose requests to join a cluster are approved without a person, until the cluster has joined.
pub const REQUESTER_ANNOTATION: &str = "registration.wheelwright.dev/requester";
/// The ClusterRoleBinding whose subjects join clusters without a person: bootstrap identities.
pub const AUTO_APPROVE_BINDING: &str = "wheelwright:auto-approved-bootstrap";
/// The RolloutPolicy of an installation with the profile `ocm`.
pub const OCM_PROFILE: &str = "wheelwright-ocm-profile";
/// The user for whom a request for a certificate is sent, where another client sends it.
pub const CSR_USER_ANNOTATION: &str = "open-cluster-management.io/csr-user";
/// The ClusterRoleBinding whose subjects send requests of add-ons for the users of that annotation.
pub const CSR_USER_BINDING: &str = "wheelwright:csr-user";

// Taints, sets, leases, claims.

/// Taint of a cluster whose agent does not report.
pub const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";
/// Taint of a cluster whose agent reports that it is not available.
pub const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";
/// Taint of the placeholder of a cluster that cannot be read; no real cluster has it.
pub const UNREADABLE_TAINT: &str = "gitops.wheelwright.dev/unreadable";
/// Taint of a cluster that `wheelwright migrate` moves workloads off.
pub const MIGRATE_TAINT: &str = "gitops.wheelwright.dev/migrate";
/// The exclusive set of clusters that are in no other one.
pub const DEFAULT_CLUSTER_SET: &str = "default";
/// The set of all clusters.
pub const GLOBAL_CLUSTER_SET: &str = "global";
/// The name of the lease that an agent renews in the namespace of its cluster, and of its holder.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";
/// Claims that do not count against the limit of custom ones.
pub const RESERVED_CLAIMS: &[&str] = &[
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
];
/// The default namespace of the agents of add-ons.
pub const DEFAULT_ADDON_NAMESPACE: &str = "open-cluster-management-agent-addon";
/// In v1beta1, the name of a default configuration that does not exist.
pub const NO_DEFAULT_CONFIG: &str = "__reserved_no_default__";

// Identities.

/// The prefix of users and groups of agents.
pub const SUBJECT_PREFIX: &str = "system:open-cluster-management:";
/// The group of every cluster's agent.
pub const MANAGED_CLUSTERS_GROUP: &str = "system:open-cluster-management:managed-clusters";
/// The signer of client certificates for the API server.
pub const KUBE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Field manager of agents that apply works.
pub const WORK_AGENT_MANAGER: &str = "work-agent";
