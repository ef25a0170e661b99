//! A bare client that speaks the protocol of OCM's agents, against our hub side on a real API server. It sends the
//! requests of a registration agent and a work agent, and shares only keys and signing requests with our code.

use api::crds;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use kube::Client;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::pki::{KeyPair, Subject, request};
use wheelwright::shell::now;

use crate::kube::Cluster;
use crate::wait::eventually;

const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const WORKS: &str = "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/c1/leases/managed-cluster-lease";

/// Sends a request; returns the response, or its status code on failure.
async fn send(client: &Client, method: Method, path: &str, body: Value) -> Result<Value, u16> {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("Content-Type", kind).body(text);
    match client.request::<Value>(request.unwrap()).await {
        Ok(answer) => Ok(answer),
        Err(::kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{path}: {error}"),
    }
}

async fn get(client: &Client, path: &str) -> Result<Value, u16> {
    send(client, Method::GET, path, Value::Null).await
}

async fn connect(kubeconfig: Kubeconfig) -> Client {
    let config = ::kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Requests a certificate for the agent and waits for it; returns a client that uses it. `approve` approves the
/// request as a person would.
async fn certified(asking: &Client, hub: &Kubeconfig, approve: impl AsyncFnOnce()) -> Client {
    let key = KeyPair::generate().unwrap();
    let groups = ["system:open-cluster-management:c1", "system:open-cluster-management:managed-clusters"];
    let subject = Subject::new("system:open-cluster-management:c1:bare", &groups);
    let body = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "c1-", "labels": {"open-cluster-management.io/cluster-name": "c1"}},
        "spec": {
            "request": STANDARD.encode(request(&key, &subject, &[]).unwrap()),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    });
    let created = send(asking, Method::POST, REQUESTS, body).await.unwrap();
    let path = format!("{REQUESTS}/{}", created["metadata"]["name"].as_str().unwrap());
    approve().await;
    let mut certificate = Value::Null;
    eventually("the certificate is issued", async || {
        certificate = get(asking, &path).await.unwrap()["status"]["certificate"].clone();
        certificate.is_string()
    })
    .await;
    let mut kubeconfig = hub.clone();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(AuthInfo {
            client_certificate_data: certificate.as_str().map(str::to_owned),
            client_key_data: Some(STANDARD.encode(key.to_pem()).into()),
            ..AuthInfo::default()
        });
    }
    connect(kubeconfig).await
}

/// Returns a condition of the cluster as `Status Reason: message`.
async fn condition(admin: &Client, type_: &str) -> String {
    let cluster = get(admin, &format!("{CLUSTERS}/c1")).await.unwrap_or_default();
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |condition: &Value, name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let found = found.map(|c| format!("{} {}: {}", text(c, "status"), text(c, "reason"), text(c, "message")));
    found.unwrap_or_default()
}

async fn says(admin: &Client, type_: &str, expected: &str) {
    eventually(&format!("{type_} {expected}"), async || condition(admin, type_).await == expected).await;
}

/// Reports as a registration agent does, keeping foreign conditions.
async fn report(agent: &Client, type_: &str, reason: &str, message: &str) {
    let path = format!("{CLUSTERS}/c1/status");
    eventually("the status is written", async || {
        let mut cluster = get(agent, &format!("{CLUSTERS}/c1")).await.unwrap();
        let mut conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != type_);
        conditions.push(json!({
            "type": type_, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now().strftime("%FT%TZ").to_string(),
        }));
        cluster["status"]["conditions"] = conditions.into();
        match send(agent, Method::PUT, &path, cluster).await {
            Ok(_) => true,
            Err(code) => {
                assert_eq!(code, 409, "only a conflict with the hub is repeated");
                false
            }
        }
    })
    .await;
}

/// Runs a command that must succeed on a hub; returns its output.
pub(crate) async fn wheelwright(hub: &Cluster, line: &str) -> String {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(line.split(' ')).arg("--kubeconfig").arg(&hub.kubeconfig);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_only_speaks_the_contract_of_ocm_joins_rotates_is_denied_and_leaves() {
    let hub = Cluster::start("mix").await;
    let definitions = crds::hub();
    let definitions: Vec<_> =
        definitions.iter().map(|crd| serde_json::to_string(&Object::from_typed(crd)).unwrap()).collect();
    hub.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &definitions.join("\n---\n"));
    let (admin, stop, dir) = (hub.client().await, CancellationToken::new(), tempfile::tempdir().unwrap());
    let options = OperatorOptions::new(admin.clone(), dir.path());
    let operator = tokio::spawn(operator::run(options, stop.clone()));
    let bootstrap = Kubeconfig::from_yaml(&wheelwright(&hub, "get token --output kubeconfig").await).unwrap();

    let joining = connect(bootstrap.clone()).await;
    assert_eq!(get(&joining, &format!("{CLUSTERS}/c1")).await, Err(404));
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "c1"}, "spec": {"leaseDurationSeconds": 60},
    });
    send(&joining, Method::POST, CLUSTERS, cluster).await.unwrap();
    let accept = async || drop(wheelwright(&hub, "accept --clusters c1").await);
    let agent = certified(&joining, &bootstrap, accept).await;
    says(&admin, "HubAcceptedManagedCluster", "True HubClusterAdminAccepted: Accepted by hub cluster admin")
        .await;
    eventually("the agent has its permissions", async || get(&agent, WORKS).await.is_ok()).await;
    report(&agent, "ManagedClusterJoined", "ManagedClusterJoined", "Managed cluster joined").await;
    report(
        &agent,
        "ManagedClusterConditionAvailable",
        "ManagedClusterAvailable",
        "Managed cluster is available",
    )
    .await;
    assert_eq!(get(&agent, "/api/v1/namespaces/kube-system/secrets").await, Err(403), "and no others");

    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}});
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [map]}},
    });
    send(&admin, Method::POST, WORKS, work).await.unwrap();
    let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
    let path = format!("{WORKS}/w");
    let with_finalizer = finalizers(json!(["cluster.open-cluster-management.io/manifest-work-cleanup"]));
    send(&agent, Method::PATCH, &path, with_finalizer).await.unwrap();
    let applied = json!({"status": {"conditions": [{
        "type": "Applied", "status": "True", "reason": "AppliedManifestWorkComplete",
        "message": "Apply manifest work complete",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    }]}});
    send(&agent, Method::PATCH, &format!("{path}/status"), applied).await.unwrap();
    assert!(wheelwright(&hub, "get works w").await.contains("Applied: True"));

    let nobody = async || {};
    let rotated = certified(&agent, &bootstrap, nobody).await;
    assert_eq!(get(&rotated, WORKS).await.unwrap()["items"][0]["metadata"]["name"], "w");

    send(&admin, Method::DELETE, &path, Value::Null).await.unwrap();
    send(&rotated, Method::PATCH, &path, finalizers(Value::Null)).await.unwrap();
    let accepted = |is: bool| json!({"spec": {"hubAcceptsClient": is}});
    send(&admin, Method::PATCH, &format!("{CLUSTERS}/c1"), accepted(false)).await.unwrap();
    says(&admin, "HubAcceptedManagedCluster", "False HubClusterAdminDenied: Denied by hub cluster admin")
        .await;
    eventually("the denied agent has no permissions", async || {
        get(&rotated, WORKS).await == Err(403) && get(&rotated, LEASE).await == Err(403)
    })
    .await;
    let own = get(&rotated, &format!("{CLUSTERS}/c1")).await.unwrap();
    assert_eq!(own["spec"]["hubAcceptsClient"], false, "it reads that it was denied");

    let short = json!({"spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 1}});
    send(&admin, Method::PATCH, &format!("{CLUSTERS}/c1"), short).await.unwrap();
    says(&admin, "HubAcceptedManagedCluster", "True HubClusterAdminAccepted: Accepted by hub cluster admin")
        .await;
    eventually("it has them again", async || get(&rotated, LEASE).await.is_ok()).await;
    let mut lease = get(&rotated, LEASE).await.unwrap();
    lease["spec"]["renewTime"] = now().strftime("%FT%T%.6fZ").to_string().into();
    send(&rotated, Method::PUT, LEASE, lease).await.unwrap();
    let silent = "Unknown ManagedClusterLeaseUpdateStopped: Registration agent stopped updating its lease.";
    says(&admin, "ManagedClusterConditionAvailable", silent).await;

    send(&admin, Method::DELETE, &format!("{CLUSTERS}/c1"), Value::Null).await.unwrap();
    eventually("the cluster is gone", async || get(&admin, &format!("{CLUSTERS}/c1")).await == Err(404))
        .await;
    eventually("and its permissions", async || get(&rotated, WORKS).await == Err(403)).await;
    stop.cancel();
    operator.await.unwrap();
}
