//! The traces that an operator sends to an OpenTelemetry collector.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::Condition;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::crds;
use api::work::v1::ManifestWork;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use object::Object;
use serde_json::json;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use crate::fleet_commit::commit;
use crate::running::Running;
use crate::wait::eventually;

/// A received span.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    trace: String,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
    attributes: BTreeSet<(String, String)>,
}

/// Parses the fields of a message in the Protocol Buffers wire format, without the sender's definitions.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                varint(&mut bytes);
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).unwrap(),
            other => panic!("wire type {other}"),
        };
        let (value, rest) = bytes.split_at(length);
        fields.push((tag >> 3, value));
        bytes = rest;
    }
    fields
}

/// Returns all values of a field.
fn all(bytes: &[u8], field: u64) -> Vec<&[u8]> {
    fields(bytes).into_iter().filter(|(number, _)| *number == field).map(|(_, value)| value).collect()
}

/// Returns the value of a field; empty if it is absent.
fn one(bytes: &[u8], field: u64) -> &[u8] {
    all(bytes, field).first().copied().unwrap_or_default()
}

fn text(bytes: &[u8], field: u64) -> String {
    String::from_utf8(one(bytes, field).to_vec()).unwrap()
}

/// Reads the keys and string values of the attributes in a field.
fn attributes(bytes: &[u8], field: u64) -> BTreeSet<(String, String)> {
    all(bytes, field).into_iter().map(|one_of| (text(one_of, 1), text(one(one_of, 2), 1))).collect()
}

/// Reads an `ExportTraceServiceRequest`.
fn spans(body: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource_spans in all(body, 1) {
        let service = ("service.name".to_owned(), "wheelwright-operator".to_owned());
        assert!(attributes(one(resource_spans, 1), 1).contains(&service));
        for span in all(resource_spans, 2).into_iter().flat_map(|scope| all(scope, 2)) {
            let time = |field| u64::from_le_bytes(one(span, field).try_into().unwrap());
            assert!(time(7) > 0 && time(7) <= time(8));
            spans.push(Span {
                trace: one(span, 1).iter().map(|byte| format!("{byte:02x}")).collect(),
                id: one(span, 2).to_vec(),
                parent: one(span, 4).to_vec(),
                name: text(span, 5),
                attributes: attributes(span, 9),
            });
        }
    }
    spans
}

/// A collector that stores received spans.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

impl Collector {
    /// Returns a collector and its address.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let take = async |State(collector): State<Self>, headers: HeaderMap, body: Bytes| {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            assert_eq!(headers["x-scope"], "fleet 1");
            collector.0.lock().unwrap().extend(spans(&body));
        };
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, url)
    }

    /// Returns the spans in the trace of a commit.
    fn of(&self, commit: &str) -> Vec<Span> {
        let spans = self.0.lock().unwrap();
        spans.iter().filter(|span| commit.starts_with(&span.trace)).cloned().collect()
    }

    /// Returns the clusters whose works appear in a commit's trace.
    fn clusters(&self, commit: &str) -> BTreeSet<String> {
        let works = self.of(commit).into_iter().filter(|span| span.name.ends_with(" ManifestWork"));
        let objects = works.flat_map(|work| work.attributes);
        let objects = objects.filter(|(key, _)| key == "wheelwright.object");
        objects.map(|(_, object)| object.split('/').next().unwrap().to_owned()).collect()
    }
}

/// Reports, as the agent of a cluster does, that all objects of its works exist.
async fn report(hub: &Client, cluster: &str) {
    let works: Api<ManifestWork> = Api::namespaced(hub.clone(), cluster);
    for work in works.list(&ListParams::default()).await.unwrap() {
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": "Test", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": work.metadata.generation,
            })
        };
        let status = json!({"status": {"conditions": [condition("Applied"), condition("Available")]}});
        let name = work.metadata.name.as_deref().unwrap();
        works.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
}

/// Returns true if the spans include a write of an add-on's health on a cluster.
fn has_health(spans: &[Span], addon: &str) -> bool {
    let deploys: Vec<_> = spans.iter().filter(|span| span.name == "reconcile addon-deploy").collect();
    let object = ("wheelwright.object".to_owned(), addon.to_owned());
    let patches = spans.iter().filter(|span| span.name == "patch ManagedClusterAddOn");
    let mut ours = patches.filter(|span| span.attributes.contains(&object));
    ours.any(|span| deploys.iter().any(|deploy| deploy.id == span.parent))
}

fn tip(repository: &Path) -> String {
    let git = git2::Repository::open_bare(repository).unwrap();
    git.refname_to_id("refs/heads/main").unwrap().to_string()
}

/// Checks that one fetch is the root of the trace and that every other span has its parent in it.
fn is_one_tree(spans: &[Span], commit: &str) -> bool {
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.id).collect();
    let (roots, others): (Vec<_>, Vec<_>) = spans.iter().partition(|span| span.parent.is_empty());
    let attribute = ("vcs.ref.head.revision".to_owned(), commit.to_owned());
    ids.len() == spans.len()
        && roots.iter().map(|root| root.name.as_str()).eq(["fetch"])
        && others.iter().all(|span| ids.contains(&span.parent))
        && spans.iter().all(|span| span.attributes.contains(&attribute))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_one_trace_from_its_fetch_to_the_health_of_its_last_cluster_and_across_a_restart() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let objects = crds::hub().iter().map(Object::from_typed).collect();
    let server = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.admin_kubeconfig_yaml().unwrap()).unwrap();
    let repository = dir.path().join("fleet.git");
    commit(&repository, "one");
    let first = tip(&repository);
    let clusters: Api<ManagedCluster> = Api::all(server.client());
    let add_cluster = async |name: &str| {
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
        });
        clusters.create(&Default::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    };
    add_cluster("c1").await;
    add_cluster("c2").await;
    let (collector, url) = Collector::start().await;
    let operator = || {
        let environment = [
            format!("OTEL_EXPORTER_OTLP_ENDPOINT={url}"),
            "OTEL_EXPORTER_OTLP_HEADERS=x-scope=fleet%201".into(),
        ];
        let program = [env!("CARGO_BIN_EXE_wheelwright"), "operator", "--local-repositories"];
        let flags = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--repo", repository.to_str().unwrap()];
        let arguments = environment.iter().map(String::as_str).chain(program).chain(flags);
        let arguments: Vec<_> = arguments.chain(["--report-branch", "reports"]).collect();
        Running::start_program("env", "operator", dir.path(), &arguments)
    };
    let reaches = |commit: &str, clusters: &[&str]| {
        collector.clusters(commit) == clusters.iter().map(|name| (*name).to_owned()).collect()
            && is_one_tree(&collector.of(commit), commit)
    };
    let running = operator();
    eventually("the trace has the works of both clusters", async || reaches(&first, &["c1", "c2"])).await;
    eventually("the trace has the report", async || {
        let names: BTreeSet<_> = collector.of(&first).into_iter().map(|span| span.name).collect();
        let stages = ["fetch", "render", "apply Placement", "reconcile placement", "reconcile addon-config"];
        stages.iter().all(|stage| names.contains(*stage)) && names.contains("push report")
    })
    .await;
    assert!(running.terminate(Duration::from_secs(60)), "the operator ends");

    let _running = operator();
    add_cluster("c3").await;
    eventually("the new process goes on with the trace", async || reaches(&first, &["c1", "c2", "c3"])).await;
    commit(&repository, "two");
    let second = tip(&repository);
    let fleet = ["c1", "c2", "c3"];
    eventually("the next commit has a trace of its own", async || reaches(&second, &fleet)).await;
    for cluster in fleet {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(server.client(), cluster);
        let before = collector.of(&second);
        report(&server.client(), cluster).await;
        eventually("the trace has the health of the cluster", async || {
            let addon = addons.get("bench").await.unwrap();
            let spans = collector.of(&second).into_iter().filter(|span| !before.contains(span));
            let spans: Vec<_> = spans.collect();
            addon.condition("Available").is_some_and(Condition::is_true)
                && has_health(&spans, &format!("{cluster}/bench"))
        })
        .await;
    }
    let traces: BTreeSet<_> = collector.0.lock().unwrap().iter().map(|span| span.trace.clone()).collect();
    assert_eq!(traces, [&first[..32], &second[..32]].map(str::to_owned).into());
}
