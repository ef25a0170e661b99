//! ConfigRepoInventory: a part of the objects that a ConfigRepo owns.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// A part of the list of objects that a ConfigRepo owns on the hub. Only the operator writes it. An owner
    /// reference names the ConfigRepo.
    ///
    /// An object is listed before it is created and until it is deleted. Several inventories of one
    /// ConfigRepo can list the same object.
    ConfigRepoInventory {
        group: names::GITOPS_GROUP,
        version: "v1alpha1",
        plural: "configrepoinventories",
        scope: Namespaced,
        spec(required): ConfigRepoInventorySpec,
        columns: [
            ("Owner", "string", ".metadata.ownerReferences[0].name"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// Objects of a ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRepoInventorySpec {
    /// Owned objects as `group/Kind/namespace/name`, each with the API version in which it was last applied,
    /// such as `v1`. The group of core objects and the namespace of cluster-scoped objects are empty.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 1000))]
    pub objects: BTreeMap<String, String>,
    /// Objects of a commit that another ConfigRepo owns, in the format of `objects`. When they are removed
    /// from its repository, that ConfigRepo hands them over instead of deleting them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1000))]
    pub requested: BTreeMap<String, String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
