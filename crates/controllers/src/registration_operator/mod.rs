//! The controllers of a registration operator: they install the hub side of ClusterManagers and
//! the agents of Klusterlets.

pub(crate) mod cluster_manager;
pub(crate) mod klusterlet;
mod live;

/// The image of a registration operator. What it installs has it too, where the object names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorImage(pub String);
