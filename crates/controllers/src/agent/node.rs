//! The part of a Node that the agent reads. The rest, such as the names of images, is much larger.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Node {
    metadata: ObjectMeta,
    pub(super) spec: NodeSpec,
    pub(super) status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    pub(super) unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    pub(super) allocatable: BTreeMap<String, Quantity>,
    pub(super) capacity: BTreeMap<String, Quantity>,
}

impl Resource for Node {
    const API_VERSION: &'static str = v1::Node::API_VERSION;
    const GROUP: &'static str = v1::Node::GROUP;
    const KIND: &'static str = v1::Node::KIND;
    const VERSION: &'static str = v1::Node::VERSION;
    const URL_PATH_SEGMENT: &'static str = v1::Node::URL_PATH_SEGMENT;
    type Scope = <v1::Node as Resource>::Scope;
}

impl Metadata for Node {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
