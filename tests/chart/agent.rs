//! The agent's chart as rendered by helm.

use std::collections::BTreeSet;

use ::kube::Api;
use api::cluster::v1::ManagedCluster;
use api::condition::{ConditionStatus, Conditions as _};
use api::names::KEPT_WORK_LABEL;
use api::work::v1::ManifestWork;
use k8s_openapi::api::core::v1::ConfigMap;
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{container, find};
use crate::drop_in::send_work;
use crate::klusterlet::embedded_hub;
use crate::kube::{Cluster, Directory, free_port, helm};
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

const NAMESPACE: &str = "open-cluster-management-agent";

fn render(values: &[&str]) -> Vec<Value> {
    helm::render("wheelwright-agent", &[&["clusterName=\"c1\""][..], values].concat()).unwrap()
}

#[test]
fn only_resources_that_agent_values_request_are_rendered() {
    let defaults = render(&[]);
    for (kind, value) in [
        ("NetworkPolicy", "networkPolicy.enabled=true"),
        ("Service", "serviceMonitor.enabled=true"),
        ("ServiceMonitor", "serviceMonitor.enabled=true"),
    ] {
        let count = |objects: &[Value]| objects.iter().filter(|object| object["kind"] == kind).count();
        assert_eq!((count(&defaults), count(&render(&[value]))), (0, 1), "{kind} with {value}");
    }
    let proxy = json!({"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"});
    let volume = json!({"name": "authority", "configMap": {"name": "authority"}});
    let mount = json!({"name": "authority", "mountPath": "/authority", "readOnly": true});
    let (node, tolerated) = (json!({"disk": "ssd"}), json!([{"operator": "Exists"}]));
    let affinity = json!({"podAntiAffinity": {}});
    for (name, value, at, rendered) in [
        ("env", json!([proxy]), "containers/0/env/0", proxy),
        ("extraVolumes", json!([volume]), "volumes/1", volume),
        ("extraVolumeMounts", json!([mount]), "containers/0/volumeMounts/1", mount),
        ("extraArgs", json!(["--a=b c"]), "containers/0/args/5", json!("--a=b c")),
        ("log.format", json!("json"), "containers/0/args/5", json!("--log-format=json")),
        ("log.verbosity", json!(1), "containers/0/args/5", json!("-v")),
        ("priorityClassName", json!("high"), "priorityClassName", json!("high")),
        ("nodeSelector", node.clone(), "nodeSelector", node),
        ("tolerations", tolerated.clone(), "tolerations", tolerated),
        ("affinity", affinity.clone(), "affinity", affinity),
    ] {
        let at = format!("/spec/template/spec/{at}");
        let found = |objects: &[Value]| find(objects, "Deployment").pointer(&at).cloned();
        let with = render(&[&format!("{name}={value}")]);
        assert_eq!((found(&defaults), found(&with)), (None, Some(rendered)), "{name}");
    }
}

#[test]
fn metrics_are_read_and_guarded_at_the_port_where_the_agent_serves_them() {
    let values = ["listen=\"0.0.0.0:9000\"", "networkPolicy.enabled=true", "serviceMonitor.enabled=true"];
    let objects = render(&values);
    let named = &find(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    let service = &find(&objects, "Service")["spec"]["ports"][0];
    assert_eq!((&named["containerPort"], &service["targetPort"]), (&json!(9000), &named["name"]));
    let monitor = &find(&objects, "ServiceMonitor")["spec"]["endpoints"][0];
    assert_eq!(monitor["port"], service["name"]);
    let ports = json!([{"port": 9000, "protocol": "TCP"}]);
    assert_eq!(find(&objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"], ports);
}

#[test]
fn agents_of_two_namespaces_share_no_object() {
    let names = |namespace: &str| -> BTreeSet<String> {
        let objects = helm::render_in(namespace, "wheelwright-agent", &["clusterName=\"c1\""]).unwrap();
        let name = |object: Value| {
            let (kind, metadata) = (&object["kind"], &object["metadata"]);
            format!("{kind} {}/{}", metadata["namespace"], metadata["name"])
        };
        objects.into_iter().map(name).collect()
    };
    let (one, other) = (names("one"), names("other"));
    assert!(one.len() >= 4 && one.is_disjoint(&other), "{one:?} {other:?}");
}

#[test]
fn an_agent_without_rules_has_those_that_it_needs_itself() {
    let objects = render(&["rules=[]"]);
    let rules = find(&objects, "ClusterRole")["rules"].as_array().unwrap();
    assert!(rules.iter().all(|rule| rule["apiGroups"] != json!(["*"])), "{rules:?}");
    assert!(rules.iter().any(|rule| rule["resources"] == json!(["clusterclaims"])), "{rules:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_runs_as_the_chart_says_on_a_read_only_root() {
    let (dir, stop) = (Directory::new("chart-agent"), CancellationToken::new());
    let spoke = Cluster::start("chart-agent-spoke").await;
    let hub = embedded_hub(&dir, &stop).await;
    let on_hub = client(&hub.kubeconfig("admin", &["system:masters"]).unwrap()).await;
    let kubectl = spoke.kubectl();
    kubectl.run(&["create", "namespace", NAMESPACE]);
    let bootstrap = hub.kubeconfig("bootstrap", &["system:bootstrappers:managedcluster"]).unwrap();
    let bootstrap = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": NAMESPACE},
        "stringData": {"kubeconfig": serde_saphyr::to_string(&bootstrap).unwrap()}});
    let port = free_port();
    // The example from values.yaml.
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "create", "patch", "delete"]}]);
    let (listen, rules) = (format!("listen=\"127.0.0.1:{port}\""), format!("rules={rules}"));
    let values = ["clusterName=\"c1\"", &listen, &rules, "networkPolicy.enabled=true"];
    let objects = helm::render_in(NAMESPACE, "wheelwright-agent", &values).unwrap();
    let documents: Vec<String> = objects.iter().chain([&bootstrap]).map(ToString::to_string).collect();
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &documents.join("\n"));

    let mut agent = container::start("agent", &spoke, find(&objects, "Deployment"), &dir);
    accept(&on_hub, "c1").await;
    let clusters: Api<ManagedCluster> = Api::all(on_hub.clone());
    for type_ in ["ManagedClusterJoined", "ManagedClusterConditionAvailable"] {
        eventually(type_, async || {
            agent.assert_running();
            let cluster = clusters.get("c1").await.unwrap();
            cluster.condition(type_).is_some_and(|one| one.status == ConditionStatus::True)
        })
        .await;
    }
    send_work(&on_hub, "one").await;
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client().await, "default");
    eventually("the work is applied", async || maps.get_opt("one").await.unwrap().is_some()).await;
    container::assert_probes(&objects, port).await;
    eventually("the work is kept", async || {
        let command = ["get", "secrets", "-n", NAMESPACE, "-l", KEPT_WORK_LABEL, "-o", "name"];
        !kubectl.run(&command).is_empty()
    })
    .await;
    container::assert_permitted(&agent);

    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "two", "namespace": "c1"}, "spec": {"workload": {"manifests": [other]}}});
    apply(&on_hub, &Object::from_value(work).unwrap()).await;
    let works: Api<ManifestWork> = Api::namespaced(on_hub, "c1");
    eventually("the rules refuse another kind", async || {
        let status = works.get("two").await.unwrap().status.unwrap_or_default();
        let manifests = status.resource_status.manifests.iter();
        manifests.flat_map(|one| &one.conditions).any(|one| one.message.contains("forbidden"))
    })
    .await;
    stop.cancel();
}
