//! The text of a `kustomization.yaml`.
//!
//! Every field of kustomize v5 is read. Fields that would fetch or run something are refused by name, and
//! unknown fields are mistakes. Transformers read their own fields.

mod document;
mod generator;
mod parts;
mod selector;

pub(super) use document::{BuildMetadata, FILE_NAMES, Kustomization};
pub(super) use generator::{Behavior, Generator, GeneratorOptions};
pub(super) use parts::{FieldSpec, InlineOrFile, SortOptions, Text, Var, location_of, take_gvk};
pub(super) use selector::Selector;
