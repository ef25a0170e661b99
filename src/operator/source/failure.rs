//! Failures of pushes and commit statuses, by the retry that they need.

use crate::git::Error;
use reconcile::{Failure, FailureKind};

/// Returns the failure of a write to a git server.
pub(super) fn failure(error: &Error) -> Failure {
    let kind = match error {
        Error::PushRejected { .. }
        | Error::RequestTooLarge { .. }
        | Error::StatusRejected { .. }
        | Error::Auth { .. }
        | Error::HostKey { .. } => FailureKind::Forbidden,
        Error::Url(_)
        | Error::Ref(_)
        | Error::Credentials(_)
        | Error::Content(_)
        | Error::HistoryRefused { .. }
        | Error::NotVerified { .. }
        | Error::NotOurs { .. } => FailureKind::Invalid,
        // The report is one field, and another hub owns it.
        Error::Fenced { .. } => FailureKind::FieldConflict,
        Error::PushContended { .. } => FailureKind::Conflict,
        Error::BranchDeleted { .. } | Error::BranchRewritten { .. } => FailureKind::NotFound,
        Error::Unreachable { .. }
        | Error::Throttled { .. }
        | Error::Busy { .. }
        | Error::Empty { .. }
        | Error::MissingRef { .. }
        | Error::Rewound { .. }
        | Error::Cancelled { .. }
        | Error::Abandoned { .. }
        | Error::Cache(_) => FailureKind::Unavailable,
    };
    Failure { kind, message: error.to_string() }
}
