//! The content of a config repository.

use serde_json::{Value, json};

use api::names::{ADDON_GROUP, CLUSTER_DECISION_ANNOTATION, CLUSTER_GROUP, CLUSTER_SECRETS_ANNOTATION};
use object::Random;
use object::tree::FileTree;

/// The content of a commit: config maps, and an add-on with its placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The values of the config maps; `None` if the commit lacks the config map.
    pub maps: [Option<u8>; 8],
    /// The version of the add-on; `None` if the commit lacks the add-on.
    pub version: Option<u8>,
    /// True if every version has its own template; otherwise one template is edited in place.
    pub named: bool,
    /// The number of the rollout strategy.
    pub strategy: u8,
    /// True if the placement selects only production clusters.
    pub prod: bool,
    /// True if the placement requests a list and secrets for Argo CD.
    pub argo_cd: bool,
    /// True if the commit contains a file that cannot be rendered.
    pub broken: bool,
}

impl Content {
    /// Draws the content of the first commit.
    pub fn first(random: &mut Random) -> Self {
        let mut content = Self { version: Some(0), named: random.chance(500), ..Self::default() };
        content.strategy = below(random, STRATEGIES);
        for map in &mut content.maps {
            *map = random.chance(600).then_some(0);
        }
        content
    }

    /// Changes the content as the next commit does.
    pub fn change(&mut self, random: &mut Random) {
        self.broken = false;
        match random.below(20) {
            0..9 => self.version = Some(below(random, 4)),
            9..12 => self.strategy = below(random, STRATEGIES),
            12..16 => {
                let at = usize::from(below(random, 8));
                let value = random.chance(700).then(|| below(random, 3));
                self.maps.iter_mut().skip(at).take(1).for_each(|map| *map = value);
            }
            16 => self.maps = [None; 8],
            17 => self.prod = !self.prod,
            18 => self.version = None,
            _ => self.broken = true,
        }
    }

    /// Returns the files of the commit.
    pub fn files(&self) -> FileTree {
        let mut files = FileTree::default();
        for (number, value) in self.maps.iter().enumerate() {
            if let Some(value) = value {
                let name = format!("m{number}");
                let data = json!({ "k": value.to_string() });
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
                files.insert(format!("{name}.yaml"), map.to_string().into_bytes());
            }
        }
        if let Some(version) = self.version {
            for (name, object) in self.add_on(version) {
                files.insert(format!("{name}.yaml"), object.to_string().into_bytes());
            }
        }
        if self.broken {
            files.insert("broken.yaml", b"kind: [".to_vec());
        }
        files
    }

    fn add_on(&self, version: u8) -> [(&'static str, Value); 4] {
        let template = if self.named { format!("app-{version}") } else { "app".to_owned() };
        let manifests: Vec<Value> = ["app", "sidecar"].iter().map(|name| deployment(name, version)).collect();
        let predicates = if self.prod {
            json!([{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"prod": "true"}}}}])
        } else {
            json!([])
        };
        let annotations = if self.argo_cd {
            json!({ CLUSTER_DECISION_ANNOTATION: "canary", CLUSTER_SECRETS_ANNOTATION: "" })
        } else {
            json!({})
        };
        let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
        [
            (
                "binding",
                json!({"apiVersion": format!("{CLUSTER_GROUP}/v1beta2"), "kind": "ManagedClusterSetBinding",
                    "metadata": {"name": "global"}, "spec": {"clusterSet": "global"}}),
            ),
            (
                "placement",
                json!({"apiVersion": format!("{CLUSTER_GROUP}/v1beta1"), "kind": "Placement", "metadata": {"name": "fleet", "annotations": annotations},
                    "spec": {"predicates": predicates, "tolerations": [{"operator": "Exists"}],
                        "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}}}),
            ),
            (
                "template",
                json!({"apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": template},
                    "spec": {"addonName": "app", "agentSpec": {"workload": {"manifests": manifests}}}}),
            ),
            (
                "addon",
                json!({"apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": "app"},
                    "spec": {
                        "supportedConfigs": [{"group": ADDON_GROUP, "resource": "addontemplates", "defaultConfig": {"name": template}}],
                        "installStrategy": {"type": "Placements", "placements": [
                            {"namespace": "config", "name": "fleet", "rolloutStrategy": strategy(self.strategy)}]}}}),
            ),
        ]
    }
}

pub(super) fn deployment(name: &str, version: u8) -> Value {
    let labels = json!({ "app": name });
    let container = json!({"name": "app", "image": format!("app:{version}")});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
}

/// Number of strategies.
pub(super) const STRATEGIES: u64 = 7;

pub(super) fn strategy(number: u8) -> Value {
    let progressive = |options: Value| json!({"type": "Progressive", "progressive": options});
    let per_group = |options: Value| json!({"type": "ProgressivePerGroup", "progressivePerGroup": options});
    let canary = json!([{"groupName": "canary"}]);
    match number {
        0 => json!({"type": "All"}),
        1 => progressive(json!({"maxConcurrency": 1, "progressDeadline": "20s"})),
        2 => progressive(
            json!({"mandatoryDecisionGroups": canary, "maxConcurrency": 2, "progressDeadline": "20s", "minSuccessTime": "3s"}),
        ),
        3 => progressive(
            json!({"mandatoryDecisionGroups": canary, "maxConcurrency": "50%", "maxFailures": 1, "progressDeadline": "1m"}),
        ),
        4 => per_group(json!({"progressDeadline": "20s"})),
        5 => per_group(
            json!({"mandatoryDecisionGroups": canary, "maxFailures": 1, "progressDeadline": "30s", "minSuccessTime": "5s"}),
        ),
        _ => progressive(json!({"maxConcurrency": 1, "maxFailures": "50%", "progressDeadline": "40s"})),
    }
}

pub(super) fn below(random: &mut Random, bound: u64) -> u8 {
    u8::try_from(random.below(bound)).unwrap_or_default()
}
