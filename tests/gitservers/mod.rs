//! The same promises on independent git server implementations. Each server and the operator run as separate
//! processes.

mod gitea;
mod server;

use std::path::Path;

use api::gitops::v1alpha1::ConfigRepo;
use git2::Repository;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::server::GitServer;
use crate::sources::{Hub, NAMESPACE, commit_map, tip};
use crate::wait::eventually;

const STATUS: &str = "wheelwright/status";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_with_c_git_serves_a_config_repo() {
    serves_a_config_repo(server::nginx).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openssh_with_c_git_serves_a_config_repo_over_ssh() {
    serves_a_config_repo(server::openssh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jgit_serves_a_config_repo() {
    serves_a_config_repo(server::jgit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jgit_serves_a_config_repo_over_ssh() {
    serves_a_config_repo(server::jgit_over_ssh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dulwich_serves_a_config_repo() {
    serves_a_config_repo(server::dulwich).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_git_serves_a_config_repo() {
    serves_a_config_repo(server::go_git).await;
}

/// Follows a private repository with a long history, reports to it, and is rejected in between.
async fn serves_a_config_repo(start: fn(&Path) -> GitServer) {
    let hub = Hub::start().await;
    let path = hub.repository("config");
    let path = Path::new(&path);
    let first = tip(path, "main").unwrap();
    for number in 0..40 {
        commit_map(path, &format!("old-{number}"));
    }
    let server = start(hub.dir.path());
    let listens = async || tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.is_ok();
    eventually("the git server listens", listens).await;
    let _operator = hub.operator(&server.url);
    let follower = Follower::new(&hub);
    eventually("the ConfigRepo exists", async || follower.repos.get_opt("config").await.unwrap().is_some())
        .await;
    for (name, data) in [("read", &server.stranger), ("write", &server.user)] {
        let secret = json!({"metadata": {"name": name}, "stringData": data});
        follower.secrets.create(&PostParams::default(), &from(secret)).await.unwrap();
    }
    let report = json!({"branch": STATUS, "secretRef": {"name": "write"}, "interval": "1s"});
    follower.edit(json!({"interval": "1s", "secretRef": {"name": "read"}, "report": report})).await;
    follower.becomes("Ready", "SourceUnauthorized", "").await;
    assert!(!hub.exists("config").await);

    let secret = json!({"stringData": server.user});
    follower.secrets.patch("read", &PatchParams::default(), &Patch::Merge(secret)).await.unwrap();
    eventually("the first commit is applied", async || hub.exists("config").await).await;
    follower.has_reported(path).await;

    // More than one new commit, so that a mirror with a single commit must fetch older ones.
    for name in ["new-1", "new-2", "new-3"] {
        commit_map(path, name);
    }
    eventually("the next commits are applied", async || hub.exists("new-3").await).await;
    follower.has_reported(path).await;
    let mirrors = mirrors(&hub.dir.path().join("cache/wheelwright/mirrors/read"));
    assert!(!mirrors.is_empty());
    for mirror in mirrors {
        let has_all = mirror.odb().unwrap().exists(first);
        assert_eq!(has_all, server.sends_whole_history, "{}", mirror.path().display());
    }

    std::fs::write(path.join("refuse"), server::REASON).unwrap();
    let reported = tip(path, STATUS);
    commit_map(path, "refused");
    eventually("a commit is applied whose report is refused", async || hub.exists("refused").await).await;
    follower.becomes("Reported", "StatusPushRejected", server.refusal).await;
    assert_eq!(tip(path, STATUS), reported);
    std::fs::remove_file(path.join("refuse")).unwrap();
    // An edit of the spec triggers a retry after the rejection.
    follower.edit(json!({"report": {"interval": "2s"}})).await;
    follower.has_reported(path).await;
    assert_ne!(tip(path, STATUS), reported);
}

/// The ConfigRepo that the operator follows.
struct Follower {
    repos: Api<ConfigRepo>,
    secrets: Api<Secret>,
}

impl Follower {
    fn new(hub: &Hub) -> Self {
        let client = hub.server.client();
        Self {
            repos: Api::namespaced(client.clone(), NAMESPACE),
            secrets: Api::namespaced(client, NAMESPACE),
        }
    }

    /// Returns the data of a Secret.
    async fn secret(&self, name: &str) -> Value {
        let data = self.secrets.get(name).await.unwrap().data.unwrap_or_default();
        data.into_iter().map(|(key, value)| (key, Value::from(String::from_utf8(value.0).unwrap()))).collect()
    }

    async fn edit(&self, spec: Value) {
        let edit = json!({"spec": spec});
        self.repos.patch("config", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    }

    async fn status(&self) -> Value {
        serde_json::to_value(self.repos.get("config").await.unwrap().status.unwrap_or_default()).unwrap()
    }

    /// Waits until a condition has a reason and its message contains a text.
    async fn becomes(&self, condition: &str, reason: &str, text: &str) {
        let mut last = Value::Null;
        eventually(&format!("{condition} has the reason {reason} and says {text:?}"), async || {
            let status = self.status().await;
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|one| one["type"] == condition).unwrap_or_default();
            let holds = found["reason"] == reason && found["message"].as_str().unwrap().contains(text);
            if found != last {
                eprintln!("{condition}: {} {}", found["reason"], found["message"]);
                last = found;
            }
            holds
        })
        .await;
    }

    /// Waits until the server's branch contains the report about the commit that the ConfigRepo follows.
    async fn has_reported(&self, server: &Path) {
        let commit = tip(server, "main").unwrap().to_string();
        eventually("the report of the commit is on the server", async || {
            let status = self.status().await;
            let pushed = tip(server, STATUS).map(|tip| tip.to_string());
            let is_true = status["conditions"].as_array().is_some_and(|conditions| {
                conditions.iter().any(|one| one["type"] == "Reported" && one["status"] == "True")
            });
            is_true
                && status["report"]["commit"].as_str() == pushed.as_deref()
                && has(server, STATUS, &commit)
        })
        .await;
    }
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns true if a file on a branch contains a text.
fn has(repository: &Path, branch: &str, text: &str) -> bool {
    let repository = Repository::open_bare(repository).unwrap();
    let tree = repository.find_branch(branch, git2::BranchType::Local).unwrap().get().peel_to_tree().unwrap();
    let mut found = false;
    tree.walk(git2::TreeWalkMode::PreOrder, |_, entry| {
        let blob = entry.to_object(&repository).ok().and_then(|object| object.into_blob().ok());
        found |= blob.is_some_and(|blob| String::from_utf8_lossy(blob.content()).contains(text));
        git2::TreeWalkResult::Ok
    })
    .unwrap();
    found
}

/// Returns the bare repositories below a directory.
fn mirrors(directory: &Path) -> Vec<Repository> {
    if directory.join("HEAD").exists() {
        return vec![Repository::open_bare(directory).unwrap()];
    }
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).flat_map(|path| mirrors(&path)).collect()
}
