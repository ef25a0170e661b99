//! Label selectors: parsed and validated once, matched many times.
//!
//! Selectors have two forms: fields of objects ([`Selector::parse`]) and text ([`str::parse`], as in query strings
//! and kustomize targets). The rules and error messages follow `k8s.io/apimachinery/pkg/labels`.

mod requirement;
mod text;

pub use requirement::{InvalidSelector, Operator, Requirement, Selector};
