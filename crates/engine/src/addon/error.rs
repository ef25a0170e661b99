//! The reasons why configurations make no add-on.

use super::pack::PackError;
use super::template::TemplateError;

/// The reason why the contents of its configurations make no add-on on a cluster. A person has to correct
/// them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddOnError {
    /// The content of a snapshot is not of its type.
    #[error("the snapshot {name} cannot be read: {why}")]
    Snapshot {
        /// Name of the snapshot.
        name: String,
        /// The message of serde.
        why: String,
    },
    /// The template names a variable that nothing defines.
    #[error("manifest {index} of the template: nothing defines the variable {{{{{name}}}}}")]
    Undefined {
        /// Place of the manifest in the template.
        index: usize,
        /// Name of the variable.
        name: String,
    },
    /// A manifest is no object.
    #[error("manifest {index} of the template has no apiVersion, kind or name")]
    NoObject {
        /// Place of the manifest in the template.
        index: usize,
    },
    /// A permission lacks the namespace that its type needs.
    #[error("a hub permission of type SingleNamespace names no namespace")]
    NoNamespace,
    /// A permission lacks the role that its type needs.
    #[error("a hub permission of type CurrentCluster names no cluster role")]
    NoClusterRole,
    /// A manifest of a hosted add-on names an unknown location; the text is OCM's.
    #[error("not supported manifest location: {0}")]
    Location(String),
    /// The template cannot be rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The manifests fit into no works.
    #[error(transparent)]
    Pack(#[from] PackError),
}
