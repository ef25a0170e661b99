//! The pull model: a cluster's Argo CD runs Applications from the hub.

use api::crds;
use serde_json::{Value, json};

use super::program::{self, ArgoCd};
use super::{Hub, NAMESPACE, binding, url};
use crate::argocd::recipes::shown;
use crate::klusterlet::exists;
use crate::kube::Cluster;
use crate::wait::eventually;

/// Returns an ApplicationSet that generates the page's Application for each cluster of the Placement.
fn application_set(repository: &str) -> Value {
    let mut application = shown("Application", "/metadata/labels");
    let (metadata, spec) = (&mut application["metadata"], "/spec/syncPolicy");
    metadata["name"] = json!("shop-{{ .clusterName }}");
    metadata["annotations"]["apps.open-cluster-management.io/ocm-managed-cluster"] =
        json!("{{ .clusterName }}");
    metadata.as_object_mut().unwrap().remove("namespace");
    application["spec"]["source"]["repoURL"] = repository.into();
    *application.pointer_mut(spec).unwrap() =
        json!({"automated": {}, "syncOptions": ["CreateNamespace=true"]});
    let template = json!({"metadata": application["metadata"], "spec": application["spec"]});
    let generator = json!({"configMapRef": "wheelwright-cluster-decision-generator", "name": "shop", "requeueAfterSeconds": 2});
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "shop", "namespace": NAMESPACE},
        "spec": {"goTemplate": true, "generators": [{"clusterDecisionResource": generator}], "template": template}})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn the_argo_cd_of_a_cluster_runs_the_applications_of_the_hub() {
    let hub = Hub::start("argo-pull").await;
    let spoke = Cluster::start("argo-pull-spoke").await;
    let on_spoke = spoke.kubectl();
    on_spoke.install(crds::spoke().into_iter());
    program::install(&on_spoke);
    let _argo_cd = ArgoCd::start(&spoke, &hub.dir.path("argo-cd-of-the-cluster"));
    hub.join_with("c1", spoke.client().await, Vec::new()).await;
    let labels = json!({"metadata": {"labels": {"environment": "prod"}}});
    hub.patch("ManagedCluster", "", "c1", labels).await;
    let mut repository = hub.repository("shop");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"k": "1"}});
    repository.write("overlays/prod/settings.yaml", &map.to_string());
    let commit = repository.commit("one");
    hub.apply(binding(NAMESPACE)).await;
    let mut placement = shown("Placement", "/spec");
    let annotations = &mut placement["metadata"]["annotations"];
    // Secrets without credentials: nothing connects from the hub to the cluster.
    annotations["gitops.wheelwright.dev/cluster-secrets"] = json!("");
    // Without this, Argo CD retries a set that found no list only after three minutes.
    annotations["gitops.wheelwright.dev/refresh-application-sets"] = json!("shop");
    hub.apply(placement).await;
    hub.apply(application_set(&url(&repository.path))).await;
    eventually("the state of the cluster comes back", async || {
        let status = hub.app("shop-c1").await["status"].clone();
        status["sync"]["status"] == "Synced"
            && status["sync"]["revision"] == commit
            && status["health"]["status"] == "Healthy"
    })
    .await;
    let settings = ["configmap", "settings", "-n", "shop"];
    assert!(exists(&on_spoke, &settings));

    let sync =
        json!({"operation": {"sync": {"revision": commit}, "info": [{"name": "by", "value": "a person"}]}});
    hub.patch("Application", NAMESPACE, "shop-c1", sync).await;
    eventually("a sync of the hub runs on the cluster", async || {
        let last =
            ["get", "application", "shop-c1", "-n", NAMESPACE, "-o", "jsonpath={.status.operationState}"];
        let last = on_spoke.run(&last);
        last.contains("a person")
            && last.contains(r#""phase":"Succeeded""#)
            && hub.app("shop-c1").await["operation"].is_null()
    })
    .await;

    hub.delete("ApplicationSet", NAMESPACE, "shop").await;
    eventually("the application is gone", async || hub.app("shop-c1").await.is_null()).await;
    assert!(!exists(&on_spoke, &settings), "after its objects");
    assert!(hub.list("ManifestWork").await.is_empty());
}
