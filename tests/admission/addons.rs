//! The rows about add-ons: what the agents of a cluster and of its add-ons may report, and what only the hub may
//! write.

use super::rows::Row;

/// The status of the add-on of [`super::hub`].
const STATUS: &str =
    "PATCH /apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons/a/status";
const AGENTS: &[&str] = &["agent", "agent of an add-on", "account of an add-on"];
const REFUSED: &[(&[&str], &str)] =
    &[(AGENTS, "cannot change the configReferences of a ManagedClusterAddOn")];
const REPORTERS: &[&str] =
    &["agent", "agent of an add-on", "account of an add-on", "argo", "admin", "operator"];

/// The deletion of an add-on that a RolloutPolicy holds back.
const OWNED: &str = "DELETE /apis/addon.open-cluster-management.io/v1alpha1/clustermanagementaddons/owned";
const HELD: &str = "DELETE /apis/addon.open-cluster-management.io/v1alpha1/clustermanagementaddons/a";

const TEMPLATES: &str = "POST /apis/addon.open-cluster-management.io/v1alpha1/addontemplates";

/// The add-on `a` on cluster `c1`, the add-on `h` hosted by cluster `c2`, and their cluster.
const ADDON: &str =
    "PATCH /apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons/a";
const HOSTED: &str =
    "PATCH /apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons/h";
const CLUSTER: &str = "PUT /apis/cluster.open-cluster-management.io/v1/managedclusters/c1";
/// The tenant may write add-ons and works only on cluster `c1`.
const NOT_THERE: &[(&[&str], &str)] = &[(&["tenant"], "cannot create manifestworks in namespace \"c2\"")];

pub(super) const ROWS: &[Row] = &[
    Row {
        what: "create a template",
        request: TEMPLATES,
        body: r#"{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": "t"}, "spec": {"addonName": "a", "agentSpec": {"workload": {}}}}"#,
        may: &["tenant", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "create a template with an executor that is allowed on one cluster",
        request: TEMPLATES,
        body: r#"{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": "t"}, "spec": {"addonName": "a", "agentSpec": {"workload": {}, "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "team", "name": "deployer"}}}}}}"#,
        may: &["argo", "admin", "operator"],
        refused: &[(
            &["tenant"],
            "user tenant cannot manipulate the AddOnTemplate with executor team/deployer in all namespaces",
        )],
    },
    Row {
        what: "create a template that gives a role of the hub",
        request: TEMPLATES,
        body: r#"{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": "t"}, "spec": {"addonName": "a", "agentSpec": {"workload": {}}, "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": [{"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "wheelwright-operator"}}]}}]}}"#,
        may: &["argo", "admin"],
        refused: &[(&["tenant", "operator"], "a role on the hub that it may not bind (hubPermissions)")],
    },
    Row {
        what: "create a template that gives a role of the hub in a namespace",
        request: TEMPLATES,
        body: r#"{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": "t"}, "spec": {"addonName": "a", "agentSpec": {"workload": {}}, "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": [{"type": "SingleNamespace", "singleNamespace": {"namespace": "kube-system", "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}}]}}]}}"#,
        may: &["argo", "admin"],
        refused: &[(&["tenant", "operator"], "a role on the hub that it may not bind (hubPermissions)")],
    },
    Row {
        what: "create a template that gives a role that the author may bind",
        request: TEMPLATES,
        body: r#"{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": "t"}, "spec": {"addonName": "a", "agentSpec": {"workload": {}}, "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": [{"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "addon-agent"}}]}}]}}"#,
        may: &["tenant", "argo", "admin"],
        refused: &[(&["operator"], "a role on the hub that it may not bind (hubPermissions)")],
    },
    Row {
        what: "have another cluster host an add-on",
        request: ADDON,
        body: r#"{"metadata": {"annotations": {"addon.open-cluster-management.io/hosting-cluster-name": "c2"}}}"#,
        may: &["argo", "admin", "operator"],
        refused: NOT_THERE,
    },
    Row {
        what: "have its own cluster host an add-on",
        request: ADDON,
        body: r#"{"metadata": {"annotations": {"addon.open-cluster-management.io/hosting-cluster-name": "c1"}}}"#,
        may: &["tenant", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "create an add-on that another cluster hosts",
        request: "POST /apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons",
        body: r#"{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn", "metadata": {"name": "new", "annotations": {"addon.open-cluster-management.io/hosting-cluster-name": "c2"}}, "spec": {}}"#,
        may: &["argo", "admin", "operator"],
        refused: NOT_THERE,
    },
    Row {
        what: "change the configurations of an add-on that another cluster hosts",
        request: HOSTED,
        body: r#"{"spec": {"configs": [{"group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "mine"}]}}"#,
        may: &["argo", "admin", "operator"],
        refused: NOT_THERE,
    },
    Row {
        what: "change another annotation of an add-on that another cluster hosts",
        request: HOSTED,
        body: r#"{"metadata": {"annotations": {"note": "mine"}}}"#,
        may: &["tenant", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "take an add-on from the cluster that hosts it",
        request: HOSTED,
        body: r#"{"metadata": {"annotations": {"addon.open-cluster-management.io/hosting-cluster-name": null}}}"#,
        may: &["tenant", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "have another cluster host the add-ons of a cluster",
        request: CLUSTER,
        body: r#"{"metadata": {"annotations": {"addon.open-cluster-management.io/hosting-cluster-name": "c2"}}}"#,
        may: &["argo", "admin", "operator"],
        refused: &[
            NOT_THERE[0],
            (&["agent"], "can only change annotations"),
            (&["agent"], "cannot create manifestworks"),
        ],
    },
    Row {
        what: "delete an add-on that a policy holds",
        request: HELD,
        body: r#"{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "dryRun": ["All"]}"#,
        may: &["argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "have the garbage collector delete an add-on that a policy holds",
        request: HELD,
        body: r#"{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "dryRun": ["All"]}"#,
        may: &[],
        refused: &[(&["argo", "admin", "operator"], "delete it in the background")],
    },
    Row {
        what: "delete in the foreground an add-on whose clusters own their add-ons",
        request: OWNED,
        body: r#"{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "dryRun": ["All"]}"#,
        may: &["argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "report the health of an add-on",
        request: STATUS,
        body: r#"{"status": {"conditions": [{"type": "Available", "status": "True", "reason": "ManagedClusterAddOnLeaseUpdated", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#,
        may: REPORTERS,
        refused: &[],
    },
    Row {
        what: "report the driver of an add-on",
        request: STATUS,
        body: r#"{"status": {"kubeClientDriver": "token"}}"#,
        may: REPORTERS,
        refused: &[],
    },
    Row {
        what: "set back the hash of a configuration",
        request: STATUS,
        body: r#"{"status": {"configReferences": [{"group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "t", "desiredConfig": {"name": "t", "specHash": "old"}, "lastAppliedConfig": {"name": "t", "specHash": "old"}}]}}"#,
        may: &["argo", "admin", "operator"],
        refused: REFUSED,
    },
    Row {
        what: "say that another configuration ran well",
        request: STATUS,
        body: r#"{"status": {"configReferences": [{"group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "t", "desiredConfig": {"name": "t", "specHash": "new"}, "lastAppliedConfig": {"name": "t", "specHash": "new"}}]}}"#,
        may: &["argo", "admin", "operator"],
        refused: REFUSED,
    },
    Row {
        what: "take the configurations of an add-on away",
        request: STATUS,
        body: r#"{"status": {"configReferences": null}}"#,
        may: &["argo", "admin", "operator"],
        refused: REFUSED,
    },
];
