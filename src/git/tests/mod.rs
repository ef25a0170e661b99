//! Tests against repositories and servers on this machine.

mod author;
pub(crate) mod charts;
mod commit_status;
pub(crate) mod cosign;
pub(crate) mod forge;
mod github;
mod hostile;
mod hostile_branch;
mod large;
mod mirror;
mod notes;
mod notification;
mod openpgp;
mod push;
pub(crate) mod recorder;
mod report_branch;
mod report_growth;
mod report_loops;
mod shallow;
mod signature;
mod takeover;
mod transport;
pub(crate) mod web;
