//! The rules of the dispatcher, each with a controller of its own over ConfigMaps.

mod clock;
mod drift;
mod floods;
mod harness;
mod index;
mod lookups;
mod memo;
mod observed;
mod own_writes;
mod predicate;
mod reconciliations;
mod stale;
mod unreadable;
