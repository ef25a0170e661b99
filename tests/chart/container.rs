//! Runs the container of a chart's Deployment as a process, started as a kubelet would start it.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::find;
use crate::kube::{Cluster, Directory, Process};

/// Returns a command prefix that runs a command as in a pod; volumes, `--` and the command follow.
fn as_in_a_pod(root: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.arg("-rm").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chart/read-only-root")).arg(root);
    command
}

#[test]
fn a_container_of_these_tests_is_not_root_and_gets_no_capability() {
    let root = tempfile::tempdir().unwrap();
    let output = as_in_a_pod(root.path()).args(["--", "cat", "/proc/self/status"]).output().unwrap();
    let status = String::from_utf8_lossy(&output.stdout);
    let none = "0000000000000000";
    for (field, value) in
        [("Uid", "65532"), ("Gid", "65532"), ("CapPrm", none), ("CapBnd", none), ("NoNewPrivs", "1")]
    {
        let found = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let found = found.unwrap_or_else(|| panic!("there is no {field}: {output:?}"));
        assert_eq!(found.split_whitespace().next(), Some(value), "{field}");
    }
}

/// Starts the container of a rendered Deployment: the program of its image, with its arguments, environment,
/// volumes and service account, on a read-only root, as the image's user and without capabilities. Ignores its
/// seccomp profile, because each runtime has its own.
pub(super) fn start(name: &'static str, cluster: &Cluster, deployment: &Value, dir: &Directory) -> Process {
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let security = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container["securityContext"], security);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let make = |name: &str| {
        let path = dir.path(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let account = make("account");
    let kubectl = cluster.kubectl();
    let named = pod["serviceAccountName"].as_str().unwrap();
    let token = kubectl.run(&["create", "token", named, "-n", namespace]);
    fs::write(account.join("token"), token.trim()).unwrap();
    fs::write(account.join("namespace"), namespace).unwrap();
    fs::write(account.join("ca.crt"), cluster.ca_pem()).unwrap();

    let mut command = as_in_a_pod(&make("root"));
    command.arg(format!("ro:{}:/var/run/secrets/kubernetes.io/serviceaccount", account.display()));
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let path = make(mount["name"].as_str().unwrap());
        let volume =
            pod["volumes"].as_array().unwrap().iter().find(|one| one["name"] == mount["name"]).unwrap();
        let is_empty = volume["emptyDir"].is_object();
        if let Some(secret) = volume["secret"]["secretName"].as_str() {
            let text = kubectl.run(&["get", "secret", secret, "-n", namespace, "-o", "json"]);
            let secret: Value = serde_json::from_str(&text).unwrap();
            for (key, value) in secret["data"].as_object().unwrap() {
                fs::write(path.join(key), STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
            }
        }
        assert!(is_empty || mount["readOnly"] == true, "{volume}");
        let mode = if mount["readOnly"] == true { "ro" } else { "rw" };
        command.arg(format!("{mode}:{}:{}", path.display(), mount["mountPath"].as_str().unwrap()));
    }
    // A kubelet sets these variables.
    command.args(["--", "env", "-i", "HOSTNAME=pod-0"]);
    let (host, port) = cluster.url.trim_start_matches("https://").split_once(':').unwrap();
    command.arg(format!("KUBERNETES_SERVICE_HOST={host}")).arg(format!("KUBERNETES_SERVICE_PORT={port}"));
    for variable in container["env"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap();
        command.arg(format!("{}={}", text("name"), text("value")));
    }
    let image = container["image"].as_str().unwrap();
    command.arg(match image.strip_suffix(concat!(":", env!("CARGO_PKG_VERSION"))) {
        Some("wheelwright") => env!("CARGO_BIN_EXE_wheelwright"),
        Some("wheelwright-agent") => env!("CARGO_BIN_EXE_wheelwright-agent"),
        _ => panic!("{image} is an image of the chart's version"),
    });
    command.args(container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
    Process::start(name, command, dir)
}

/// Asserts that each probe of the container returns 200.
pub(super) async fn assert_probes(objects: &[Value], port: u16) {
    let container = &find(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let Some(path) = container[probe]["httpGet"]["path"].as_str() else { continue };
        let answer = get(port, path).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{probe}: {answer}");
    }
}

/// Asserts that the metrics are not 0.
pub(super) async fn assert_counted(port: u16, metrics: &[&str]) {
    let answer = get(port, "/metrics").await;
    for metric in metrics {
        let value = answer.lines().find_map(|line| line.strip_prefix(*metric)?.strip_prefix(' '));
        assert!(value.is_some_and(|value| value != "0"), "{metric}: {answer}");
    }
}

/// Asserts that no API server denied the service account anything.
pub(super) fn assert_permitted(process: &Process) {
    let log = process.log();
    let refused = |line: &str| line.contains("is forbidden") && line.contains("system:serviceaccount:");
    assert!(!log.lines().any(refused), "a role lacks a permission:\n{log}");
}

/// Returns the response to a GET.
async fn get(port: u16, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}
