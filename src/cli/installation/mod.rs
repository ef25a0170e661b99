//! Installs the operator without Helm, with the same result as its chart.
//!
//! The objects are in `engine::installation`.

mod apply;
mod definitions;
mod options;
mod wait;

pub(super) use apply::{ApplyResult, HELM_RELEASE, Installer};
pub(super) use definitions::{stop_conversion, take_conversion};
pub(super) use options::{OptionArgs, flags, git_host, image, manifests, namespace};
pub(super) use wait::{Deadline, definitions_served, deployment_available, gone};
