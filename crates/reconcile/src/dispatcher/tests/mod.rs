//! The rules of the dispatcher, each with a controller of its own over ConfigMaps.

mod harness;
mod index;
mod memo;
mod turns;
