//! Git repositories without work trees: commits are fetched into [`Checkout`](object::tree::Checkout)s and made from files in memory.
//!
//! A [`Mirror`] is a bare repository in the cache directory that holds what was fetched from one [`Remote`]. Nothing is checked
//! out, no hook or filter of a repository runs, no `git` process is started, and the user's git configuration and credential
//! helpers are not read. Everything here blocks: call it from `spawn_blocking`.
//!
//! Three properties of libgit2 shape the module, each with a test: a push that the server refused returns `Ok`, a push to a
//! local path is not compare-and-swap, and without our settings a silent server is waited for for ever.

mod credentials;
mod error;
#[cfg(test)]
mod fixture;
mod known_hosts;
mod mirror;
mod notify;
mod process;
mod push;
mod read;
mod refs;
mod remote;

pub use credentials::Credentials;
pub use error::Error;
pub use mirror::{Cancel, History, Mirror};
pub use notify::{Watching, watch};
pub use push::{Retry, entry};
pub use read::Limits;
pub use refs::RefSpec;
pub use remote::Remote;
