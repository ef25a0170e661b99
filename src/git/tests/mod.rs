//! Tests against repositories and servers on this machine.

mod forge;
mod hostile;
mod mirror;
mod push;
mod transport;
mod web;
