//! The rows about namespaces: who may let a namespace's ConfigRepos act as the operator.

use super::rows::Row;

const LENDING: &str = "cannot let ConfigRepos of namespace \"team\" act as the operator";
/// The tenant may write the namespaces `team` and `config` and all of our kinds in them; the operator may write
/// every namespace.
const REFUSED: &[(&[&str], &str)] = &[(&["tenant", "operator"], LENDING)];
const TENANT: &[(&[&str], &str)] = &[(&["tenant"], LENDING)];
const LENT: &[&str] = &["argo", "admin"];
const WRITERS: &[&str] = &["tenant", "argo", "admin", "operator"];

pub(super) const ROWS: &[Row] = &[
    Row {
        what: "let ConfigRepos of a namespace act as the operator",
        request: "PATCH /api/v1/namespaces/team",
        body: r#"{"metadata": {"labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}"#,
        may: LENT,
        refused: REFUSED,
    },
    Row {
        what: "let ConfigRepos of a namespace act as the operator, by an update",
        request: "PUT /api/v1/namespaces/team",
        body: r#"{"metadata": {"labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}"#,
        may: LENT,
        refused: TENANT,
    },
    Row {
        what: "let ConfigRepos of a namespace act as the operator, by an apply",
        request: "APPLY /api/v1/namespaces/team",
        body: r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}"#,
        may: LENT,
        refused: REFUSED,
    },
    Row {
        what: "create a namespace whose ConfigRepos act as the operator",
        request: "POST /api/v1/namespaces",
        body: r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}"#,
        may: LENT,
        refused: &[(&["operator"], "cannot let ConfigRepos of namespace \"new\" act as the operator")],
    },
    Row {
        what: "label a namespace",
        request: "PATCH /api/v1/namespaces/team",
        body: r#"{"metadata": {"labels": {"a": "b", "gitops.wheelwright.dev/operator-identity": "denied"}}}"#,
        may: WRITERS,
        refused: &[],
    },
    Row {
        what: "label a namespace whose ConfigRepos act as the operator",
        request: "PATCH /api/v1/namespaces/config",
        body: r#"{"metadata": {"labels": {"a": "b"}}}"#,
        may: WRITERS,
        refused: &[],
    },
    Row {
        what: "let ConfigRepos of a namespace no longer act as the operator",
        request: "PATCH /api/v1/namespaces/config",
        body: r#"{"metadata": {"labels": {"gitops.wheelwright.dev/operator-identity": null}}}"#,
        may: WRITERS,
        refused: &[],
    },
];

/// The same through subresources. kube-apiserver accepts labels there, the embedded hub does not.
pub(super) const THROUGH_SUBRESOURCES: &[Row] = &[
    Row {
        what: "let ConfigRepos of a namespace act as the operator, by its status",
        request: "PATCH /api/v1/namespaces/team/status",
        body: r#"{"metadata": {"labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}"#,
        may: LENT,
        refused: TENANT,
    },
    Row {
        what: "let ConfigRepos of a namespace act as the operator, by its finalizers",
        request: "PUT /api/v1/namespaces/team/finalize",
        body: r#"{"metadata": {"labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}"#,
        may: LENT,
        refused: TENANT,
    },
];
