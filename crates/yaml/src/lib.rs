//! YAML: reads text to nodes that know their lines, converts nodes to JSON, and prints JSON as `kubectl
//! kustomize` does.
//!
//! Reading follows kubectl where the YAML specifications leave room; `scalar` documents the choices.
//! Comments and layout are dropped. Duplicate keys, unknown tags, and documents above the limits of
//! [`limits`] are refused. The kustomize renderer reads and prints with it, and the renderer of charts prints with it.

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
