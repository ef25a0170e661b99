//! Runs the container of a Deployment as a process, started as a kubelet would start it.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::kube::{Cluster, Directory, Kubectl, free_port};
use crate::running::Running;

/// A Deployment's container, prepared as by a kubelet.
pub(crate) struct Pod {
    /// The directory that serves as the root of the container's file system and as its process's home. It contains
    /// the kubeconfig of the service account.
    pub(crate) root: PathBuf,
    /// The command line of the container, with its files below that directory.
    pub(crate) args: Vec<String>,
}

impl Pod {
    /// Writes the files of a container.
    pub(crate) fn new(cluster: &Cluster, dir: &Directory, namespace: &str, name: &str) -> Self {
        let kubectl = cluster.kubectl();
        let get = |kind: &str, name: &str| -> Value {
            serde_json::from_str(&kubectl.run(&["get", kind, name, "-n", namespace, "-o", "json"])).unwrap()
        };
        let pod = get("deployment", name)["spec"]["template"]["spec"].clone();
        let container = &pod["containers"][0];
        let root = dir.path(&format!("{name}-pod"));
        let list = |value: &Value| value.as_array().unwrap().clone();
        for mount in list(&container["volumeMounts"]) {
            let path = mount["mountPath"].as_str().unwrap().replacen("/spoke", root.to_str().unwrap(), 1);
            fs::create_dir_all(&path).unwrap();
            let volume = list(&pod["volumes"]).into_iter().find(|one| one["name"] == mount["name"]).unwrap();
            let Some(secret) = volume["secret"]["secretName"].as_str() else { continue };
            for (key, value) in get("secret", secret)["data"].as_object().unwrap() {
                let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
                fs::write(format!("{path}/{key}"), bytes).unwrap();
            }
        }
        write_account(&root, cluster, pod["serviceAccountName"].as_str().unwrap(), namespace);
        let args = list(&container["args"]).into_iter();
        let args =
            args.map(|arg| arg.as_str().unwrap().replace("=/spoke/", &format!("={}/", root.display())));
        Self { args: args.collect(), root }
    }
}

/// Starts the container of a Deployment with its arguments, its files, and the token of its service account.
pub(crate) fn start_pod(spoke: &Cluster, dir: &Directory, namespace: &str, name: &str) -> Running {
    let Pod { root, mut args } = Pod::new(spoke, dir, namespace, name);
    // In a pod, these have fixed values. The service account is in the home directory.
    args.push(format!("--namespace={namespace}"));
    args.push(format!("--listen=127.0.0.1:{}", free_port()));
    args.push("--listen-tls".into());
    if args[0] != "/work" {
        args.push(format!("--hub-kubeconfig-dir={}/hub-kubeconfig", root.display()));
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Running::start_at_home(name, &dir.path(""), &root, &args)
}

/// Starts our operator with its Deployment's arguments, in any namespace, plus more arguments, and with its
/// service account's kubeconfig. It serves its health on `port`.
pub(crate) fn start_operator(
    kubectl: &Kubectl,
    kubeconfig: &Path,
    dir: &Path,
    port: u16,
    more: &[&str],
) -> Running {
    let named = "--field-selector=metadata.name=wheelwright-operator";
    let list = kubectl.run(&["get", "deployments", "-A", named, "-o", "json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let pod = &list["items"][0]["spec"]["template"]["spec"];
    let args = pod["containers"][0]["args"].as_array().unwrap();
    let args = args.iter().map(|arg| match arg.as_str().unwrap().split_once('=') {
        Some(("--listen", _)) => format!("--listen=127.0.0.1:{port}"),
        Some(("--webhook-listen", _)) => format!("--webhook-listen=127.0.0.1:{}", free_port()),
        _ => arg.as_str().unwrap().to_owned(),
    });
    let args: Vec<String> = args.chain([format!("--kubeconfig={}", kubeconfig.display())]).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Running::start("our-operator", dir, &args)
}

/// Writes the kubeconfig of a service account to a home directory.
pub(crate) fn write_account(home: &Path, cluster: &Cluster, account: &str, namespace: &str) {
    fs::create_dir_all(home.join(".kube")).unwrap();
    fs::write(home.join(".kube/config"), account_kubeconfig(cluster, account, namespace)).unwrap();
}

/// Returns a kubeconfig with a token of a service account.
pub(crate) fn account_kubeconfig(cluster: &Cluster, account: &str, namespace: &str) -> String {
    let token = cluster.kubectl().run(&["create", "token", account, "-n", namespace]);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\n\
         clusters:\n- name: c\n  cluster:\n    server: {}\n    certificate-authority-data: {}\n\
         users:\n- name: u\n  user: {{token: {}}}\n",
        cluster.url,
        STANDARD.encode(cluster.ca_pem()),
        token.trim()
    )
}

/// Asserts that the cluster's API server denied a pod nothing. The hub may do so until it has granted the new
/// cluster its permissions.
pub(super) fn assert_permitted(dir: &Directory, name: &str) {
    let log = fs::read_to_string(dir.path(&format!("{name}.log"))).unwrap();
    let refused = |line: &str| line.contains("is forbidden") && line.contains("system:serviceaccount:");
    assert!(!log.lines().any(refused), "{name} lacks a permission:\n{log}");
}
