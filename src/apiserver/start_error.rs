//! The error of a server that cannot start.

use std::net::SocketAddr;

use super::journal::JournalError;
use super::lock::LockError;
use crate::pki;
use store::ApiError;

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The data directory cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file of the data directory cannot be used.
    #[error("cannot use {path}")]
    Data {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The data directory holds a journal that cannot be read or extended.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Keys or certificates cannot be read or made.
    #[error(transparent)]
    Keys(#[from] pki::Error),
    /// TLS refused its configuration.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// An object of the start was refused.
    #[error("cannot create {object}: {why}")]
    Object {
        /// The object.
        object: String,
        /// The refusal.
        why: ApiError,
    },
}
