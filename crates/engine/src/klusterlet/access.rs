//! The service accounts of an agent, and their permissions on its cluster.

use serde_json::{Value, json};

use super::{Settings, with_digest};
use object::Object;

/// The objects that give an agent its permissions.
pub struct AccessObjects {
    /// The namespaces of the agent and of add-ons. An existing namespace does not change.
    pub namespaces: Vec<Object>,
    /// Service accounts, roles and bindings.
    pub objects: Vec<Object>,
}

/// Label of a namespace that a Klusterlet created; the value is the name of the Klusterlet. The namespace is
/// deleted with the Klusterlet.
const CREATED_BY: &str = "gitops.wheelwright.dev/klusterlet";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the objects that give the agent of a Klusterlet its permissions.
pub fn access(settings: &Settings) -> AccessObjects {
    let namespace = |name: &str| {
        let labels = json!({CREATED_BY: settings.name});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    };
    let agent = &settings.namespace;
    let namespaces = [namespace(agent), namespace(&format!("{agent}-addon"))];
    let objects = [
        account(settings, "registration"),
        account(settings, "work"),
        role(settings, "registration:agent", &registration_rules()),
        binding(settings, "registration:agent", "registration", None),
        role(settings, "registration:addon-management", &addon_rules()),
        binding(settings, "registration:addon-management", "registration", None),
        // A work may contain any object, unless it names a service account as its executor.
        binding(settings, "work:execution-admin", "work", Some("cluster-admin")),
    ];
    AccessObjects {
        namespaces: namespaces.into_iter().filter_map(|value| Object::from_value(value).ok()).collect(),
        objects: objects
            .into_iter()
            .filter_map(|value| Object::from_value(value).ok())
            .map(with_digest)
            .collect(),
    }
}

impl Settings {
    /// Returns the name of the service account of a part: `registration` or `work`.
    pub(super) fn account(&self, part: &str) -> String {
        format!("{}-{part}-sa", self.name)
    }

    /// Returns whether the Klusterlet created a namespace.
    pub fn made(&self, namespace: &Object) -> bool {
        namespace.label(CREATED_BY) == Some(&self.name)
    }
}

fn account(settings: &Settings, part: &str) -> Value {
    let metadata = json!({"name": settings.account(part), "namespace": settings.namespace});
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
}

fn name(settings: &Settings, part: &str) -> String {
    format!("open-cluster-management:{}-{part}", settings.name)
}

fn role(settings: &Settings, part: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name(settings, part)}, "rules": rules,
    })
}

fn binding(settings: &Settings, part: &str, account: &str, role: Option<&str>) -> Value {
    let name = name(settings, part);
    let role = role.map_or_else(|| name.clone(), str::to_owned);
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": settings.account(account), "namespace": settings.namespace},
        ],
    })
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
            "apiGroups": ["cluster.open-cluster-management.io"], "resources": ["clusterclaims"],
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
