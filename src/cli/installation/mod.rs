//! Installs the operator as its chart does, without helm.
//!
//! The objects are those that helm renders from `charts/wheelwright` with the chart's own values. They are kept in `operator.yaml`, and
//! a test compares the file with helm's output. Options change the fields that the chart's values of the same names change.

mod apply;
mod definitions;
mod options;
mod wait;

pub(super) use apply::{Change, Installer};
pub(super) use definitions::{WEBHOOK_SECRET, stop_conversion};
pub(super) use options::{Options, manifests};
pub(super) use wait::{Deadline, definitions_served, deployment_available, gone};

/// Name of the operator's Deployment, role and service account, as in the chart.
pub(super) const OPERATOR: &str = "wheelwright-operator";
/// Label of all objects that this program installs, and its value.
pub(super) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "wheelwright-cli";
