//! The behavior of a Kubernetes API server, as cases that run on the embedded hub and on a real kube-apiserver.
//!
//! A case is a function of an [`Api`]: it sends requests and asserts the responses. Each has its own namespace. No
//! case is skipped: both runs report every case, and both hubs must pass it.

mod api;
mod apply;
mod deletion;
mod discovery;
mod exchange;
mod fuzz;
mod kubectl;
mod lists;
mod patches;
mod recorded;
mod schemas;
mod subresources;
mod verbs;
mod watches;

use std::future::Future;
use std::pin::Pin;

use ::api::crds;
use serde_json::{Value, json};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use crate::golden;
use crate::kube::Cluster;
use api::Api;
use recorded::Hold;

type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One case.
pub(crate) struct Case {
    name: &'static str,
    run: fn(Api) -> Run,
}

/// Lists functions as cases under their own names.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[$crate::conformance::Case] = &[
            $($crate::conformance::Case { name: stringify!($name), run: |api| Box::pin($name(api)) }),*
        ];
    };
}
use cases;

const AREAS: &[(&str, &[Case])] = &[
    ("verbs", verbs::CASES),
    ("patches", patches::CASES),
    ("apply", apply::CASES),
    ("lists", lists::CASES),
    ("watches", watches::CASES),
    ("schemas", schemas::CASES),
    ("subresources", subresources::CASES),
    ("deletion", deletion::CASES),
    ("discovery", discovery::CASES),
];

#[tokio::test(flavor = "multi_thread")]
async fn embedded_hub_conforms() {
    let server = Server::start(ServerOptions::new(now)).await.unwrap();
    run("embedded hub", server.client(), Hold::RecordedButForDifferences).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_conforms() {
    let cluster = Cluster::start("conformance").await;
    let hold = if golden::is_blessing() { Hold::Bless } else { Hold::Recorded };
    run("kube-apiserver", cluster.client().await, hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_hubs_answer_random_requests_alike() {
    let cluster = Cluster::start("fuzz").await;
    let server = Server::start(ServerOptions::new(now)).await.unwrap();
    let (embedded, real) = (server.client(), cluster.client().await);
    install(&embedded).await;
    install(&real).await;
    let (mut played, mut different) = (0, Vec::new());
    let open = fuzz::open_seeds();
    for seed in fuzz::seeds() {
        let outcome = fuzz::play(seed, &embedded, &real).await;
        match (outcome, open.contains(&seed)) {
            (Some(_), true) | (None, false) => {}
            (Some(difference), false) => different.push(difference),
            (None, true) => different.push(format!("seed {seed} differs no longer; move it to seeds.txt")),
        }
        played += 1;
    }
    println!("{played} sequences played");
    assert!(different.is_empty(), "{} of {played} differ:\n{}", different.len(), different.join("\n"));
}

#[test]
fn there_are_enough_cases_and_no_two_share_a_name() {
    let mut names: Vec<_> = AREAS.iter().flat_map(|(_, cases)| cases.iter().map(|case| case.name)).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    let recorded: usize = recorded::AREAS.iter().map(|area| recorded::cases(area).len()).sum();
    assert!(count + recorded >= 700 && names.len() == count, "{count} cases, {} names", names.len());
}

/// Runs every case in order and fails with the list of failed ones.
async fn run(hub: &'static str, client: ::kube::Client, hold: Hold) {
    install(&client).await;
    let (mut passed, mut failed) = (0, Vec::new());
    for (area, case) in AREAS.iter().flat_map(|(area, cases)| cases.iter().map(move |case| (area, case))) {
        let api = Api::new(
            client.clone(),
            format!(
                "case-{}",
                case.name.replace('_', "-").chars().take(50).collect::<String>().trim_end_matches('-')
            ),
        )
        .await;
        match tokio::spawn((case.run)(api)).await {
            Ok(()) => passed += 1,
            Err(_) => failed.push(format!("{area}: {}", case.name)),
        }
    }
    for area in recorded::AREAS {
        let differing = recorded::run(&client, area, hold).await;
        passed += recorded::cases(area).len().saturating_sub(differing.len());
        failed.extend(differing);
    }
    println!("{hub}: {passed} cases passed");
    assert!(
        failed.is_empty(),
        "{hub}: {} of {} cases failed:\n  {}",
        failed.len(),
        passed + failed.len(),
        failed.join("\n  ")
    );
}

/// Installs the CRD of the cases, in group `conformance.wheelwright.dev`, the CRDs of OCM's two installation kinds
/// for hubs and agents, and of the two kinds whose status a cluster writes.
async fn install(client: &::kube::Client) {
    let api = Api::new(client.clone(), "case-install".into()).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let by_clusters = crds::hub()
        .into_iter()
        .filter(|one| ["ManagedCluster", "ManagedClusterAddOn"].contains(&one.spec.names.kind.as_str()));
    let of_ocm = crds::operator().into_iter().chain(by_clusters);
    let of_ocm = of_ocm.map(|one| serde_json::to_value(one).unwrap());
    for body in std::iter::once(definition("widgets", "Widget", &schema())).chain(of_ocm) {
        api.post(definitions, &body).await.is(201);
        let name = body["metadata"]["name"].as_str().unwrap();
        let (plural, group) = name.split_once('.').unwrap();
        api.until(&format!("{definitions}/{name}"), |reply| {
            let conditions = reply.body.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
        })
        .await;
        let versions = body["spec"]["versions"].as_array().unwrap();
        let version = versions.iter().find(|version| version["storage"] == true).unwrap()["name"].as_str();
        let list = format!("/apis/{group}/{}/{plural}", version.unwrap());
        api.until(&list, |reply| reply.code == 200).await;
    }
}

/// Returns a CRD with a status subresource, a scale subresource, two columns and a selectable field.
fn definition(plural: &str, kind: &str, schema: &Value) -> Value {
    let selectable =
        schema.pointer("/properties/spec/properties/mode").map(|_| json!([{ "jsonPath": ".spec.mode" }]));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.conformance.wheelwright.dev") },
        "spec": {
            "group": "conformance.wheelwright.dev",
            "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": [format!("{}x", &plural[..2])] },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": {
                    "status": {},
                    "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" },
                },
                "additionalPrinterColumns": [
                    { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
                    { "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
                ],
                "selectableFields": selectable,
            }],
        },
    })
}

fn schema() -> Value {
    let port = json!({
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": { "type": "integer" },
            "protocol": { "type": "string", "default": "TCP" },
            "name": { "type": "string" },
        },
    });
    let condition = json!({
        "type": "object",
        "required": ["type"],
        "properties": { "type": { "type": "string" }, "status": { "type": "string" }, "reason": { "type": "string" } },
    });
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": { "type": "integer", "minimum": 1, "maximum": 10, "default": 3 },
                    "mode": { "type": "string", "enum": ["Fast", "Slow"] },
                    "text": { "type": "string", "pattern": "^[a-z]*$", "maxLength": 5 },
                    "replicas": { "type": "integer" },
                    "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
                    "ports": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port },
                    "steps": { "type": "array", "items": { "type": "string" } },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    "amount": { "x-kubernetes-int-or-string": true },
                    "settings": { "type": "object", "additionalProperties": { "type": "string" } },
                    "nested": { "type": "object", "properties": { "inner": { "type": "string", "default": "x" } } },
                    "fixed": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "fixed may not change" }] },
                    "low": { "type": "integer" },
                    "high": { "type": "integer" },
                    "when": { "type": "string", "format": "date-time" },
                    "count": { "type": "integer", "format": "int32" },
                },
                "x-kubernetes-validations": [{ "rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not be above high" }],
            },
            "status": {
                "type": "object",
                "properties": {
                    "phase": { "type": "string" },
                    "replicas": { "type": "integer" },
                    "selector": { "type": "string" },
                    "conditions": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": condition },
                },
            },
        },
    })
}
