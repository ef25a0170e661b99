use std::sync::Mutex;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use object::tree::FileTree;
use serde_json::json;

use super::*;
use crate::git::Egress;
use crate::git::tests::charts::page;
use crate::git::tests::forge::Forge;
use crate::git::tests::recorder::Recorder;
use crate::git::tests::web::{Behavior, Page, Web};
use crate::operator::source::mirrors::tests::{mirrors, mirrors_of, repo, repository};

/// A repository of charts, and the store that downloads from it.
pub(in crate::operator::source) struct Fixture {
    _forge: Forge,
    web: Web,
    pages: Arc<Mutex<Vec<Page>>>,
    dir: tempfile::TempDir,
}

impl Fixture {
    pub(in crate::operator::source) fn start() -> Self {
        let (forge, pages) = (Forge::new(), Arc::new(Mutex::new(Vec::new())));
        let web = Web::start(&forge, Behavior { pages: Arc::clone(&pages), ..Behavior::default() });
        Self { _forge: forge, web, pages, dir: tempfile::tempdir().unwrap() }
    }

    pub(in crate::operator::source) fn serves(&self, content: &str) {
        let index = "entries: {web: [{version: 1.2.3, urls: [web.tgz]}]}";
        *self.pages.lock().unwrap() = vec![page("/index.yaml", index), page("/web.tgz", content)];
    }

    /// Requires the login `me:hunter22` from now on.
    pub(in crate::operator::source) fn requires_login(&self) {
        let mut pages = self.pages.lock().unwrap();
        pages.iter_mut().for_each(|page| page.authorization = Some("Basic bWU6aHVudGVyMjI="));
        pages.push(Page { head: "401 Unauthorized".into(), ..page("/index.yaml", "") });
    }

    /// Returns the data of a Secret for charts.
    pub(in crate::operator::source) fn secret(&self, password: &str) -> BTreeMap<String, ByteString> {
        let login = json!({"username": "me", "password": password});
        let config = json!({"auths": {self.web.address.to_string(): login}});
        self.web.secret(&[(".dockerconfigjson", &config.to_string())])
    }

    fn store(&self, namespace: &str) -> Store {
        self.store_with(namespace, &self.web.secret(&[]))
    }

    fn store_with(&self, namespace: &str, secret: &BTreeMap<String, ByteString>) -> Store {
        let downloads = Downloads {
            credentials: Credentials::from_secret(secret).unwrap(),
            egress: Egress::Hosts { names: Vec::new(), loopback: true },
            cancel: CancellationToken::new(),
            arrivals: Arc::default(),
        };
        let blobs = Blobs::new(self.dir.path().join("charts"), namespace);
        Store { blobs, until: Instant::now() + DOWNLOADS_TIMEOUT, downloads }
    }

    pub(in crate::operator::source) fn chart(&self, digest: &str) -> RemoteChart {
        let address = self.web.url.trim_end_matches("/config.git");
        RemoteChart { chart: format!("{address}/web:1.2.3"), digest: digest.into(), ..RemoteChart::default() }
    }

    /// Returns the content of the chart, or the failure.
    fn archive(&self, namespace: &str, digest: &str) -> Result<String, String> {
        self.archive_of(&self.store(namespace), digest)
    }

    fn archive_of(&self, store: &Store, digest: &str) -> Result<String, String> {
        let (archives, failure) = store.archives(vec![self.chart(digest)], &Archives::new());
        match failure {
            Some(error) => Err(error.to_string()),
            None => Ok(String::from_utf8(archives.into_values().next().unwrap().to_vec()).unwrap()),
        }
    }
}

#[test]
fn a_chart_is_downloaded_once_and_its_content_never_changes() {
    let fixture = Fixture::start();
    fixture.serves("one");
    let pinned = chart_digest(b"one");
    assert_eq!(fixture.archive("a", "").as_deref(), Ok("one"));
    fixture.serves("two");
    assert_eq!(fixture.archive("a", &pinned).as_deref(), Ok("one"), "it is on disk");
    fixture.pages.lock().unwrap().clear();
    assert_eq!(fixture.archive("a", &pinned).as_deref(), Ok("one"), "the repository is down");
    assert!(fixture.archive("b", &pinned).is_err(), "another namespace may not read the repository");

    fixture.serves("two");
    let file = fixture.dir.path().join("charts/a").join(pinned.trim_start_matches("sha256:"));
    std::fs::write(file, "damaged").unwrap();
    let swapped = fixture.archive("a", &pinned).unwrap_err();
    let expected = format!(
        "its content was swapped: the repository serves {} for a version that was {pinned}",
        chart_digest(b"two")
    );
    assert!(swapped.contains(&expected), "{swapped}");
    fixture.serves("one");
    assert_eq!(fixture.archive("a", &pinned).as_deref(), Ok("one"));
}

#[test]
fn one_missing_chart_does_not_hide_the_others_and_their_size_is_limited() {
    let fixture = Fixture::start();
    fixture.serves("one");
    let missing = RemoteChart { chart: fixture.chart("").chart.replace("web:", "no:"), ..fixture.chart("") };
    let (archives, failure) = fixture.store("a").archives(vec![missing, fixture.chart("")], &Archives::new());
    assert_eq!(archives.len(), 1);
    assert!(failure.unwrap().to_string().contains("index.yaml has no chart no"));
    let late = Store { until: Instant::now() - Duration::from_secs(1), ..fixture.store("a") };
    let cached = RemoteChart { digest: chart_digest(b"one"), ..fixture.chart("") };
    assert!(late.archives(vec![cached], &Archives::new()).1.is_none(), "what is on disk takes no time");
    let (archives, failure) = late.archives(vec![fixture.chart("")], &Archives::new());
    assert!(archives.is_empty() && failure.unwrap().to_string().contains("the next fetch continues"));
    let large: Archives = [("large".to_owned(), vec![0; MAX_CHART_BYTES].into())].into_iter().collect();
    let known = RemoteChart { chart: "large".into(), ..RemoteChart::default() };
    let (archives, failure) = fixture.store("a").archives(vec![known, fixture.chart("")], &large);
    assert_eq!(archives.len(), 1);
    assert!(failure.unwrap().to_string().contains("have more than 64 MiB"));
}

#[tokio::test]
async fn a_commit_with_the_charts_of_its_status_is_shared_until_one_of_them_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (url, commit) = repository(dir.path());
    let mirrors = mirrors(&dir.path().join("cache"), true);
    let mut repo = repo("a", &url);
    let mut tree = FileTree::default();
    tree.insert_chart("https://charts.invalid/web:1.2.3", *b"one");
    let last = Arc::new(Checkout { revision: commit.clone(), tree });
    let before = Source { checkout: Some(Arc::clone(&last)), ..Source::default() };
    let chart = RemoteChart {
        chart: "https://charts.invalid/web:1.2.3".into(),
        digest: chart_digest(b"one"),
        ..RemoteChart::default()
    };
    repo.status.get_or_insert_default().charts.push(chart.clone());
    let fetched = mirrors.fetch_with_charts(&repo, &before).await.ok().unwrap();
    assert!(Arc::ptr_eq(&fetched, &last));

    let other = RemoteChart { chart: "http://charts.invalid/web:1.2.4".into(), ..RemoteChart::default() };
    repo.status.get_or_insert_default().charts.push(other);
    let FetchError { checkout, error } = mirrors.fetch_with_charts(&repo, &before).await.err().unwrap();
    let checkout = checkout.unwrap();
    assert_eq!((checkout.revision.as_str(), checkout.tree.charts().len()), (commit.as_str(), 1));
    assert_eq!(error.reason(), "ChartUnavailable");

    repo.status.get_or_insert_default().charts.clear();
    let without = mirrors.fetch_with_charts(&repo, &before).await.ok().unwrap();
    assert!(without.tree.charts().is_empty());
}

#[test]
fn a_chart_that_was_fetched_with_a_login_is_in_no_cache_of_another_namespace() {
    let fixture = Fixture::start();
    fixture.serves("one");
    fixture.requires_login();
    let private = |namespace: &str| fixture.store_with(namespace, &fixture.secret("hunter22"));
    let pinned = chart_digest(b"one");
    assert_eq!(fixture.archive_of(&private("a"), "").as_deref(), Ok("one"));
    // A tenant can write any digest into the status of its ConfigRepo.
    for digest in ["", &pinned, "sha256:../a", &format!("../a/{pinned}")] {
        let refused = fixture.archive("b", digest).unwrap_err();
        assert!(refused.contains("requires a login"), "{refused}");
    }
    assert_eq!(fixture.archive_of(&private("b"), &pinned).as_deref(), Ok("one"));
    let refused = fixture.archive("a", "").unwrap_err();
    assert!(
        refused.contains("requires a login"),
        "a version without a digest is not in the cache: {refused}"
    );
}

/// Returns a ConfigRepo with a Secret for charts, and this chart.
pub(in crate::operator::source) fn private(url: &str, chart: RemoteChart) -> ConfigRepo {
    let mut repo = repo("a", url);
    let secret_ref = SecretRef { name: "charts".into(), ..SecretRef::default() };
    repo.spec.charts = Some(ChartRepositories { secret_ref, ..ChartRepositories::default() });
    repo.status.get_or_insert_default().charts.push(chart);
    repo
}

/// Returns the answer of a hub with a Secret.
pub(in crate::operator::source) fn answer(version: &str, data: BTreeMap<String, ByteString>) -> String {
    let metadata = ObjectMeta { resource_version: Some(version.into()), ..ObjectMeta::default() };
    let secret = Secret { metadata, data: Some(data), ..Secret::default() };
    format!("200 OK\nContent-Type: application/json\n\n{}", serde_json::to_string(&secret).unwrap())
}

#[tokio::test]
async fn a_login_for_the_repository_is_used_for_charts_only_if_the_spec_says_so() {
    let (fixture, dir) = (Fixture::start(), tempfile::tempdir().unwrap());
    fixture.serves("one");
    fixture.requires_login();
    let (url, _) = repository(dir.path());
    let secret = answer("1", fixture.secret("hunter22"));
    let hub = Recorder::start(&[secret.as_str(); 5]);
    let mirrors = mirrors_of(&hub.address.to_string(), &dir.path().join("cache"), true);
    let mut repo = private(&url, fixture.chart(""));
    let charts = repo.spec.charts.take();
    repo.spec.secret_ref = charts.as_ref().map(|charts| charts.secret_ref.clone());
    let FetchError { error, .. } = mirrors.fetch_with_charts(&repo, &Source::default()).await.err().unwrap();
    assert!(error.to_string().contains("requires a login"), "{error}");
    assert!(fixture.web.requests().iter().all(|seen| !seen.headers.contains_key("authorization")));
    repo.spec.charts = charts;
    let checkout = mirrors.fetch_with_charts(&repo, &Source::default()).await.ok().unwrap();
    assert_eq!(checkout.tree.charts().len(), 1);
    assert_eq!(hub.requests().len(), 5);
}

#[tokio::test]
async fn a_deleted_secret_is_reported_and_the_charts_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (url, commit) = repository(dir.path());
    let absent =
        json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}).to_string();
    let absent = format!("404 Not Found\nContent-Type: application/json\n\n{absent}");
    let hub = Recorder::start(&[absent.as_str(); 2]);
    let mirrors = mirrors_of(&hub.address.to_string(), &dir.path().join("cache"), true);
    let chart = RemoteChart {
        chart: "https://charts.invalid/web:1.2.3".into(),
        digest: chart_digest(b"one"),
        ..RemoteChart::default()
    };
    let mut repo = private(&url, chart.clone());
    let mut tree = FileTree::default();
    tree.insert_chart(&chart.chart, *b"one");
    let checkout = Some(Arc::new(Checkout { revision: commit, tree }));
    let before = Source { checkout, ..Source::default() };
    for more in [None, Some(RemoteChart { chart: "https://charts.invalid/more:1.2.3".into(), ..chart })] {
        repo.status.get_or_insert_default().charts.extend(more);
        let FetchError { checkout, error } = mirrors.fetch_with_charts(&repo, &before).await.err().unwrap();
        let expected = "cannot read the Secret a/charts: it does not exist; create it";
        assert_eq!((error.reason(), error.to_string().as_str()), ("InvalidCredentials", expected));
        assert_eq!(checkout.unwrap().tree.charts().len(), 1);
    }
    assert_eq!(hub.requests().len(), 2);
}
