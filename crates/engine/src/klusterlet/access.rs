//! The service accounts of an agent, and their permissions on its cluster.

use serde_json::{Value, json};

use super::{KlusterletSettings, PULL_SECRET, with_digest};
use crate::registration::rbac::RBAC;
use api::names::{CLUSTER_GROUP, DEFAULT_ADDON_NAMESPACE, KLUSTERLET_LABEL};
use object::{Gvk, Key, Object, ObjectRef};

/// The objects that give an agent its permissions.
pub struct AccessObjects {
    /// The namespaces of the agent and of add-ons. Existing namespaces are not changed.
    pub namespaces: Vec<Object>,
    /// The service accounts, roles and bindings.
    pub objects: Vec<Object>,
}

/// Returns the objects that give the agent of a Klusterlet its permissions.
pub fn access(settings: &KlusterletSettings) -> AccessObjects {
    let namespace = |name: &str| {
        let labels = json!({KLUSTERLET_LABEL: settings.name});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    };
    let agent = &settings.namespace;
    if settings.is_hosted {
        let namespaces = objects([namespace(agent)]).collect();
        return AccessObjects { namespaces, objects: objects(hosted(settings)).map(with_digest).collect() };
    }
    // All agents of a cluster share the add-on namespace, because add-ons use that name.
    let shared = (agent != DEFAULT_ADDON_NAMESPACE).then(|| namespace(DEFAULT_ADDON_NAMESPACE));
    let namespaces = [namespace(agent)].into_iter().chain(shared);
    let permissions = [
        account(settings, "registration"),
        account(settings, "work"),
        role(settings, "registration:agent", &registration_rules()),
        binding(settings, "registration:agent", "registration"),
        role(settings, "registration:addon-management", &addon_rules()),
        binding(settings, "registration:addon-management", "registration"),
        role(settings, "work:agent", &every_permission()),
        binding(settings, "work:agent", "work"),
    ];
    AccessObjects {
        namespaces: objects(namespaces).collect(),
        objects: objects(permissions).map(with_digest).collect(),
    }
}

fn objects(values: impl IntoIterator<Item = Value>) -> impl Iterator<Item = Object> {
    values.into_iter().filter_map(|value| Object::from_value(value).ok())
}

/// Returns the permissions of a hosted agent on the hosting cluster: the secrets and leases in its namespace. On
/// the managed cluster, it has the permissions of the kubeconfig for that cluster.
fn hosted(settings: &KlusterletSettings) -> [Value; 4] {
    let name = format!("open-cluster-management:management:{}-agent", settings.name);
    let metadata = json!({"name": name, "namespace": settings.namespace});
    let subject = |part: &str| {
        let account = settings.account(part);
        json!({"kind": "ServiceAccount", "name": account, "namespace": settings.namespace})
    };
    [
        account(settings, "registration"),
        account(settings, "work"),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [
                {
                    "apiGroups": [""], "resources": ["secrets"],
                    "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
                },
                // The leases of add-ons that run next to the agent.
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
            ],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [subject("registration"), subject("work")],
        }),
    ]
}

impl KlusterletSettings {
    /// Returns the service account name of a part: `registration` or `work`.
    pub(super) fn account(&self, part: &str) -> String {
        format!("{}-{part}-sa", self.name)
    }

    /// Returns true if the Klusterlet created a namespace.
    pub fn made(&self, namespace: &Object) -> bool {
        namespace.label(KLUSTERLET_LABEL) == Some(&self.name)
    }
}

fn account(settings: &KlusterletSettings, part: &str) -> Value {
    let metadata = json!({"name": settings.account(part), "namespace": settings.namespace});
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata,
        "imagePullSecrets": [{"name": PULL_SECRET}],
    })
}

fn name(settings: &KlusterletSettings, part: &str) -> String {
    format!("open-cluster-management:{}-{part}", settings.name)
}

fn role(settings: &KlusterletSettings, part: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name(settings, part)}, "rules": rules,
    })
}

/// Returns the binding of a role. Its name matches OCM's, and the role of a binding is immutable, so each
/// operator can take over the bindings of the other.
fn binding(settings: &KlusterletSettings, part: &str, account: &str) -> Value {
    let name = name(settings, part);
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": settings.account(account), "namespace": settings.namespace},
        ],
    })
}

/// Returns additional permissions of the work agent from OCM's operator, with names that we do not use. They are
/// deleted with the Klusterlet.
pub fn left_by_ocm(settings: &KlusterletSettings) -> [ObjectRef; 3] {
    let target = |kind: &str, part: &str| ObjectRef {
        gvk: Gvk::parse(&format!("{RBAC}/v1"), kind),
        key: Key::cluster(name(settings, part)),
    };
    [
        target("ClusterRoleBinding", "work:execution-admin"),
        target("ClusterRoleBinding", "work:aggregate"),
        target("ClusterRole", "work:aggregate"),
    ]
}

/// Returns the rules of an agent that applies works. A work may contain any object, unless it names a service
/// account as its executor.
fn every_permission() -> Value {
    json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ])
}

/// Returns the rules of a registration agent on its cluster, without add-ons.
fn registration_rules() -> Value {
    json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": [""], "resources": ["namespaces"],
            "verbs": ["get", "list", "watch", "create", "update", "patch"],
        },
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "update", "patch"]},
        {
            "apiGroups": [CLUSTER_GROUP], "resources": ["clusterclaims"],
            "verbs": ["get", "list", "watch", "create", "update", "patch"],
        },
        {"apiGroups": ["about.k8s.io"], "resources": ["clusterproperties"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "resourceNames": [
                "appliedmanifestworks.work.open-cluster-management.io",
                "clusterclaims.cluster.open-cluster-management.io",
            ],
            "verbs": ["update", "patch"],
        },
    ])
}

/// Returns the rules of a registration agent for add-ons, whose namespaces can have any name.
fn addon_rules() -> Value {
    json!([
        {
            "apiGroups": [""], "resources": ["secrets"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
        {
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["get", "list", "watch", "create", "update", "patch"],
        },
    ])
}
