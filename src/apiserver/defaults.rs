//! The initial content of a hub: the default roles of Kubernetes, the admission policies, and the conversions
//! of our kinds.

use serde_json::{Value, json};

use super::policies;
use api::addon::conversion;
use api::names;
use object::Object;
use store::Store;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Registers conversions for the kinds whose versions differ in more than their name.
pub(super) fn converting(store: Store) -> Store {
    let kinds = ["AddOnDeploymentConfig", "AddOnTemplate", "ClusterManagementAddOn", "ManagedClusterAddOn"];
    kinds.into_iter().fold(store, |store, kind| {
        store.converting(names::ADDON_GROUP, kind, |object, api_version| {
            let converted = conversion::convert(&object.0, api_version);
            converted.map(Object).map_err(|e| e.to_string())
        })
    })
}

/// Returns the default roles and bindings, which kube-apiserver also reconciles at each start, and the
/// admission policies of a hub.
pub(super) fn objects() -> Vec<Object> {
    let roles = ROLES.split("\n---\n").skip(1).map(document);
    let bindings = BOUND.iter().map(|(role, groups)| binding(role, groups));
    roles.chain(bindings).chain(policies::documents().map(document)).collect()
}

/// The default roles of Kubernetes.
const ROLES: &str = include_str!("cluster-roles.yaml");

/// The default bindings of roles to groups.
const BOUND: [(&str, &[&str]); 5] = [
    ("cluster-admin", &["system:masters"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
];

fn document(text: &str) -> Object {
    object(serde_saphyr::from_str(text).expect("our documents are YAML, as tests show"))
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a JSON object")
}

fn binding(role: &str, groups: &[&str]) -> Object {
    let subject =
        |group: &&str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group });
    object(json!({
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": { "name": role },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    }))
}
