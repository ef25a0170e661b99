//! Tests against repositories and servers on this machine.

mod author;
mod forge;
mod github;
mod hostile;
mod mirror;
mod push;
mod signature;
mod transport;
mod web;
