//! Runs kubectl, and clients with fewer permissions, against the embedded hub.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use store::User;
use wheelwright::apiserver::{Credential, Server, ServerOptions, StartError, kubeconfig_yaml, write_private};
use wheelwright::shell::now;

use super::{definition, schema};
use crate::kube::{Kubectl, client_of, install_crypto};

/// A server with the widgets, and a kubectl for it.
struct Bench {
    server: Server,
    dir: tempfile::TempDir,
    kubectl: Kubectl,
}

impl Bench {
    async fn start() -> Self {
        Self::open(tempfile::tempdir().unwrap()).await
    }

    /// Starts a durable server on a directory.
    async fn open(dir: tempfile::TempDir) -> Self {
        install_crypto();
        let options = ServerOptions { data: Some(dir.path().join("data")), ..ServerOptions::new(now) };
        let server = Server::start(options).await.unwrap();
        let kubectl = Self::kubectl_as(&server, &dir, "admin", &["system:masters"]);
        Self { server, dir, kubectl }
    }

    fn kubectl_as(server: &Server, dir: &tempfile::TempDir, user: &str, groups: &[&str]) -> Kubectl {
        let file = dir.path().join(format!("{user}.kubeconfig"));
        write_private(&file, &server.kubeconfig_yaml(user, groups).unwrap()).unwrap();
        // Each server needs its own discovery cache, because a restarted server at the same address is a different
        // one.
        Kubectl::new(&file, dir.path().join(format!("home-{}", server.url.rsplit(':').next().unwrap())))
    }

    fn with_widgets(self) -> Self {
        self.kubectl
            .run_with(&["create", "-f", "-"], &definition("widgets", "Widget", &schema()).to_string());
        self.kubectl.run(&[
            "wait",
            "--for=condition=Established",
            "crd/widgets.conformance.wheelwright.dev",
            "--timeout=30s",
        ]);
        self
    }

    /// Stops the server and starts it again on the same data.
    async fn restarted(self) -> Self {
        self.server.stop().await;
        Self::open(self.dir).await
    }
}

const CONFIG: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config\n  labels: {app: web}\ndata:\n  key: value\n";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_and_writes_objects() {
    let Bench { kubectl, server, dir: _dir } = Bench::start().await;
    assert_eq!(kubectl.run(&["create", "namespace", "web"]), "namespace/web created\n");
    assert_eq!(
        kubectl.run(&["create", "configmap", "made", "--from-literal=a=b"]),
        "configmap/made created\n"
    );
    assert_eq!(kubectl.run_with(&["apply", "-f", "-"], CONFIG), "configmap/config created\n");
    assert_eq!(kubectl.run_with(&["apply", "-f", "-"], CONFIG), "configmap/config unchanged\n");
    let changed = CONFIG.replace("value", "other");
    assert_eq!(kubectl.run_with(&["apply", "-f", "-"], &changed), "configmap/config configured\n");
    let table = kubectl.run(&["get", "configmaps", "-l", "app=web"]);
    let words: Vec<&str> = table.split_whitespace().take(5).collect();
    assert_eq!(words, ["NAME", "DATA", "AGE", "config", "1"], "{table}");
    assert!(kubectl.run(&["get", "cm", "config", "-o", "yaml"]).contains("key: other"));
    assert!(kubectl.run(&["describe", "configmap", "config"]).contains("other"));
    assert_eq!(kubectl.run(&["label", "cm", "config", "tier=front"]), "configmap/config labeled\n");
    assert_eq!(kubectl.run(&["get", "cm", "config", "-o", "jsonpath={.metadata.labels.tier}"]), "front");
    assert_eq!(
        kubectl.run(&["delete", "cm", "config"]),
        "configmap \"config\" deleted from default namespace\n"
    );
    assert!(kubectl.fails(&["get", "cm", "config"]).contains("configmaps \"config\" not found"));
    kubectl.run(&["delete", "namespace", "web", "--timeout=30s"]);
    assert!(kubectl.run(&["version"]).contains("Server Version: v1.36.0+wheelwright"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_on_the_server_and_shows_conflicts() {
    let Bench { kubectl, server, dir: _dir } = Bench::start().await.with_widgets();
    let widget = |size: i64| {
        json!({ "apiVersion": "conformance.wheelwright.dev/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": { "size": size, "replicas": 1 } })
            .to_string()
    };
    kubectl.run_with(&["apply", "--server-side", "--field-manager=one", "-f", "-"], &widget(1));
    let refused =
        kubectl.output_with(&["apply", "--server-side", "--field-manager=two", "-f", "-"], &widget(2));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("conflict with \"one\": .spec.size"), "{text}");
    kubectl.run_with(
        &["apply", "--server-side", "--force-conflicts", "--field-manager=two", "-f", "-"],
        &widget(2),
    );
    let diff = kubectl.output_with(&["diff", "-f", "-"], &widget(3));
    assert_eq!(diff.status.code(), Some(1), "{}", String::from_utf8_lossy(&diff.stderr));
    let strict = kubectl.output_with(&["create", "-f", "-"], &widget(1).replace("size", "sise"));
    assert!(String::from_utf8_lossy(&strict.stderr).contains("unknown field \"spec.sise\""), "{strict:?}");
    assert!(kubectl.run(&["explain", "widget.spec.ports"]).contains("protocol\t<string>"));
    assert!(kubectl.run(&["explain", "deployment.spec"]).contains("replicas\t<integer>"));
    assert!(kubectl.run(&["api-resources", "--api-group=conformance.wheelwright.dev"]).contains("Widget"));
    assert_eq!(
        kubectl.run(&["scale", "widget", "w", "--replicas=4"]),
        "widget.conformance.wheelwright.dev/w scaled\n"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_watches_and_edits() {
    let Bench { kubectl, server, dir } = Bench::start().await;
    kubectl.run(&["create", "configmap", "w", "--from-literal=a=b"]);
    let mut watching =
        kubectl.command(&["get", "configmaps", "-w", "-o", "name", "--field-selector=metadata.name=w"]);
    let mut child = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "configmap/w");
    let editor = dir.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/a: b/a: edited/' \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = kubectl.command(&["edit", "configmap", "w"]).env("KUBE_EDITOR", &editor).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines.next().unwrap().unwrap(), "configmap/w");
    assert_eq!(kubectl.run(&["get", "cm", "w", "-o", "jsonpath={.data.a}"]), "edited");
    child.kill().unwrap();
    child.wait().unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_bind_certificates_tokens_and_impersonated_users() {
    let bench = Bench::start().await;
    let kubectl = &bench.kubectl;
    let ann = Bench::kubectl_as(&bench.server, &bench.dir, "ann", &["readers"]);
    assert!(ann.fails(&["get", "secrets"]).contains(
        "User \"ann\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\""
    ));
    kubectl.run(&["create", "role", "reader", "--verb=list", "--resource=secrets"]);
    kubectl.run(&[
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        "--group=readers",
        "--serviceaccount=default:robot",
    ]);
    ann.run(&["get", "secrets"]);
    assert!(ann.fails(&["get", "secrets", "-A"]).contains("at the cluster scope"));
    assert!(
        ann.fails(&["create", "rolebinding", "more", "--clusterrole=cluster-admin", "--user=ann"])
            .contains("is forbidden")
    );
    assert_eq!(kubectl.run(&["auth", "can-i", "list", "secrets", "--as=ann", "--as-group=readers"]), "yes\n");
    let no = kubectl.command(&["auth", "can-i", "delete", "secrets", "--as=ann"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&no.stdout), "no\n");
    assert!(ann.fails(&["get", "secrets", "--as=admin"]).contains("cannot impersonate resource \"users\""));
    assert!(ann.run(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"]).contains("readers"));

    kubectl.run(&["create", "serviceaccount", "robot"]);
    let token = kubectl.run(&["create", "token", "robot"]);
    let by_token = |args: &[&str]| {
        let anonymous = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": bench.server.url, "certificate-authority-data": base64(&bench.server.ca_pem) } }],
            "users": [{ "name": "u", "user": { "token": token.trim() } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        let file = bench.dir.path().join("token.kubeconfig");
        std::fs::write(&file, anonymous.to_string()).unwrap();
        let kubectl = Kubectl::new(&file, bench.dir.path().join("token-home"));
        kubectl.command(args).output().unwrap()
    };
    assert!(by_token(&["get", "secrets"]).status.success());
    let refused = by_token(&["get", "configmaps"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        text.contains("User \"system:serviceaccount:default:robot\" cannot list resource \"configmaps\""),
        "{text}"
    );
    kubectl.run(&["delete", "serviceaccount", "robot"]);
    let gone = by_token(&["get", "secrets"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("Unauthorized"), "{gone:?}");
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_token_is_valid_until_it_expires() {
    let bench = Bench::start().await;
    let secret = |id: &str, expires: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": { "name": format!("bootstrap-token-{id}"), "namespace": "kube-system" },
            "stringData": {
                "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:managedcluster", "expiration": expires,
            },
        })
    };
    bench.kubectl.run_with(&["create", "-f", "-"], &secret("ocmhub", "2999-01-01T00:00:00Z").to_string());
    bench.kubectl.run_with(&["create", "-f", "-"], &secret("oldone", "2001-01-01T00:00:00Z").to_string());
    let review = |token: &str, audiences: &[&str]| {
        let spec = json!({ "token": token, "audiences": audiences });
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec });
        bench.kubectl.run_with(
            &[
                "create",
                "--validate=false",
                "-o",
                "jsonpath={.status.user.username} {.status.user.groups}",
                "-f",
                "-",
            ],
            &body.to_string(),
        )
    };
    let groups = r#"["system:bootstrappers","system:bootstrappers:managedcluster","system:authenticated"]"#;
    assert_eq!(review("ocmhub.0123456789abcdef", &[]), format!("system:bootstrap:ocmhub {groups}"));
    assert_eq!(review("ocmhub.fedcba9876543210", &[]).trim(), "");
    assert_eq!(review("oldone.0123456789abcdef", &[]).trim(), "");
    assert_eq!(review("ocmhub.0123456789abcdef", &["vault"]).trim(), "", "it is for the hub only");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_restored_after_a_restart() {
    let bench = Bench::start().await.with_widgets();
    bench.kubectl.run_with(&["apply", "-f", "-"], CONFIG);
    let widget = json!({ "apiVersion": "conformance.wheelwright.dev/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": {} });
    bench.kubectl.run_with(&["create", "-f", "-"], &widget.to_string());
    let before = bench.kubectl.run(&["get", "configmap/config", "widget/w", "-o", "json"]);
    let old = bench.dir.path().join("admin.kubeconfig");
    let old_text = std::fs::read_to_string(&old).unwrap();
    let bench = bench.restarted().await;
    assert_eq!(bench.kubectl.run(&["get", "configmap/config", "widget/w", "-o", "json"]), before);
    // The keys did not change, so existing kubeconfigs stay valid; only the port differs.
    let moved = bench.dir.path().join("moved.kubeconfig");
    let server_line = |text: &str| text.lines().find(|l| l.contains("server:")).unwrap().to_owned();
    let new_text = std::fs::read_to_string(&old).unwrap();
    std::fs::write(&moved, old_text.replace(&server_line(&old_text), &server_line(&new_text))).unwrap();
    let client = client_of(&moved).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    // A crash in the middle of a write loses only that write.
    bench.kubectl.run(&["create", "configmap", "last", "--from-literal=a=b"]);
    let Bench { server, dir, .. } = bench;
    server.stop().await;
    let journal: PathBuf = dir.path().join("data/store.journal");
    let bytes = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &bytes[..bytes.len() - 10]).unwrap();
    let bench = Bench::open(dir).await;
    bench.kubectl.run(&["get", "configmap", "config"]);
    bench.kubectl.run(&["create", "configmap", "after", "--from-literal=a=b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirteen_servers_run_in_one_process() {
    install_crypto();
    let mut servers = Vec::new();
    for _ in 0..13 {
        servers.push(Server::start(ServerOptions::new(now)).await.unwrap());
    }
    for server in &servers {
        assert_eq!(server.client().apiserver_version().await.unwrap().minor, "36");
    }
    let mut urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
    urls.sort_unstable();
    urls.dedup();
    assert_eq!(urls.len(), 13);
    for server in servers {
        server.stop().await;
    }
}

/// `wheelwright hub` as a process.
struct HubProcess {
    child: std::process::Child,
    kubectl: Kubectl,
}

impl HubProcess {
    fn start(dir: &std::path::Path, run: u8) -> Self {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(["hub", "--listen", "127.0.0.1:0", "--data"]).arg(dir.join("data"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("the hub says where it listens").unwrap();
        assert!(line.starts_with("the hub listens on https://127.0.0.1:"), "{line}");
        assert!(lines.next().unwrap().unwrap().ends_with("admin.kubeconfig"));
        Self {
            child,
            kubectl: Kubectl::new(&dir.join("data/admin.kubeconfig"), dir.join(format!("home-{run}"))),
        }
    }
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        // Killing a child that has already exited is harmless.
        drop(self.child.kill());
        self.child.wait().unwrap();
    }
}

#[test]
fn the_hub_command_keeps_every_answered_write_through_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let hub = HubProcess::start(dir.path(), 1);
    assert!(
        hub.kubectl
            .run(&["get", "crd", "-o", "name"])
            .contains("placements.cluster.open-cluster-management.io")
    );
    for i in 0..5 {
        hub.kubectl.run(&["create", "configmap", &format!("c{i}"), "--from-literal=a=b"]);
    }
    hub.kubectl.run(&["label", "crd", "placements.cluster.open-cluster-management.io", "mine=yes"]);
    drop(hub);
    let hub = HubProcess::start(dir.path(), 2);
    let names = hub.kubectl.run(&[
        "get",
        "configmaps",
        "-o",
        "name",
        "--field-selector=metadata.name!=kube-root-ca.crt",
    ]);
    assert_eq!(names.lines().count(), 5, "{names}");
    let label = hub.kubectl.run(&[
        "get",
        "crd",
        "placements.cluster.open-cluster-management.io",
        "-o",
        "jsonpath={.metadata.labels.mine}",
    ]);
    assert_eq!(label, "yes");
}

/// A second server would start its own journal, and later writes acknowledged by the first one would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_a_data_directory_is_refused_and_loses_no_write() {
    let bench = Bench::start().await;
    let data = Some(bench.dir.path().join("data"));
    let address = bench.server.url.trim_start_matches("https://").parse().unwrap();
    let same_port = ServerOptions { data: data.clone(), listen: address, ..ServerOptions::new(now) };
    let refusal = Server::start(same_port).await.unwrap_err();
    assert!(matches!(refusal, StartError::Listen { .. }), "{refusal}");
    let refusal = Server::start(ServerOptions { data, ..ServerOptions::new(now) }).await.unwrap_err();
    assert!(refusal.to_string().ends_with(&format!("process {}", std::process::id())), "{refusal}");
    bench.kubectl.run(&["create", "configmap", "kept", "--from-literal=a=b"]);
    let bench = bench.restarted().await;
    assert_eq!(bench.kubectl.run(&["get", "configmap", "kept", "-o", "name"]), "configmap/kept\n");
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_token_authenticates_its_user() {
    install_crypto();
    let user = User { name: "known".into(), groups: vec!["system:masters".into()], ..User::default() };
    let tokens = [("secret".to_owned(), user)].into();
    let server = Server::start(ServerOptions { tokens, ..ServerOptions::new(now) }).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = |token: &str| {
        let path = dir.path().join(token);
        std::fs::write(
            &path,
            kubeconfig_yaml(&server.url, &server.ca_pem, &Credential::Token(token.to_owned())),
        )
        .unwrap();
        path
    };
    let namespaces = |client| kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(client);
    assert!(namespaces(client_of(&file("secret")).await).get("default").await.is_ok());
    let refused = namespaces(client_of(&file("other")).await).get("default").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");
    server.stop().await;
}
