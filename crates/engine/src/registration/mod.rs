//! Clusters joining, staying and leaving: the permissions of their agents, whether they are alive, whom the hub signs for.

pub mod csr;
mod der;
pub mod lease;
pub mod rbac;
