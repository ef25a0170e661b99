use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use git2::{Repository, Signature};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::git::tests::forge::{Forge, Server};
use crate::git::tests::recorder::Recorder;
use crate::git::tests::web::{Behavior, Web};
use crate::operator::source::fetch_places::{MAX_CONCURRENT_FETCHES, MAX_NAMESPACE_FETCHES};
use api::gitops::v1alpha1::{
    BranchDeletedPolicy, ConfigRepoStatus, Revision, RewrittenPolicy, SecretRef, SignerIdentity,
};
use object::Key;
use reconcile::{FailureKind, ReportTakeover};

/// Returns mirrors whose hub gets no requests, because no ConfigRepo here has a Secret.
pub(in crate::operator::source) fn mirrors(cache: &Path, local_repositories: bool) -> Mirrors {
    mirrors_of("127.0.0.1:1", cache, local_repositories)
}

/// Returns mirrors that read Secrets from a hub.
pub(in crate::operator::source) fn mirrors_of(hub: &str, cache: &Path, local_repositories: bool) -> Mirrors {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let hub = kube::Config::new(format!("http://{hub}").parse().unwrap());
    let options = SourceOptions { cache: cache.to_owned(), local_repositories, hosts: Vec::new() };
    Mirrors::new(Client::try_from(hub).unwrap(), options)
}

pub(in crate::operator::source) fn repo(namespace: &str, url: &str) -> ConfigRepo {
    let metadata = json!({"namespace": namespace, "name": "fleet", "uid": "u"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"url": url}})).unwrap()
}

/// Returns a repository with one commit, and its URL.
pub(in crate::operator::source) fn repository(dir: &Path) -> (String, String) {
    let path = dir.join("config.git");
    let repo = Repository::init_bare(&path).unwrap();
    let me = Signature::new("u", "u@x", &git2::Time::new(0, 0)).unwrap();
    let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let commit = repo.commit(Some("refs/heads/main"), &me, &me, "m", &tree, &[]).unwrap();
    (format!("file://{}", path.display()), commit.to_string())
}

pub(in crate::operator::source) fn key(namespace: &str, remote: &str) -> MirrorKey {
    MirrorKey { purpose: Purpose::Read, namespace: namespace.into(), remote: remote.into() }
}

#[tokio::test]
async fn a_slow_remote_delays_no_other_repository() {
    let dir = tempfile::tempdir().unwrap();
    let (url, commit) = repository(dir.path());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = format!("git://{}/x", silent.local_addr().unwrap());
    let mirrors = Arc::new(mirrors(&dir.path().join("cache"), true));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..MAX_CONCURRENT_FETCHES + 1 {
        let (mirrors, repo) = (Arc::clone(&mirrors), repo("slow", &slow));
        waiting.spawn(async move { mirrors.fetch(&repo, &Source::default()).await.is_ok() });
    }
    // The slow fetches are running once the server has a connection.
    let _connection = tokio::task::spawn_blocking(move || silent.accept().unwrap()).await.unwrap();
    let fast = repo("fast", &url);
    let fetched = timeout(Duration::from_secs(20), mirrors.fetch(&fast, &Source::default())).await;
    assert_eq!(fetched.expect("it waits for nobody").ok().unwrap().revision, commit);
    assert!(waiting.try_join_next().is_none(), "the others still wait");
}

/// Starts fetches from trickling servers, each with another URL, until `connected` of them are running.
async fn trickle(
    mirrors: &Arc<Mirrors>,
    namespaces: &[&str],
    connected: usize,
) -> (Vec<Server>, tokio::task::JoinSet<bool>) {
    let mut fetching = tokio::task::JoinSet::new();
    let mut servers = Vec::new();
    for namespace in namespaces {
        let server = Server::trickling();
        let (mirrors, repo) = (Arc::clone(mirrors), repo(namespace, &server.url));
        fetching.spawn(async move { mirrors.fetch(&repo, &Source::default()).await.is_ok() });
        servers.push(server);
    }
    let under_way = || servers.iter().filter(|server| server.connections.load(Relaxed) > 0).count();
    let all = async {
        while under_way() < connected {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), all).await.expect("the trickling servers have connections");
    (servers, fetching)
}

#[tokio::test]
async fn slow_remotes_of_one_namespace_delay_no_repository_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let (url, commit) = repository(dir.path());
    let mut mirrors = mirrors(&dir.path().join("cache"), true);
    mirrors.turn = OPERATION_TIMEOUT;
    let mirrors = Arc::new(mirrors);
    let (servers, mut fetching) = trickle(&mirrors, &["evil"; 8], MAX_NAMESPACE_FETCHES).await;
    let good = repo("good", &url);
    let fetched = timeout(Duration::from_secs(20), mirrors.fetch(&good, &Source::default())).await;
    assert_eq!(fetched.expect("it waits for nobody").ok().unwrap().revision, commit);
    assert!(fetching.try_join_next().is_none(), "the slow fetches still run or wait");
    let connected = servers.iter().filter(|server| server.connections.load(Relaxed) > 0).count();
    assert_eq!(connected, MAX_NAMESPACE_FETCHES, "the others wait for their own namespace");
}

#[tokio::test]
async fn slow_remotes_of_a_namespace_delay_no_other_repository_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (url, commit) = repository(dir.path());
    let mut mirrors = mirrors(&dir.path().join("cache"), true);
    mirrors.turn = Duration::from_millis(100);
    let mirrors = Arc::new(mirrors);
    let (_servers, mut fetching) =
        trickle(&mirrors, &["a"; MAX_NAMESPACE_FETCHES], MAX_NAMESPACE_FETCHES).await;
    let good = repo("a", &url);
    let fetched = timeout(Duration::from_secs(20), mirrors.fetch(&good, &Source::default())).await;
    assert_eq!(fetched.expect("it waits for nobody").ok().unwrap().revision, commit);
    assert!(fetching.try_join_next().is_none(), "the slow fetches still run");
}

#[tokio::test]
async fn slow_remotes_of_many_namespaces_hand_their_places_on() {
    let dir = tempfile::tempdir().unwrap();
    let (url, commit) = repository(dir.path());
    let mut mirrors = mirrors(&dir.path().join("cache"), true);
    mirrors.turn = Duration::from_millis(100);
    let mirrors = Arc::new(mirrors);
    let namespaces = ["evil-1", "evil-2", "evil-3"].repeat(MAX_NAMESPACE_FETCHES);
    let (_servers, mut fetching) = trickle(&mirrors, &namespaces, namespaces.len()).await;
    let good = repo("good", &url);
    let fetched = timeout(Duration::from_secs(20), mirrors.fetch(&good, &Source::default())).await;
    assert_eq!(fetched.expect("it waits for no slow fetch").ok().unwrap().revision, commit);
    assert!(fetching.try_join_next().is_none(), "the slow fetches still run");
}

#[test]
fn identities_of_artifacts_are_refused_for_commits() {
    let verify = Verify { identities: vec![SignerIdentity::default()], ..Verify::default() };
    let refused = verification(&verify, &SecretData::default(), None).unwrap_err();
    assert_eq!(refused.reason(), "InvalidCredentials");
    assert!(refused.to_string().contains("spec.verify.identities is for oci:// URLs only"), "{refused}");
}

#[tokio::test]
async fn a_repository_of_this_machine_needs_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    let (url, _) = repository(dir.path());
    let fetch = async |allowed: bool, url: &str| {
        let mirrors = mirrors(dir.path(), allowed);
        mirrors.fetch(&repo("a", url), &Source::default()).await.map_err(|failed| failed.error)
    };
    for url in [url.as_str(), "/nonexistent", "http://127.0.0.1:1/x", "git://localhost:1/x"] {
        let error = fetch(false, url).await.unwrap_err();
        assert_eq!(error.reason(), "InvalidURL", "{url}");
        assert!(error.to_string().contains("--local-repositories"), "{error}");
    }
    assert!(fetch(true, &url).await.is_ok());
    let refused = mirrors(dir.path(), false).push(report(url, None)).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Invalid);
}

fn report(url: String, secret: Option<Key>) -> Push {
    Push {
        repo: Key::namespaced("a", "fleet"),
        url,
        secret,
        branch: "status".into(),
        directory: String::new(),
        owner: "ConfigRepo config/fleet of hub 1".into(),
        last: String::new(),
        previous: String::new(),
        on_branch_deleted: BranchDeletedPolicy::Recreate,
        on_rewritten: RewrittenPolicy::Adopt,
        history_limit: 10,
        takes_over: ReportTakeover::Continued,
        files: BTreeMap::new(),
        message: String::new(),
        time: jiff::Timestamp::UNIX_EPOCH,
        author: None,
        signing: None,
    }
}

#[tokio::test]
async fn an_operator_does_not_follow_a_report_on_its_branch() {
    let forge = Forge::new();
    let (commit, server) = (forge.commit("main", &[("a", "1")]), forge.serve());
    let dir = tempfile::tempdir().unwrap();
    let mirrors = mirrors(dir.path(), true);
    let files = BTreeMap::from([("README.md".to_owned(), String::new())]);
    let report = Push { branch: "main".into(), files, ..report(server.url.clone(), None) };
    let pushed = mirrors.push(report).await.unwrap();
    assert_eq!(pushed, Answer::Commit(forge.tip("main").unwrap().to_string()));
    let fetched = mirrors.fetch(&repo("a", &server.url), &Source::default()).await.ok().unwrap();
    assert_eq!(fetched.revision, commit);
}

/// Returns a git server that only accepts the token `second22`, and a hub whose Secret has one token after the
/// other.
pub(in crate::operator::source) fn rotated(forge: &Forge, tokens: &[&str]) -> (Web, Recorder) {
    let authorization = Some(format!("Basic {}", STANDARD.encode("git:second22")));
    let web = Web::start(forge, Behavior { authorization, ..Behavior::default() });
    let answer = |token: &&str| {
        let metadata = ObjectMeta { resource_version: Some((*token).into()), ..ObjectMeta::default() };
        let data = Some(web.secret(&[("token", *token)]));
        let secret = serde_json::to_string(&Secret { metadata, data, ..Secret::default() }).unwrap();
        format!("200 OK\nContent-Type: application/json\n\n{secret}")
    };
    let answers: Vec<String> = tokens.iter().map(answer).collect();
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let hub = Recorder::start(&answers);
    (web, hub)
}

#[tokio::test]
async fn a_server_gets_no_push_before_the_time_that_it_named() {
    let forge = Forge::new();
    for (headers, asked_again) in [("Retry-After: 3600\r\n", false), ("Retry-After: 0\r\n", true)] {
        let refusal = Some((503, headers, ""));
        let web = Web::start(&forge, Behavior { refusal, ..Behavior::default() });
        let secret = Secret { data: Some(web.secret(&[])), ..Secret::default() };
        let secret =
            format!("200 OK\nContent-Type: application/json\n\n{}", serde_json::to_string(&secret).unwrap());
        let hub = Recorder::start(&[secret.as_str(); 3]);
        let dir = tempfile::tempdir().unwrap();
        let mirrors = mirrors_of(&hub.address.to_string(), dir.path(), true);
        let push = |secret| mirrors.push(report(web.url.clone(), Some(Key::namespaced("a", secret))));
        let refused = push("token").await.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Unavailable);
        assert!(refused.message.contains("is rate limiting"), "{}", refused.message);
        let requests = web.requests().len();
        assert_eq!(push("token").await, Err(refused), "the same text, so that the condition stays");
        assert_eq!(web.requests().len() > requests, asked_again, "{headers}");
        let requests = web.requests().len();
        assert!(push("other").await.is_err());
        assert!(web.requests().len() > requests, "the limit is that of a user");
    }
}

/// Returns a ConfigRepo with a Secret.
pub(in crate::operator::source) fn with_secret(url: &str) -> ConfigRepo {
    let mut repo = repo("a", url);
    repo.spec.secret_ref = Some(SecretRef { name: "token".into(), ..SecretRef::default() });
    repo
}

#[tokio::test]
async fn a_secret_that_changes_counts_from_the_next_fetch_and_the_next_push_on() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    // Rejected credentials are read again, and may be unchanged.
    let (first, second) = ("first222", "second22");
    let (web, hub) = rotated(&forge, &[first, first, first, first, second, second]);
    let dir = tempfile::tempdir().unwrap();
    let mirrors = mirrors_of(&hub.address.to_string(), dir.path(), true);
    let repo = with_secret(&web.url);
    let report = || report(web.url.clone(), Some(Key::namespaced("a", "token")));

    let refused = mirrors.fetch(&repo, &Source::default()).await.err().unwrap().error;
    assert_eq!(refused.reason(), "SourceUnauthorized", "{refused}");
    assert!(mirrors.push(report()).await.is_err() && forge.tip("status").is_none());
    assert_eq!(mirrors.fetch(&repo, &Source::default()).await.ok().unwrap().revision, commit);
    mirrors.push(report()).await.unwrap();
    assert!(forge.tip("status").is_some());
    let read: Vec<_> = hub.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(read, ["GET /api/v1/namespaces/a/secrets/token HTTP/1.1"; 6]);
}

#[tokio::test]
async fn a_secret_that_changes_during_a_fetch_or_a_push_is_read_again_once() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let (first, second) = ("first222", "second22");
    let (web, hub) = rotated(&forge, &[first, second, first, second, first, "third333"]);
    let dir = tempfile::tempdir().unwrap();
    let mirrors = mirrors_of(&hub.address.to_string(), dir.path(), true);
    let repo = with_secret(&web.url);
    assert_eq!(mirrors.fetch(&repo, &Source::default()).await.ok().unwrap().revision, commit);
    mirrors.push(report(web.url.clone(), Some(Key::namespaced("a", "token")))).await.unwrap();
    assert!(forge.tip("status").is_some());
    let refused = mirrors.fetch(&repo, &Source::default()).await.err().unwrap().error;
    assert_eq!((refused.reason(), hub.requests().len()), ("SourceUnauthorized", 6));
}

#[tokio::test]
async fn no_repository_leads_to_an_address_inside_that_no_flag_names() {
    let dir = tempfile::tempdir().unwrap();
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let port = inside.local_addr().unwrap().port();
    let mirrors = mirrors(dir.path(), false);
    let urls = [
        format!("https://127.0.0.1:{port}/x"),
        format!("https://localhost:{port}/x"),
        format!("https://[::ffff:127.0.0.1]:{port}/x"),
        "https://169.254.169.254/latest".into(),
        "https://10.255.255.1/x".into(),
    ];
    for url in urls {
        let error =
            mirrors.fetch(&repo("a", &url), &Source::default()).await.map_err(|f| f.error).unwrap_err();
        assert_eq!(error.reason(), "InvalidURL", "{url}: {error}");
        assert!(error.to_string().contains("address"), "{error}");
    }
    assert!(inside.accept().is_err(), "nobody connected");
}

#[tokio::test]
async fn an_operation_that_does_not_end_is_abandoned_with_its_mirror() {
    let dir = tempfile::tempdir().unwrap();
    let (url, _) = repository(dir.path());
    let mut mirrors = mirrors(&dir.path().join("cache"), true);
    mirrors.grace = Duration::from_millis(1);
    let run = async |mirrors: &Mirrors, work: Box<dyn FnOnce(&mut Mirror) + Send>| {
        let remote = Remote::parse(&url).unwrap();
        mirrors.with_mirror(key("a", "x"), remote, Credentials::default(), work).await
    };
    let mut ends = Vec::new();
    for _ in 0..MAX_ABANDONED {
        mirrors.longest = Duration::from_secs(60);
        run(&mirrors, Box::new(|_| ())).await.expect("a new mirror takes the place of the abandoned one");
        mirrors.longest = Duration::from_millis(50);
        let (end, ended) = channel::<()>();
        ends.push(end);
        let error = run(&mirrors, Box::new(move |_| assert!(ended.recv().is_err()))).await.unwrap_err();
        assert_eq!(error.reason(), "SourceAbandoned");
    }
    mirrors.longest = Duration::from_secs(60);
    let error = run(&mirrors, Box::new(|_| ())).await.unwrap_err();
    assert_eq!(error.reason(), "SourceAbandoned", "no further thread is risked");
    ends.clear();
    let again = async {
        while run(&mirrors, Box::new(|_| ())).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), again).await.expect("the threads have ended");
}

#[tokio::test]
async fn an_operation_that_panics_is_a_failure_of_that_operation() {
    let dir = tempfile::tempdir().unwrap();
    let (url, _) = repository(dir.path());
    let mirrors = mirrors(&dir.path().join("cache"), true);
    let remote = || Remote::parse(&url).unwrap();
    let panics = |_: &mut Mirror| -> () { panic!("a bug") };
    let failed = mirrors.with_mirror(key("a", "x"), remote(), Credentials::default(), panics).await;
    assert_eq!(failed.unwrap_err().reason(), "GitCacheFailed");
    let fine = mirrors.with_mirror(key("a", "x"), remote(), Credentials::default(), |_| 1).await;
    assert_eq!(fine, Ok(1));
}

#[tokio::test]
async fn an_operation_without_a_caller_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let (url, _) = repository(dir.path());
    let mirrors = mirrors(&dir.path().join("cache"), true);
    let (began, begun) = tokio::sync::oneshot::channel();
    let (end, ended) = channel();
    let work = move |mirror: &mut Mirror| {
        let _ = began.send(());
        let cancelled = timeout(Duration::from_secs(20), mirror.cancel.cancelled());
        let _ = end.send(tokio::runtime::Handle::current().block_on(cancelled).is_ok());
    };
    let remote = Remote::parse(&url).unwrap();
    {
        let running = mirrors.with_mirror(key("a", "x"), remote, Credentials::default(), work);
        tokio::select! {
            _ = running => panic!("it runs until it is canceled"),
            _ = begun => {}
        }
    }
    assert!(tokio::task::spawn_blocking(move || ended.recv().unwrap()).await.unwrap());
}

#[tokio::test]
async fn namespaces_share_no_mirror() {
    let dir = tempfile::tempdir().unwrap();
    let mirrors = mirrors(dir.path(), true);
    let (a, in_a) = mirrors.slot(&key("a", "x")).unwrap();
    let (b, in_b) = mirrors.slot(&key("b", "x")).unwrap();
    assert!(!Arc::ptr_eq(&a, &b) && in_a != in_b);
}

#[test]
fn history_counts_only_for_the_same_reference_and_url() {
    let seen = |url: &str, reference: &str| {
        let mut repo = repo("a", "https://git.example/x");
        let revision = Revision {
            commit: "1".repeat(40),
            url: url.into(),
            reference: reference.into(),
            ..Revision::default()
        };
        repo.status = Some(ConfigRepoStatus { seen: Some(revision), ..ConfigRepoStatus::default() });
        // An edit of another field makes the spec newer than the status.
        repo.metadata.generation = Some(7);
        history(&repo, &Source::default()).0
    };
    assert_eq!(seen("https://git.example/x", "main"), Some("1".repeat(40)));
    assert_eq!(seen("https://git.example/x", "next"), None);
    assert_eq!(seen("https://git.example/y", "main"), None);
}
