//! The controllers of the spoke agent, one per file.

pub mod addon_lease;
pub(crate) mod cluster_status;
pub(crate) mod lease;
pub(crate) mod managed_namespace;
mod node;
pub(crate) mod orphan;
pub(crate) mod work;
