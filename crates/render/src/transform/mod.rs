//! Transformers. Each has its own file, and a line in [`TRANSFORMERS`] registers it for kustomizations and
//! configuration objects.

pub(super) mod annotations;
mod hash;
mod images;
pub(super) mod labels;
pub(super) mod names;
mod namespace;
mod patch;
pub(super) mod references;
mod replacements;
mod replicas;
pub(super) mod sort;
mod transformer;
mod value_add;
pub(super) mod vars;

pub(super) use transformer::{Pass, Transformation, Transformer};

/// The built-in transformers, in the order in which a kustomization applies them.
pub(super) const TRANSFORMERS: &[&Transformer] = &[
    &patch::STRATEGIC_MERGE,
    &patch::PATCH,
    &namespace::NAMESPACE,
    &names::PREFIX,
    &names::SUFFIX,
    &labels::LABEL,
    &labels::ANNOTATIONS,
    &patch::JSON_6902,
    &replicas::REPLICA_COUNT,
    &images::IMAGE_TAG,
    &replacements::REPLACEMENT,
    &names::PREFIX_SUFFIX,
    &names::HASH,
    &value_add::VALUE_ADD,
];
