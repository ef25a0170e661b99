//! The ManifestWorkReplicaSet of a history.

use serde_json::{Value, json};

use super::content::{STRATEGIES, below, deployment, strategy};
use object::Random;

/// The content of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetContent {
    /// The version of the workload in its template, numbered like the add-on's versions.
    pub version: u8,
    /// The rollout strategy.
    pub strategy: u8,
    /// True if its deletion waits for its works.
    pub foreground: bool,
}

impl SetContent {
    /// Draws the initial content of the set.
    pub fn first(random: &mut Random) -> Self {
        Self { version: 0, strategy: below(random, STRATEGIES), foreground: random.chance(500) }
    }

    /// Changes the set as a person would.
    pub fn change(&mut self, random: &mut Random) {
        match random.below(10) {
            0..7 => self.version = below(random, 4),
            _ => self.strategy = below(random, STRATEGIES),
        }
    }

    /// Returns the set as an object. Its works are in progress until the workload is ready.
    pub fn object(&self) -> Value {
        let Self { version, strategy: number, foreground } = *self;
        let progressing = "!has(object.status) || !has(object.status.updatedReplicas) \
            || object.status.observedGeneration != object.metadata.generation \
            || object.status.updatedReplicas != object.spec.replicas";
        let rule = json!({"condition": "Progressing", "type": "CEL", "celExpressions": [progressing]});
        let workload =
            json!({"group": "apps", "resource": "deployments", "namespace": "default", "name": "set"});
        json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
            "metadata": {"namespace": "config", "name": "set"},
            "spec": {
                "manifestWorkTemplate": {
                    "workload": {"manifests": [deployment("set", version)]},
                    "manifestConfigs": [{"resourceIdentifier": workload, "conditionRules": [rule]}]},
                "placementRefs": [{"name": "fleet", "rolloutStrategy": strategy(number)}],
                "cascadeDeletionPolicy": if foreground { "Foreground" } else { "Background" }}})
    }
}
