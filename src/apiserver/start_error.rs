//! The error of a server that cannot start.

use std::net::SocketAddr;

use super::journal::JournalError;
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
    /// The data directory cannot be used.
    #[error("cannot use {path}")]
    Data {
        /// The directory, or a file in it.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Another server uses the data directory.
    #[error("another server uses {path}: process {process}")]
    InUse {
        /// The directory.
        path: String,
        /// The id of its process.
        process: String,
    },
    /// Users other than the owner may read the data.
    #[error("{path} is open to other users: its mode is {mode:o}")]
    Exposed {
        /// The directory, or a file in it.
        path: String,
        /// Its permissions.
        mode: u32,
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
