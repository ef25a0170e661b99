//! What can go wrong with a remote, in words for conditions.

use git2::ErrorCode;

use object::text;
use reconcile::SourceFailure;

/// Longest text of a server that a message quotes.
const QUOTED: usize = 300;

/// Why a repository could not be fetched from, or pushed to. Messages carry no credentials and end with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The URL is not one we take.
    #[error("{0}")]
    Url(String),
    /// The reference to follow is not a valid one.
    #[error("{0}")]
    Ref(String),
    /// The credentials Secret cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// No answer, or none that makes sense.
    #[error("cannot reach {url}: {why}; it is tried again, check the address and the network if this stays")]
    Unreachable {
        /// Where.
        url: String,
        /// What the library said.
        why: String,
    },
    /// The server asked for credentials and refused ours.
    #[error("{url} refuses access: {why}; check the credentials Secret and that the repository exists")]
    Auth {
        /// Where.
        url: String,
        /// What the library said.
        why: String,
    },
    /// The server is not who it should be.
    #[error("{url} does not prove its identity: {why}")]
    HostKey {
        /// Where.
        url: String,
        /// What did not fit.
        why: String,
    },
    /// The remote has no commits at all.
    #[error("{url} is empty; push a first commit")]
    Empty {
        /// Where.
        url: String,
    },
    /// The reference does not exist there.
    #[error("{what} does not exist in {url}{known}")]
    MissingRef {
        /// Kind and name.
        what: String,
        /// Where.
        url: String,
        /// Names that do exist, as a hint; may be empty.
        known: String,
    },
    /// The reference moved to a commit that does not descend from the one we have.
    #[error(
        "{what} moved from {from} to {to}, which does not descend from it (force-push or rewind); {from} stays applied. \
         To accept, annotate the ConfigRepo: {annotation}={to}"
    )]
    Rewound {
        /// Kind and name of the reference.
        what: String,
        /// The commit that was accepted last.
        from: String,
        /// The commit found now.
        to: String,
        /// Annotation that accepts it.
        annotation: &'static str,
    },
    /// The content of the commit is outside of what we read.
    #[error("{0}")]
    Content(String),
    /// The caller gave up: the operation took too long in total, or the process ends.
    #[error("{url} was given up on: it took longer than allowed; it is tried again")]
    Cancelled {
        /// Where.
        url: String,
    },
    /// The server took the connection but not the commit.
    #[error(
        "{url} refuses the push to {branch}: {why}; check branch protection, hooks and the rights of the write credentials"
    )]
    PushRejected {
        /// Where.
        url: String,
        /// Branch that was to be pushed.
        branch: String,
        /// What the server said.
        why: String,
    },
    /// Others kept pushing to the same branch.
    #[error("{branch} of {url} moved during each of {tries} pushes; it is tried again")]
    PushContended {
        /// Where.
        url: String,
        /// Branch that was to be pushed.
        branch: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The mirror on our disk fails.
    #[error("the git cache fails: {0}; check space and permissions of the cache directory")]
    Cache(String),
}

impl Error {
    /// CamelCase word for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Url(_) => "InvalidURL",
            Self::Ref(_) => "InvalidRef",
            Self::Credentials(_) => "InvalidCredentials",
            Self::Unreachable { .. } => "SourceUnreachable",
            Self::Auth { .. } => "SourceUnauthorized",
            Self::HostKey { .. } => "HostKeyMismatch",
            Self::Empty { .. } => "SourceEmpty",
            Self::MissingRef { .. } => "RefNotFound",
            Self::Rewound { .. } => "SourceRewound",
            Self::Content(_) => "SourceRefused",
            Self::Cancelled { .. } => "SourceTimeout",
            Self::PushRejected { .. } => "StatusPushRejected",
            Self::PushContended { .. } => "StatusPushContended",
            Self::Cache(_) => "GitCacheFailed",
        }
    }

    /// Reads an error of libgit2 by its code, never by its text.
    pub(super) fn remote(url: &str, e: &git2::Error) -> Self {
        let (url, why) = (url.to_owned(), text::plain(e.message(), QUOTED));
        match e.code() {
            ErrorCode::Auth => Self::Auth { url, why },
            ErrorCode::Certificate => Self::HostKey { url, why },
            ErrorCode::Owner => {
                Self::Unreachable { url, why: format!("{why}; the directory belongs to another user") }
            }
            _ => Self::Unreachable { url, why },
        }
    }

    /// An error of the mirror itself.
    pub(super) fn cache(e: &git2::Error) -> Self {
        Self::Cache(text::plain(e.message(), QUOTED))
    }
}

impl From<Error> for SourceFailure {
    fn from(error: Error) -> Self {
        Self { reason: error.reason(), message: error.to_string() }
    }
}
