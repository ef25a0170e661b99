//! ConfigRepoInventory: a part of the objects that a ConfigRepo owns.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// A part of the objects that a ConfigRepo owns on the hub. The operator writes it; an owner reference names
    /// the ConfigRepo.
    ///
    /// An object is listed from before it is created until after it is deleted. Several inventories of one
    /// ConfigRepo may list an object.
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
    /// The API version in which each object was applied last, such as v1, by `group/Kind/namespace/name`. The
    /// group of core objects and the namespace of cluster-scoped ones are empty.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 1000))]
    pub objects: BTreeMap<String, String>,
    /// Objects that a commit has and that another ConfigRepo owns, written as above. When they leave its
    /// repository, it hands them over and does not delete them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1000))]
    pub requested: BTreeMap<String, String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
