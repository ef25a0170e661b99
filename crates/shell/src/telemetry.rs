//! The keys of log lines, and the span of a reconciliation.
//!
//! | key | value |
//! |---|---|
//! | `controller` | name of the controller |
//! | `key` | namespace and name of the reconciled object |
//! | `reconcile_id` | number of the reconciliation, unique in the process |
//! | `kind` | kind of an object, with its group |
//! | `error` | why an attempt failed |
//! | `reason` | CamelCase word for the error |

use tracing::{Span, error_span};

/// Returns the span of a reconciliation, whose fields appear in the log lines of its plan, its writes and its end.
/// Computations and last writes have no ID. The level is `ERROR`, so that every filter that shows a line also
/// shows its fields.
pub(super) fn reconcile_span(controller: &str, key: &str, reconcile_id: Option<u64>) -> Span {
    error_span!("reconcile", controller, key, reconcile_id)
}
