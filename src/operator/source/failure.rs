//! Maps failures of pushes, commit statuses and notifications to the retry that they need.

use crate::git::Error;
use reconcile::{Failure, FailureKind};

pub(super) fn failure(error: &Error) -> Failure {
    let kind = match error {
        Error::PushRejected { .. }
        | Error::RequestTooLarge { .. }
        | Error::StatusRejected { .. }
        | Error::NotificationRejected { .. }
        | Error::Auth { .. }
        | Error::ChartAuth { .. }
        | Error::HostKey { .. } => FailureKind::Forbidden,
        Error::Url(_)
        | Error::Ref(_)
        | Error::Credentials(_)
        | Error::Content(_)
        | Error::HistoryRefused { .. }
        | Error::NotVerified { .. }
        | Error::NotOurs { .. } => FailureKind::Invalid,
        // Another hub owns the report, like a field.
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
        | Error::Chart { .. }
        | Error::Cache(_) => FailureKind::Unavailable,
    };
    Failure { kind, message: error.to_string() }
}
