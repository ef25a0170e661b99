//! The objects on the hub whose Secrets are encrypted.

use crate::cipher::encoded;
use crate::secret::Place;
use object::Key;

/// The object on the hub whose manifests contain a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A ManifestWorkReplicaSet.
    Set(Key),
    /// The AddOnTemplate with this name.
    Template(String),
}

impl Owner {
    /// Returns the text from which the key of a value is derived, in addition to the value. An AddOnDeploymentConfig
    /// can move the Secrets of a template to another namespace on its clusters, so their namespace does not count.
    pub(crate) fn context(&self, place: Place<'_>) -> Vec<u8> {
        let Place { namespace, secret, name } = place;
        let (owner, namespace) = match self {
            Self::Set(set) => (format!("ManifestWorkReplicaSet {set}"), namespace),
            Self::Template(template) => (format!("AddOnTemplate {template}"), ""),
        };
        encoded([owner.as_str(), namespace, secret, name].map(str::as_bytes))
    }
}
