//! The operator as a process with an embedded hub, and repositories that change or become unreachable.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use git2::{Index, Oid, Repository, Signature};
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use object::Object;
use serde_json::json;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use crate::running::Running;
use crate::wait::eventually;
use crate::webhook::{deliver, free_port, hmac, write_certificates};

pub(crate) const NAMESPACE: &str = "wheelwright-system";

pub(crate) struct Hub {
    pub(crate) server: Server,
    pub(crate) dir: tempfile::TempDir,
}

impl Hub {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let objects = crds::hub().iter().map(Object::from_typed).collect();
        let server = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("kubeconfig"), server.admin_kubeconfig_yaml().unwrap()).unwrap();
        Self { server, dir }
    }

    pub(crate) fn operator(&self, repo: &str) -> Running {
        let kubeconfig = self.dir.path().join("kubeconfig");
        let kubeconfig = kubeconfig.to_str().unwrap();
        let args = ["operator", "--kubeconfig", kubeconfig, "--local-repositories", "--repo", repo];
        Running::start("operator", self.dir.path(), &args)
    }

    /// Returns a repository with a named ConfigMap at its root and another one in `other/`.
    pub(crate) fn repository(&self, name: &str) -> String {
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

    pub(crate) async fn exists(&self, name: &str) -> bool {
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

/// Runs a program in a directory, with its own git identity.
pub(crate) fn run(dir: &Path, program: &str, args: &[&str]) -> String {
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
    let events: Api<Event> = Api::namespaced(hub.server.client(), NAMESPACE);
    let has_event = async |reason: &str| {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.iter().any(|event| {
            let about = event.regarding.as_ref().and_then(|object| object.kind.as_deref());
            about == Some("ConfigRepo") && event.reason.as_deref() == Some(reason)
        })
    };
    eventually("an event says so", async || has_event("Applied").await).await;

    let public = std::fs::read_to_string(dir.join("key.pub")).unwrap();
    let secret = json!({"metadata": {"name": "signers"}, "stringData": {"allowed_signers": format!("alice {public}")}});
    let secrets: Api<Secret> = Api::namespaced(hub.server.client(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let edit = json!({"spec": {"verify": {"secretRef": {"name": "signers"}}}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let has_message = async |part: &str| {
        let status = repos.get("a").await.unwrap().status.unwrap_or_default();
        status.conditions.iter().any(|one| one.type_ == "Ready" && one.message.contains(part))
    };
    eventually("the commit without a signature is refused", async || {
        has_message("it has no signature").await
    })
    .await;
    eventually("an event says that too", async || has_event("SignatureMissing").await).await;

    commit("signed", &["-S"]);
    eventually("the signed commit is applied", async || hub.exists("signed").await).await;
    let unsigned = commit("unsigned", &[]);
    let refused = format!("commit {unsigned} is refused: it has no signature");
    eventually("the next one is refused", async || has_message(&refused).await).await;
    assert!(hub.exists("signed").await, "what was applied stays");
    assert!(!hub.exists("unsigned").await);
    commit("vouched", &["-S"]);
    // A commit's signature does not cover earlier commits.
    eventually("the refused commit is still named", async || has_message(&refused).await).await;
    let edit = json!({"spec": {"verify": {"mode": "Tip"}}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    eventually("the tip is all that must be signed", async || hub.exists("vouched").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fight_with_argo_cd_is_named_after_three_corrections_with_its_application() {
    let hub = Hub::start().await;
    let url = hub.repository("a");
    run(hub.dir.path(), "git", &["clone", "-q", "-b", "main", &url, "work"]);
    let work = hub.dir.path().join("work");
    let metadata = json!({"name": "shared", "namespace": "default"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "1"}});
    std::fs::write(work.join("shared.yaml"), map.to_string()).unwrap();
    run(&work, "git", &["add", "."]);
    let me = ["-c", "user.name=A User", "-c", "user.email=user@example.org"];
    run(&work, "git", &[&me[..], &["commit", "-q", "-m", "shared"]].concat());
    run(&work, "git", &["push", "-q", "origin", "main"]);
    let _operator = hub.operator(&url);
    eventually("the object is applied", async || hub.exists("shared").await).await;

    let id = json!({"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:default/shared"});
    let theirs = json!({"metadata": {"annotations": id}, "data": {"k": "2"}});
    let argo_cd = PatchParams { field_manager: Some("argocd-controller".into()), ..PatchParams::default() };
    for _ in 0..3 {
        hub.maps().patch("shared", &argo_cd, &Patch::Merge(&theirs)).await.unwrap();
        eventually("it is corrected", async || {
            hub.maps().get("shared").await.unwrap().data.unwrap_or_default()["k"] == "1"
        })
        .await;
    }
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let named = "ConfigMap default/shared was changed on the hub and corrected 3 times; argocd-controller sets .data.k; \
                 the Argo CD application shop tracks it.";
    eventually("the fight is named", async || {
        let status = repos.get("a").await.unwrap().status.unwrap_or_default();
        let mut ready =
            status.conditions.iter().filter(|one| one.type_ == "Ready" && one.reason == "Drifted");
        ready.any(|one| one.message.starts_with(named))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verified_webhook_has_the_commit_fetched_and_a_forged_one_has_not() {
    const SECRET: &str = "a secret of enough bytes";
    let hub = Hub::start().await;
    let (dir, path) = (hub.dir.path(), hub.repository("a"));
    let (git, port) = (free_port(), free_port());
    let _daemon = Running::git_daemon(dir, git);
    let connects = async || tokio::net::TcpStream::connect(("127.0.0.1", git)).await.is_ok();
    eventually("the daemon listens", connects).await;
    write_certificates(dir);
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let url = format!("git://127.0.0.1:{git}/a.git");
    let (kubeconfig, listen) = (file("kubeconfig"), format!("127.0.0.1:{port}"));
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let mut args = vec!["operator", "--kubeconfig", &kubeconfig, "--local-repositories", "--repo", &url];
    args.extend(["--git-webhook-cert", &cert, "--git-webhook-key", &key]);
    let start = |name: &str, listen: &str| {
        let cache = file(&format!("{name}-cache"));
        Running::start(
            name,
            dir,
            &[&args[..], &["--git-webhook-listen", listen, "--cache-dir", &cache]].concat(),
        )
    };
    let _operator = start("operator", &listen);
    eventually("the first commit is applied", async || hub.exists("a").await).await;
    let secrets: Api<Secret> = Api::namespaced(hub.server.client(), NAMESPACE);
    let secret = json!({"metadata": {"name": "hook"}, "stringData": {"token": SECRET}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let edit = json!({"spec": {"interval": "24h", "webhook": {"secretRef": {"name": "hook"}}}});
    let generation =
        repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap().metadata.generation;
    eventually("the spec is read", async || {
        repos.get("a").await.unwrap().status.unwrap_or_default().observed_generation == generation
    })
    .await;

    let body = json!({"ref": "refs/heads/main", "repository": {"clone_url": url}}).to_string();
    let (ca, hook) = (dir.join("ca.crt"), format!("/webhooks/{NAMESPACE}/a"));
    commit_map(Path::new(&path), "b");
    let none = deliver(port, &ca, "/webhooks/none/none", &hmac(SECRET, &body), &body).await;
    let forged = deliver(port, &ca, &hook, &hmac("another secret of 16", &body), &body).await;
    let ignored = || {
        let log = std::fs::read_to_string(dir.join("operator.log")).unwrap();
        log.matches("a webhook is ignored").count() == 2
    };
    eventually("both are ignored", async || ignored()).await;
    assert!(!hub.exists("b").await, "nobody asked for a fetch");
    let began = std::time::Instant::now();
    let right = deliver(port, &ca, &hook, &hmac(SECRET, &body), &body).await;
    assert_eq!(
        [none, forged, right],
        [const { "HTTP/1.1 202 Accepted" }; 3].map(|line| Some(line.to_owned()))
    );
    while !hub.exists("b").await {
        assert!(began.elapsed() < Duration::from_secs(30), "the webhook has the commit fetched");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    eprintln!("webhook to object on the hub: {} ms", began.elapsed().as_millis());

    let port = free_port();
    let _standby = start("standby", &format!("127.0.0.1:{port}"));
    commit_map(Path::new(&path), "c");
    let mut answer = None;
    eventually("the replica that does not lead receives it", async || {
        answer = deliver(port, &ca, &hook, &hmac(SECRET, &body), &body).await;
        answer.is_some()
    })
    .await;
    assert_eq!(answer.as_deref(), Some("HTTP/1.1 202 Accepted"));
    eventually("the leader fetches the commit", async || hub.exists("c").await).await;
    let annotations = repos.get("a").await.unwrap().metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key("gitops.wheelwright.dev/reconcile-at"), "no person asked for it");
    let log = std::fs::read_to_string(dir.join("standby.log")).unwrap();
    assert!(log.contains("received a webhook"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_is_reconciled_by_command_is_fetched_before_the_command_ends() {
    let hub = Hub::start().await;
    let (dir, path) = (hub.dir.path(), hub.repository("a"));
    let git = free_port();
    let _daemon = Running::git_daemon(dir, git);
    let connects = async || tokio::net::TcpStream::connect(("127.0.0.1", git)).await.is_ok();
    eventually("the daemon listens", connects).await;
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (kubeconfig, cache) = (file("kubeconfig"), file("cache"));
    let url = format!("git://127.0.0.1:{git}/a.git");
    let args = ["operator", "--kubeconfig", &kubeconfig, "--local-repositories", "--repo", &url];
    let _operator = Running::start("operator", dir, &[&args[..], &["--cache-dir", &cache]].concat());
    eventually("the first commit is applied", async || hub.exists("a").await).await;
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let edit = json!({"spec": {"interval": "24h"}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    for name in ["b", "c"] {
        commit_map(Path::new(&path), name);
        let printed = reconcile(&hub, "2m");
        let head = Repository::open_bare(&path).unwrap().refname_to_id("refs/heads/main").unwrap();
        assert!(printed.contains(&format!("is ready at {}", &head.to_string()[..12])), "{printed}");
        assert!(hub.exists(name).await, "{name}");
    }
}

/// Runs `wheelwright repo reconcile` and returns its output.
fn reconcile(hub: &Hub, timeout: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["repo", "reconcile", "a", "-n", NAMESPACE, "--timeout", timeout, "--kubeconfig"]);
    let output = command.arg(hub.dir.path().join("kubeconfig")).output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_waits_for_a_time_ends_the_command_with_the_time() {
    let hub = Hub::start().await;
    let url = hub.repository("a");
    let operator = hub.operator(&url);
    eventually("the first commit is applied", async || hub.exists("a").await).await;
    let began = (now() - SignedDuration::from_mins(1)).to_zoned(TimeZone::UTC);
    let schedule = format!("{} {} * * *", began.minute(), began.hour());
    let freeze =
        json!({"spec": {"freezeWindows": [{"name": "night", "schedule": schedule, "duration": "3h"}]}});
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    repos.patch("a", &PatchParams::default(), &Patch::Merge(freeze)).await.unwrap();
    commit_map(Path::new(&url), "b");
    let printed = reconcile(&hub, "2m");
    assert!(printed.contains("is not ready: Frozen: "), "{printed}");
    assert!(printed.contains(" waits for the freeze night to end at 2"), "{printed}");

    drop(operator);
    let printed = reconcile(&hub, "1s");
    assert!(printed.contains("has no result after 1s; its condition Ready is Frozen: "), "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_no_operator_answers_says_so() {
    let hub = Hub::start().await;
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(hub.server.client());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let metadata = json!({"name": "a", "namespace": NAMESPACE});
    let spec = json!({"url": "https://git.example/fleet", "ref": {"branch": "main"}});
    let repo = json!({"metadata": metadata, "spec": spec});
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    repos.create(&PostParams::default(), &serde_json::from_value(repo).unwrap()).await.unwrap();
    let printed = reconcile(&hub, "1s");
    let leader = printed.find("no operator has a lease in namespace wheelwright-system").expect(&printed);
    assert!(printed[leader..].contains("has no result after 1s"), "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_waits_for_health_says_so_before_it_ends() {
    let hub = Hub::start().await;
    let url = hub.repository("a");
    let _operator = hub.operator(&url);
    eventually("the first commit is applied", async || hub.exists("a").await).await;
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let limit = json!({"spec": {"healthTimeout": "3s"}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(limit)).await.unwrap();
    // No controller of this hub runs pods.
    let labels = json!({"app": "web"});
    let pod =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": pod});
    let metadata = json!({"name": "web", "namespace": "default"});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    commit_file(Path::new(&url), "web.yaml", &web.to_string());
    let printed = reconcile(&hub, "2m");
    let waits = printed.find("\nWaitingForHealth: ").unwrap_or_else(|| panic!("{printed}"));
    assert!(printed[waits..].contains("is not ready: HealthTimeout: "), "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reverted_large_file_needs_at_most_an_approval() {
    let hub = Hub::start().await;
    let (dir, path) = (hub.dir.path(), hub.repository("a"));
    let git = free_port();
    let _daemon = Running::git_daemon(dir, git);
    let connects = async || tokio::net::TcpStream::connect(("127.0.0.1", git)).await.is_ok();
    eventually("the daemon listens", connects).await;
    let _operator = hub.operator(&format!("git://127.0.0.1:{git}/a.git"));
    eventually("the first commit is applied", async || hub.exists("a").await).await;
    let large = |content: &str| commit_file(Path::new(&path), "movie.mp4", content);
    let zeros = "0".repeat(40 << 20);
    large(&zeros);
    let printed = reconcile(&hub, "2m");
    assert!(
        printed.contains("SourceRefused") && printed.contains("an object of more than 32 MiB"),
        "{printed}"
    );
    large("");
    let printed = reconcile(&hub, "2m");
    assert!(
        printed.contains("annotate the ConfigRepo: gitops.wheelwright.dev/accept-revision="),
        "{printed}"
    );
    let mut approve = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    approve.args(["repo", "approve", "a", "-n", NAMESPACE, "--kubeconfig"]).arg(dir.join("kubeconfig"));
    assert!(approve.output().unwrap().status.success());
    assert!(reconcile(&hub, "2m").contains("is ready at "));

    let mut config = Repository::open_bare(&path).unwrap().config().unwrap();
    config.set_bool("uploadpack.allowFilter", true).unwrap();
    large(&zeros);
    commit_map(Path::new(&path), "b");
    let printed = reconcile(&hub, "2m");
    assert!(printed.contains("is ready at ") && hub.exists("b").await, "{printed}");
}

/// Commits another ConfigMap.
pub(crate) fn commit_map(path: &Path, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
    commit_file(path, &format!("{name}.yaml"), &map);
}

/// Commits a file.
fn commit_file(path: &Path, file: &str, content: &str) {
    let repo = Repository::open_bare(path).unwrap();
    let parent = repo.find_commit(repo.refname_to_id("refs/heads/main").unwrap()).unwrap();
    let mut index = Index::new().unwrap();
    index.read_tree(&parent.tree().unwrap()).unwrap();
    let blob = repo.blob(content.as_bytes()).unwrap();
    index.add(&wheelwright::git::entry(file.to_owned(), blob)).unwrap();
    let tree = repo.find_tree(index.write_tree_to(&repo).unwrap()).unwrap();
    let me = Signature::now("Test", "test@example.com").unwrap();
    repo.commit(Some("refs/heads/main"), &me, &me, file, &tree, &[&parent]).unwrap();
}

/// Returns the commit at the tip of a branch.
pub(crate) fn tip(path: &Path, branch: &str) -> Option<Oid> {
    Repository::open_bare(path).unwrap().refname_to_id(&format!("refs/heads/{branch}")).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_with_a_stuck_fetch_stops_on_request() {
    let hub = Hub::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let operator = hub.operator(&format!("git://{}/x.git", silent.local_addr().unwrap()));
    let _connection = tokio::task::spawn_blocking(move || silent.accept().unwrap()).await.unwrap();
    assert!(operator.terminate(Duration::from_secs(10)), "it ends by itself");
}
