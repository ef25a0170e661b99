//! The rows about the operator's own identity: it cannot extend its own permissions.

use super::rows::Row;

pub(super) const ROWS: &[Row] = &[
    Row {
        what: "bind cluster-admin",
        request: "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        body: r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "open-cluster-management:x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:open-cluster-management:x"}]}"#,
        may: &["argo", "admin"],
        refused: &[(&["operator"], "attempting to grant RBAC permissions not currently held")],
    },
    Row {
        what: "give the operator's role to a user",
        request: "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        body: r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "open-cluster-management:x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wheelwright-operator"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}]}"#,
        may: &["argo", "admin"],
        refused: &[(&["operator"], "gives permissions to clusters and their add-ons only")],
    },
    Row {
        what: "give the operator's role to a user in a namespace",
        request: "POST /apis/rbac.authorization.k8s.io/v1/namespaces/c1/rolebindings",
        body: r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wheelwright-operator"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}]}"#,
        may: &["argo", "admin"],
        refused: &[(&["operator"], "gives permissions to clusters and their add-ons only")],
    },
    Row {
        what: "give an agent its permissions",
        request: "POST /apis/rbac.authorization.k8s.io/v1/namespaces/c1/rolebindings",
        body: r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "open-cluster-management:managedcluster:work"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:open-cluster-management:c1:agent"}]}"#,
        may: &["argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "write the operator's role",
        request: "PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/wheelwright-operator",
        body: r#"{"rules": null}"#,
        may: &["argo", "admin"],
        refused: &[(
            &["operator"],
            "writes no cluster roles and bindings but those of open-cluster-management",
        )],
    },
    Row {
        what: "delete the binding of cluster-admin",
        request: "DELETE /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin",
        body: "",
        may: &["argo", "admin"],
        refused: &[(
            &["operator"],
            "writes no cluster roles and bindings but those of open-cluster-management",
        )],
    },
    Row {
        what: "write a role with everything",
        request: "POST /apis/rbac.authorization.k8s.io/v1/clusterroles",
        body: r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "open-cluster-management:x"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}"#,
        may: &["argo", "admin"],
        refused: &[(&["operator"], "attempting to grant RBAC permissions not currently held")],
    },
    Row {
        what: "ask for a certificate",
        request: "POST /apis/certificates.k8s.io/v1/certificatesigningrequests",
        body: r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "x"}, "spec": {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQlV6Q0Ird0lCQURDQm1ERXFNQ2dHQTFVRUNnd2hjM2x6ZEdWdE9tOXdaVzR0WTJ4MWMzUmxjaTF0WVc1aApaMlZ0Wlc1ME9tTXhNVGd3TmdZRFZRUUtEQzl6ZVhOMFpXMDZiM0JsYmkxamJIVnpkR1Z5TFcxaGJtRm5aVzFsCmJuUTZiV0Z1WVdkbFpDMWpiSFZ6ZEdWeWN6RXdNQzRHQTFVRUF3d25jM2x6ZEdWdE9tOXdaVzR0WTJ4MWMzUmwKY2kxdFlXNWhaMlZ0Wlc1ME9tTXhPbUZuWlc1ME1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRQpGZUhpWmh1NUxrUmljNFlKd2JxMUREUndCWTRNQitOcXhtUWkrYWZ3QXhOeEJvVWE1VFc4Tlg4MnNMMXR5TTd0CmtaTGduMkpNMTFQQVpDRkJkdHR5YWFBQU1Bb0dDQ3FHU000OUJBTUNBMGNBTUVRQ0lBaXhUSzEycXh0M0RObFAKSUd5cE5NdnREZDI1ZUw5U3pwb1dPWi9oOGZ2T0FpQjBydE9hNm9BaWZNWTBHdjViMXp2MDFhS09LMUJkVkdaYwo5Rk1Sa2RqWEJRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}}"#,
        may: &["bootstrap", "agent", "agent of c2", "argo", "admin"],
        refused: &[(&["operator"], "the operator asks for no certificates")],
    },
    Row {
        what: "ask for a certificate with a large request",
        request: "POST /apis/certificates.k8s.io/v1/certificatesigningrequests",
        body: r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "x"}, "spec": {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQlV6Q0Ird0lCQURDQm1ERXFNQ2dHQTFVRUNnd2hjM2x6ZEdWdE9tOXdaVzR0WTJ4MWMzUmxjaTF0WVc1aApaMlZ0Wlc1ME9tTXhNVGd3TmdZRFZRUUtEQzl6ZVhOMFpXMDZiM0JsYmkxamJIVnpkR1Z5TFcxaGJtRm5aVzFsCmJuUTZiV0Z1WVdkbFpDMWpiSFZ6ZEdWeWN6RXdNQzRHQTFVRUF3d25jM2x6ZEdWdE9tOXdaVzR0WTJ4MWMzUmwKY2kxdFlXNWhaMlZ0Wlc1ME9tTXhPbUZuWlc1ME1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRQpGZUhpWmh1NUxrUmljNFlKd2JxMUREUndCWTRNQitOcXhtUWkrYWZ3QXhOeEJvVWE1VFc4Tlg4MnNMMXR5TTd0CmtaTGduMkpNMTFQQVpDRkJkdHR5YWFBQU1Bb0dDQ3FHU000OUJBTUNBMGNBTUVRQ0lBaXhUSzEycXh0M0RObFAKSUd5cE5NdnREZDI1ZUw5U3pwb1dPWi9oOGZ2T0FpQjBydE9hNm9BaWZNWTBHdjViMXp2MDFhS09LMUJkVkdaYwo5Rk1Sa2RqWEJRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCkFBA(6000)", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}}"#,
        may: &["argo", "admin"],
        refused: &[
            (
                &["bootstrap", "agent", "agent of c2"],
                "the certificate request of an agent has at most 16 KiB",
            ),
            (&["operator"], "the operator asks for no certificates"),
        ],
    },
    Row {
        what: "write a revision of a StatefulSet",
        request: "POST /apis/apps/v1/namespaces/team/controllerrevisions",
        body: r#"{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "labels": {"app": "a"}}, "revision": 1, "data": {"spec": {}}}"#,
        may: &["argo", "admin"],
        refused: &[(&["operator"], "the operator writes no ControllerRevisions but the snapshots")],
    },
    Row {
        what: "write a revision that a StatefulSet owns with the label of a snapshot",
        request: "POST /apis/apps/v1/namespaces/team/controllerrevisions",
        body: r#"{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "labels": {"work.open-cluster-management.io/manifestworkreplicaset": "s"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "00000000-0000-0000-0000-000000000001"}]}, "revision": 1, "data": {"spec": {}}}"#,
        may: &["argo", "admin"],
        refused: &[(&["operator"], "the operator writes no ControllerRevisions but the snapshots")],
    },
    Row {
        what: "write a snapshot of a set of works",
        request: "POST /apis/apps/v1/namespaces/team/controllerrevisions",
        body: r#"{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "labels": {"work.open-cluster-management.io/manifestworkreplicaset": "s"}, "ownerReferences": [{"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet", "name": "s", "uid": "00000000-0000-0000-0000-000000000001"}]}, "revision": 1, "data": {"spec": {}}}"#,
        may: &["argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "write a snapshot of an add-on",
        request: "POST /apis/apps/v1/namespaces/wheelwright-system/controllerrevisions",
        body: r#"{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "labels": {"open-cluster-management.io/addon-name": "a"}}, "revision": 1, "data": {"spec": {}}}"#,
        may: &["argo", "admin", "operator"],
        refused: &[],
    },
    Row {
        what: "write a snapshot of an add-on elsewhere",
        request: "POST /apis/apps/v1/namespaces/team/controllerrevisions",
        body: r#"{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "labels": {"open-cluster-management.io/addon-name": "a"}}, "revision": 1, "data": {"spec": {}}}"#,
        may: &["argo", "admin"],
        refused: &[(&["operator"], "the operator writes no ControllerRevisions but the snapshots")],
    },
    Row {
        what: "delete an admission policy",
        request: "DELETE /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/wheelwright-operator",
        body: "",
        may: &["argo", "admin"],
        refused: &[],
    },
    Row {
        what: "create a Deployment",
        request: "POST /apis/apps/v1/namespaces/c1/deployments",
        body: r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}}"#,
        may: &["argo", "admin"],
        refused: &[],
    },
    Row {
        what: "create a service account",
        request: "POST /api/v1/namespaces/c1/serviceaccounts",
        body: r#"{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x"}}"#,
        may: &["argo", "admin"],
        refused: &[],
    },
    Row {
        what: "change a ConfigMap",
        request: "PATCH /api/v1/namespaces/c1/configmaps/m",
        body: r#"{"data": {"a": "b"}}"#,
        may: &["argo", "admin"],
        refused: &[],
    },
];
