//! Cluster registration: the permissions and leases of agents, and the certificates that the hub approves.

pub mod csr;
pub mod der;
pub mod lease;
pub mod liveness;
pub mod rbac;
