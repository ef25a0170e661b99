//! The HTTP server in front of a store. kubectl, agents and tests use it like any Kubernetes API server.
//!
//! ```text
//! server ── tls ── handler ── authn, authz ─┬─ resources, watch ── store
//!                                           ├─ review (access reviews, tokens)
//!                                           └─ discovery, openapi, health
//! controllers: garbage, namespaces, signer        journal: the store on disk
//! ```
//!
//! The store makes the decisions. The server authenticates, authorizes and parses a request, passes it to the
//! store, and writes the result in the representation that the client requested. The server calls no admission
//! webhooks and has no aggregated API servers.

mod authn;
mod authz;
mod body;
mod connections;
mod controllers;
mod defaults;
mod discovery;
mod handler;
mod hub;
mod journal;
mod keys;
mod kubeconfig;
mod lock;
mod openapi;
mod openapi_v2;
mod percent;
mod places;
mod policies;
mod protobuf;
mod request;
mod resources;
mod respond;
mod review;
mod server;
mod signals;
mod signer;
mod start_error;
mod table;
mod tls;
mod token;
mod watch;

pub use journal::JournalError;
pub use keys::write_private;
pub use kubeconfig::{Credential, kubeconfig, kubeconfig_yaml};
pub use lock::LockError;
pub use policies::ADMISSION_POLICIES;
pub use server::{Server, ServerOptions};
pub use start_error::StartError;

/// The Kubernetes version that the server emulates.
const VERSION: &str = "v1.36.0+wheelwright";

/// Returns the response of `/version`.
fn version() -> serde_json::Value {
    serde_json::json!({
        "major": "1",
        "minor": "36",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn random_hex() -> Result<String, crate::pki::Error> {
    let mut bytes = [0u8; 16];
    crate::pki::fill_random(&mut bytes)?;
    Ok(object::hex(bytes))
}
