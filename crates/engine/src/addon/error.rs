//! Errors in the configurations of an add-on.

use super::pack::PackError;
use super::template::TemplateError;

/// The reason that configurations do not produce an add-on on a cluster. A person has to correct them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddOnError {
    /// The content of a snapshot has the wrong type.
    #[error("cannot read the snapshot {name}: {reason}")]
    Snapshot {
        /// The name of the snapshot.
        name: String,
        /// The message from serde.
        reason: String,
    },
    /// The template uses an undefined variable.
    #[error("manifest {index} of the template: undefined variable {{{{{name}}}}}")]
    Undefined {
        /// The index of the manifest in the template.
        index: usize,
        /// The name of the variable.
        name: String,
    },
    /// A manifest is not an object.
    #[error("manifest {index} of the template has no apiVersion, kind or name")]
    NoObject {
        /// The index of the manifest in the template.
        index: usize,
    },
    /// A permission lacks the namespace that its type needs.
    #[error("a hub permission of type SingleNamespace has no namespace")]
    NoNamespace,
    /// A permission lacks the role that its type needs.
    #[error("a hub permission of type CurrentCluster has no cluster role")]
    NoClusterRole,
    /// A manifest of a hosted add-on names an unknown location. The message is OCM's.
    #[error("not supported manifest location: {0}")]
    Location(String),
    /// The template cannot be rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The manifests do not fit into works.
    #[error(transparent)]
    Pack(#[from] PackError),
}
