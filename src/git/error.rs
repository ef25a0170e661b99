//! Errors of fetches and pushes, with messages for conditions.

use std::time::Duration;

use git2::{ErrorClass, ErrorCode};
use jiff::Timestamp;

use super::Refusal;
use super::pack_limits::{MAX_OBJECT_BYTES, MAX_PACK_OBJECTS};
use object::text;

/// The maximum length of quoted server text, in characters.
const QUOTED: usize = 300;

/// The reason for a failed fetch or push. Messages contain no credentials, and end with advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The URL is invalid or not allowed.
    #[error("{0}")]
    Url(String),
    /// The reference name is invalid.
    #[error("{0}")]
    Ref(String),
    /// The credentials Secret is not usable.
    #[error("{0}")]
    Credentials(String),
    /// The server does not respond, or its response is invalid.
    #[error("cannot reach {url}: {reason}; {}", advice(url))]
    Unreachable {
        url: String,
        /// The message from libgit2.
        reason: String,
    },
    /// The server requested credentials and rejected ours.
    #[error("{url} refuses access: {reason}; check the credentials Secret and that the repository exists")]
    Auth {
        url: String,
        /// The message from libgit2.
        reason: String,
    },
    /// The server did not prove its identity.
    #[error("cannot verify the identity of {url}: {reason}")]
    HostKey { url: String, reason: String },
    /// The remote has no commits.
    #[error("{url} is empty; push a first commit")]
    Empty { url: String },
    /// The reference does not exist in the remote.
    #[error("{what} does not exist in {url}{known}")]
    MissingRef {
        /// The kind and name of the reference.
        what: String,
        url: String,
        /// Existing names, as a hint; may be empty.
        known: String,
    },
    /// The reference moved to a commit that does not descend from the accepted one.
    #[error(
        "{what} moved from {from} to {to}, which does not follow it (a force-push, a rewind, or a tag that moved or is gone)"
    )]
    Rewound {
        /// The kind and name of the reference.
        what: String,
        /// The last accepted commit.
        from: String,
        /// The new commit.
        to: String,
    },
    /// The commits between the accepted and the new commit cannot be fetched, so it is unknown whether the new one
    /// descends from the accepted one.
    #[error("{what} moved from {from} to {to}, and the commits between them cannot be fetched: {reason}")]
    HistoryRefused {
        /// The kind and name of the reference.
        what: String,
        /// The last accepted commit.
        from: String,
        /// The new commit.
        to: String,
        /// The reason for the failed fetch.
        reason: String,
    },
    /// A commit or tag is not signed by a trusted key.
    #[error("{what} is refused: {refusal}")]
    NotVerified {
        /// The commit or tag.
        what: String,
        /// The reason, with the signer if there is one.
        refusal: Refusal,
    },
    /// The content of the commit is invalid.
    #[error("{0}")]
    Content(String),
    /// The operation timed out, or the process is stopping.
    #[error("the operation on {url} took longer than allowed and was stopped{}", after(*received))]
    Cancelled {
        url: String,
        /// The received MiB.
        received: u64,
    },
    /// The operation was canceled but does not end.
    #[error("an operation on {url} did not end after it was canceled; retrying with a new mirror")]
    Abandoned { url: String },
    /// The server accepted the connection but rejected the commit.
    #[error(
        "{url} refuses the push to {branch}: {reason}; check branch protection, hooks and the rights of the write credentials"
    )]
    PushRejected {
        url: String,
        /// The target branch.
        branch: String,
        /// The server's message.
        reason: String,
    },
    /// The server rejects requests of this size.
    #[error(
        "{url} rejects requests of this size (HTTP status 413); raise the limit of the server or its proxy"
    )]
    RequestTooLarge { url: String },
    /// The directory in the branch has files of another owner.
    #[error(
        "{branch} of {url} has {what}; give each hub and each ConfigRepo its own spec.report.path or branch"
    )]
    NotOurs {
        url: String,
        /// The target branch.
        branch: String,
        /// The files, and their owner if known.
        what: String,
    },
    /// Another process with the same owner writes to the directory.
    #[error(
        "{branch} of {url} has a newer report of this ConfigRepo from another hub with the same identity (writer {writer}), such as a copy or a restored backup; stop that hub, or give one of them another spec.report.path; an edit of spec.report makes this hub the writer"
    )]
    Fenced {
        url: String,
        /// The target branch.
        branch: String,
        /// The other process.
        writer: String,
    },
    /// The branch was deleted, and the report is configured to stop.
    #[error(
        "{branch} of {url} was deleted, and spec.report.onBranchDeleted is Stop; push {commit} to it again, or set Recreate"
    )]
    BranchDeleted {
        url: String,
        branch: String,
        /// The last pushed commit.
        commit: String,
    },
    /// The branch does not contain the last pushed commit, and the report is configured to stop.
    #[error(
        "{branch} of {url} no longer contains {commit}, the last pushed commit, and spec.report.onRewritten is Stop; restore the branch, or set Adopt"
    )]
    BranchRewritten {
        url: String,
        branch: String,
        /// The last pushed commit.
        commit: String,
    },
    /// Other clients kept pushing to the same branch.
    #[error("{branch} of {url} moved during each of {attempts} pushes; retrying later")]
    PushContended {
        url: String,
        /// The target branch.
        branch: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// A git service rejected a commit status.
    #[error("{url} refuses the commit status: {reason}; check type and address of spec.report.commitStatus")]
    StatusRejected {
        /// The address of the API.
        url: String,
        /// The service's message.
        reason: String,
    },
    /// A receiver rejected a notification.
    #[error("{url} refuses the notification: {reason}; check the receiver and its Secret")]
    NotificationRejected {
        /// The address of the receiver.
        url: String,
        /// The status and the receiver's message.
        reason: String,
    },
    /// The git service's rate limit is exceeded.
    #[error("{url} is rate limiting until {until}; the commit status is sent after that")]
    Throttled {
        /// The address of the API.
        url: String,
        /// The time at which the service accepts requests again.
        until: Timestamp,
    },
    /// The server is rate limiting.
    #[error("{url} is rate limiting for {} s: {reason}", pause.as_secs())]
    Busy {
        url: String,
        /// The server's message.
        reason: String,
        /// The time until the server accepts requests again.
        pause: Duration,
    },
    /// A chart of another repository cannot be downloaded.
    #[error("cannot fetch the chart {chart}: {reason}")]
    Chart {
        /// The reference of the chart.
        chart: String,
        /// The reason.
        reason: String,
    },
    /// The server of a chart requires a login, or rejected ours.
    #[error(
        "cannot fetch the chart {chart}: {reason}; check the login for {host} in the Secret of spec.charts.secretRef"
    )]
    ChartAuth {
        /// The reference of the chart.
        chart: String,
        /// The host that the login is for.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The mirror on disk cannot be read or written.
    #[error("the git cache failed: {0}; check the space and permissions of the cache directory")]
    Cache(String),
}

/// Returns what to check if a repository cannot be reached.
fn advice(url: &str) -> &'static str {
    match url.strip_prefix("file://").unwrap_or(url).starts_with('/') {
        true => "check the path and its permissions",
        false => "if this persists, check the address and the network",
    }
}

impl Error {
    /// Returns the CamelCase reason for the condition and events of a fetch. Reports and commit statuses derive
    /// their reasons from the retry that they need.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Url(_) => "InvalidURL",
            Self::Ref(_) => "InvalidRef",
            Self::Credentials(_) => "InvalidCredentials",
            Self::Unreachable { .. }
            | Self::PushContended { .. }
            | Self::Throttled { .. }
            | Self::Busy { .. } => "SourceUnreachable",
            Self::Auth { .. } | Self::PushRejected { .. } => "SourceUnauthorized",
            Self::HostKey { .. } => "HostKeyMismatch",
            Self::Empty { .. } => "SourceEmpty",
            Self::MissingRef { .. } => "RefNotFound",
            Self::Rewound { .. } => "SourceRewound",
            Self::NotVerified { refusal, .. } => refusal.reason(),
            Self::Content(_)
            | Self::HistoryRefused { .. }
            | Self::RequestTooLarge { .. }
            | Self::NotOurs { .. }
            | Self::Fenced { .. }
            | Self::BranchDeleted { .. }
            | Self::BranchRewritten { .. }
            | Self::StatusRejected { .. }
            | Self::NotificationRejected { .. } => "SourceRefused",
            Self::Cancelled { .. } => "SourceTimeout",
            Self::Abandoned { .. } => "SourceAbandoned",
            Self::Chart { .. } => "ChartUnavailable",
            Self::ChartAuth { .. } => "ChartUnauthorized",
            Self::Cache(_) => "GitCacheFailed",
        }
    }

    /// Returns the pause that the server requested.
    pub(crate) fn pause(&self) -> Option<Duration> {
        if let Self::Busy { pause, .. } = self { Some(*pause) } else { None }
    }

    /// Returns true if changing a Secret may fix the failure.
    pub(crate) fn is_of_secret(&self) -> bool {
        matches!(
            self,
            Self::Credentials(_)
                | Self::Auth { .. }
                | Self::ChartAuth { .. }
                | Self::HostKey { .. }
                | Self::NotVerified { .. }
        )
    }

    /// Returns the error for a repository with SHA-256 object ids.
    pub(super) fn sha256(url: &str) -> Self {
        Self::Content(format!(
            "{url} uses SHA-256 object ids, which are not supported; use a SHA-1 repository"
        ))
    }

    /// Returns the error for a server that is unreachable or responds incorrectly. `reason` may be the server's
    /// text.
    pub(super) fn unreachable(url: &str, reason: &str) -> Self {
        Self::Unreachable { url: url.to_owned(), reason: text::plain(reason, QUOTED) }
    }

    /// Returns true if libgit2 rejected data from the server.
    pub(super) fn is_refused_pack(e: &git2::Error) -> bool {
        matches!(e.class(), ErrorClass::Indexer | ErrorClass::Zlib | ErrorClass::Invalid)
    }

    /// Converts an error of libgit2 by its code and class, never by its text.
    pub(super) fn remote(url: &str, e: &git2::Error) -> Self {
        let (url, reason) = (url.to_owned(), text::plain(e.message(), QUOTED));
        if Self::is_refused_pack(e) {
            return Self::Content(format!(
                "{url} sent an invalid pack: {reason}; a pack must be complete, with at most {} million objects of at most {} MiB",
                MAX_PACK_OBJECTS / 1_000_000,
                MAX_OBJECT_BYTES >> 20,
            ));
        }
        match e.code() {
            ErrorCode::Auth => Self::Auth { url, reason },
            ErrorCode::Certificate => Self::HostKey { url, reason },
            ErrorCode::Owner => {
                Self::Unreachable { url, reason: format!("{reason}; the directory belongs to another user") }
            }
            _ => Self::Unreachable { url, reason },
        }
    }

    /// Returns an error about the mirror itself.
    pub(super) fn cache(e: &git2::Error) -> Self {
        Self::Cache(text::plain(e.message(), QUOTED))
    }
}

/// Describes the state of a timed-out operation, with advice.
fn after(received: u64) -> String {
    if received == 0 {
        return "; if this persists, check the load of the server".into();
    }
    format!(
        " after {received} MiB had arrived; if this persists, look at the connection, and at large files in the newest commit: \
         the files of one commit have to arrive at once"
    )
}
