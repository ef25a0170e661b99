//! Works on a real API server, where server-side apply rejects objects that an update accepts.

use api::work::v1::ManifestWork;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};

use crate::klusterlet::embedded_hub;
use crate::kube::{Cluster, Directory};
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

/// Returns a work with a Deployment whose container sets one variable to each of these values, and a Service.
fn work(values: &[&str]) -> Object {
    let env: Vec<Value> = values.iter().map(|value| json!({"name": "X", "value": value})).collect();
    let container =
        json!({"name": "a", "image": "i:1", "env": env, "resources": {"limits": {"cpu": "1000m"}}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {
            "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}}},
    });
    let ports = json!([{"name": "tcp", "port": 53}, {"name": "udp", "port": 53, "protocol": "UDP"}]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "d"}, "ports": ports},
    });
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w", "namespace": "c1"},
        "spec": {"workload": {"manifests": [deployment, service]}},
    });
    Object::from_value(work).unwrap()
}

fn values(deployment: &Deployment) -> Vec<String> {
    let spec = deployment.spec.template.spec.as_ref().unwrap();
    let env = spec.containers[0].env.iter().flatten();
    env.filter_map(|variable| variable.value.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_with_a_variable_twice_is_updated_as_by_ocm_and_left_alone_in_between() {
    let (dir, stop) = (Directory::new("works"), CancellationToken::new());
    let spoke = Cluster::start("works-spoke").await;
    let hub = embedded_hub(&dir, &stop).await;
    let admin = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let (on_hub, on_spoke) = (client(&admin).await, spoke.client().await);
    let options = AgentOptions::new(Bootstrap::Given(Box::new(admin)), on_spoke.clone(), "c1");
    let agent = tokio::spawn(agent::run(options, stop.clone()));
    accept(&on_hub, "c1").await;
    let namespaces: Api<Namespace> = Api::all(on_hub.clone());
    let exists = async || namespaces.get_opt("c1").await.unwrap().is_some();
    eventually("the cluster has its namespace", exists).await;

    let works: Api<ManifestWork> = Api::namespaced(on_hub.clone(), "c1");
    let deployments: Api<Deployment> = Api::namespaced(on_spoke.clone(), "default");
    let services: Api<Service> = Api::namespaced(on_spoke.clone(), "default");
    let applied = async |expected: &[&str]| {
        eventually("the work is applied", async || {
            let work = works.get("w").await.unwrap();
            let applied = work.status.iter().flat_map(|status| &status.conditions);
            let mut current = applied.filter(|c| c.observed_generation == work.metadata.generation);
            let live = deployments.get_opt("d").await.unwrap();
            current.any(|c| c.type_ == "Applied" && c.is_true())
                && live.is_some_and(|live| values(&live) == expected)
        })
        .await;
    };
    apply(&on_hub, &work(&["1", "2"])).await;
    applied(&["1", "2"]).await;
    let ports = services.get("s").await.unwrap().spec.unwrap().ports.unwrap();
    assert_eq!(ports.len(), 2, "one port with two protocols is applied");

    // Fields set by others stay and are not drift: a pass that restores the Service does not write the Deployment.
    let merge = async |patch: Value| {
        deployments.patch("d", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap().metadata
    };
    let set = json!({"metadata": {"labels": {"of": "others"}}, "spec": {"replicas": 3}});
    let version = merge(set).await.resource_version;
    services.delete("s", &DeleteParams::default()).await.unwrap();
    let is_back = async || services.get_opt("s").await.unwrap().is_some();
    eventually("the Service is back", is_back).await;
    assert_eq!(deployments.get("d").await.unwrap().metadata.resource_version, version);

    // Drift of a field in the manifest is corrected.
    merge(json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i:2"}]}}}})).await;
    applied(&["1", "2"]).await;

    // The next manifest replaces the content; foreign labels stay.
    apply(&on_hub, &work(&["3", "2", "1"])).await;
    applied(&["3", "2", "1"]).await;
    let labels = deployments.get("d").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["of"], "others");
    // A duplicated entry is removed, although no apply has set it.
    apply(&on_hub, &work(&["4"])).await;
    applied(&["4"]).await;
    // A field that the next manifest drops is removed too, although it was merged.
    apply(&on_hub, &work(&[])).await;
    applied(&[]).await;
    stop.cancel();
    agent.await.unwrap();
}
