//! A hub with the chart's roles, two clusters and a few users.

use ::kube::client::Body;
use axum::http::{Method, Request, request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use api::crds;
use api::names::{
    ADD_ONS_OWNED_ANNOTATION, HOSTING_CLUSTER_ANNOTATION, OPERATOR_IDENTITY_ALLOWED, OPERATOR_IDENTITY_LABEL,
};
use engine::registration::rbac;

use super::rows::{Identity, Row};
use crate::kube::{Kubectl, helm};
use crate::wait::eventually;

/// The content type of a server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

pub(super) struct Hub {
    pub(super) client: ::kube::Client,
    pub(super) kubectl: Kubectl,
}

impl Hub {
    /// Installs the table's and the chart's objects, and waits until the policies are in force.
    pub(super) async fn prepare(&self, chart: Vec<Value>) {
        self.kubectl.install(crds::hub().into_iter());
        let mut objects: Vec<Value> = ["c1", "c2", "team", "argocd", helm::NAMESPACE].map(namespace).into();
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "config", "labels": {OPERATOR_IDENTITY_LABEL: OPERATOR_IDENTITY_ALLOWED}}}));
        objects.extend(chart);
        for cluster in ["c1", "c2"] {
            objects.extend(permissions(cluster));
        }
        objects.extend(users());
        objects.extend(content());
        self.apply(&objects);
        let status =
            "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons/a/status";
        let runs = |hash: &str| {
            let of = |hash: &str| json!({"name": "t", "specHash": hash});
            let (desired, last) = (of(hash), of("old"));
            json!({"status": {"configReferences": [{
                "group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "t",
                "desiredConfig": desired, "lastAppliedConfig": last,
            }]}})
        };
        assert_eq!(self.send(None, Method::PATCH, status, Some(&runs("new"))).await.0, 200);
        let policies = [
            (
                "managedclusters",
                json!({"kind": "ManagedCluster", "metadata": {"name": "kube-system"}, "spec": {}}),
            ),
            (
                "namespaces/team/managedclustersetbindings",
                json!({"kind": "ManagedClusterSetBinding", "metadata": {"name": "a"}, "spec": {"clusterSet": "b"}}),
            ),
        ];
        for (path, mut object) in policies {
            let (version, kind) = if path == "managedclusters" { ("v1", "") } else { ("v1beta2", "") };
            let group = "cluster.open-cluster-management.io";
            object["apiVersion"] = format!("{group}/{version}{kind}").into();
            let path = format!("/apis/{group}/{version}/{path}?dryRun=All");
            eventually("the policy is in force", async || {
                self.send(None, Method::POST, &path, Some(&object)).await.0 >= 400
            })
            .await;
        }
        let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "w"}, "spec": {"workload": {"manifests": []}}});
        let path = "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks?dryRun=All";
        eventually("the policy of works is in force", async || {
            self.send(None, Method::POST, path, Some(&work)).await.0 >= 400
        })
        .await;
        let own = json!({"metadata": {"labels": {"probe": "1"}}});
        let agent = super::rows::IDENTITIES.iter().find(|identity| identity.name == "agent");
        eventually("the policy of agents about add-ons is in force", async || {
            let path = format!("{status}?dryRun=All");
            self.send(agent, Method::PATCH, &path, Some(&runs("old"))).await.0 >= 400
        })
        .await;
        let tenant = super::rows::IDENTITIES.iter().find(|identity| identity.name == "tenant");
        let hosted = json!({"metadata": {"annotations": {HOSTING_CLUSTER_ANNOTATION: "c2"}}});
        eventually("the policy of hosting clusters is in force", async || {
            let path = format!("{}?dryRun=All", status.trim_end_matches("/status"));
            let (_, answer) = self.send(tenant, Method::PATCH, &path, Some(&hosted)).await;
            answer["message"].as_str().is_some_and(|message| message.contains("cannot create manifestworks"))
        })
        .await;
        let lent = json!({"metadata": {"labels": {OPERATOR_IDENTITY_LABEL: OPERATOR_IDENTITY_ALLOWED}}});
        eventually("the policy of namespaces is in force", async || {
            let path = "/api/v1/namespaces/team?dryRun=All";
            self.send(tenant, Method::PATCH, path, Some(&lent)).await.0 >= 400
        })
        .await;
        let foreground = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "dryRun": ["All"]});
        eventually("the policy of held add-ons is in force", async || {
            let path = "/apis/addon.open-cluster-management.io/v1alpha1/clustermanagementaddons/a?dryRun=All";
            self.send(None, Method::DELETE, path, Some(&foreground)).await.0 >= 400
        })
        .await;
        eventually("the policy of agents is in force", async || {
            let path = "/apis/cluster.open-cluster-management.io/v1/managedclusters/c1?dryRun=All";
            let live = self.send(None, Method::GET, path.trim_end_matches("?dryRun=All"), None).await.1;
            self.send(agent, Method::PUT, path, Some(&merged(live, &own))).await.0 >= 400
        })
        .await;
    }

    fn apply(&self, objects: &[Value]) {
        let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
        self.kubectl.run_with(&["apply", "--server-side", "-f", "-"], &documents.join("\n"));
    }

    /// Sends the request of a row as an identity; returns the code and message of the response.
    pub(super) async fn attempt(&self, identity: &Identity, row: &Row) -> (u16, String) {
        let (code, answer) = self.answer(identity, row).await;
        (code, answer["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends the request of a row as an identity; returns the code and body of the response.
    pub(super) async fn answer(&self, identity: &Identity, row: &Row) -> (u16, Value) {
        let (method, path) = row.request.split_once(' ').unwrap();
        let body = expanded(row.body);
        let body: Option<Value> = (!body.is_empty()).then(|| serde_json::from_str(&body).unwrap());
        if method == "APPLY" {
            let path = format!("{path}?dryRun=All&fieldManager=test&force=true");
            let request = Request::patch(path).header("content-type", APPLY);
            return self.send_as(Some(identity), request, body.as_ref()).await;
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        // A PUT merges the row's body into the live object.
        let body = match (method == Method::PUT, body) {
            (true, Some(change)) => {
                let live = path.trim_end_matches("/status").trim_end_matches("/finalize");
                Some(merged(self.send(None, Method::GET, live, None).await.1, &change))
            }
            (_, body) => body,
        };
        let path = if method == Method::GET { path.to_owned() } else { format!("{path}?dryRun=All") };
        self.send(Some(identity), method, &path, body.as_ref()).await
    }

    async fn send(
        &self,
        identity: Option<&Identity>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        self.send_as(identity, request, body).await
    }

    async fn send_as(
        &self,
        identity: Option<&Identity>,
        mut request: request::Builder,
        body: Option<&Value>,
    ) -> (u16, Value) {
        if let Some(identity) = identity {
            request = request.header("impersonate-user", identity.user);
            for group in identity.groups {
                request = request.header("impersonate-group", *group);
            }
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string().into_bytes()));
        let response = self.client.send(request.body(body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

/// Returns a body with `A(n)` expanded to n times `QUFB`, which is `AAA` in base64, and `C(n)` to n claims.
fn expanded(body: &str) -> String {
    let claims = |times| {
        (0..times).map(|index| format!(r#"{{"name": "a{index}", "value": "v"}}"#)).collect::<Vec<_>>()
    };
    let parts = [("A(", false), ("C(", true)];
    let Some((mark, is_claims)) = parts.into_iter().find(|(mark, _)| body.contains(mark)) else {
        return body.to_owned();
    };
    let (before, rest) = body.split_once(mark).unwrap();
    let (times, after) = rest.split_once(')').unwrap();
    let times: usize = times.parse().unwrap();
    let repeated = if is_claims { claims(times).join(",") } else { "QUFB".repeat(times) };
    [before, &repeated, &expanded(after)].concat()
}

/// Applies a JSON merge patch (RFC 7386).
fn merged(mut live: Value, change: &Value) -> Value {
    json_patch::merge(&mut live, change);
    live
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns the permissions that the hub grants to an accepted cluster.
fn permissions(cluster: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = rbac::shared_roles().iter().map(object).collect();
    objects.push(object(&rbac::cluster_role(cluster, true)));
    objects.push(object(&rbac::cluster_role_binding(cluster)));
    objects.push(object(&rbac::registration_binding(cluster)));
    objects.push(object(&rbac::work_binding(cluster)));
    objects
}

fn object<K: object::Kind>(typed: &K) -> Value {
    object::Object::from_typed(typed).into_value()
}

/// Returns the users. Argo CD is cluster-admin; the tenant owns the cluster set and the namespace `team`.
fn users() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let cluster = "cluster.open-cluster-management.io";
    let role_ref =
        |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let tenant = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]);
    let argo =
        json!([{"kind": "ServiceAccount", "namespace": "argocd", "name": "argocd-application-controller"}]);
    vec![
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "argo"},
            "roleRef": role_ref("cluster-admin"), "subjects": argo}),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "set-admin"}, "rules": [
            {"apiGroups": [cluster], "resources": ["managedclustersets/join", "managedclustersets/bind"],
             "resourceNames": ["team"], "verbs": ["create"]},
            {"apiGroups": [cluster], "resources": ["managedclusters"], "verbs": ["get", "create", "update", "patch"]},
            {"apiGroups": ["addon.open-cluster-management.io"], "resources": ["addontemplates"], "verbs": ["create"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["addon-agent"], "verbs": ["bind"]},
        ]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "set-admin"},
            "roleRef": role_ref("set-admin"), "subjects": tenant}),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "team-admin"}, "rules": [
            {"apiGroups": [cluster], "resources": ["managedclustersetbindings", "placements", "placementdecisions", "placementdecisions/status"], "verbs": ["*"]},
            {"apiGroups": ["gitops.wheelwright.dev"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["namespaces", "namespaces/status", "namespaces/finalize"], "verbs": ["get", "update", "patch"]},
            {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworkreplicasets"], "verbs": ["*"]},
        ]}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "team-admin", "namespace": "team"},
            "roleRef": role_ref("team-admin"), "subjects": tenant}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "team-admin", "namespace": "config"},
            "roleRef": role_ref("team-admin"), "subjects": tenant}),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "scheduler"}, "rules": [
            {"apiGroups": [cluster], "resources": ["placementdecisions", "placementdecisions/status"], "verbs": ["*"]},
            {"apiGroups": [cluster], "resources": ["managedclustersets/bind"], "verbs": ["create"]},
        ]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "scheduler"}, "roleRef": role_ref("scheduler"),
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "scheduler"}]}),
        // The permissions that an add-on's template grants to its agents.
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "addon-agent"}, "rules": [
            {"apiGroups": ["addon.open-cluster-management.io"], "resources": ["managedclusteraddons/status"], "verbs": ["patch"]},
        ]}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "addon-agent", "namespace": "c1"},
        "roleRef": role_ref("addon-agent"), "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:open-cluster-management:cluster:c1:addon:a"},
            {"kind": "ServiceAccount", "namespace": "c1", "name": "a-agent"},
        ]}),
        // A tenant that may write works and add-ons for one cluster, but may not choose an executor.
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "work-writer"}, "rules": [
            {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"], "verbs": ["create", "update"]},
            {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"],
             "resourceNames": ["system:serviceaccount:team:deployer"], "verbs": ["execute-as"]},
            {"apiGroups": ["addon.open-cluster-management.io"], "resources": ["managedclusteraddons"], "verbs": ["create", "patch"]},
        ]}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "work-writer", "namespace": "c1"},
            "roleRef": role_ref("work-writer"), "subjects": tenant}),
    ]
}

/// Returns two accepted clusters and the objects in their namespaces.
fn content() -> Vec<Value> {
    let cluster = |name: &str, accepted: bool| {
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": {"cluster.open-cluster-management.io/clusterset": "team"},
                "annotations": {"note": "hub"}, "finalizers": ["cluster.open-cluster-management.io/api-resource-cleanup"]},
            "spec": {"hubAcceptsClient": accepted, "leaseDurationSeconds": 60,
                "taints": [{"key": "maintenance", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}]}})
    };
    let lease = |name: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "c1"}, "spec": {"holderIdentity": "x"}})
    };
    vec![
        cluster("c1", true),
        cluster("c2", true),
        cluster("waiting", false),
        lease("managed-cluster-lease"),
        lease("another"),
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": "a", "finalizers": ["gitops.wheelwright.dev/addon-removal"]}, "spec": {}}),
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": "owned", "finalizers": ["gitops.wheelwright.dev/addon-removal"],
                "annotations": {ADD_ONS_OWNED_ANNOTATION: "true"}}, "spec": {}}),
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": "a", "namespace": "c1"}, "spec": {}}),
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": "h", "namespace": "c1", "annotations": {HOSTING_CLUSTER_ANNOTATION: "c2"}}, "spec": {}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "c1"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "c1"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision",
            "metadata": {"name": "d", "namespace": "team", "labels": {"cluster.open-cluster-management.io/placement": "p"}}}),
        json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "kept", "namespace": "c1"},
            "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}}),
    ]
}
