use std::time::Duration;

use super::*;
use crate::git::tests::forge::Forge;
use crate::git::tests::recorder::Recorder;
use crate::operator::source::charts::tests::{Fixture, answer, private};
use crate::operator::source::mirrors::tests::{mirrors_of, repository, rotated, with_secret};

#[test]
fn hints_are_one_fetch_and_no_more_than_one_a_second() {
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let mut one = RepoState { due: Some(at(60)), ..RepoState::default() };
    one.hint(at(10));
    assert_eq!(one.due, Some(at(10)));
    one.hint(at(12));
    assert_eq!((one.due, one.hinted), (Some(at(10)), Some(at(10))), "the first one counts");
    (one.began, one.due) = (Some(at(10)), Some(at(70)));
    one.hint(at(10));
    one.hint(at(10));
    assert_eq!(one.due, Some(at(11)));
}

#[test]
fn no_hint_asks_a_server_before_the_time_that_it_named() {
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let (due, paused) = (Some(at(120)), Some(at(120)));
    let mut one = RepoState { due, paused, ..RepoState::default() };
    one.hint(at(10));
    assert_eq!(one.due, Some(at(120)));
    one.hint(at(130));
    assert_eq!(one.rests_until(at(130)), None);
}

#[test]
fn setting_the_clock_back_delays_no_fetch() {
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let mut one = RepoState { began: Some(at(86_400)), due: Some(at(86_460)), ..RepoState::default() };
    assert_eq!(one.rests_until(at(86_401)), Some(at(86_460)));
    assert_eq!([86_460, 86_399, 0].map(|now| one.rests_until(at(now))), [None; 3]);
    one.hint(at(0));
    assert_eq!(one.due, Some(at(0)));
}

#[test]
fn repositories_that_were_created_together_are_fetched_at_different_times() {
    let minute = SignedDuration::from_mins(1);
    let waits = (0..50).map(|number| spread(&Key::namespaced("a", format!("team-{number}")), minute));
    let waits: BTreeSet<_> = waits.collect();
    assert!(waits.len() > 20, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait > minute * 9 / 10 - minute / 100 && *wait <= minute), "{waits:?}");
}

#[tokio::test]
async fn a_repository_of_this_machine_is_watched_only_with_the_flag() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    git2::Repository::init_bare(dir.path()).unwrap();
    let spec = serde_json::json!({"url": dir.path()});
    let repo = serde_json::json!({"metadata": {"namespace": "a", "name": "fleet"}, "spec": spec});
    let repo: ConfigRepo = serde_json::from_value(repo).unwrap();
    for local_repositories in [false, true] {
        let hub = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let options = SourceOptions { cache: dir.path().into(), local_repositories, hosts: Vec::new() };
        let mirrors = Mirrors::new(kube::Client::try_from(hub).unwrap(), options);
        let watcher = watch_local(&mirrors, &repo, &mpsc::channel(1).0);
        assert_eq!(watcher.is_some(), local_repositories);
    }
}

#[tokio::test]
async fn local_changes_beyond_the_queue_are_dropped_and_block_nothing() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let repository = git2::Repository::init_bare(dir.path()).unwrap();
    let tree = repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let author = git2::Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
    let commit = repository.commit(None, &author, &author, "one", &tree, &[]).unwrap();
    let repo =
        serde_json::json!({"metadata": {"namespace": "a", "name": "fleet"}, "spec": {"url": dir.path()}});
    let repo: ConfigRepo = serde_json::from_value(repo).unwrap();
    let hub = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let options = SourceOptions { cache: dir.path().into(), local_repositories: true, hosts: Vec::new() };
    let mirrors = Mirrors::new(kube::Client::try_from(hub).unwrap(), options);
    let (changed, mut changes) = mpsc::channel(1);
    let _watcher = watch_local(&mirrors, &repo, &changed).unwrap();
    for round in 0..2 {
        for branch in 0..50 {
            let name = format!("refs/heads/{round}-{branch}");
            repository.reference(&name, commit, true, "test").unwrap();
        }
        let key = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
        assert_eq!(key.expect("a change arrives").unwrap(), Key::namespaced("a", "fleet"));
        assert!(changes.len() <= 1);
    }
}

#[tokio::test]
async fn a_secret_that_changes_after_fetches_were_refused_has_the_repository_fetched() {
    let (forge, dir) = (Forge::new(), tempfile::tempdir().unwrap());
    forge.commit("main", &[("a", "1")]);
    let first = "first222";
    // The version, the credentials, both again after the rejection, and two checks.
    let (web, hub) = rotated(&forge, &[first, first, first, first, "second22"]);
    let mut mirrors = mirrors_of(&hub.address.to_string(), dir.path(), true);
    mirrors.secrets.look = Duration::from_millis(1);
    let failure = SourceFailure { reason: "SourceUnauthorized", message: String::new() };
    let before = Source { failure: Some(failure), ..Source::default() };
    let (changed, mut changes) = mpsc::channel(1);
    let fetched = fetch(Arc::new(mirrors), Arc::new(with_secret(&web.url)), before, changed).await;
    assert_eq!(fetched.source.failure.map(|failure| failure.reason), Some("SourceUnauthorized"));
    let key = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
    assert_eq!(key.expect("the change arrives"), Some(Key::namespaced("a", "fleet")));
    assert_eq!(hub.requests().len(), 5);
}

#[tokio::test]
async fn a_secret_for_charts_that_changes_after_its_login_was_refused_has_the_repository_fetched() {
    let (fixture, dir) = (Fixture::start(), tempfile::tempdir().unwrap());
    fixture.serves("one");
    fixture.requires_login();
    let (url, _) = repository(dir.path());
    let (old, new) = (answer("1", fixture.secret("another22")), answer("2", fixture.secret("hunter22")));
    // The version, the credentials, and a check of the version.
    let hub = Recorder::start(&[&old, &old, &new, &new].map(String::as_str));
    let mut mirrors = mirrors_of(&hub.address.to_string(), &dir.path().join("cache"), true);
    mirrors.secrets.look = Duration::from_millis(1);
    let (mirrors, repo) = (Arc::new(mirrors), Arc::new(private(&url, fixture.chart(""))));
    let failure = SourceFailure { reason: "ChartUnauthorized", message: String::new() };
    let before = Source { failure: Some(failure), ..Source::default() };
    let (changed, mut changes) = mpsc::channel(1);
    let fetched = fetch(Arc::clone(&mirrors), Arc::clone(&repo), before, changed).await;
    let failure = fetched.source.failure.clone().unwrap();
    assert_eq!(failure.reason, "ChartUnauthorized");
    assert!(failure.message.contains("refuses the login"), "{}", failure.message);
    let key = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
    assert_eq!(key.expect("the change arrives"), Some(Key::namespaced("a", "fleet")));
    let checkout = mirrors.fetch_with_charts(&repo, &fetched.source).await.ok().unwrap();
    assert_eq!(checkout.tree.charts().len(), 1);
}

#[test]
fn a_rewind_comes_with_the_annotation_that_accepts_it() {
    let rewound = git::Error::Rewound { what: "branch main".into(), from: "a1".into(), to: "b2".into() };
    let message = message(&rewound);
    assert!(!message.contains("applied"), "it knows what was fetched, not what was applied: {message}");
    assert!(
        message.ends_with("annotate the ConfigRepo: gitops.wheelwright.dev/accept-revision=a1..b2"),
        "{message}"
    );
}
