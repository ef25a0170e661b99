//! The parts of a `kustomization.yaml`.

mod generator;
mod helm;
mod parts;
mod selector;

pub(super) use generator::{Behavior, Generator, GeneratorOptions};
pub(super) use helm::{HelmChart, ValuesMerge, default_chart_home, read_helm_globals, take_chart_home};
pub(super) use parts::{
    BuildMetadata, FieldSpec, InlineOrFile, SortOptions, Text, Var, at, location_of, take_gvk,
};
pub(super) use selector::Selector;
