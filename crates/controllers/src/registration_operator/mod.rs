//! The controllers of a registration operator: they install the hub side of ClusterManagers and
//! the agents of Klusterlets.

pub(crate) mod cluster_manager;
pub(crate) mod klusterlet;
mod live;
