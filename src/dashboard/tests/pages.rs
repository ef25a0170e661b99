//! Tests of filters, groups, links and the timeline.

use super::super::query::View;
use super::{cluster, content, fleet, now, repository_page, rollout_page, table_page, view};
use api::names::CLUSTER_SET_LABEL;
use controllers::hub::overview::{
    CommitSummary, ConditionSummary, DirectorySummary, GroupSummary, Overview, ReportSummary, Repository,
    WorkloadSummary,
};
use engine::rollout::ClusterState;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns a fleet whose clusters 0 and 1 are in the set `eu`, and whose cluster 0 has the label `tier=gold`.
fn labeled() -> Overview {
    let mut fleet = fleet(4);
    let labels = |number: usize| {
        let mut labels: BTreeMap<String, String> = [("tier".to_owned(), "silver".to_owned())].into();
        if number < 2 {
            labels.insert(CLUSTER_SET_LABEL.into(), "eu".into());
        }
        if number == 0 {
            labels.insert("tier".into(), "gold".into());
        }
        (format!("cluster-{number}"), labels)
    };
    fleet.clusters.labels = Arc::new((0..4).map(labels).collect());
    fleet
}

#[test]
fn the_table_is_filtered_by_set_and_label_at_an_address() {
    let fleet = labeled();
    let names = |query| table_page(query, &fleet).matches("<a id=\"cluster:table:").count();
    assert_eq!(names(json!({"set": "eu"})), 2);
    assert_eq!(names(json!({"label": "tier=gold"})), 1);
    assert_eq!(names(json!({"set": "eu", "label": "tier!=gold"})), 1);
    assert_eq!(names(json!({"label": "tier in (gold,silver)", "rollout": "proxy", "state": "d"})), 4);
    let html = table_page(json!({"label": "tier=gold", "state": "d"}), &fleet);
    assert!(html.contains("<option value=\"eu\">eu</option>"), "{html}");
    assert!(html.contains("href=\"clusters?label=tier%3Dgold\""), "the legend keeps the label: {html}");
    let invalid = table_page(json!({"label": "tier in gold"}), &fleet);
    assert!(
        invalid.contains("the label selector is invalid") && invalid.contains("No cluster matches."),
        "{invalid}"
    );
}

#[test]
fn the_map_is_grouped_by_set_by_rollout_or_by_a_label() {
    let fleet = labeled();
    let by = |by: &str| view(View::Overview, json!({"by": by}), &fleet);
    let html = by("");
    assert!(
        html.contains("<a id=\"group:eu\" href=\"clusters?set=eu\">eu</a> <span class=\"dim\">2</span>"),
        "{html}"
    );
    assert!(
        html.contains("href=\"clusters?label=%21cluster.open-cluster-management.io/clusterset\">No set</a>"),
        "{html}"
    );
    assert!(html.contains("href=\"./?by=label%3Atier\""), "{html}");
    assert!(by("rollout").contains("href=\"clusters?group=fleet/all%20canary\""));
    let html = by("label:tier");
    assert!(
        html.contains("href=\"clusters?label=tier%3Dgold\">gold</a> <span class=\"dim\">1</span>"),
        "{html}"
    );
}

#[test]
fn lists_have_pages_and_filters_instead_of_a_number_of_more() {
    let workload = |n: usize| WorkloadSummary {
        name: format!("add-on-{n:03}"),
        ..WorkloadSummary::of(vec![GroupSummary {
            clusters: vec![cluster("c".into(), ClusterState::Starting)],
            ..GroupSummary::default()
        }])
    };
    let repository = |n: usize| Repository { name: format!("team/repo-{n:03}"), ..Repository::default() };
    let add_ons = (0..120).map(workload).collect();
    let fleet = Overview { add_ons, repositories: (0..60).map(repository).collect(), ..Overview::default() };
    let html = content(&fleet);
    assert!(html.contains("href=\"rollouts\">100 more open rollouts</a>"), "{html}");
    let last = view(View::Rollouts, json!({"page": 3}), &fleet);
    assert_eq!(last.matches("<a id=\"rollout:").count(), 20, "{last}");
    let found = view(View::Rollouts, json!({"q": "on-11", "state": "f"}), &fleet);
    assert_eq!(found.matches("<a id=\"rollout:").count(), 10, "{found}");
    let last = view(View::Repositories, json!({"page": 2}), &fleet);
    assert!(last.contains("team/repo-059") && !last.contains("team/repo-049"), "{last}");
}

#[test]
fn the_page_of_a_repository_lists_its_directories() {
    let mut fleet = fleet(1);
    assert!(!repository_page(&fleet).contains("Directories"));
    let directory = |n: usize| DirectorySummary { path: format!("clusters/<c{n}>"), objects: n };
    fleet.repositories[0].directories = (0..103).map(directory).collect();
    let html = repository_page(&fleet);
    assert!(
        html.contains("<td>clusters/&lt;c99&gt;</td><td>99</td>") && html.contains("and 3 more"),
        "{html}"
    );
}

#[test]
fn commits_link_to_the_git_server() {
    let (old, new) = ("1".repeat(40), "2".repeat(40));
    let linked = |url: &str| {
        let mut fleet = fleet(1);
        let repository = &mut fleet.repositories[0];
        (repository.url, repository.seen, repository.applied) = (url.into(), new.clone(), old.clone());
        repository.history =
            vec![CommitSummary { commit: old.clone(), reason: "Applied".into(), ..CommitSummary::default() }];
        repository_page(&fleet)
    };
    for url in ["https://git.example.com/team/fleet.git", "ssh://git@git.example.com:22/team/fleet"] {
        let html = linked(url);
        for path in [format!("commit/{old}"), format!("compare/{old}...{new}")] {
            assert!(
                html.contains(&format!("href=\"https://git.example.com/team/fleet/{path}\"")),
                "{path}: {html}"
            );
        }
    }
    for url in ["/srv/fleet", "javascript:alert(1)", "http://localhost/x"] {
        assert!(!linked(url).contains("rel=\"noreferrer\""), "{url}");
    }
}

#[test]
fn the_page_of_a_rollout_has_the_reports_that_name_it_with_links() {
    let mut fleet = fleet(1);
    let report = |hour: usize, summary: &str| ReportSummary {
        commit: format!("{hour:012}"),
        time: format!("2026-01-02T{hour:02}:04:05Z"),
        summary: summary.into(),
    };
    let repository = &mut fleet.repositories[0];
    repository.report_url = "https://git.example.com/team/reports.git".into();
    repository.reports = vec![
        report(1, "2 workloads failed: proxy, team/settings"),
        report(2, "proxy-2 failed on 1 of 2 clusters"),
        report(3, "proxy is done on 2 clusters"),
        report(4, "team/settings: 1.2 is quarantined"),
    ];
    let reports = |name: &str| {
        let html = rollout_page(name, &fleet);
        let link = |hour: usize| format!("href=\"https://git.example.com/team/reports/commit/{hour:012}\"");
        (1..5).filter_map(|hour| Some((html.find(&link(hour))?, hour))).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(reports("proxy").into_values().collect::<Vec<_>>(), [3, 1]);
    assert_eq!(reports("team/settings").into_values().collect::<Vec<_>>(), [4, 1]);
    let html = repository_page(&fleet);
    assert!(html.contains("href=\"https://git.example.com/team/reports/commit/000000000004\""), "{html}");
}

#[test]
fn a_condition_links_to_its_documentation_and_says_what_to_do() {
    let mut fleet = fleet(1);
    let condition = |type_: &str, status: &str, reason: &str| ConditionSummary {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: "lab.yaml:24: unknown field <i>".into(),
        since: "2026-01-02T03:04:05Z".into(),
    };
    fleet.repositories[0].conditions =
        vec![condition("Ready", "False", "RenderFailed"), condition("Stalled", "True", "NoSuchReason")];
    let html = repository_page(&fleet);
    assert!(
        html.contains("href=\"conditions#Rejected-commits:RenderFailed\">RenderFailed</a>: lab.yaml:24"),
        "{html}"
    );
    assert!(
        html.contains("<b>What to do: </b>Correct the file in the message. <code>wheelwright render</code>"),
        "{html}"
    );
    assert!(html.contains("NoSuchReason: lab.yaml:24: unknown field &lt;i&gt;"), "{html}");
    let page = super::super::reasons::page(None);
    for reason in ["Rejected-commits:RenderFailed", "ManagedCluster:ManagedClusterLeaseUpdateStopped"] {
        assert!(page.contains(&format!("<span id=\"{reason}\">")), "{reason}: {page}");
    }
    assert!(!page.contains("](") && page.len() < 100_000, "{} bytes: {page}", page.len());
}

#[test]
fn the_time_line_counts_the_clusters_of_this_change_and_extrapolates_its_pace() {
    let mut fleet = fleet(0);
    let at = |minutes: i64| now() - SignedDuration::from_mins(minutes);
    let in_state = |n: usize, state: ClusterState, since: Option<Timestamp>| super::ClusterSummary {
        since,
        message: String::new(),
        ..cluster(format!("c{n}"), state)
    };
    // One cluster was done a week ago, and ten within the last 100 minutes.
    let mut clusters = vec![in_state(99, ClusterState::Done, Some(at(10_000)))];
    clusters.extend((0..10).map(|n| in_state(n, ClusterState::Done, Some(at(100 - 10 * n as i64)))));
    clusters.extend((10..16).map(|n| in_state(n, ClusterState::Starting, None)));
    fleet.add_ons[0] = WorkloadSummary {
        name: "proxy".into(),
        ..WorkloadSummary::of(vec![GroupSummary { clusters, ..GroupSummary::default() }])
    };
    let html = rollout_page("proxy", &fleet);
    assert!(html.contains("<dt>Pace</dt><dd>6 clusters an hour</dd>"), "{html}");
    assert!(html.contains("aria-label=\"11 of 17 clusters done\""), "{html}");
    assert!(
        html.contains("<dt>Expected end</dt><dd><b>about <time") && html.contains(">in 1 h</time>"),
        "{html}"
    );
    fleet.add_ons[0].holds = vec!["frozen".into()];
    assert!(!rollout_page("proxy", &fleet).contains("Expected end"), "a held rollout has none");
}
