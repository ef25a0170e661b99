use super::html::Frame;
use super::query::{FleetQuery, View};
use super::rights::{Right, Rights};
use super::shown::Shown;
use super::visitor::{STREAMS, Visitors};
use super::{ClusterObjects, LocalDashboard, PlacementQuery, ReadFleet, page, placement, rollout};
use controllers::hub::overview::{
    ClusterSummary, GroupSummary, HeldObjects, ObjectList, Overview, PlacementOverview, ReportSummary,
    Repository, UnavailableCluster, WorkloadSummary,
};
use controllers::hub::placement::LabelChange;
use engine::placement::explain::{ClusterExplanation, Explanation, SchedulingState};
use engine::rollout::ClusterState;
use http::{Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use maud::Markup;
use object::Key;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

mod cluster;
mod pages;
mod waiting;

fn cluster(name: String, state: ClusterState) -> ClusterSummary {
    let runs = "proxy-1.2@0123".to_owned();
    ClusterSummary {
        name,
        runs,
        state,
        available: true,
        reports_error: false,
        message: "<script>alert(1)</script>\r\n".into(),
        since: None,
    }
}

/// Returns a time one day after the times in the fleets.
fn now() -> Timestamp {
    "2026-01-03T03:04:05Z".parse().unwrap()
}

/// Returns the overview for a visitor with these rights.
fn content_for(rights: &Rights, overview: &Overview) -> String {
    page::content("", &Shown::to(rights, overview), now()).into_string()
}

/// Returns the overview for a visitor who may see everything.
fn content(overview: &Overview) -> String {
    content_for(&Rights::every(), overview)
}

/// Returns the page of a rollout for a visitor who may see everything.
fn rollout_page(name: &str, overview: &Overview) -> String {
    rollout::content(name, &Shown::to(&Rights::every(), overview), now()).unwrap().into_string()
}

/// Returns a page of the fleet for a visitor who may see everything.
fn view(view: View, query: Value, overview: &Overview) -> String {
    let query = FleetQuery { view, ..serde_json::from_value(query).unwrap() };
    query.content(&Shown::to(&Rights::every(), overview), now()).unwrap().into_string()
}

/// Returns the table of clusters for a visitor who may see everything.
fn table_page(query: Value, overview: &Overview) -> String {
    view(View::Clusters, query, overview)
}

/// Returns the page of a repository for a visitor who may see everything.
fn repository_page(overview: &Overview) -> String {
    view(View::Repository, json!({"of": "a/fleet"}), overview)
}

/// Returns the page of a placement with the clusters whose names contain a text.
fn placement_page(explanation: &Explanation, q: &str) -> String {
    placement::page(explanation, &serde_json::from_value(json!({"of": "", "q": q})).unwrap(), None)
}

/// Returns the document of the overview.
fn document(overview: &Overview) -> String {
    let content = page::content("", &Shown::to(&Rights::every(), overview), now());
    Frame { title: "Fleet", visitor: Some("<i>"), events: "events?of=", ..Frame::default() }
        .document(&content)
}

fn reported(commit: &str, summary: &str) -> ReportSummary {
    let time = "2026-01-02T03:04:05Z".into();
    ReportSummary { commit: commit.into(), time, summary: summary.into() }
}

fn fleet(clusters: usize) -> Overview {
    let mut all: Vec<_> =
        (0..clusters).map(|n| cluster(format!("cluster-{n}"), ClusterState::Done)).collect();
    all.push(cluster("last".into(), ClusterState::TimedOut));
    let group = GroupSummary { placement: "fleet/all".into(), name: "canary".into(), clusters: all };
    let add_on = WorkloadSummary {
        name: "proxy".into(),
        settled: clusters,
        failed: 1,
        total: clusters + 1,
        holds: vec!["waits for the approval \"x\"".into()],
        corrections: vec!["fleet/all: mandatory group pilot".into()],
        groups: vec![group],
        ..WorkloadSummary::default()
    };
    let edge = ClusterSummary { runs: "0123abcd".into(), ..cluster("edge".into(), ClusterState::Done) };
    let one = GroupSummary { clusters: vec![edge], ..GroupSummary::default() };
    let set = WorkloadSummary {
        name: "team/settings".into(),
        settled: 1,
        total: 1,
        groups: vec![one],
        ..WorkloadSummary::default()
    };
    Overview {
        repositories: vec![Repository {
            name: "a/fleet".into(),
            url: "https://'\"&".into(),
            held_plan: "c0de<i>".into(),
            held_deletions: Some(HeldObjects {
                approval: "d0<i>".into(),
                objects: vec!["Namespace <i>".into()],
                more: 5,
                until: String::new(),
            }),
            report_error: "the server refused <i>".into(),
            reports: vec![
                reported("0123", "it is done on <i>"),
                reported("abcd", "every cluster is up to date"),
            ],
            ..Repository::default()
        }],
        placements: vec![PlacementOverview {
            name: "fleet/all".into(),
            satisfied: true,
            ..PlacementOverview::default()
        }],
        add_ons: vec![add_on],
        replica_sets: vec![set],
        ..Overview::default()
    }
}

#[test]
fn a_text_of_the_hub_never_becomes_markup() {
    let mut fleet = fleet(1);
    fleet.add_ons[0].approvals = [("<b>".to_owned(), "the start of \"<b>\"".to_owned())].into();
    let html = content(&fleet) + &repository_page(&fleet);
    assert!(!html.contains("<b>\"") && html.contains("value=\"&lt;b&gt;\""), "{html}");
    for document in
        [page::login("<i>", true), page::refused("<i>"), page::no_cluster("<i>"), document(&fleet)]
    {
        assert!(!document.contains("<i>") && document.contains("&lt;i&gt;"), "{document}");
    }
    let placement = placement_page(&Explanation { placement: "<i>".into(), ..explanation(1) }, "<i>");
    assert!(placement.contains("<title>Placement &lt;i&gt; – Wheelwright</title>"), "{placement}");
    assert!(!html.contains("<script"), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
    assert!(html.contains("https://'&quot;&amp;"), "{html}");
    // Events must not contain carriage returns.
    assert!(html.contains('\r'), "{html}");
    drop(super::event(&html));
}

#[test]
fn a_repository_has_its_last_reports_and_why_the_newest_is_not_pushed() {
    let html = repository_page(&fleet(1));
    let refused = html.find("The current state is not reported: the server refused &lt;i&gt;").unwrap();
    let time =
        "<td><time datetime=\"2026-01-02T03:04:05Z\" title=\"2026-01-02 03:04:05 UTC\">24 h ago</time></td>";
    let newest = html.find(&format!("<code>0123</code></td><td>it is done on &lt;i&gt;</td>{time}")).unwrap();
    let before =
        html.find(&format!("<code>abcd</code></td><td>every cluster is up to date</td>{time}")).unwrap();
    assert!(refused < newest && newest < before, "{html}");
}

#[test]
fn a_repository_has_the_objects_of_its_status() {
    let mut fleet = fleet(1);
    let unhealthy = "2 objects not healthy since <i>".to_owned();
    let listed = ObjectList { what: unhealthy, objects: vec!["Deployment n/<i>".into()], more: 1 };
    let counted = ObjectList { what: "1 object deleted and created again".into(), more: 1, ..listed.clone() };
    fleet.repositories[0].objects = vec![listed, ObjectList { objects: Vec::new(), ..counted }];
    fleet.repositories[0].healthy = "0123456789abcdef".into();
    let html = repository_page(&fleet);
    let list = "<h3>2 objects not healthy since &lt;i&gt;</h3><ul class=\"plain\"><li>Deployment n/&lt;i&gt;</li><li>and 1 more</li></ul>";
    assert!(html.contains(list), "{html}");
    assert!(html.contains("<h3>1 object deleted and created again</h3></div>"), "{html}");
    assert!(html.contains("<dt>Healthy on the hub</dt><dd><code>0123456"), "{html}");
}

#[test]
fn a_fleet_of_any_size_is_a_small_page_that_shows_the_failed_clusters() {
    for (clusters, limit) in [(10, 30_000), (599, 100_000), (1_000, 100_000), (10_000, 100_000)] {
        let html = document(&fleet(clusters));
        assert!(html.len() < limit, "{clusters} clusters: {} bytes", html.len());
        let failed = "<a id=\"cell:last\" class=\"c x";
        assert!(html.contains(failed), "{clusters} clusters: {html}");
        assert!(html.contains(&format!("All<b>{}</b>", clusters + 2)), "{html}");
    }
    let html = content(&fleet(1_000));
    assert!(
        html.contains("50 done: cluster-0 to cluster-49") && !html.contains("\"cluster-0: Done"),
        "{html}"
    );
}

#[test]
fn a_page_of_many_failures_and_add_ons_stays_small() {
    let cluster_of = |n: usize| cluster(format!("cluster-{n}"), ClusterState::TimedOut);
    let group = |n: usize| GroupSummary {
        placement: "fleet/all".into(),
        name: format!("#{n}"),
        clusters: (0..100).map(|of| cluster_of(100 * n + of)).collect(),
    };
    let add_on = |n: usize| WorkloadSummary {
        name: format!("add-on-{n}"),
        ..WorkloadSummary::of((0..100).map(group).collect())
    };
    let add_ons = (0..10).map(add_on).collect();
    let fleet = Overview { add_ons, ..Overview::default() };
    let html = document(&fleet);
    assert!(html.len() < 100_000, "{} bytes", html.len());
    assert_eq!(html.matches("<a id=\"cell:").count(), 300, "{html}");
    assert!(html.contains("40 more groups"), "{html}");
}

#[test]
fn the_table_has_every_cluster_of_a_state_page_by_page_the_most_urgent_first() {
    let fleet = fleet(120);
    let first = table_page(json!({}), &fleet);
    let names = |html: &str| html.matches("<a id=\"cluster:table:").count();
    assert_eq!(names(&first), 50, "{first}");
    assert!(first.find(">last</a>").unwrap() < first.find(">cluster-0</a>").unwrap(), "{first}");
    assert!(first.contains("href=\"clusters?page=2\"") && first.contains("Page 1 of 3"), "{first}");
    let last = table_page(json!({"page": 3}), &fleet);
    assert!(names(&last) == 22 && !last.contains(">Next<"), "{last}");
    assert_eq!(names(&table_page(json!({"state": "x"}), &fleet)), 1);
    assert_eq!(names(&table_page(json!({"q": "cluster-11", "rollout": "proxy"}), &fleet)), 11);
    assert_eq!(names(&table_page(json!({"rollout": "team/settings"}), &fleet)), 1);
    assert_eq!(names(&table_page(json!({"group": "fleet/all canary", "page": 3}), &fleet)), 21);
    let none = table_page(json!({"q": "<b>"}), &fleet);
    assert!(none.contains("No cluster matches.") && !none.contains("<b>\""), "{none}");
}

#[test]
fn the_table_says_since_when_and_until_when() {
    let mut fleet = fleet(1);
    let in_flight = &mut fleet.add_ons[0].groups[0].clusters[0];
    in_flight.state = ClusterState::Progressing { deadline: Some(now()), reported: true };
    in_flight.since = Some("2026-01-03T02:22:05Z".parse().unwrap());
    let html = table_page(json!({"rollout": "proxy", "state": "f"}), &fleet);
    let deadline =
        "ends <time datetime=\"2026-01-03T03:04:05Z\" title=\"2026-01-03 03:04:05 UTC\">just now</time>";
    assert!(html.contains(">42 min ago</time>") && html.contains(deadline), "{html}");
    let html = rollout_page("proxy", &fleet);
    assert!(html.contains("<dt>In flight since</dt>") && html.contains("<dt>Next deadline</dt>"), "{html}");
}

#[test]
fn the_band_has_what_needs_a_person_with_cause_and_action() {
    let mut fleet = fleet(2);
    fleet.clusters.troubled =
        vec![UnavailableCluster { name: "silent".into(), message: "its lease is old".into() }];
    let html = content(&fleet);
    let band = &html[html.find("Needs attention").unwrap()..html.find("id=\"clusters\"").unwrap()];
    let failed = "failed on 1 of 3 clusters: waits for the approval \"x\"".replace('"', "&quot;");
    for shown in [failed.as_str(), ">last</a> TimedOut", "rollout?of=proxy", "its lease is old", "Plan waits"]
    {
        assert!(band.contains(shown), "{shown}: {band}");
    }
    assert!(band.find("Rollout failed").unwrap() < band.find("1 not available").unwrap(), "{band}");
    assert!(band.find("1 not available").unwrap() < band.find("Plan waits").unwrap(), "{band}");
    assert!(content(&Overview::default()).contains("Nothing needs your attention."));
}

#[test]
fn a_rejected_commit_is_in_the_band_and_a_commit_under_way_is_not() {
    let mut fleet = Overview { repositories: vec![Repository::default()], ..Overview::default() };
    let repository = &mut fleet.repositories[0];
    repository.seen = "9be04c10000".into();
    repository.applied = "4fd1a900000".into();
    repository.reason = "RenderFailed".into();
    repository.message = "lab.yaml:24: unknown field".into();
    repository.ready_since = "2026-01-02T03:04:05Z".into();
    let html = content(&fleet);
    for shown in ["Commit rejected", "lab.yaml:24: unknown field", "4fd1a90", "24 h ago"] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    fleet.repositories[0].reconciling = true;
    assert!(!content(&fleet).contains("Commit rejected"));
}

/// Sends a request, and returns the response up to `end`.
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

/// A fleet that tests can change, with one placement.
struct Fake(Arc<Mutex<Overview>>);

impl ReadFleet for Fake {
    fn overview(&self) -> Result<Overview, String> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn placement(&self, placement: &Key, _: Option<&LabelChange>) -> Result<Option<Explanation>, String> {
        Ok((*placement == Key::namespaced("fleet", "all")).then(|| explanation(1)))
    }

    fn cluster(&self, name: &str) -> Result<ClusterObjects, String> {
        let cluster = (name == "cluster-0").then(|| Err("it is damaged <b>".to_owned()));
        Ok(ClusterObjects { cluster, ..ClusterObjects::default() })
    }
}

/// Returns the explanation of a placement that selects one cluster and outranks the others.
fn explanation(outranked: usize) -> Explanation {
    let cluster = |number: usize, state: SchedulingState| ClusterExplanation {
        cluster_name: format!("cluster-{number}"),
        state,
        why: "its taint <b>down</b> is not tolerated".into(),
        rank: Some(number + 1),
        ..ClusterExplanation::default()
    };
    let others = (1..=outranked).map(|number| cluster(number, SchedulingState::Outranked));
    Explanation {
        placement: "fleet/all".into(),
        number_of_clusters: Some(1),
        clusters: others.chain([cluster(0, SchedulingState::Selected)]).collect(),
        ..Explanation::default()
    }
}

#[test]
fn the_page_of_a_placement_gives_the_reason_for_each_cluster_and_stays_small() {
    let html = placement_page(&explanation(3000), "");
    assert!(html.len() < 30_000, "{} bytes", html.len());
    let (selected, outranked) = (html.find("Selected").unwrap(), html.find("Outranked").unwrap());
    assert!(selected < outranked, "the selected ones come first: {html}");
    assert!(html.contains("<td>its taint &lt;b&gt;down&lt;/b&gt; is not tolerated; rank 1</td>"), "{html}");
    let next = "href=\"placement?of=fleet/all&amp;state=Outranked&amp;page=2\"";
    assert!(html.contains("Page 1 of 60") && html.contains(next), "{html}");
    let query: PlacementQuery =
        serde_json::from_value(json!({"of": "fleet/all", "state": "Outranked", "page": 60})).unwrap();
    let last = placement::page(&explanation(3000), &query, None);
    assert!(last.contains("cluster-3000</a>") && !last.contains("<h2>Selected"), "{last}");
    let html = placement_page(&explanation(3000), " cluster-2999 ");
    assert!(html.contains("Outranked") && html.contains("cluster-2999</a>"), "{html}");
    assert!(!html.contains("Selected") && !html.contains("cluster-2998"), "{html}");
    let html = placement_page(&explanation(3), "none");
    assert!(html.contains("There is no cluster whose name contains <b>none</b>."), "{html}");
}

#[test]
fn a_label_that_is_tried_on_a_placement_has_an_address_and_says_what_would_change() {
    let page = |query: Value, explanation: &Explanation| {
        placement::page(explanation, &serde_json::from_value(query).unwrap(), None)
    };
    let tried =
        |cluster: &str, label: &str| json!({"of": "fleet/all", "cluster": cluster, "label": label, "q": "0"});
    let mut would = explanation(12);
    for one in &mut would.clusters {
        one.state = match one.state {
            SchedulingState::Selected => SchedulingState::Leaving,
            _ => SchedulingState::Arriving,
        };
    }
    let html = page(tried("cluster-1", "region=<i>"), &would);
    assert!(html.contains("the label &quot;region=&lt;i&gt;&quot; is invalid: a valid label"), "{html}");
    let html = page(tried(" cluster-1", "region=eu"), &would);
    for text in [
        "If cluster-1 had the label region=eu</h2>",
        "<b>Would be added</b>: its taint",
        "<h3>12 clusters would be added:</h3><ul class=\"plain\"><li>cluster-1</li>",
        "<li>and 2 more</li>",
        "<h3>1 cluster would be removed:</h3><ul class=\"plain\"><li>cluster-0</li>",
        "<h2>Would be added ",
        "<input type=\"hidden\" name=\"label\" value=\"region=eu\">",
        "href=\"placement?of=fleet/all&amp;cluster=%20cluster-1&amp;label=region%3Deu\">Show all clusters</a>",
        "href=\"placement?of=fleet/all\">Show the actual result</a>",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    let html = page(tried("tokyo", "region-"), &explanation(1));
    assert!(
        html.contains("If tokyo had no label region") && html.contains("There is no cluster tokyo"),
        "{html}"
    );
    assert!(html.contains("The decisions would stay as they are."), "{html}");
    assert!(!page(json!({"of": "fleet/all"}), &would).contains("Would be"), "nothing is tried");
}

#[tokio::test]
async fn the_page_follows_the_fleet_and_opens_only_with_its_secret() {
    let fleet = Arc::new(Mutex::new(fleet(1)));
    let dashboard = LocalDashboard::listen(0).await.unwrap();
    let (url, stop) = (dashboard.url.clone(), CancellationToken::new());
    let seen = Arc::clone(&fleet);
    let serving = tokio::spawn(dashboard.serve(Arc::new(Fake(seen)), stop.clone()));

    let index = answer(&url, "/SECRET/", "").await;
    assert!(index.starts_with("HTTP/1.1 200"), "{index}");
    assert!(index.contains("content-security-policy: default-src 'none'"), "{index}");
    assert!(index.contains("cluster-0") && index.contains("TimedOut"), "{index}");
    assert!(
        index.contains("<a id=\"placement:fleet/all\" href=\"placement?of=fleet/all\">fleet/all</a>"),
        "{index}"
    );
    let reasons = answer(&url, "/SECRET/placement?of=fleet/all", "").await;
    assert!(reasons.starts_with("HTTP/1.1 200") && reasons.contains("is not tolerated"), "{reasons}");
    for name in ["fleet/none", "nonsense", "%3Cb%3E/x"] {
        let missing = answer(&url, &format!("/SECRET/placement?of={name}"), "").await;
        assert!(missing.starts_with("HTTP/1.1 404") && !missing.contains("<b>"), "{missing}");
        let missing = answer(&url, &format!("/SECRET/cluster?of={name}"), "").await;
        assert!(missing.starts_with("HTTP/1.1 404") && !missing.contains("<b>"), "{missing}");
        assert!(missing.contains("There is no cluster"), "{missing}");
    }
    let link = "href=\"cluster?of=cluster-0\" title=\"cluster-0: Done (proxy)\"";
    assert!(index.contains(link) && index.contains("role=\"search\" action=\"cluster\">"), "{index}");
    let rollout = answer(&url, "/SECRET/rollout?of=proxy", "").await;
    assert!(
        rollout.starts_with("HTTP/1.1 200") && rollout.contains("events?view=rollout&amp;of=proxy"),
        "{rollout}"
    );
    for page in ["rollout", "repository"] {
        let missing = answer(&url, &format!("/SECRET/{page}?of=%3Cb%3E"), "").await;
        assert!(missing.starts_with("HTTP/1.1 404") && !missing.contains("<b>"), "{missing}");
    }
    for page in ["attention", "rollouts", "repositories", "repository?of=a/fleet", "placements", "conditions"]
    {
        let shown = answer(&url, &format!("/SECRET/{page}"), "").await;
        assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("<main id=\"fleet\""), "{page}: {shown}");
    }
    let table = answer(&url, "/SECRET/clusters?state=x", "").await;
    assert!(table.starts_with("HTTP/1.1 200") && table.contains("TimedOut"), "{table}");
    // A person may type spaces around a name.
    let cluster = answer(&url, "/SECRET/cluster?of=+cluster-0", "").await;
    assert!(cluster.starts_with("HTTP/1.1 200") && cluster.contains("it is damaged &lt;b&gt;"), "{cluster}");
    for foreign in [
        "/",
        "/events",
        "/placement?of=fleet/all",
        "/cluster?of=cluster-0",
        "/rollout?of=proxy",
        "/clusters",
        "/0123456789abcdef0123456789abcdef/",
    ] {
        let refused = answer(&url, foreign, "").await;
        assert!(refused.starts_with("HTTP/1.1 404"), "{foreign}: {refused}");
    }
    let change = async {
        answer(&url, "/SECRET/events", "cluster-0").await;
        fleet.lock().unwrap().add_ons[0].groups[0].clusters[1].name = "renamed".into();
        answer(&url, "/SECRET/events?view=rollout&of=proxy", "renamed").await;
        answer(&url, "/SECRET/events", "renamed").await
    };
    let events = tokio::time::timeout(Duration::from_secs(30), change).await.unwrap();
    assert!(events.contains("text/event-stream"), "{events}");
    stop.cancel();
    serving.await.unwrap().unwrap();
}

#[test]
fn a_visitor_of_some_namespaces_sees_nothing_that_is_read_from_others() {
    let mut fleet = fleet(2);
    fleet.add_ons[0].paused_by = vec!["night".into()];
    fleet.add_ons[0].approvals = [("token".to_owned(), "the start of canary of fleet/all".to_owned())].into();
    let check = |rights: &Rights, shown: &[&str], hidden: &[&str]| {
        let html = content_for(rights, &fleet);
        for text in shown {
            assert!(html.contains(text), "{text}: {html}");
        }
        for text in hidden {
            assert!(!html.contains(text), "{text}: {html}");
        }
    };
    let everything = [
        "a/fleet",
        "proxy",
        "cluster-0",
        "last",
        "fleet/all",
        "waits for the approval",
        "mandatory group pilot",
        "available",
        "settings",
        "edge",
    ];
    check(&Rights::every(), &everything, &["You may not", "Pause proxy"]);
    let buttons =
        ["Resume proxy", "Approve the start of canary", "href=\"repository?of=a/fleet\">Review</a>"];
    check(&Rights::every(), &buttons, &[]);
    let of_repository = |rights: &Rights| {
        let query = FleetQuery { view: View::Repository, of: "a/fleet".into(), ..FleetQuery::default() };
        query.content(&Shown::to(rights, &fleet), now()).map(Markup::into_string)
    };
    let every = of_repository(&Rights::every()).unwrap();
    assert!(every.contains("Suspend a/fleet") && every.contains("Approve the plan of a/fleet"), "{every}");
    let reader = of_repository(&Rights::new(&[], &[(Right::ListRepositories, "a")])).unwrap();
    assert!(reader.contains("Plan hash") && !reader.contains("<button class=\"go\""), "{reader}");
    assert_eq!(of_repository(&Rights::new(&[], &[(Right::ListRepositories, "b")])), None);
    check(&Rights::every(), &["<a id=\"placement:fleet/all\" href=\"placement?of=fleet/all\">"], &[]);
    check(&Rights::new(&[Right::ListPlacements], &[]), &["fleet/all"], &["<a href"]);
    check(&Rights::default(), &["You may not list managedclusters"], &everything);
    let one = Rights::new(&[Right::ListAddOns], &[(Right::ListAddOnsOfClusters, "cluster-1")]);
    let hidden = ["a/fleet", "cluster-0", "last", "fleet/all", "canary", "waits for", "<button"];
    check(&one, &["proxy", "cluster-1", "1 of 1 cluster done", "a placement that you may not list"], &hidden);
    let policies = Rights::new(&[Right::ListAddOns, Right::ListPolicies, Right::ChangePolicies], &[]);
    check(
        &policies,
        &["waits for the approval", "Approve token", "0 of 0"],
        &["canary", "fleet/all", "cluster-0"],
    );
    let repository = Rights::new(&[], &[(Right::ListRepositories, "a")]);
    check(&repository, &["a/fleet"], &["<button", "proxy"]);
    let set = Rights::new(&[Right::ListAddOnsOfClusters], &[(Right::ListReplicaSets, "team")]);
    check(&set, &["team/settings", "0 of 0 clusters done"], &["edge", "proxy", "<button"]);
    let works = Rights::new(
        &[Right::ChangePolicies],
        &[(Right::ListReplicaSets, "team"), (Right::ListWorks, "edge")],
    );
    check(&works, &["1 of 1 cluster done", "edge"], &["proxy", "cluster-0", "Pause team/settings"]);
    fleet.replica_sets[0].groups[0].clusters[0].state = ClusterState::Starting;
    let html = content_for(&works, &fleet);
    assert!(html.contains("0 of 1 cluster done") && html.contains("Pause team/settings"), "{html}");
}

/// Returns a hub that answers reviews: tokens that start with `good` are valid, and `allows` decides which access
/// is allowed.
fn hub(allows: fn(&Value) -> bool, reviews: &Arc<Mutex<Vec<Value>>>) -> kube::Client {
    let reviews = Arc::clone(reviews);
    let service = tower::service_fn(move |request: Request<Body>| {
        let reviews = Arc::clone(&reviews);
        async move {
            let mut review: Value =
                serde_json::from_slice(&request.into_body().collect_bytes().await.unwrap()).unwrap();
            let spec = review["spec"].clone();
            review["status"] = match spec.get("token") {
                Some(token) => {
                    let extra = json!({"authentication.kubernetes.io/credential-id": [token]});
                    let is_good = token.as_str().is_some_and(|token| token.starts_with("good"));
                    json!({"authenticated": is_good, "user": {"username": "somebody", "groups": ["g"], "extra": extra}})
                }
                None => json!({"allowed": allows(&spec)}),
            };
            reviews.lock().unwrap().push(spec);
            Ok::<_, Infallible>(Response::new(Body::from(review.to_string().into_bytes())))
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn the_hub_is_asked_a_bounded_number_of_times_and_again_later() {
    let fleet = fleet(1000);
    let reviews = Arc::default();
    let of_one = |spec: &Value| {
        let attributes = &spec["resourceAttributes"];
        let (resource, namespace) = (&attributes["resource"], &attributes["namespace"]);
        resource == "clustermanagementaddons"
            || (resource == "managedclusteraddons"
                && namespace == "cluster-0"
                && spec["groups"] == json!(["g"]))
    };
    let hub = hub(of_one, &reviews);
    let visitors = Visitors::new(hub.clone());
    let asked = || reviews.lock().unwrap().len();
    for token in ["bad", ""] {
        assert!(visitors.authenticate(token).await.unwrap().is_none(), "{token}");
    }
    for _ in 0..3 {
        let visitor = visitors.authenticate("good").await.unwrap().unwrap();
        let rights = visitor.rights(&hub, &fleet).await.unwrap();
        let shown = Shown::to(&rights, &fleet);
        assert_eq!((shown.overview.add_ons[0].total, shown.notes.len()), (1, 8), "{:?}", shown.notes);
    }
    // Three token reviews; eleven rights everywhere; in namespaces, 256 clusters and one for each other right.
    assert_eq!(asked(), 3 + 11 + 256 + 5);
    tokio::time::advance(Duration::from_secs(11)).await;
    let visitor = visitors.authenticate("good").await.unwrap().unwrap();
    visitor.rights(&hub, &fleet).await.unwrap();
    assert_eq!(asked(), 3 + 11 + 256 + 5 + 1, "the token is asked about again");
    tokio::time::advance(Duration::from_secs(60)).await;
    visitor.rights(&hub, &fleet).await.unwrap();
    assert_eq!(asked(), 2 * (11 + 256 + 5) + 3 + 1, "the rights are asked for again");
}

#[tokio::test(start_paused = true)]
async fn the_tokens_of_a_user_share_its_open_pages_and_its_rights() {
    let (fleet, reviews) = (fleet(1000), Arc::default());
    let hub = hub(|_| false, &reviews);
    let visitors = Visitors::new(hub.clone());
    let mut pages = Vec::new();
    for token in 0..1100 {
        let visitor = visitors.authenticate(&format!("good {token}")).await.unwrap().unwrap();
        visitor.rights(&hub, &fleet).await.unwrap();
        pages.extend(Arc::clone(&visitor.streams).try_acquire_owned());
    }
    assert_eq!(pages.len(), STREAMS, "also where more tokens come than are kept");
    let rights = reviews.lock().unwrap().iter().filter(|spec| spec.get("token").is_none()).count();
    assert!(rights <= 2 * (11 + 256 + 5), "{rights}");
}
