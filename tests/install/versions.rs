//! Clusters with a Kubernetes version on which nothing can be installed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::wheelwright;

/// Serves only a release's `/version`; returns the address and the requests so far.
fn api_server(minor: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (format!("http://{}", listener.local_addr().unwrap()), Arc::default());
    let seen: Arc<Mutex<Vec<String>>> = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let version = json!({
                "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.9"), "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            })
            .to_string();
            let (code, body) =
                if request.starts_with("GET /version ") { (200, version) } else { (404, "{}".to_owned()) };
            seen.lock().unwrap().push(request);
            let head = "Content-Type: application/json\r\nConnection: close";
            let answer =
                format!("HTTP/1.1 {code} X\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            // The client may be gone.
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    (address, requests)
}

#[test]
fn a_cluster_that_is_too_old_is_refused_before_the_first_write() {
    let (address, requests) = api_server("29");
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "h", "cluster": { "server": address } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "h", "user": "u" } }],
    });
    std::fs::write(&kubeconfig, content.to_string()).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
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
    let requests = requests.lock().unwrap();
    assert!(
        !requests.is_empty() && requests.iter().all(|line| line.starts_with("GET /version ")),
        "{requests:?}"
    );
}
