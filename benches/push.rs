//! Measures the time from a webhook to the first write for its commit, with git's own server and the operator as a
//! process on an otherwise idle API server. The baseline, in the same run, is a git fetch followed by a write.
//!
//! `cargo bench --bench push [-- PUSHES]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]
#![allow(dead_code, reason = "of the harness, only part is needed here")]

mod hub;
#[path = "../tests/kube/mod.rs"]
mod kube;
#[path = "../tests/running.rs"]
mod running;
#[path = "../tests/wait.rs"]
mod wait;
#[path = "../tests/webhook.rs"]
mod webhook;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ::kube::api::{Api, Patch, PatchParams, PostParams};
use api::gitops::v1alpha1::ConfigRepo;
use hub::{Operator, install};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Cluster;
use running::Running;
use serde_json::{Value, json};
use wait::eventually;
use webhook::{deliver, free_port, hmac, write_certificates};

const NAMESPACE: &str = "wheelwright-system";
const TOKEN: &str = "a token of enough bytes";
const POLL: Duration = Duration::from_millis(2);
/// Time between two pushes, after which the operator has nothing left to do.
const SETTLES: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    let pushes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(20);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Cluster::start("push").await;
    install(&server);
    let client = server.client().await;
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");
    commit(&repository, "first");
    let (git, port) = (free_port(), free_port());
    let _daemon = Running::git_daemon(dir.path(), git);
    let listens = async || tokio::net::TcpStream::connect(("127.0.0.1", git)).await.is_ok();
    eventually("git's server listens", listens).await;
    write_certificates(dir.path());
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let url = format!("git://127.0.0.1:{git}/fleet.git");
    let (listen, certificate, key) = (format!("127.0.0.1:{port}"), file("tls.crt"), file("tls.key"));
    let flags = ["--local-repositories", "--repo", &url, "--git-webhook-listen", &listen];
    let flags = [&flags[..], &["--git-webhook-cert", &certificate, "--git-webhook-key", &key]].concat();
    let _operator = Operator::start_alone(&server.kubeconfig, dir.path(), &flags);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    eventually("the first commit is applied", async || has(&maps, "first").await).await;

    let secret = json!({"metadata": {"name": "hook"}, "stringData": {"token": TOKEN}});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let repos: Api<ConfigRepo> = Api::namespaced(client.clone(), NAMESPACE);
    let edit = json!({"spec": {"interval": "24h", "webhook": {"secretRef": {"name": "hook"}}}});
    let edited = repos.patch("fleet", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    eventually("the spec is read", async || {
        let status = repos.get("fleet").await.unwrap().status.unwrap_or_default();
        status.observed_generation == edited.metadata.generation
    })
    .await;

    let body = json!({"ref": "refs/heads/main", "repository": {"clone_url": url}}).to_string();
    let (signature, hook) = (hmac(TOKEN, &body), format!("/webhooks/{NAMESPACE}/fleet"));
    let clone = file("clone.git");
    run(&["clone", "--quiet", "--bare", &url, &clone]);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for push in 0..pushes {
        tokio::time::sleep(SETTLES).await;
        let word = format!("push-{push}");
        commit(&repository, &word);
        let begin = Instant::now();
        let answer = deliver(port, &dir.path().join("ca.crt"), &hook, &signature, &body).await;
        assert_eq!(answer.as_deref(), Some("HTTP/1.1 202 Accepted"));
        while !has(&maps, &word).await {
            assert!(begin.elapsed() < SETTLES * 10, "the webhook has no effect");
            tokio::time::sleep(POLL).await;
        }
        ours.push(begin.elapsed());

        let begin = Instant::now();
        run(&["--git-dir", &clone, "fetch", "--quiet", &url, "main"]);
        let object = map("bare", &word);
        maps.patch("bare", &PatchParams::apply("bare"), &Patch::Apply(object)).await.unwrap();
        bare.push(begin.elapsed());
    }
    for (what, mut times) in [("webhook to the object on the hub", ours), ("git fetch and a write", bare)] {
        times.sort();
        let [median, longest] = [times[times.len() / 2], times[times.len() - 1]].map(|time| time.as_millis());
        println!("{what}: {median} ms, at most {longest} ms, {pushes} times");
    }
}

fn run(args: &[&str]) {
    assert!(Command::new("git").args(args).status().unwrap().success(), "git {args:?}");
}

fn map(name: &str, word: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"word": word}})
}

/// Commits a ConfigMap that contains a word to the branch `main`.
fn commit(repository: &Path, word: &str) {
    let git = git2::Repository::init_bare(repository).unwrap();
    let mut files = git.treebuilder(None).unwrap();
    let file = git.blob(map("settings", word).to_string().as_bytes()).unwrap();
    files.insert("settings.yaml", file, 0o100_644).unwrap();
    let tree = git.find_tree(files.write().unwrap()).unwrap();
    let author = git2::Signature::now("Test", "test@example.com").unwrap();
    let parent = git.refname_to_id("refs/heads/main").ok().map(|id| git.find_commit(id).unwrap());
    let parents: Vec<_> = parent.iter().collect();
    git.commit(Some("refs/heads/main"), &author, &author, word, &tree, &parents).unwrap();
}

/// Returns true if the hub's ConfigMap contains a word.
async fn has(maps: &Api<ConfigMap>, word: &str) -> bool {
    let data = maps.get_opt("settings").await.unwrap().and_then(|map| map.data);
    data.is_some_and(|data| data.get("word").is_some_and(|it| it == word))
}
