//! The connections for libgit2: https, ssh and git's own protocol, implemented with Rust crates.
//!
//! libgit2 implements the protocol of fetch and push, but gets its bytes from here. This module therefore
//! controls redirects, timeouts, byte limits, proxies, certificates, host keys and cancellation. libgit2's own
//! transports read references without a limit, follow redirects before they compare hosts, and only notice a
//! cancellation between packets.
//!
//! A [`Session`] is one or more successive connections, for one fetch or push. libgit2 calls the transport on
//! the operation's thread, so a session is thread-local.

mod advertisement;
mod api;
mod arrivals;
mod client;
mod daemon;
mod download;
mod duplex;
mod egress;
mod filter;
mod http;
mod login;
mod pack;
mod proxy;
mod refusal;
mod report_status;
mod session;
mod ssh;
mod subtransport;
mod tls;

pub(super) use advertisement::PushedReference;
pub(super) use api::{ApiResponse, post, post_without_token};
pub(crate) use arrivals::Arrivals;
pub(super) use download::get;
pub use egress::Egress;
pub(super) use proxy::Proxy;
pub(super) use refusal::header;
pub use session::TransportLimits;
pub(super) use session::{Session, SessionLimits};
pub(super) use subtransport::register;
