use std::sync::Mutex;

use object::tree::FileTree;

use super::*;
use crate::git::Egress;
use crate::git::tests::charts::page;
use crate::git::tests::forge::Forge;
use crate::git::tests::web::{Behavior, Page, Web};
use crate::operator::source::mirrors::tests::{mirrors, repo, repository};

/// A repository of charts, and the store that downloads from it.
struct Fixture {
    _forge: Forge,
    web: Web,
    pages: Arc<Mutex<Vec<Page>>>,
    dir: tempfile::TempDir,
}

impl Fixture {
    fn start() -> Self {
        let (forge, pages) = (Forge::new(), Arc::new(Mutex::new(Vec::new())));
        let web = Web::start(&forge, Behavior { pages: Arc::clone(&pages), ..Behavior::default() });
        Self { _forge: forge, web, pages, dir: tempfile::tempdir().unwrap() }
    }

    fn serves(&self, content: &str) {
        let index = "entries: {web: [{version: 1.2.3, urls: [web.tgz]}]}";
        *self.pages.lock().unwrap() = vec![page("/index.yaml", index), page("/web.tgz", content)];
    }

    fn store(&self, namespace: &str) -> Store {
        let downloads = Downloads {
            credentials: crate::git::Credentials::from_secret(&self.web.secret(&[])).unwrap(),
            egress: Egress::Hosts { names: Vec::new(), loopback: true },
            cancel: CancellationToken::new(),
            arrivals: Arc::default(),
        };
        let blobs = Blobs::new(self.dir.path().join("charts"), namespace);
        Store { blobs, until: Instant::now() + DOWNLOADS_TIMEOUT, downloads }
    }

    fn chart(&self, digest: &str) -> RemoteChart {
        let address = self.web.url.trim_end_matches("/config.git");
        RemoteChart { chart: format!("{address}/web:1.2.3"), digest: digest.into(), ..RemoteChart::default() }
    }

    /// Returns the content of the chart, or the failure.
    fn archive(&self, namespace: &str, digest: &str) -> Result<String, String> {
        let (archives, failure) = self.store(namespace).archives(vec![self.chart(digest)], &Archives::new());
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
