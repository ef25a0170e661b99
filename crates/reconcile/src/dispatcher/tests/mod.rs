//! Tests of the dispatcher's rules, each with its own controller of ConfigMaps.

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
