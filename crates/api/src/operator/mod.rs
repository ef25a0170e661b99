//! `operator.open-cluster-management.io`: the installation of agents.

pub mod v1;
