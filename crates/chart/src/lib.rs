//! Renders Helm charts like `helm template` v4.3.2, without Helm.
//!
//! The crate is pure: it takes files, values, a seed for random values and the time, and returns documents. The
//! same input gives the same output on every machine. Without a seed, it rejects charts whose documents contain
//! random values. It reads no file, queries no cluster and starts no process.
//!
//! `load` reads the chart, packed or not, `values` and `dependencies` compute its values, `engine` runs its templates
//! in Go's language (`template`, `funcs`, `print`), and `manifest` sorts the output.

mod budget;
mod capabilities;
mod dependencies;
mod engine;
mod error;
mod fault;
mod funcs;
mod glob;
mod load;
mod manifest;
mod object;
mod pki;
mod print;
mod random;
mod render;
mod schema;
mod semver;
mod template;
mod toml;
mod value;
mod values;
mod yaml;

pub use budget::Work;
pub use capabilities::KUBE_VERSION;
pub use error::Error;
pub use load::{MAX_BYTES, Tree, unpack};
pub use manifest::Document;
pub use random::Fresh;
pub use render::{Hooks, Rendered, Request, Values, release_name, render};
pub use semver::is_exact_version;

#[cfg(test)]
mod tests;
