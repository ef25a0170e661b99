//! The permissions of a cluster's agent on the hub.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use api::names::{
    ADDON_GROUP, CLUSTER_GROUP, CLUSTER_LEASE, CLUSTER_NAME_LABEL, MANAGED_CLUSTERS_GROUP, REGISTER_GROUP,
    SUBJECT_PREFIX, WORK_FINALIZER, WORK_GROUP,
};

/// The API group of roles and their bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// The role of every accepted cluster for leases and add-ons, bound in its namespace.
pub(crate) const REGISTRATION_ROLE: &str = "open-cluster-management:managedcluster:registration";
/// The role of every accepted cluster for works, bound in its namespace.
pub(crate) const WORK_ROLE: &str = "open-cluster-management:managedcluster:work";

/// The role of identities that may request to join.
pub const BOOTSTRAP_ROLE: &str = "open-cluster-management:bootstrap";
/// The binding of the bootstrap role to the group of bootstrap tokens.
pub const BOOTSTRAP_BINDING: &str = "open-cluster-management:bootstrap:managedcluster";

/// Returns the role of a bootstrap identity. Unlike in OCM's chart, it may join only the default set and may not
/// read ConfigMaps, because such a rule would cover all ConfigMaps of the hub. See
/// docs/hazards-clusters.md#bootstrap-joins-any-set.
pub fn bootstrap_role() -> ClusterRole {
    let rules = vec![
        rule(
            &["certificates.k8s.io"],
            &["certificatesigningrequests"],
            &[],
            &["create", "get", "list", "watch"],
        ),
        rule(&[CLUSTER_GROUP], &["managedclusters"], &[], &["get", "create", "list", "watch"]),
        rule(&[CLUSTER_GROUP], &["managedclustersets/join"], &["default"], &["create"]),
    ];
    let metadata = ObjectMeta { name: Some(BOOTSTRAP_ROLE.into()), ..ObjectMeta::default() };
    ClusterRole { metadata, rules: Some(rules), ..ClusterRole::default() }
}

/// Returns the binding of [`bootstrap_role`].
pub fn bootstrap_binding() -> ClusterRoleBinding {
    let group = Subject {
        api_group: Some(RBAC.into()),
        kind: "Group".into(),
        name: "system:bootstrappers:managedcluster".into(),
        namespace: None,
    };
    let metadata = ObjectMeta { name: Some(BOOTSTRAP_BINDING.into()), ..ObjectMeta::default() };
    ClusterRoleBinding { metadata, role_ref: role_ref(BOOTSTRAP_ROLE), subjects: Some(vec![group]) }
}

/// Returns the name of a cluster's role and role binding.
pub fn name(cluster: &str) -> String {
    format!("open-cluster-management:managedcluster:{cluster}")
}

/// Returns true if the role or group of a cluster with this name would be shared by all clusters. Such a cluster
/// gets no permissions, because the role is bound for the whole hub. See
/// docs/hazards-clusters.md#cluster-named-like-a-shared-role.
pub fn is_reserved(cluster: &str) -> bool {
    let (role, group) = (name(cluster), format!("{SUBJECT_PREFIX}{cluster}"));
    [REGISTRATION_ROLE, WORK_ROLE].contains(&role.as_str()) || group == MANAGED_CLUSTERS_GROUP
}

fn metadata(name: String, namespace: Option<&str>, cluster: &str) -> ObjectMeta {
    let labels = [(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())];
    ObjectMeta {
        name: Some(name),
        namespace: namespace.map(str::to_owned),
        labels: Some(labels.into()),
        ..ObjectMeta::default()
    }
}

fn rule(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(groups)),
        resources: Some(owned(resources)),
        resource_names: (!names.is_empty()).then(|| owned(names)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// Returns the permissions of an agent outside its namespace. An agent that is not accepted may still read its
/// cluster.
pub fn cluster_role(cluster: &str, accepted: bool) -> ClusterRole {
    let own = |resource: &str, verbs: &[&str]| rule(&[CLUSTER_GROUP], &[resource], &[cluster], verbs);
    let rules = if accepted {
        vec![
            rule(
                &["certificates.k8s.io"],
                &["certificatesigningrequests"],
                &[],
                &["create", "get", "list", "watch"],
            ),
            rule(&[REGISTER_GROUP], &["managedclusters/clientcertificates"], &[], &["renew"]),
            own("managedclusters", &["get", "list", "update", "watch"]),
            own("managedclusters/status", &["patch", "update"]),
        ]
    } else {
        vec![own("managedclusters", &["get", "list", "watch"])]
    };
    ClusterRole {
        metadata: metadata(name(cluster), None, cluster),
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

/// Returns both groups that OCM binds: the group in certificates, and the group from other authenticators.
pub(crate) fn subjects(cluster: &str) -> Vec<Subject> {
    let group =
        |name: String| Subject { api_group: Some(RBAC.into()), kind: "Group".into(), name, namespace: None };
    vec![group(format!("{SUBJECT_PREFIX}{cluster}")), group(format!("open-cluster-management:{cluster}"))]
}

fn role_ref(role: &str) -> RoleRef {
    RoleRef { api_group: Some(RBAC.into()), kind: "ClusterRole".into(), name: role.into() }
}

/// Returns the binding of [`cluster_role`].
pub fn cluster_role_binding(cluster: &str) -> ClusterRoleBinding {
    let metadata = metadata(name(cluster), None, cluster);
    ClusterRoleBinding { metadata, role_ref: role_ref(&name(cluster)), subjects: Some(subjects(cluster)) }
}

/// Returns the binding of the shared role for leases and add-ons.
pub fn registration_binding(cluster: &str) -> RoleBinding {
    let metadata = metadata(format!("{}:registration", name(cluster)), Some(cluster), cluster);
    RoleBinding { metadata, role_ref: role_ref(REGISTRATION_ROLE), subjects: Some(subjects(cluster)) }
}

/// Returns the binding of the shared role for works. Its finalizer keeps it until the agent has removed the last
/// work.
pub fn work_binding(cluster: &str) -> RoleBinding {
    let mut metadata = metadata(format!("{}:work", name(cluster)), Some(cluster), cluster);
    metadata.finalizers = Some(vec![WORK_FINALIZER.into()]);
    RoleBinding { metadata, role_ref: role_ref(WORK_ROLE), subjects: Some(subjects(cluster)) }
}

/// Returns the roles that all clusters share.
pub fn shared_roles() -> [ClusterRole; 2] {
    let role = |name: &str, rules: Vec<PolicyRule>| ClusterRole {
        metadata: metadata(name.to_owned(), None, ""),
        rules: Some(rules),
        ..ClusterRole::default()
    };
    [
        role(
            REGISTRATION_ROLE,
            vec![
                rule(&["coordination.k8s.io"], &["leases"], &[], &["get", "list", "watch"]),
                // OCM's role does not restrict the lease name, so an agent could write any lease in the
                // namespace.
                rule(&["coordination.k8s.io"], &["leases"], &[CLUSTER_LEASE], &["update"]),
                rule(&[ADDON_GROUP], &["managedclusteraddons"], &[], &["get", "list", "watch"]),
                rule(&[ADDON_GROUP], &["managedclusteraddons/status"], &[], &["patch", "update"]),
                rule(&["events.k8s.io"], &["events"], &[], &["create"]),
            ],
        ),
        role(
            WORK_ROLE,
            vec![
                rule(&["", "events.k8s.io"], &["events"], &[], &["create", "patch", "update"]),
                rule(&[WORK_GROUP], &["manifestworks"], &[], &["get", "list", "watch", "update", "patch"]),
                rule(&[WORK_GROUP], &["manifestworks/status"], &[], &["patch", "update"]),
            ],
        ),
    ]
}
