//! The registration of clusters: the permissions of their agents, their leases, and the certificates the hub
//! approves.

pub mod csr;
pub mod der;
pub mod lease;
pub mod liveness;
pub mod rbac;
