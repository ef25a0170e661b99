//! Git repositories without work trees, and the charts that they refer to: fetches commits into
//! [`Checkout`](object::tree::Checkout)s, and creates commits from files in memory. An artifact in a registry can take
//! the place of a repository.
//!
//! A [`Mirror`] is a bare repository in the cache directory with the objects fetched from one [`Remote`].
//! Nothing is checked out, no hook or filter of a repository runs, no `git` process is started, and the user's
//! git configuration and credential helpers are ignored. Every function here blocks: call it from
//! `spawn_blocking`.
//!
//! Two properties of libgit2 shape this module, each with a test: a push that the server rejected returns `Ok`,
//! and a push to a local path is not compare-and-swap. All data from a server passes through our own
//! [`transport`]s.

mod archive;
mod artifact;
mod artifact_signature;
mod blobs;
mod charts;
mod commit;
mod commit_status;
mod credentials;
mod error;
mod github;
mod known_hosts;
mod local;
mod mirror;
mod notes;
mod notification;
mod pack_limits;
mod process;
mod push;
mod read;
mod refs;
mod registry;
mod registry_logins;
mod remote;
mod report_branch;
mod report_commits;
mod report_history;
mod rewind;
mod shallow;
mod signature;
#[cfg(test)]
pub(crate) mod tests;
mod transport;
mod watch;

pub use artifact::{ArtifactRef, ArtifactRepository, is_artifact};
pub use blobs::Blobs;
pub use charts::ChartSource;
pub use commit::{Commit, LastPush, Replaces, entry};
pub use commit_status::{Provider, StatusRequest};
pub use credentials::Credentials;
pub use error::Error;
pub use local::{PathChange, changes, check_rewind, checkout, file, remote_urls, verify_commit};
pub(crate) use mirror::object_bytes;
pub use mirror::{Mirror, is_repository};
pub use notes::Note;
pub use notification::{Receiver, Webhook};
pub use push::Retry;
pub use read::TreeLimits;
pub use refs::RefSpec;
pub use registry::Downloads;
pub use remote::Remote;
pub(crate) use remote::is_loopback;
pub use rewind::{History, rewind};
pub use signature::{ArtifactSigners, CommitSigner, Identity, Keyring, Refusal, SignedPart, Verification};
pub(crate) use transport::Arrivals;
pub use transport::{Egress, TransportLimits};
pub use watch::{RefWatcher, watch};
