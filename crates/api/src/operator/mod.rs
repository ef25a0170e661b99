//! `operator.open-cluster-management.io`: the installation of hubs and agents.

pub mod v1;
