//! The keys of log lines, and the span of a reconciliation.
//!
//! | key | value |
//! |---|---|
//! | `controller` | name of the controller |
//! | `key` | namespace and name of the reconciled object |
//! | `turn` | number of the reconciliation, unique in the process |
//! | `kind` | kind of an object, with its group |
//! | `error` | why an attempt failed |
//! | `reason` | CamelCase word for the error |

use tracing::{Span, debug_span, info_span};

/// The span of a reconciliation: log lines of its plan, its writes and its end carry these fields.
pub(super) fn turn_span(controller: &'static str, key: &str, turn: Option<u64>) -> Span {
    match turn {
        Some(turn) => info_span!("reconcile", controller, key, turn),
        None => debug_span!("compute", controller, key),
    }
}
