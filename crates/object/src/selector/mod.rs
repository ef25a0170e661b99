//! Label selectors: parsed and validated once, matched many times.
//!
//! Selectors come in two forms, as fields of objects ([`Selector::parse`]) and as text ([`str::parse`], the
//! form of query strings and of kustomize's targets). The rules and the wording of refusals are those of
//! `k8s.io/apimachinery/pkg/labels`.

mod requirement;
mod text;

pub use requirement::{InvalidSelector, Operator, Requirement, Selector};
