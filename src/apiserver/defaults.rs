//! The initial content of a hub: the default roles of Kubernetes, the admission policies, and the conversions
//! of our kinds.

use serde_json::{Value, json};

use super::policies;
use api::addon::conversion;
use api::names;
use object::Object;
use store::Store;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Registers the conversions of kinds whose versions differ in more than their name.
pub(super) fn converting(store: Store) -> Store {
    let kinds = ["AddOnDeploymentConfig", "AddOnTemplate", "ClusterManagementAddOn", "ManagedClusterAddOn"];
    kinds.into_iter().fold(store, |store, kind| {
        store.converting(names::ADDON_GROUP, kind, |object, api_version| {
            let converted = conversion::convert(&object.0, api_version);
            converted.map(Object).map_err(|e| e.to_string())
        })
    })
}

/// Returns the default roles and bindings, as kube-apiserver reconciles them at every start, and the
/// admission policies of a hub.
pub(super) fn objects() -> Vec<Object> {
    let authenticated = ["system:authenticated"];
    let everyone = ["system:authenticated", "system:unauthenticated"];
    let mut objects = Vec::new();
    for (name, rules, groups) in [
        (
            "cluster-admin",
            json!([objects_rule(&["*"], &["*"], &["*"]), paths_rule(&["*"], &["*"])]),
            &["system:masters"] as &[&str],
        ),
        ("system:discovery", json!([paths_rule(DISCOVERY, &["get"])]), &authenticated),
        ("system:public-info-viewer", json!([paths_rule(PUBLIC, &["get"])]), &everyone),
        ("system:basic-user", basic_rules(), &authenticated),
        (
            "system:service-account-issuer-discovery",
            json!([paths_rule(ISSUER, &["get"])]),
            &["system:serviceaccounts"],
        ),
        ("system:auth-delegator", delegator_rules(), &[]),
        ("system:aggregate-to-view", view_rules(&["get", "list", "watch"]), &[]),
        ("system:aggregate-to-edit", edit_rules(), &[]),
        ("system:aggregate-to-admin", admin_rules(), &[]),
    ] {
        let labels = match name.strip_prefix("system:aggregate-to-") {
            Some(role) => json!({ format!("rbac.authorization.k8s.io/aggregate-to-{role}"): "true" }),
            None => json!({}),
        };
        objects.push(role(name, labels, json!({ "rules": rules })));
        if !groups.is_empty() {
            objects.push(binding(name, groups));
        }
    }
    // Each of these roles includes the one before. Aggregation selects roles by label, and never a role that
    // is aggregated itself.
    // itself.
    for (name, from) in
        [("view", &["view"] as &[&str]), ("edit", &["view", "edit"]), ("admin", &["view", "edit", "admin"])]
    {
        let selectors: Vec<Value> = from
            .iter()
            .map(|role| json!({ "matchLabels": { format!("rbac.authorization.k8s.io/aggregate-to-{role}"): "true" } }))
            .collect();
        objects.push(role(
            name,
            json!({}),
            json!({ "aggregationRule": { "clusterRoleSelectors": selectors } }),
        ));
    }
    objects.extend(policies::documents().map(policy));
    objects
}

fn policy(document: &str) -> Object {
    object(serde_saphyr::from_str(document).expect("the policies of the chart are YAML, as tests show"))
}

const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const ISSUER: &[&str] = &["/.well-known/openid-configuration", "/openid/v1/jwks"];

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a JSON object")
}

fn role(name: &str, labels: Value, content: Value) -> Object {
    let mut role = object(
        json!({ "apiVersion": RBAC, "kind": "ClusterRole", "metadata": { "name": name, "labels": labels } }),
    );
    if let Value::Object(fields) = content {
        role.0.extend(fields);
    }
    role
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

fn objects_rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

fn paths_rule(paths: &[&str], verbs: &[&str]) -> Value {
    json!({ "nonResourceURLs": paths, "verbs": verbs })
}

fn basic_rules() -> Value {
    json!([
        objects_rule(
            &["authorization.k8s.io"],
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            &["create"]
        ),
        objects_rule(&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
    ])
}

fn delegator_rules() -> Value {
    json!([
        objects_rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        objects_rule(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ])
}

/// Returns the rules for the kinds in a namespace, except secrets and roles.
fn view_rules(verbs: &[&str]) -> Value {
    const CORE: &[&str] = &[
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "serviceaccounts",
        "services",
    ];
    json!([
        objects_rule(&[""], CORE, verbs),
        objects_rule(
            &["apps"],
            &["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"],
            verbs
        ),
        objects_rule(&["autoscaling"], &["horizontalpodautoscalers"], verbs),
        objects_rule(&["batch"], &["cronjobs", "jobs"], verbs),
        objects_rule(&["networking.k8s.io"], &["ingresses", "networkpolicies"], verbs),
        objects_rule(&["policy"], &["poddisruptionbudgets"], verbs),
    ])
}

const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

fn edit_rules() -> Value {
    let mut rules = view_rules(WRITE);
    if let Some(rules) = rules.as_array_mut() {
        rules.push(objects_rule(&[""], &["secrets"], &["get", "list", "watch"]));
        rules.push(objects_rule(&[""], &["secrets"], WRITE));
        rules.push(objects_rule(&[""], &["serviceaccounts/token"], &["create"]));
    }
    rules
}

fn admin_rules() -> Value {
    let mut verbs = vec!["get", "list", "watch"];
    verbs.extend(WRITE);
    json!([
        objects_rule(&["rbac.authorization.k8s.io"], &["rolebindings", "roles"], &verbs),
        objects_rule(&["authorization.k8s.io"], &["localsubjectaccessreviews"], &["create"]),
    ])
}
