//! Strings that clusters store and other components read.
//!
//! Changing one is a breaking change: objects in clusters, OCM's components and users' scripts contain it.

pub mod approval_reasons;
pub mod argo;
pub mod cluster_profile;
mod conditions;

pub use conditions::{
    addon_conditions, cluster_conditions, fetch_reasons, gitops_conditions, placement_conditions,
    replica_set_conditions, work_conditions, work_reasons,
};

/// API group of clusters, cluster sets, placements, scores and claims.
pub const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
/// API group of works.
pub const WORK_GROUP: &str = "work.open-cluster-management.io";
/// API group of add-ons.
pub const ADDON_GROUP: &str = "addon.open-cluster-management.io";
/// API group of our own kinds.
pub const GITOPS_GROUP: &str = "gitops.wheelwright.dev";
/// API group of ClusterManager and Klusterlet.
pub const OPERATOR_GROUP: &str = "operator.open-cluster-management.io";
/// API group of the permissions to accept clusters and to renew their certificates.
pub const REGISTER_GROUP: &str = "register.open-cluster-management.io";

/// Pattern of a label key or a condition type.
pub(crate) const QUALIFIED_NAME_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Pattern of a signer name in OCM's schemas.
pub(crate) const SIGNER_PATTERN: &str = "^([a-z0-9][a-z0-9-]*[a-z0-9]\\.)+[a-z]+\\/[a-z0-9-\\.]+$";

/// Pattern of a duration in our own kinds: numbers with units, such as 1h30m.
pub(crate) const DURATION_PATTERN: &str = "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$";
/// Pattern of a duration, or the word None.
pub(crate) const DURATION_OR_NONE_PATTERN: &str = "^(([0-9]+(\\.[0-9]+)?(ms|s|m|h))+|None)$";
/// Pattern of a number or percentage of clusters.
pub(crate) const COUNT_PATTERN: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";

// Labels.

/// Label of a ManagedCluster: its exclusive cluster set.
pub const CLUSTER_SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
/// The placement that a decision belongs to.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
/// Index of the decision group, in decimal.
pub const DECISION_GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";
/// Name of the decision group, which may be empty.
pub const DECISION_GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";
/// The cluster that a CSR, lease, namespace or role belongs to.
pub const CLUSTER_NAME_LABEL: &str = "open-cluster-management.io/cluster-name";
/// The add-on that a work, CSR or role binding belongs to.
pub const ADDON_NAME_LABEL: &str = "open-cluster-management.io/addon-name";
/// The name of the add-on, on the objects that let an agent get tokens for it.
pub const ADDON_API_NAME_LABEL: &str = "addon.open-cluster-management.io/name";
/// Label of the same objects, with the value `true`.
pub const TOKEN_INFRASTRUCTURE_LABEL: &str = "addon.open-cluster-management.io/token-infrastructure";
/// The namespace of the add-on, on works in another namespace (hosted mode).
pub const ADDON_NAMESPACE_LABEL: &str = "open-cluster-management.io/addon-namespace";
/// Prefix of the label for the health of an add-on, followed by the name of the add-on. Placements select by it.
pub const ADDON_FEATURE_LABEL_PREFIX: &str = "feature.open-cluster-management.io/addon-";
/// Marks role bindings on the hub for add-ons that are defined by a template. The value is empty.
pub const ADDON_TEMPLATE_NAME_LABEL: &str = "open-cluster-management.io/addon-template-name";
/// The replica set that created a work, as `<namespace>.<name>`.
pub const WORK_REPLICA_SET_LABEL: &str = "work.open-cluster-management.io/manifestworkreplicaset";
/// The placement for which a replica set created a work.
pub const WORK_PLACEMENT_LABEL: &str = "work.open-cluster-management.io/placementname";
/// Keeps a claim on the spoke, with any value.
pub const SPOKE_ONLY_LABEL: &str = "open-cluster-management.io/spoke-only";
/// On a ManagedCluster, `true` marks the hub itself.
pub const LOCAL_CLUSTER_LABEL: &str = "local-cluster";
/// Label of a namespace that a Klusterlet created, with the name of the Klusterlet. The namespace of its agent is
/// deleted with the Klusterlet.
pub const KLUSTERLET_LABEL: &str = "gitops.wheelwright.dev/klusterlet";
/// Labels that are looked up often enough to be indexed.
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

/// With `true`, the scheduler ignores a placement.
pub const SCHEDULING_DISABLED_ANNOTATION: &str =
    "cluster.open-cluster-management.io/experimental-scheduling-disable";
/// With `false`, the hub stops maintaining the default or global cluster set.
pub const CLUSTER_SET_AUTO_UPDATE_ANNOTATION: &str = "cluster.open-cluster-management.io/autoupdate";
/// Hashes of the configurations that a work was rendered from, as a JSON map. On spoke objects, the hash of the
/// applied manifest.
pub const CONFIG_SPEC_HASH_ANNOTATION: &str = "open-cluster-management.io/config-spec-hash";
/// The manager of an add-on's lifecycle: `addon-manager` (the default) or `self`.
pub const ADDON_LIFECYCLE_ANNOTATION: &str = "addon.open-cluster-management.io/lifecycle";
/// The value of the lifecycle annotation for add-ons of the add-on manager.
pub const ADDON_LIFECYCLE_ADDON_MANAGER: &str = "addon-manager";
/// Marks a manifest that runs before the add-on is deleted. Also used as a finalizer.
pub const ADDON_PRE_DELETE: &str = "addon.open-cluster-management.io/addon-pre-delete";
/// Finalizer of add-ons with such manifests on the cluster that hosts them.
pub const HOSTING_PRE_DELETE_FINALIZER: &str = "addon.open-cluster-management.io/hosting-addon-pre-delete";
/// Finalizer of add-ons with works on the cluster that hosts them.
pub const HOSTING_CLEANUP_FINALIZER: &str = "addon.open-cluster-management.io/hosting-manifests-cleanup";
/// Annotation of a ManagedClusterAddOn: the managed cluster that hosts a part of the add-on.
pub const HOSTING_CLUSTER_ANNOTATION: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// Annotation or label of an add-on's manifest: the cluster to deploy it to if the add-on is hosted.
pub const HOSTED_MANIFEST_LOCATION: &str = "addon.open-cluster-management.io/hosted-manifest-location";
/// Annotation of an add-on's manifest: keeps its object on the cluster when the add-on is deleted.
pub const ADDON_DELETION_ORPHAN: &str = "addon.open-cluster-management.io/deletion-orphan";
/// `spec.installNamespace` of v1alpha1, in the v1beta1 form of an add-on.
pub(crate) const V1ALPHA1_INSTALL_NAMESPACE_ANNOTATION: &str =
    "addon.open-cluster-management.io/v1alpha1-install-namespace";
/// Image registries of a cluster, as JSON.
pub const IMAGE_REGISTRIES_ANNOTATION: &str = "open-cluster-management.io/image-registries";
/// Annotation of a ManagedCluster: with `true`, its clock may differ from the clock of the hub. Other values have
/// no effect.
pub const SKIP_CLOCK_SYNC_ANNOTATION: &str = "registration.open-cluster-management.io/skip-clock-sync-check";
/// When a cluster was accepted automatically.
pub const AUTO_ACCEPTED_ANNOTATION: &str = "open-cluster-management.io/automatically-accepted-on";
/// Prefix of annotations that are copied from a cluster to its add-ons.
pub const ADDON_ANNOTATION_PREFIX: &str = "addon.open-cluster-management.io/";
/// Values for an add-on on one cluster, as JSON.
pub const ADDON_VALUES_ANNOTATION: &str = "addon.open-cluster-management.io/values";
/// The ConfigRepo that an object came from, as namespace/name.
pub const CONFIG_REPO_ANNOTATION: &str = "gitops.wheelwright.dev/config-repo";
/// Field manager of objects that are applied from repositories.
pub const CONFIG_REPO_MANAGER: &str = "wheelwright-gitops";
/// Field manager of the dry runs that compare live objects with a repository.
pub const CONFIG_REPO_COMPARE_MANAGER: &str = "wheelwright-gitops-compare";
/// Digest of the manifest that an object was last applied from.
pub const APPLIED_DIGEST_ANNOTATION: &str = "gitops.wheelwright.dev/applied-digest";
/// The object that kubectl last applied client-side. It is not part of a manifest.
pub const LAST_APPLIED_ANNOTATION: &str = object::LAST_APPLIED;
/// On an object: `disabled` keeps it after its removal from the repository, `confirm` makes its deletion wait for
/// approval.
pub const PRUNE_ANNOTATION: &str = "gitops.wheelwright.dev/prune";
/// On an object of a repository: `IfNotPresent` only creates it, `Merge` keeps the fields that kubectl applied,
/// `Ignore` skips it.
pub const APPLY_ANNOTATION: &str = "gitops.wheelwright.dev/apply";
/// On an object of a repository: with `enabled`, the object is deleted and recreated when an immutable field
/// changes.
pub const FORCE_ANNOTATION: &str = "gitops.wheelwright.dev/force";
/// On an object of a repository: the fields to ignore on the hub, as space-separated paths.
pub const IGNORE_FIELDS_ANNOTATION: &str = "gitops.wheelwright.dev/ignore-fields";
/// Allows deletions above the budget. The value is the hash of exactly these deletions.
pub const APPROVE_DELETION_ANNOTATION: &str = "gitops.wheelwright.dev/approve-deletions";
/// Allows a commit whose plan requires approval. The value is the hash of the plan.
pub const APPROVE_PLAN_ANNOTATION: &str = "gitops.wheelwright.dev/approve-plan";
/// Accepts a source that was rewound or force-pushed. The value is `FROM..TO`, the commits before and after.
pub const ACCEPT_REVISION_ANNOTATION: &str = "gitops.wheelwright.dev/accept-revision";
/// Requests a fetch now, with any new value.
pub const RECONCILE_AT_ANNOTATION: &str = "gitops.wheelwright.dev/reconcile-at";
/// Requests a fetch by the leader, after another replica received a webhook. It does not count as a request by a
/// person.
pub const WEBHOOK_AT_ANNOTATION: &str = "gitops.wheelwright.dev/webhook-at";
/// On a Placement, requests a ClusterDecision with the labels and claims that the value lists.
pub const CLUSTER_DECISION_ANNOTATION: &str = "gitops.wheelwright.dev/cluster-decision";
/// On a Placement with a ClusterDecision: the ApplicationSets of its namespace to refresh when the list changes.
pub const REFRESH_APPLICATION_SETS_ANNOTATION: &str = "gitops.wheelwright.dev/refresh-application-sets";
/// On a Placement with a ClusterDecision, requests an Argo CD secret for each cluster of the list. The value names
/// the ManagedServiceAccount whose token the secrets contain. If it is empty, the secrets have no credentials.
pub const CLUSTER_SECRETS_ANNOTATION: &str = "gitops.wheelwright.dev/cluster-secrets";
/// On an Argo CD secret that the operator writes: the placements of its namespace that request it.
pub const PLACEMENTS_ANNOTATION: &str = "gitops.wheelwright.dev/placements";
/// On such a secret: the time since which no placement requests it.
pub const LEFT_SINCE_ANNOTATION: &str = "gitops.wheelwright.dev/left-since";
/// Label of a Secret with the token of a ManagedServiceAccount.
pub const MANAGED_SERVICE_ACCOUNT_LABEL: &str =
    "authentication.open-cluster-management.io/is-managed-serviceaccount";
/// Label of a namespace whose ConfigRepos may act as the operator. Only users who may write namespaces can
/// set it.
pub const OPERATOR_IDENTITY_LABEL: &str = "gitops.wheelwright.dev/operator-identity";
/// The value of [`OPERATOR_IDENTITY_LABEL`].
pub const OPERATOR_IDENTITY_ALLOWED: &str = "allowed";

// Finalizers.

/// On works, until the agent has deleted the objects that it applied.
pub const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// On ManifestWorkReplicaSets, until their works are deleted.
pub const WORK_REPLICA_SET_FINALIZER: &str = "work.open-cluster-management.io/manifest-work-cleanup";
/// On AppliedManifestWorks of a spoke, until their objects are deleted.
pub const APPLIED_WORK_FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";
/// On accepted clusters, until the objects of the acceptance are deleted.
pub const CLUSTER_API_RESOURCE_FINALIZER: &str = "cluster.open-cluster-management.io/api-resource-cleanup";
/// On clusters, until their namespace is empty.
pub const CLUSTER_RESOURCE_FINALIZER: &str = "cluster.open-cluster-management.io/resource-cleanup";
/// On ClusterManagementAddOns to which a user's RolloutPolicy applies, until the add-on is removed from every
/// cluster.
pub const ADDON_REMOVAL_FINALIZER: &str = "gitops.wheelwright.dev/addon-removal";
/// On Klusterlets of hosted agents, until the agent has left the managed cluster.
pub const KLUSTERLET_HOSTED_FINALIZER: &str = "operator.open-cluster-management.io/klusterlet-hosted-cleanup";
/// On Klusterlets, until the agent is removed.
pub const KLUSTERLET_FINALIZER: &str = "operator.open-cluster-management.io/klusterlet-cleanup";
/// On ClusterManagers, until the hub components are removed.
pub const CLUSTER_MANAGER_FINALIZER: &str = "operator.open-cluster-management.io/cluster-manager-cleanup";
/// On a ClusterManager: the image of our hub components. The image fields of the spec are for OCM's processes.
pub const HUB_IMAGE_ANNOTATION: &str = "gitops.wheelwright.dev/image";
/// On ConfigRepos, until their objects are deleted or released.
pub const CONFIG_REPO_FINALIZER: &str = "gitops.wheelwright.dev/cleanup";

// Objects of the operator.

/// Namespace of the operator's own objects, such as its lease and snapshots of configurations.
pub const SYSTEM_NAMESPACE: &str = "wheelwright-system";
/// Name of the operator's Deployment, role, service account and lease, as in its chart. Also the service name in
/// its traces.
pub const OPERATOR: &str = "wheelwright-operator";
/// Name of the Service of the conversion webhook, and of the Secret with its certificate. Also the field manager
/// of the annotations that request a fetch after a webhook of a git server.
pub const WEBHOOK: &str = "wheelwright-webhook";
/// Name of the Deployment of the dashboard, and of the Secret with its certificate. Also the field manager of
/// changes that its users make.
pub const DASHBOARD: &str = "wheelwright-dashboard";
/// Field manager of the commands, and the value of the label `app.kubernetes.io/managed-by` on what they install.
pub const CLI: &str = "wheelwright-cli";
/// On the operator's Deployment: the options that it was installed with, as JSON. On a ClusterManager: the options
/// for installing the hub components.
pub const INSTALL_OPTIONS_ANNOTATION: &str = "gitops.wheelwright.dev/install-options";
/// Name of the RolloutPolicy that the operator creates for its records if users create none.
pub const DEFAULT_ROLLOUT_POLICY: &str = "wheelwright-default";
/// On a ClusterManagementAddOn: with `"true"`, a template with an undefined variable is rejected.
pub const STRICT_VARIABLES_ANNOTATION: &str = "gitops.wheelwright.dev/strict-variables";
/// On a manifest of an AddOnTemplate, of any kind: with `"true"`, its pods (including init containers) get the
/// environment, image mirrors and other settings that OCM gives to Deployments and DaemonSets, and a rollout waits
/// for their health.
pub const DECORATE_ANNOTATION: &str = "gitops.wheelwright.dev/decorate";
/// On a ManagedClusterAddOn: the placement strategy installed it, so it is removed when no placement selects the
/// cluster.
pub const INSTALLED_BY_ANNOTATION: &str = "gitops.wheelwright.dev/installed-by-placement";
/// On a ManagedClusterAddOn: the annotations that were copied from the cluster, as JSON.
pub const COPIED_ANNOTATIONS_ANNOTATION: &str = "gitops.wheelwright.dev/copied-annotations";
/// On ManagedClusterAddOns and works of sets: the removal is decided. It continues even if its approval no longer
/// matches because other clusters of the removal are gone. On a ClusterManagementAddOn: an approved commit decided
/// its removal from all clusters. The value is the UID of the object.
pub const REMOVAL_DECIDED_ANNOTATION: &str = "gitops.wheelwright.dev/removal-decided";
/// On a ClusterManagementAddOn: `"true"` if the clusters also own its add-ons, so that the garbage collector keeps
/// them when it is deleted in the foreground.
pub const ADD_ONS_OWNED_ANNOTATION: &str = "gitops.wheelwright.dev/add-ons-owned-by-clusters";
/// Suffix of the Secret with the seed of a ConfigRepo's random values. The prefix is the name of the ConfigRepo.
pub const RANDOM_VALUES_SUFFIX: &str = "-random-values";
/// On ClusterManagementAddOns and ManifestWorkReplicaSets: the name of the user's RolloutPolicy that applies.
pub const ROLLOUT_POLICY_ANNOTATION: &str = "gitops.wheelwright.dev/rollout-policy";
/// On workloads of add-ons: the address of the configurations that they were rendered from. Their health counts
/// only for these configurations.
pub const CONFIG_FENCE_ANNOTATION: &str = "gitops.wheelwright.dev/config-address";
/// On works of a replica set: the hash of the template assigned to the cluster.
pub const TEMPLATE_HASH_ANNOTATION: &str = "gitops.wheelwright.dev/template-hash";
/// On works of a replica set: the time when the template was assigned, by the hub's clock.
pub const ASSIGNED_AT_ANNOTATION: &str = "gitops.wheelwright.dev/assigned-at";
/// On works of a replica set that soak: the time since which the template has succeeded, by the hub's clock.
pub const SUCCEEDED_AT_ANNOTATION: &str = "gitops.wheelwright.dev/succeeded-at";
/// On works of a replica set that stopped working after they had soaked, before the rollout was complete: the time
/// since which they work again, by the hub's clock, or `pending`.
pub const RECOVERED_AT_ANNOTATION: &str = "gitops.wheelwright.dev/recovered-at";
/// On works of a replica set: the hash of the last template that succeeded on the cluster.
pub const LAST_GOOD_TEMPLATE_ANNOTATION: &str = "gitops.wheelwright.dev/last-good-template";
/// On a ManifestWorkReplicaSet: with `ignore`, a rollout does not wait for the health of its objects. On a
/// manifest: `ignore` does the same for this object, and `started` counts a Job as healthy once it runs.
pub const WORKLOAD_HEALTH_ANNOTATION: &str = "gitops.wheelwright.dev/workload-health";
/// Suffix of the claims that identify the agents of a spoke. The prefix is the namespace and name of the secret
/// with the identity. The value is `<cluster>/<agent id>/<hash of the hub's URL>`. These claims stay on the spoke.
pub const AGENT_CLAIM_SUFFIX: &str = "agent.wheelwright.dev";
/// Namespace of the agent on its cluster.
pub const AGENT_NAMESPACE: &str = "open-cluster-management-agent";
/// Name of the agent's Deployment and service account, as in its chart. Also the field manager of what the agent
/// stores on its cluster.
pub const AGENT: &str = "wheelwright-agent";
/// Namespace of OCM's operators in their documented installation. On the hub, it contains the identity with which
/// clusters join.
pub const OCM_NAMESPACE: &str = "open-cluster-management";
/// The secret with the bootstrap kubeconfig of an agent.
pub const BOOTSTRAP_SECRET: &str = "bootstrap-hub-kubeconfig";
/// The secret in which an agent keeps its identity on the hub.
pub const HUB_KUBECONFIG_SECRET: &str = "hub-kubeconfig-secret";
/// On the claim with the identity of an agent: how long it waits before it deletes an AppliedManifestWork that has
/// no work on the hub, as a Go duration.
pub const EVICTION_ANNOTATION: &str = "gitops.wheelwright.dev/eviction-grace-period";
/// On works and add-ons of a cluster that leaves: lower numbers, from 0 to 100, are deleted first.
pub const CLEANUP_PRIORITY_ANNOTATION: &str = "open-cluster-management.io/cleanup-priority";
/// Prefix of a label on namespaces of a spoke, followed by the hash of a hub's URL. The value is `true` while a
/// cluster set of that hub requests the namespace.
pub const MANAGED_NAMESPACE_LABEL_PREFIX: &str = "clusterset.open-cluster-management.io/";
/// Prefix of annotations that an agent writes to its ManagedCluster.
pub const AGENT_ANNOTATION_PREFIX: &str = "agent.open-cluster-management.io/";
/// On a Secret in a set or a template: `plain` if its values are not encrypted. The operator sets `sealed` on encrypted
/// Secrets.
pub const SECRET_ANNOTATION: &str = "gitops.wheelwright.dev/secret";
/// The value of [`SECRET_ANNOTATION`] of a Secret whose values need no encryption.
pub const PLAIN_SECRET: &str = "plain";
/// The value of [`SECRET_ANNOTATION`] of a Secret whose values are encrypted.
pub const SEALED_SECRET: &str = "sealed";
/// On a work: its recipient, and the keys of its encrypted values.
pub const SEALED_KEYS_ANNOTATION: &str = "gitops.wheelwright.dev/sealed-keys";
/// Claim of a cluster with the public key for which the hub encrypts Secrets.
pub const RECIPIENT_CLAIM: &str = "recipient.wheelwright.dev";
/// Suffix of the secret with the private keys of an agent. It follows the name of the secret with its identity.
pub const SEALING_IDENTITY_SUFFIX: &str = "-sealing-identity";
/// The secret with the key of a hub that encrypts Secrets, in the operator's namespace.
pub const SEALING_KEY_SECRET: &str = "wheelwright-sealing-key";
/// Type of the secrets in which an agent caches the works of its hub on its cluster.
pub const KEPT_WORK_TYPE: &str = "gitops.wheelwright.dev/kept-work";
/// Label of these secrets. The value is the first half of the hash of the hub's URL.
pub const KEPT_WORK_LABEL: &str = KEPT_WORK_TYPE;
/// Label of the secrets with credentials of add-ons. The value is the first half of the hash of the hub's URL.
pub const ADDON_CREDENTIALS_LABEL: &str = "gitops.wheelwright.dev/addon-credentials";

/// Reason of the condition `HubAcceptedManagedCluster` if a cluster was accepted but could not get its
/// permissions. The string is OCM's.
pub const ACCEPT_FAILED: &str = "Error";
/// When the cluster of a namespace was first accepted. It outlives the cluster: after that, a bootstrap identity
/// can reuse the name only with the approval of a person.
pub const FIRST_ACCEPTED_ANNOTATION: &str = "registration.wheelwright.dev/first-accepted-on";
/// The user whose requests to join a cluster are approved automatically, until the cluster has joined.
pub const REQUESTER_ANNOTATION: &str = "registration.wheelwright.dev/requester";
/// The ClusterRoleBinding whose subjects (bootstrap identities) join clusters without approval.
pub const AUTO_APPROVE_BINDING: &str = "wheelwright:auto-approved-bootstrap";
/// The RolloutPolicy that is installed with the profile `ocm`.
pub const OCM_PROFILE: &str = "wheelwright-ocm-profile";
/// The user for whom a certificate is requested, if another client sends the request.
pub const CSR_USER_ANNOTATION: &str = "open-cluster-management.io/csr-user";
/// The ClusterRoleBinding whose subjects may request certificates of add-ons for the users in that annotation.
pub const CSR_USER_BINDING: &str = "wheelwright:csr-user";

// Taints, cluster sets, leases, claims.

/// Taint of a cluster whose agent does not report.
pub const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";
/// Taint of a cluster whose agent reports that it is not available.
pub const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";
/// Taint of the placeholder for an unreadable cluster. No real cluster has it.
pub const UNREADABLE_TAINT: &str = "gitops.wheelwright.dev/unreadable";
/// Taint of a cluster that `wheelwright migrate` is draining.
pub const MIGRATE_TAINT: &str = "gitops.wheelwright.dev/migrate";
/// The exclusive cluster set of clusters that are in no other exclusive set.
pub const DEFAULT_CLUSTER_SET: &str = "default";
/// The cluster set of all clusters.
pub const GLOBAL_CLUSTER_SET: &str = "global";
/// Name of the lease that an agent renews in the namespace of its cluster, and of the lease holder.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";
/// Claims that do not count against the limit of custom claims.
pub const RESERVED_CLAIMS: &[&str] = &[
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
];
/// The default namespace of add-on agents.
pub const DEFAULT_ADDON_NAMESPACE: &str = "open-cluster-management-agent-addon";
/// In v1beta1, the name of a missing default configuration.
pub const NO_DEFAULT_CONFIG: &str = "__reserved_no_default__";

// Identities.

/// Prefix of the users and groups of agents.
pub const SUBJECT_PREFIX: &str = "system:open-cluster-management:";
/// The group of all agents.
pub const MANAGED_CLUSTERS_GROUP: &str = "system:open-cluster-management:managed-clusters";
/// The signer of client certificates for the API server.
pub const KUBE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Field manager of agents that apply works.
pub const WORK_AGENT_MANAGER: &str = "work-agent";
