//! Leader election by Lease, by the rules of client-go: writes compare the resource version, and expiry is
//! judged by this process's own monotonic clock and never by the time that another one wrote.
//!
//! A leader may write until a [deadline](Leadership) that is counted from before its last renewal was sent,
//! and that comes well before another can be elected. What may not be written after it is said in
//! `docs/design/dispatcher.md`.

mod candidate;
mod leadership;

pub use candidate::{Election, ElectionOptions};
pub use leadership::Leadership;
