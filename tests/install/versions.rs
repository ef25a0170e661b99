//! Clusters with a Kubernetes version on which nothing can be installed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::net::TcpListener;

use super::wheelwright;
use crate::kube::{Cluster, Directory};

/// An API server that claims to have another version. It runs until the end of the test.
struct OtherVersion {
    kubeconfig: PathBuf,
    /// The requests so far, with method and path.
    requests: Arc<Mutex<Vec<String>>>,
}

impl OtherVersion {
    async fn start(cluster: &Cluster, dir: &Directory, minor: &'static str) -> Self {
        let (client, requests) = (cluster.client().await, Arc::<Mutex<Vec<String>>>::default());
        let seen = Arc::clone(&requests);
        let router = Router::new().fallback(move |request: Request| {
            seen.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
            answer(client.clone(), minor, request)
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let kubeconfig = dir.path(&format!("kubeconfig-{minor}"));
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "h", "cluster": { "server": server } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
            "contexts": [{ "name": "c", "context": { "cluster": "h", "user": "u" } }],
        });
        std::fs::write(&kubeconfig, content.to_string()).unwrap();
        Self { kubeconfig, requests }
    }
}

/// Answers a request as the API server, except for the version.
async fn answer(client: ::kube::Client, minor: &str, request: Request) -> Response {
    if request.uri().path() == "/version" {
        let version = json!({
            "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.9"), "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        });
        return ([(CONTENT_TYPE, "application/json")], version.to_string()).into_response();
    }
    let (mut parts, body) = request.into_parts();
    for name in [HOST, AUTHORIZATION] {
        parts.headers.remove(name);
    }
    let body = ::kube::client::Body::from(body.collect().await.unwrap().to_bytes());
    client.send(axum::http::Request::from_parts(parts, body)).await.unwrap().map(Body::new)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_too_old_is_refused_before_the_first_write() {
    let (cluster, dir) = (Cluster::start("install-versions").await, Directory::new("install-versions"));
    let OtherVersion { kubeconfig, requests } = OtherVersion::start(&cluster, &dir, "29").await;
    let kubeconfig = kubeconfig.to_str().unwrap();
    let objects =
        || cluster.kubectl().run(&["get", "crd,namespaces,clusterroles,deployments", "-A", "-o", "name"]);
    let before = objects();
    for command in [
        &["install", "--image", "wheelwright:1"][..],
        &["install", "--dry-run"],
        &["upgrade", "--image", "wheelwright:1"],
        &["join", "--cluster-name", "c1", "--hub-kubeconfig", kubeconfig],
    ] {
        let output = wheelwright(&[command, &["--kubeconfig", kubeconfig]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {error}");
        assert!(
            error.contains("the cluster runs Kubernetes v1.29.9, and Wheelwright needs 1.30 or later"),
            "{command:?}: {error}"
        );
        assert!(error.contains("hint: upgrade the cluster"), "{error}");
    }
    let seen = std::mem::take(&mut *requests.lock().unwrap());
    assert!(!seen.is_empty() && seen.iter().all(|request| request == "GET /version"), "{seen:?}");

    let output = wheelwright(&["doctor", "--kubeconfig", kubeconfig]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let finding = "✗ api server    Kubernetes v1.29.9\n    the admission policies need Kubernetes 1.30; upgrade the hub\n";
    assert!(output.status.code() == Some(1) && printed.contains(finding), "{printed}");
    assert_eq!(objects(), before, "nothing was written");

    // The oldest version that is supported is not refused.
    let OtherVersion { kubeconfig, requests: _ } = OtherVersion::start(&cluster, &dir, "30").await;
    let kubeconfig = kubeconfig.to_str().unwrap();
    for command in [
        &["install", "--image", "wheelwright:1"][..],
        &["join", "--image", "wheelwright:1", "--cluster-name", "c1", "--hub-kubeconfig", kubeconfig],
    ] {
        let output = wheelwright(&[command, &["--wait", "0", "--kubeconfig", kubeconfig]].concat());
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let after = objects();
    for name in ["wheelwright-operator", "wheelwright-agent"] {
        assert!(after.contains(&format!("deployment.apps/{name}\n")), "{after}");
    }
}
