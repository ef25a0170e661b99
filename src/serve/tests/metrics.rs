//! Checks the list of all metrics in the docs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::golden;
use controllers::hub::overview::{
    ClusterSummary, Clusters, GroupSummary, HeldObjects, PlacementOverview, Repository, UnavailableCluster,
};
use engine::rollout::ClusterState;
use serde_json::{Value, json};

fn fleet() -> Overview {
    let cluster = |name: &str, state| ClusterSummary {
        name: name.into(),
        runs: String::new(),
        state,
        available: true,
        reports_error: false,
        message: String::new(),
        since: None,
    };
    let clusters = vec![
        cluster("a", ClusterState::Done),
        cluster("b", ClusterState::Done),
        cluster("c", ClusterState::TimedOut),
    ];
    let group = GroupSummary { clusters, ..GroupSummary::default() };
    let add_on = WorkloadSummary {
        name: "msa".into(),
        settled: 2,
        failed: 1,
        total: 3,
        holds: vec!["too many failures".into()],
        groups: vec![group],
        ..WorkloadSummary::default()
    };
    Overview {
        repositories: vec![Repository {
            name: "n/fleet".into(),
            ready: true,
            report_error: "the server refused it".into(),
            held_deletions: Some(HeldObjects {
                objects: vec!["ConfigMap n/a".into()],
                more: 2,
                ..HeldObjects::default()
            }),
            ..Repository::default()
        }],
        clusters: Clusters {
            total: 3,
            available: 2,
            troubled: vec![UnavailableCluster { name: "c".into(), message: "its lease is old".into() }],
            labels: Arc::default(),
        },
        placements: vec![PlacementOverview {
            name: "n/aws".into(),
            selected: 3,
            ..PlacementOverview::default()
        }],
        replica_sets: vec![WorkloadSummary { name: "n/settings".into(), ..add_on.clone() }],
        add_ons: vec![add_on],
    }
}

/// Returns an add-on on four clusters. It is being removed from one of them.
fn addons() -> Vec<Arc<ManagedClusterAddOn>> {
    let addon = |metadata: Value, available: Option<&str>| {
        let condition = available.map(|status| {
            json!({"type": "Available", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        let status = json!({"conditions": condition.into_iter().collect::<Vec<_>>()});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap())
    };
    let leaving = json!({"name": "msa", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    let named = || json!({"name": "msa"});
    vec![
        addon(named(), Some("True")),
        addon(named(), Some("False")),
        addon(named(), None),
        addon(leaving, Some("False")),
    ]
}

/// Returns a policy whose budget blocks the removal of an add-on from four clusters.
fn policy() -> Arc<RolloutPolicy> {
    let status = json!({"removals": [{"addOn": "msa", "held": 4}]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {}, "status": status});
    Arc::new(serde_json::from_value(policy).unwrap())
}

/// Returns every metric with values.
fn all() -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    register_build(&mut registry);
    crate::shell::register_samples(&mut registry);
    register_fleet(&mut registry, &Ok(fleet()));
    addon_metrics::register(&mut registry, &addons());
    addon_metrics::register_removals(&mut registry, &[policy()]);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[test]
fn the_state_of_the_fleet_is_exported() {
    let text = all();
    for line in [
        "wheelwright_addon_clusters{addon=\"msa\",available=\"true\"} 1",
        "wheelwright_addon_clusters{addon=\"msa\",available=\"false\"} 1",
        "wheelwright_addon_clusters{addon=\"msa\",available=\"unknown\"} 1",
        "wheelwright_addon_removals_held{addon=\"msa\"} 4",
        concat!("wheelwright_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "wheelwright_cluster_unavailable{managed_cluster=\"c\"} 1",
        "wheelwright_clusters{available=\"false\"} 1",
        "wheelwright_config_repo_deletions_held{config_repo=\"n/fleet\"} 3",
        "wheelwright_config_repo_ready{config_repo=\"n/fleet\"} 1",
        "wheelwright_config_repo_report_failed{config_repo=\"n/fleet\"} 1",
        "wheelwright_fleet_unread 0",
        "wheelwright_placement_clusters{placement=\"n/aws\"} 3",
        "wheelwright_rollout_clusters{workload=\"msa\",state=\"Done\"} 2",
        "wheelwright_rollout_clusters{workload=\"msa\",state=\"TimedOut\"} 1",
        "wheelwright_rollout_holds{workload=\"msa\"} 1",
        "wheelwright_rollout_clusters{workload=\"n/settings\",state=\"Done\"} 2",
        "wheelwright_rollout_holds{workload=\"n/settings\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

#[test]
fn an_unreadable_fleet_is_reported_unless_nothing_reads_it() {
    for (reason, is_unread) in [
        (ReadErrorReason::NotListed, true),
        (ReadErrorReason::Failed, true),
        (ReadErrorReason::NotWatched, false),
    ] {
        let error = reconcile::ReadError { what: "ManagedCluster".into(), cause: "why".into(), reason };
        let mut registry = Registry::with_prefix(PREFIX);
        register_fleet(&mut registry, &Err(error));
        let text = super::text(&registry).unwrap();
        assert_eq!(text.contains("wheelwright_fleet_unread 1"), is_unread, "{reason:?}: {text}");
        assert!(!text.contains("wheelwright_clusters"), "{text}");
    }
}

/// Returns the label names of a metric, without those of histograms.
fn labels(text: &str, name: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#') && line.starts_with(name));
    let inside = samples.filter_map(|line| line.split_once('{')?.1.split_once('}').map(|(labels, _)| labels));
    let names = inside.flat_map(|labels| labels.split(',').filter_map(|label| label.split_once('=')));
    names.map(|(name, _)| name.to_owned()).filter(|name| name != "le").collect()
}

#[test]
fn every_metric_is_documented() {
    let text = all();
    let mut page = String::from(
        "# Metrics\n\n\
         This page lists the metrics of the operator and of the agent. Both serve them at `/metrics` of `--listen`, in the OpenMetrics text format. With\n\
         `serviceMonitor.enabled=true`, the charts let the Prometheus operator scrape them. Any other Prometheus can scrape the port `health` of the agent's pod.\n\n\
         - Only the leading operator has the metrics of the fleet.\n\
         - The agent serves its metrics once it has joined, and responds with 503 before. It has no metrics of the leader, clusters, ConfigRepos, placements and rollouts. It\n\
         \x20 fetches nothing from git, so those metrics are 0 or missing.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    let mut lines: Vec<String> = Vec::new();
    for help in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = help.split_once(' ').unwrap();
        let of_type = format!("# TYPE {name} ");
        let kind = text.lines().find_map(|line| line.strip_prefix(&of_type)).unwrap();
        let end = if kind == "counter" { "_total" } else { "" };
        let labels: Vec<String> = labels(&text, name).into_iter().collect();
        lines.push(format!("| `{name}{end}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    lines.sort();
    for line in &lines {
        let _ = write!(page, "{line}");
    }
    golden::check([(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md"), page)]);
}
