//! The keys of log lines, and the span of a turn.
//!
//! | key | value |
//! |---|---|
//! | `controller` | name of the controller |
//! | `key` | namespace and name of what is reconciled |
//! | `turn` | number of the turn of that key, unique in the process |
//! | `kind` | kind of an object, with its group |
//! | `error` | why something failed |
//! | `reason` | CamelCase word for that |

use tracing::{Span, debug_span, info_span};

/// The span of a turn: log lines of its plan, its writes and its end carry these fields.
pub(super) fn turn_span(controller: &'static str, key: &str, turn: Option<u64>) -> Span {
    match turn {
        Some(turn) => info_span!("reconcile", controller, key, turn),
        None => debug_span!("compute", controller, key),
    }
}
