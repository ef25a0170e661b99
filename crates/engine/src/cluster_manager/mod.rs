//! Installs the hub side from a ClusterManager: the desired objects and the status.
//!
//! The objects are the same as in `wheelwright install`, but in the namespace of OCM's hub side.

mod conditions;
mod objects;
mod settings;

pub use conditions::conditions;
pub use objects::{OWNER, objects, replaced, with_our_webhook, without_webhook};
pub use settings::{ClusterManagerRefusal, ClusterManagerSettings};

/// The namespace of the hub side, as in OCM.
pub const NAMESPACE: &str = "open-cluster-management-hub";
/// The field manager of all objects of a ClusterManager, and the controller name.
pub const MANAGER: &str = "cluster-manager";

#[cfg(test)]
mod tests;
