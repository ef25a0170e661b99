//! The operator as a process, an embedded hub, and repositories that change or do not answer.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use git2::{Index, Repository, Signature};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use object::Object;
use serde_json::json;
use wheelwright::apiserver::{Options, Server};
use wheelwright::shell::now;

use crate::running::Running;
use crate::wait::eventually;

const NAMESPACE: &str = "wheelwright-system";

struct Hub {
    server: Server,
    dir: tempfile::TempDir,
}

impl Hub {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let objects = crds::hub().iter().map(Object::from_typed).collect();
        let server = Server::start(Options { objects, ..Options::new(now) }).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("kubeconfig"), server.admin_kubeconfig_yaml().unwrap()).unwrap();
        Self { server, dir }
    }

    fn operator(&self, repo: &str) -> Running {
        let kubeconfig = self.dir.path().join("kubeconfig");
        let kubeconfig = kubeconfig.to_str().unwrap();
        let args = ["operator", "--kubeconfig", kubeconfig, "--local-repositories", "--repo", repo];
        Running::start("operator", self.dir.path(), &args)
    }

    /// A repository with a ConfigMap of a name at its root, and one at `other/`.
    fn repository(&self, name: &str) -> String {
        let path = self.dir.path().join(format!("{name}.git"));
        let repo = Repository::init_bare(&path).unwrap();
        let mut index = Index::new().unwrap();
        for (path, name) in [("map.yaml", name.to_owned()), ("other/map.yaml", format!("{name}-other"))] {
            let metadata = json!({"name": name, "namespace": "default"});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
            index.add(&wheelwright::git::entry(path.into(), repo.blob(map.as_bytes()).unwrap())).unwrap();
        }
        let tree = repo.find_tree(index.write_tree_to(&repo).unwrap()).unwrap();
        let me = Signature::now("Test", "test@example.com").unwrap();
        repo.commit(Some("refs/heads/main"), &me, &me, name, &tree, &[]).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.server.client(), "default")
    }

    async fn exists(&self, name: &str) -> bool {
        self.maps().get_opt(name).await.unwrap().is_some()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_url_is_followed_without_an_approval_and_never_with_the_old_tree() {
    let hub = Hub::start().await;
    let (a, b) = (hub.repository("a"), hub.repository("b"));
    let _operator = hub.operator(&a);
    eventually("the first repository is applied", async || hub.exists("a").await).await;
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let edit = json!({"spec": {"url": b, "path": "other"}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    eventually("the second repository is applied", async || hub.exists("b-other").await).await;
    eventually("the objects of the first one are pruned", async || !hub.exists("a").await).await;
    assert!(!hub.exists("a-other").await, "the old tree is not applied at the new path");
}

/// Runs a program in a directory, as a person of its own.
fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let who = [("HOME", dir.to_str().unwrap()), ("GIT_CONFIG_NOSYSTEM", "1")];
    let output = Command::new(program).args(args).current_dir(dir).envs(who).output();
    let output = output.unwrap_or_else(|e| panic!("this test needs {program}: {e}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_commit_without_a_trusted_signature_is_applied() {
    let hub = Hub::start().await;
    let url = hub.repository("a");
    let dir = hub.dir.path();
    run(dir, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "key"]);
    run(dir, "git", &["clone", "-q", "-b", "main", &url, "work"]);
    let work = dir.join("work");
    let key = format!("user.signingKey={}", dir.join("key").display());
    let commit = |name: &str, sign: &[&str]| {
        let metadata = json!({"name": name, "namespace": "default"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
        std::fs::write(work.join(format!("{name}.yaml")), map).unwrap();
        run(&work, "git", &["add", "."]);
        let me = ["-c", "user.name=A User", "-c", "user.email=user@example.org"];
        let signing = ["-c", "gpg.format=ssh", "-c", &key, "commit", "-q", "-m", name];
        run(&work, "git", &[&me, &signing[..], sign].concat());
        run(&work, "git", &["push", "-q", "origin", "main"]);
        run(&work, "git", &["rev-parse", "HEAD"])
    };
    let _operator = hub.operator(&url);
    eventually("the first commit is applied", async || hub.exists("a").await).await;

    let public = std::fs::read_to_string(dir.join("key.pub")).unwrap();
    let secret = json!({"metadata": {"name": "signers"}, "stringData": {"allowed_signers": format!("alice {public}")}});
    let secrets: Api<Secret> = Api::namespaced(hub.server.client(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let edit = json!({"spec": {"verify": {"secretRef": {"name": "signers"}}}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let told = async |part: &str| {
        let status = repos.get("a").await.unwrap().status.unwrap_or_default();
        status.conditions.iter().any(|one| one.type_ == "Ready" && one.message.contains(part))
    };
    eventually("the commit without a signature is refused", async || told("it has no signature").await).await;

    commit("signed", &["-S"]);
    eventually("the signed commit is applied", async || hub.exists("signed").await).await;
    let unsigned = commit("unsigned", &[]);
    let refused = format!("commit {unsigned} is refused: it has no signature");
    eventually("the next one is refused", async || told(&refused).await).await;
    assert!(hub.exists("signed").await, "what was applied stays");
    assert!(!hub.exists("unsigned").await);
    commit("vouched", &["-S"]);
    // A signature does not vouch for the commits before it.
    eventually("the refused commit is still named", async || told(&refused).await).await;
    let edit = json!({"spec": {"verify": {"mode": "Tip"}}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    eventually("the tip is all that must be signed", async || hub.exists("vouched").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_with_a_stuck_fetch_ends_when_it_is_asked_to() {
    let hub = Hub::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let operator = hub.operator(&format!("git://{}/x.git", silent.local_addr().unwrap()));
    let _connection = tokio::task::spawn_blocking(move || silent.accept().unwrap()).await.unwrap();
    assert!(operator.terminate(Duration::from_secs(10)), "it ends by itself");
}
