//! YAML: reads text to nodes that know their lines, converts nodes to JSON, and prints JSON as `kubectl
//! kustomize` does.
//!
//! Reading follows kubectl where the YAML specifications leave room; `scalar` documents the choices.
//! Comments and layout are dropped. Duplicate keys, unknown tags, and documents above the limits of
//! [`super::limits`] are refused.

mod builder;
mod json;
pub mod node;
mod order;
mod parse;
pub mod print;
mod scalar;
mod scalar_style;
#[cfg(test)]
mod tests;

pub use builder::MalformedYaml;
pub use json::UnreadableScalar;
pub use node::{Entry, Map, Node, Scalar, Style, Tag, Value};
pub use parse::{documents, kustomization};
pub(crate) use print::print_stream;
pub use print::{print, print_value, print_value_indented};
pub(crate) use scalar::reads_as_another_type;
pub use scalar::{Reading, has_float_syntax, radix};
