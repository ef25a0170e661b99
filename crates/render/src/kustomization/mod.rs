//! The parts of a `kustomization.yaml`.

mod generator;
mod parts;
mod selector;

pub(super) use generator::{Behavior, Generator, GeneratorOptions};
pub(super) use parts::{
    BuildMetadata, FieldSpec, InlineOrFile, SortOptions, Text, Var, at, location_of, take_gvk,
};
pub(super) use selector::Selector;
