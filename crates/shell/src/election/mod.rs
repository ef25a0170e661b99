//! Leader election by Lease, by the rules of client-go: writes compare the resource version, and expiry is
//! judged by this process's own monotonic clock and never by the time that another process wrote.
//!
//! A leader may write until a [deadline](Leadership) that is counted from before its last renewal was sent,
//! and that comes well before another one can be elected. `docs/design/dispatcher.md` says which writes are
//! fenced after it.

mod candidate;
mod leadership;

pub use candidate::{Election, ElectionOptions};
pub use leadership::Leadership;
