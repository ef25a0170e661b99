use super::*;
use controllers::hub::overview::{AddOnSummary, ClusterSummary, Group, PlacementSummary, Repository};
use engine::rollout::ClusterState;
use std::sync::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

fn cluster(name: String, state: ClusterState) -> ClusterSummary {
    let runs = "proxy-1.2@0123".to_owned();
    ClusterSummary { name, runs, state, available: true, message: "<script>alert(1)</script>\r\n".into() }
}

fn fleet(clusters: usize) -> Overview {
    let mut all: Vec<_> =
        (0..clusters).map(|n| cluster(format!("cluster-{n}"), ClusterState::Done)).collect();
    all.push(cluster("last".into(), ClusterState::TimedOut));
    let group = Group { placement: "fleet/all".into(), name: "canary".into(), clusters: all };
    let add_on = AddOnSummary {
        name: "proxy".into(),
        settled: clusters,
        failed: 1,
        total: clusters + 1,
        holds: vec!["waits for the approval \"x\"".into()],
        groups: vec![group],
    };
    Overview {
        repositories: vec![Repository {
            name: "a/fleet".into(),
            url: "https://'\"&".into(),
            ..Repository::default()
        }],
        placements: vec![PlacementSummary {
            name: "fleet/all".into(),
            satisfied: true,
            ..PlacementSummary::default()
        }],
        add_ons: vec![add_on],
        ..Overview::default()
    }
}

#[test]
fn a_text_of_the_hub_never_becomes_markup() {
    let html = page::content(&fleet(1));
    assert!(!html.contains("<script") && !html.contains('\r'), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
    assert!(html.contains("https://&#39;&quot;&amp;"), "{html}");
}

#[test]
fn a_page_of_a_thousand_clusters_stays_small_and_shows_the_failed_ones() {
    let html = page::page(&page::content(&fleet(1000)));
    assert!(html.len() < 100_000, "{} bytes", html.len());
    assert!(html.contains("> last</b>"), "the cluster in trouble is not among those that are shown");
    assert!(html.contains("and 801 more"), "{html}");
}

/// Sends a request and gives what has been answered up to `end`.
async fn answer(url: &str, path: &str, end: &str) -> String {
    let url = url.strip_prefix("http://").unwrap();
    let (address, secret) = url.split_once('/').unwrap();
    let path = path.replace("SECRET", secret.trim_end_matches('/'));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    if end.is_empty() {
        reader.read_to_string(&mut text).await.unwrap();
    } else {
        while !text.contains(end) {
            assert!(reader.read_line(&mut text).await.unwrap() > 0, "it ends before {end}: {text}");
        }
    }
    text
}

#[tokio::test]
async fn the_page_follows_the_fleet_and_opens_only_with_its_secret() {
    let fleet = Arc::new(Mutex::new(fleet(1)));
    let dashboard = Dashboard::listen(0).await.unwrap();
    let (url, stop) = (dashboard.url.clone(), CancellationToken::new());
    let seen = Arc::clone(&fleet);
    let read: ReadOverview = Arc::new(move || Ok(seen.lock().unwrap().clone()));
    let serving = tokio::spawn(dashboard.serve(read, stop.clone()));

    let index = answer(&url, "/SECRET/", "").await;
    assert!(index.starts_with("HTTP/1.1 200"), "{index}");
    assert!(index.contains("content-security-policy: default-src 'none'"), "{index}");
    assert!(index.contains("cluster-0") && index.contains("TimedOut"), "{index}");
    for foreign in ["/", "/events", "/0123456789abcdef0123456789abcdef/"] {
        let refused = answer(&url, foreign, "").await;
        assert!(refused.starts_with("HTTP/1.1 404"), "{foreign}: {refused}");
    }
    let change = async {
        answer(&url, "/SECRET/events", "cluster-0").await;
        fleet.lock().unwrap().add_ons[0].groups[0].clusters[0].name = "renamed".into();
        answer(&url, "/SECRET/events", "renamed").await
    };
    let events = tokio::time::timeout(Duration::from_secs(30), change).await.unwrap();
    assert!(events.contains("text/event-stream"), "{events}");
    stop.cancel();
    serving.await.unwrap().unwrap();
}
