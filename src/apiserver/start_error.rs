//! The errors of a server that fails to start.

use std::net::SocketAddr;

use super::journal::JournalError;
use super::lock::LockError;
use crate::pki;
use store::ApiError;

/// The reason why a server failed to start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Listening on the address failed.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Locking the data directory failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file in the data directory is not usable.
    #[error("cannot use {path}")]
    Data {
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The journal in the data directory cannot be read or extended.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Reading or generating keys or certificates failed.
    #[error(transparent)]
    Keys(#[from] pki::Error),
    /// TLS rejected its configuration.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// An initial object was rejected.
    #[error("cannot create {object}: {reason}")]
    Object { object: String, reason: ApiError },
}
