//! Charts in a config repository, from the user's view: git, the operator as a process, kubectl and `wheelwright`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::e2e::Repository;
use crate::kube::{Cluster, Kubectl};
use crate::running::Running;
use crate::wait::eventually;

const CHART: &str = "apiVersion: v2\nname: logging\nversion: 0.1.0\n";
const VALUES: &str = "level: info\nreplicas: 1\n";
const TEMPLATE: &str = "apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: '{{ .Release.Name }}-logging'}
spec:
  addonName: '{{ .Release.Name }}-logging'
  agentSpec:
    workload:
      manifests:
      - apiVersion: v1
        kind: ConfigMap
        metadata: {name: logging, namespace: '{{ .Release.Namespace }}'}
        data: {level: '{{ .Values.level }}', replicas: '{{ .Values.replicas }}'}
";
const SETTINGS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-settings'}
data:
  chart: '{{ .Chart.Name }}-{{ .Chart.Version }}'
";
const KUSTOMIZATION: &str = "namespace: default
helmCharts:
- {name: logging, releaseName: eu, valuesFile: eu.yaml}
- {name: logging, releaseName: us, additionalValuesFiles: [us.yaml], valuesInline: {replicas: 3}}
";

fn repository(dir: &Path) -> Repository {
    let mut repository = Repository::empty(dir);
    for (path, text) in [
        ("kustomization.yaml", KUSTOMIZATION),
        ("eu.yaml", "level: warn\n"),
        ("us.yaml", "level: error\n"),
        ("charts/logging/Chart.yaml", CHART),
        ("charts/logging/values.yaml", VALUES),
        ("charts/logging/templates/template.yaml", TEMPLATE),
        ("charts/logging/templates/settings.yaml", SETTINGS),
    ] {
        repository.write(path, text);
    }
    repository
}

/// Returns the exit code and the plan of the newest commit.
fn plan(kubeconfig: &Path, dir: &Path) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["plan", "--head", "main", "--output", "json", "--repo"]).arg(dir.join("fleet.git"));
    let output = command.arg("--hub").arg(kubeconfig).env("HOME", dir).output().unwrap();
    let printed = serde_json::from_slice(&output.stdout);
    (output.status.code(), printed.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

/// Returns the values of the add-on created by a release of the chart, and the version of its settings.
fn release(kubectl: &Kubectl, name: &str) -> (String, String) {
    let path = "jsonpath={.spec.agentSpec.workload.manifests[0].data}";
    let values = kubectl.run(&["get", "addontemplate", &format!("{name}-logging"), "-o", path]);
    let path = "jsonpath={.metadata.resourceVersion}";
    (values, kubectl.run(&["get", "configmap", &format!("{name}-settings"), "-o", path]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendored_chart_is_planned_applied_changed_by_a_values_file_and_refused_by_file_and_line() {
    let hub = Cluster::start("vendored").await;
    hub.kubectl().install(api::crds::hub().into_iter());
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let kubectl = hub.kubectl();
    let mut repository = repository(dir);
    let first = repository.commit("one");
    let url = repository.path.to_str().unwrap().to_owned();
    let config = hub.kubeconfig.to_str().unwrap();
    let args = ["operator", "--kubeconfig", config, "--local-repositories", "--repo", &url];
    let operator = Running::start("operator", dir, &args);
    let says = async |what: &str| {
        eventually(what, async || kubectl.run(&["get", "configrepos", "-A"]).contains(what)).await;
    };
    says(&format!("4 objects of {}", &first[..12])).await;
    let us = release(&kubectl, "us");
    assert_eq!(us.0, r#"{"level":"error","replicas":"3"}"#);
    let eu = release(&kubectl, "eu");
    assert_eq!(eu.0, r#"{"level":"warn","replicas":"1"}"#);
    operator.terminate(Duration::from_secs(20));

    repository.write("eu.yaml", "level: debug\n");
    let second = repository.commit("two");
    let (code, planned) = plan(&hub.kubeconfig, dir);
    assert_eq!((code, &planned["verdict"]), (Some(10), &json!("change")), "{planned:#}");
    let objects: Vec<_> = planned["objects"].as_array().unwrap().iter().map(|it| &it["object"]).collect();
    assert_eq!(objects, [&json!("AddOnTemplate.addon.open-cluster-management.io eu-logging")], "{planned:#}");
    let mut operator = Running::start("operator", dir, &args);
    says(&format!("4 objects of {}", &second[..12])).await;
    assert_eq!(release(&kubectl, "eu"), (r#"{"level":"debug","replicas":"1"}"#.to_owned(), eu.1));
    assert_eq!(release(&kubectl, "us"), us);

    let settings = "charts/logging/templates/settings.yaml";
    let bomb = "{{ range until 100000 }}{{ range until 100000 }}x{{ end }}{{ end }}";
    for (line, refusal) in [
        ("  a: {{ .Values.owner.name }}\n", format!("{settings}:6: template: ")),
        ("  a: {{ required \"set owner\" .Values.owner }}\n", format!("{settings}:6: execution error")),
        (bomb, "rendering the chart exceeds the limit of 4000000 steps".to_owned()),
    ] {
        repository.write(settings, &format!("{SETTINGS}{line}"));
        repository.commit("broken");
        says(&refusal).await;
        assert!(operator.is_running(), "{refusal}");
        assert_eq!(release(&kubectl, "us"), us);
    }

    repository.write(settings, SETTINGS);
    repository.write("us.yaml", "level: trace\n");
    let last = repository.commit("corrected");
    says(&format!("4 objects of {}", &last[..12])).await;
    assert_eq!(release(&kubectl, "us"), (r#"{"level":"trace","replicas":"3"}"#.to_owned(), us.1));
    assert!(operator.is_running());
}
