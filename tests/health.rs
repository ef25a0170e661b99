//! The health that a rollout waits for, with the operator and an agent on an embedded hub and spoke. No pods run
//! there; the test writes the statuses.

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::{Conditions as _, find_condition};
use api::crds;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::pinned_kind;
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::now;

use crate::trace::{accept, apply, client};
use crate::wait::eventually;

/// An unhealthy object.
struct Case {
    name: &'static str,
    version: &'static str,
    kind: &'static str,
    spec: Value,
    /// The status that its cluster reports at first.
    status: Value,
    /// The status that its cluster reports once it is healthy.
    healthy: Value,
}

/// Returns objects that a rollout once considered done too early, as found by reviewers.
fn cases() -> Vec<Case> {
    let labels = || json!({"app": "a"});
    let pod =
        || json!({"metadata": {"labels": labels()}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let workload = |more: Value| {
        let mut spec = json!({"replicas": 1, "selector": {"matchLabels": labels()}, "template": pod()});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let up = || json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    let surge = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 1});
    let deployment = |name, spec, status| Case {
        name,
        version: "apps/v1",
        kind: "Deployment",
        spec,
        status,
        healthy: up(),
    };
    let job_pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    vec![
        deployment("no-status", workload(json!({})), Value::Null),
        deployment("old-pod-left", workload(json!({})), surge),
        deployment("paused", workload(json!({"paused": true})), json!({"observedGeneration": 1})),
        deployment("beside-a-rule", workload(json!({})), Value::Null),
        Case {
            name: "stateful",
            version: "apps/v1",
            kind: "StatefulSet",
            spec: workload(json!({"serviceName": "a"})),
            status: Value::Null,
            healthy: up(),
        },
        Case {
            name: "job",
            version: "batch/v1",
            kind: "Job",
            spec: json!({"template": job_pod}),
            status: Value::Null,
            healthy: complete,
        },
        Case {
            name: "claim",
            version: "v1",
            kind: "PersistentVolumeClaim",
            spec: claim,
            status: Value::Null,
            healthy: json!({"phase": "Bound"}),
        },
    ]
}

impl Case {
    fn manifest(&self, prefix: &str) -> Value {
        let metadata = json!({"name": format!("{prefix}-{}", self.name), "namespace": "default"});
        json!({"apiVersion": self.version, "kind": self.kind, "metadata": metadata, "spec": self.spec})
    }

    /// Returns the case's replica set. In one case, the author wrote a rule for another object.
    fn set(&self) -> Value {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name, "namespace": "default"}});
        let identifier =
            json!({"group": "", "resource": "configmaps", "name": self.name, "namespace": "default"});
        let rule = json!({"type": "CEL", "condition": "Progressing", "celExpressions": ["false"]});
        let configs = match self.name {
            "beside-a-rule" => json!([{"resourceIdentifier": identifier, "conditionRules": [rule]}]),
            _ => json!([]),
        };
        let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
        json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": self.name, "namespace": "fleet"}, "spec": {
                "placementRefs": [{"name": "all", "rolloutStrategy": strategy}],
                "manifestWorkTemplate": {"workload": {"manifests": [map, self.manifest("set")]}, "manifestConfigs": configs}}})
    }

    /// Returns the case's add-on with its template.
    fn add_on(&self) -> [Value; 2] {
        let group = "addon.open-cluster-management.io";
        let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
        let placement = json!({"namespace": "fleet", "name": "all", "rolloutStrategy": strategy});
        let config =
            json!({"group": group, "resource": "addontemplates", "defaultConfig": {"name": self.name}});
        [
            json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": self.name},
                "spec": {"addonName": self.name, "agentSpec": {"workload": {"manifests": [self.manifest("add-on")]}}}}),
            json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": self.name},
                "spec": {"supportedConfigs": [config], "installStrategy": {"type": "Placements", "placements": [placement]}}}),
        ]
    }

    /// Writes the object's status on the spoke once the agent has applied it.
    async fn report(&self, spoke: &::kube::Client, prefix: &str, status: &Value) {
        let manifest: Object = Object::from_value(self.manifest(prefix)).unwrap();
        let gvk = manifest.gvk();
        let gvk = ::kube::core::GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        let (resource, _) = pinned_kind(spoke, &gvk).await.unwrap();
        let api: Api<DynamicObject> = Api::namespaced_with(spoke.clone(), "default", &resource);
        eventually("the agent applies the object", async || {
            api.get_opt(manifest.name()).await.unwrap().is_some()
        })
        .await;
        if !status.is_null() {
            let patch = Patch::Merge(json!({"status": status}));
            api.patch_status(manifest.name(), &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

fn fixtures() -> [Value; 3] {
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "fleet"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "all", "namespace": "fleet"}, "spec": {"tolerations": [{"operator": "Exists"}]}}),
    ]
}

/// Returns true if the work of a set is applied, and a rule evaluated for its current generation reports progress.
fn is_waiting(work: &ManifestWork) -> bool {
    let holds = |type_: &str| {
        let condition = work.condition(type_);
        condition.is_some_and(|one| one.is_true() && one.observed_generation == work.metadata.generation)
    };
    ["Applied", "Available", "Progressing"].into_iter().all(holds)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_waits_for_every_object_of_a_set_and_of_an_addon() {
    let definitions = crds::hub().iter().map(Object::from_typed).collect();
    let hub_server =
        Server::start(ServerOptions { objects: definitions, ..ServerOptions::new(now) }).await.unwrap();
    let admin = |server: &Server| server.kubeconfig("admin", &["system:masters"]).unwrap();
    let hub = client(&admin(&hub_server)).await;
    let (stop, cache) = (CancellationToken::new(), tempfile::tempdir().unwrap());
    let options = OperatorOptions::new(hub.clone(), cache.path());
    let mut tasks = vec![tokio::spawn(operator::run(options, stop.clone()))];
    let definitions = crds::spoke().iter().map(Object::from_typed).collect();
    let spoke_server =
        Server::start(ServerOptions { objects: definitions, ..ServerOptions::new(now) }).await.unwrap();
    let spoke = client(&admin(&spoke_server)).await;
    let bootstrap = Bootstrap::Given(Box::new(admin(&hub_server)));
    tasks.push(tokio::spawn(agent::run(AgentOptions::new(bootstrap, spoke.clone(), "c1"), stop.clone())));
    accept(&hub, "c1").await;

    let cases = cases();
    for value in fixtures()
        .into_iter()
        .chain(cases.iter().flat_map(|case| case.add_on()))
        .chain(cases.iter().map(Case::set))
    {
        apply(&hub, &Object::from_value(value).unwrap()).await;
    }
    let sets: Api<ManifestWorkReplicaSet> = Api::namespaced(hub.clone(), "fleet");
    let works: Api<ManifestWork> = Api::namespaced(hub.clone(), "c1");
    let add_ons: Api<ManagedClusterAddOn> = Api::namespaced(hub.clone(), "c1");
    for case in &cases {
        let name = case.name;
        for prefix in ["set", "add-on"] {
            case.report(&spoke, prefix, &case.status).await;
        }
        eventually(&format!("the set {name} waits"), async || {
            let selector = format!("work.open-cluster-management.io/manifestworkreplicaset=fleet.{name}");
            let works = works.list(&ListParams::default().labels(&selector)).await.unwrap();
            let set = sets.get(name).await.unwrap();
            let summary = set.status.as_ref().map(|status| status.summary.clone()).unwrap_or_default();
            assert!(!set.holds("PlacementRolledOut"), "{name}: {:?}", set.status);
            works.items.iter().any(is_waiting) && summary.progressing == 1
        })
        .await;
        eventually(&format!("the add-on {name} says what it waits for"), async || {
            let Some(add_on) = add_ons.get_opt(name).await.unwrap() else { return false };
            let progressing = add_on.condition("Progressing");
            assert!(progressing.is_none_or(|one| one.reason != "Completed"), "{name}: {:?}", add_on.status);
            progressing.is_some_and(|one| one.is_true() && one.message.contains(&format!("add-on-{name}")))
        })
        .await;
    }
    for case in &cases {
        let name = case.name;
        for prefix in ["set", "add-on"] {
            case.report(&spoke, prefix, &case.healthy).await;
        }
        eventually(&format!("the set {name} is done"), async || {
            sets.get(name).await.unwrap().holds("PlacementRolledOut")
        })
        .await;
        eventually(&format!("the add-on {name} is done"), async || {
            let status = add_ons.get(name).await.unwrap().status.unwrap();
            find_condition(&status.conditions, "Progressing").is_some_and(|one| one.reason == "Completed")
        })
        .await;
    }
    stop.cancel();
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}
