//! Plans the deployment of an add-on to its cluster, and its deletion.
//!
//! The operator uses this crate for add-ons with templates, the add-on library for the add-on of a program. They
//! differ in the manifests and permissions that they want. The rules are in `engine::addon`: this crate reads the
//! hub for them and plans the writes.

#![warn(missing_docs)]

mod deletion;
mod deployment;
mod permissions;

pub use deletion::{delete_leftovers, finish, release};
pub use deployment::{conclude, deploy, hold, read_live};
pub use permissions::{Permissions, WantedPermissions};
