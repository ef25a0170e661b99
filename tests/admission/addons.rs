//! The rows about add-ons: what the agents of a cluster and of its add-ons may report, and what only the hub
//! may write.

use super::rows::Row;

/// The status of the add-on of [`super::hub`].
const STATUS: &str =
    "PATCH /apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons/a/status";
const AGENTS: &[&str] = &["agent", "agent of an add-on", "account of an add-on"];
const REFUSED: &[(&[&str], &str)] =
    &[(AGENTS, "cannot change the configReferences of a ManagedClusterAddOn")];
const REPORTERS: &[&str] =
    &["agent", "agent of an add-on", "account of an add-on", "argo", "admin", "operator"];

/// An add-on that a RolloutPolicy holds.
const HELD: &str = "DELETE /apis/addon.open-cluster-management.io/v1alpha1/clustermanagementaddons/a";

pub(super) const ROWS: &[Row] = &[
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
