//! What changes objects after they are gathered, each in its own file, in the order in which a kustomization applies them.

pub(super) mod annotations;
pub(super) mod images;
pub(super) mod labels;
pub(super) mod names;
pub(super) mod namespace;
pub(super) mod patch;
pub(super) mod references;
pub(super) mod replacements;
pub(super) mod replicas;
pub(super) mod sort;
pub(super) mod vars;
