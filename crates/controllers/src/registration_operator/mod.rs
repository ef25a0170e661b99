//! The controllers of a registration operator, which install the hub components of ClusterManagers and the agents
//! of Klusterlets.

pub(crate) mod cluster_manager;
pub(crate) mod klusterlet;
mod live;

/// The image of a registration operator, also used for the objects that it installs if they set none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorImage(pub String);
