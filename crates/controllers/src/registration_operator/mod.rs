//! The controllers of a registration operator: they install the agents of Klusterlets.

pub(crate) mod klusterlet;
mod live;
