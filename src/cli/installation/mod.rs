//! Installs the operator as its chart does, without helm.
//!
//! `engine::installation` holds the objects.

mod apply;
mod definitions;
mod options;
mod wait;

pub(super) use apply::{ApplyResult, Installer};
pub(super) use definitions::{stop_conversion, take_conversion};
pub(super) use options::{OptionArgs, flags, git_host, image, manifests, namespace};
pub(super) use wait::{Deadline, definitions_served, deployment_available, gone};
