//! The rows about cluster sets, works and what else a namespace holds.

use super::rows::Row;

pub(super) const ROWS: &[Row] = &[
    Row {
        what: "bind the own set",
        request: "POST /apis/cluster.open-cluster-management.io/v1beta2/namespaces/team/managedclustersetbindings",
        body: r#"{"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding", "metadata": {"name": "team"}, "spec": {"clusterSet": "team"}}"#,
        may: &["tenant", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "bind the global set",
        request: "POST /apis/cluster.open-cluster-management.io/v1beta2/namespaces/team/managedclustersetbindings",
        body: r#"{"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding", "metadata": {"name": "global"}, "spec": {"clusterSet": "global"}}"#,
        may: &["argo", "admin", "operator"],
        refused: &[(&["tenant"], "is not allowed to bind cluster set \"global\"")],
    },
    Row {
        what: "bind a set under another name",
        request: "POST /apis/cluster.open-cluster-management.io/v1beta2/namespaces/team/managedclustersetbindings",
        body: r#"{"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding", "metadata": {"name": "team"}, "spec": {"clusterSet": "global"}}"#,
        may: &[],
        refused: &[(
            &["tenant", "argo", "admin", "operator"],
            "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet",
        )],
    },
    Row {
        what: "create a work",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}}"#,
        may: &["tenant", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "create a work for another cluster",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c2/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}}"#,
        may: &["argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "create an empty work",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": []}}}"#,
        may: &[],
        refused: &[(&["tenant", "argo", "admin", "operator"], "manifests should not be empty")],
    },
    Row {
        what: "create a work with a manifest without a name",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}]}}}"#,
        may: &[],
        refused: &[(&["tenant", "argo", "admin", "operator"], "name must be set in manifest")],
    },
    Row {
        what: "create a work with a manifest with a generated name",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}]}}}"#,
        may: &[],
        refused: &[(&["tenant", "argo", "admin", "operator"], "generateName must not be set in manifest")],
    },
    Row {
        what: "create a work with one object twice",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}]}}}"#,
        may: &[],
        refused: &[(
            &["tenant", "argo", "admin", "operator"],
            "duplicate manifest for resource n/a with resource type v1.ConfigMap",
        )],
    },
    Row {
        what: "create a work with an executor",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}, "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "team", "name": "deployer"}}}}}"#,
        may: &["tenant", "argo", "admin"],
        refused: &[(
            &["operator"],
            "user system:serviceaccount:wheelwright-system:wheelwright-operator cannot manipulate the Manifestwork with executor team/deployer in namespace c1",
        )],
    },
    Row {
        what: "create a work with the executor of others",
        request: "POST /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: r#"{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}, "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "team", "name": "root"}}}}}"#,
        may: &["argo", "admin"],
        refused: &[(
            &["tenant", "operator"],
            "cannot manipulate the Manifestwork with executor team/root in namespace c1",
        )],
    },
    Row {
        what: "remove the finalizers of a work",
        request: "PATCH /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks/kept",
        body: r#"{"metadata": {"finalizers": null}}"#,
        may: &["agent", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "renew the lease of c1",
        request: "PUT /apis/coordination.k8s.io/v1/namespaces/c1/leases/managed-cluster-lease",
        body: r#"{"spec": {"holderIdentity": "y"}}"#,
        may: &["agent", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "renew another lease",
        request: "PUT /apis/coordination.k8s.io/v1/namespaces/c1/leases/another",
        body: r#"{"spec": {"holderIdentity": "y"}}"#,
        may: &["argo", "admin"],
        refused: &[],
    },
    Row {
        what: "read a secret of c1",
        request: "GET /api/v1/namespaces/c1/secrets/s",
        body: "",
        may: &["argo", "admin"],
        refused: &[],
    },
    Row {
        what: "read a ConfigMap of c1",
        request: "GET /api/v1/namespaces/c1/configmaps/m",
        body: "",
        may: &["argo", "admin"],
        refused: &[],
    },
    Row {
        what: "read the works of c1",
        request: "GET /apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: "",
        may: &["agent", "argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "read the signing requests",
        request: "GET /apis/certificates.k8s.io/v1/certificatesigningrequests",
        body: "",
        may: &["bootstrap", "agent", "agent of c2", "argo", "admin", "operator"],
        refused: &[],
    },
];
