//! Tests against repositories and servers on this machine.

mod forge;
mod mirror;
mod push;
