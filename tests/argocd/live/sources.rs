//! ConfigRepos in Observe mode evaluate what Argo CD renders with kustomize, with Helm and with both.

use serde_json::json;

use super::{FLEET, Hub, NAMESPACE};
use crate::e2e::Repository;
use crate::kube::helm;

const BASE: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: example.com/web, envFrom: [{configMapRef: {name: settings}}]}
"#;
const OVERLAY: &str = r#"
namePrefix: prod-
resources: [../base]
images: [{name: example.com/web, newTag: "2"}]
configMapGenerator: [{name: settings, literals: [level=info]}]
labels: [{pairs: {environment: prod}, includeSelectors: true}]
"#;
const RELEASE: &str = r#"
helmCharts: [{name: shop, releaseName: web, namespace: fleet, valuesInline: {image: example.com/web}}]
"#;
const TEMPLATE: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
  labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Chart.Name }}}}
  template:
    metadata: {labels: {app: {{ .Chart.Name }}}}
    spec:
      containers:
      - {name: web, image: {{ printf "%s:%s" .Values.image .Chart.AppVersion | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-settings}
data: {cpu: {{ .Values.cpu | quote }}}
"#;

fn write(repository: &mut Repository, cpu: &str) -> String {
    repository.write("base/kustomization.yaml", "resources: [web.yaml]");
    repository.write("base/web.yaml", BASE);
    repository.write("prod/kustomization.yaml", &OVERLAY.replace("info", cpu));
    repository.write("release/kustomization.yaml", RELEASE);
    for chart in ["shop", "release/charts/shop"] {
        let about = "{apiVersion: v2, name: shop, version: 1.0.0, appVersion: \"3\"}";
        repository.write(&format!("{chart}/Chart.yaml"), about);
        let values = format!("{{replicas: 0, image: example.com/shop, cpu: {cpu}}}");
        repository.write(&format!("{chart}/values.yaml"), &values);
        repository.write(&format!("{chart}/templates/all.yaml"), TEMPLATE);
    }
    repository.commit(cpu)
}

/// Waits until Argo CD has applied a commit from each path and the ConfigRepos report it.
async fn judged(hub: &Hub, commit: &str) {
    for (path, kind) in [("prod", "Kustomize"), ("shop", "Helm"), ("release", "Kustomize")] {
        let app = hub.synced(path, commit).await;
        assert_eq!(app["status"]["sourceType"], kind);
        hub.becomes(path, &format!("the hub matches {} (2 objects)", &commit[..12])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn a_config_repo_judges_what_argo_cd_renders_with_kustomize_and_helm() {
    let hub = Hub::start("argo-sources").await;
    let mut repository = hub.repository("sources");
    let first = write(&mut repository, "1000m");
    for path in ["prod", "shop", "release"] {
        hub.follow(path, &repository, "Observe").await;
        let spec = json!({"spec": {"path": path, "defaultNamespace": FLEET}});
        hub.patch("ConfigRepo", helm::NAMESPACE, path, spec).await;
        hub.becomes(path, "False NotApplied 2 of 2 objects do not match").await;
        let source = json!({"path": path, "directory": null});
        let more = json!({"source": source, "destination": {"namespace": FLEET}});
        hub.application(path, &repository, more).await;
    }
    judged(&hub, &first).await;
    let second = write(&mut repository, "2000m");
    for path in ["prod", "shop", "release"] {
        hub.refresh(path).await;
    }
    judged(&hub, &second).await;

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "example.com/other"}]}}}});
    hub.patch("Deployment", FLEET, "shop", image).await;
    hub.becomes(
        "shop",
        &format!("such as Deployment.apps {FLEET}/shop: it differs at spec.template.spec.containers"),
    )
    .await;
    hub.patch("Application", NAMESPACE, "shop", json!({"operation": {"sync": {"revision": second}}})).await;
    hub.becomes("shop", "the hub matches").await;
}
