//! Parses YAML into nodes that know their lines, converts nodes to JSON, and prints JSON as `kubectl kustomize`
//! does.
//!
//! If the YAML specifications leave room, parsing follows kubectl; `scalar` documents the choices. The parser
//! drops comments and layout. It rejects duplicate keys, unknown tags, and documents above the [`limits`]. The
//! kustomize renderer parses and prints with this crate; the chart renderer only prints.

mod builder;
mod json;
pub mod limits;
mod node;
mod order;
mod parse;
mod print;
mod scalar;
mod scalar_style;
#[cfg(test)]
mod tests;

pub use builder::MalformedYaml;
pub use json::UnreadableScalar;
pub use node::{Entry, Map, Node, Scalar, Style, Tag, Value};
pub use parse::{documents, kustomization};
pub use print::{print, print_stream, print_value, print_value_indented};
pub use scalar::{Reading, has_float_syntax, radix, reads_as_another_type};
