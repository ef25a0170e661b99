//! The connections under libgit2: https, ssh and git's own protocol, over crates in Rust.
//!
//! libgit2 speaks the protocol of fetch and push. Its bytes come from here, so redirects, time-outs, byte
//! limits, proxies, certificates, host keys and cancellation are decided here. libgit2's own transports
//! read references without limit, follow redirects before they compare hosts, and notice a cancellation only
//! between packets.
//!
//! A [`Session`] is one connection or a few in a row, for one fetch or push. libgit2 calls the transport in
//! the thread of the operation, so a session is found in that thread.

mod advertisement;
mod api;
mod arrivals;
mod client;
mod daemon;
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
pub(super) use api::{ApiResponse, post};
pub(crate) use arrivals::Arrivals;
pub use egress::Egress;
pub(super) use proxy::Proxy;
pub use session::TransportLimits;
pub(super) use session::{Session, SessionLimits};
pub(super) use subtransport::register;
