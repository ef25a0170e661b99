use std::sync::Arc;

use super::*;
use crate::report::{Rollout, WorkloadCluster, message};
use crate::rollout::ClusterState;
use crate::rollout::state::Wait;
use api::gitops::v1alpha1::RolloutCounts;

const FAILED: ClusterState = ClusterState::Failed { deadline: None };

fn cluster(name: &str, state: ClusterState, message: &str) -> WorkloadCluster {
    let (name, message, runs) = (name.into(), message.into(), "msa-0.4.1@12345678".into());
    WorkloadCluster {
        state,
        available: true,
        reports_error: false,
        name,
        message,
        runs,
        started: None,
        ended: None,
    }
}

fn fleet(clusters: Vec<WorkloadCluster>) -> FleetReport {
    let rollout = Rollout {
        placement: "fleet/canary".into(),
        state: "Failed".into(),
        message: "1 failed".into(),
        ..Rollout::default()
    };
    let rollouts = vec![rollout];
    let clusters = clusters.into_iter().map(Arc::new).collect();
    let holds = vec!["approval abc".into()];
    let add_on = Workload { name: "msa".into(), rollouts, holds, clusters, ..Workload::default() };
    FleetReport {
        repo: "config/fleet".into(),
        seen: "a".repeat(40),
        applied: "a".repeat(40),
        ready: true,
        condition: ("Applied".into(), "applied aaaaaaaaaaaa (9 objects)".into()),
        clusters: 3,
        available: 2,
        add_ons: vec![add_on],
        replica_sets: Vec::new(),
        works: Vec::new(),
        placements: Vec::new(),
        others: Vec::new(),
    }
}

#[test]
fn a_report_counts_and_names_the_worst() {
    let files =
        files(&fleet(vec![cluster("c1", FAILED, "image not found"), cluster("c2", ClusterState::Done, "")]));
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["README.md", "addons/msa.md", "clusters/d0/c1.json", "summary.json"]
    );
    assert!(
        files["README.md"].contains("| [msa](addons/msa.md) | 1 of 2 | 1 Failed | 0 | Failed |"),
        "{}",
        files["README.md"]
    );
    assert!(
        files["addons/msa.md"].contains("| c1 | Failed | image not found |"),
        "{}",
        files["addons/msa.md"]
    );
    let summary: Value = serde_json::from_str(&files["summary.json"]).unwrap();
    assert_eq!(summary["addOns"]["msa"]["clusters"]["failed"], 1);
    assert_eq!(summary["addOns"]["msa"]["configurations"]["msa-0.4.1@12345678"], 2);
    assert!(files.values().all(|content| content.ends_with('\n')));
}

#[test]
fn the_page_of_an_add_on_shows_its_time_line() {
    let mut done = cluster("c2", ClusterState::Done, "");
    done.ended = Some(jiff::Timestamp::UNIX_EPOCH);
    let files = files(&fleet(vec![cluster("c1", FAILED, ""), done]));
    assert!(files["addons/msa.md"].contains("](msa.svg)"), "{}", files["addons/msa.md"]);
    assert!(files["addons/msa.svg"].contains("1 of 2 clusters done"), "{}", files["addons/msa.svg"]);
}

#[test]
fn a_rollout_that_failed_keeps_its_time_line() {
    let check = |progressing: &str, state: ClusterState| {
        let condition = json!({"type": "Progressing", "status": progressing, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let addon = json!({"metadata": {"name": "msa"}, "spec": {}, "status": {"conditions": [condition]}});
        let addon = serde_json::from_value(addon).unwrap();
        let waiting = cluster("c2", ClusterState::Waiting(Wait::Paused { policies: Vec::new() }), "");
        let files = files(&fleet(vec![WorkloadCluster::read("c1", &state, Some(&addon)), waiting]));
        let picture = files.get("addons/msa.svg").unwrap_or_else(|| panic!("no picture: {state:?}"));
        assert!(picture.contains("0 of 2 clusters done, 1 failed"), "{state:?}: {picture}");
        assert!(files["addons/msa.md"].contains("](msa.svg)"), "{}", files["addons/msa.md"]);
    };
    check("True", ClusterState::TimedOut);
    check("False", FAILED);
    check("False", ClusterState::Returned { to: "r1".into() });
}

#[test]
fn a_rollback_is_reported_with_both_versions() {
    let returning = || ClusterState::Returning { to: "r1".into(), unreachable: false };
    let returned = || ClusterState::Returned { to: "r1".into() };
    let mut fleet = fleet(vec![cluster("c1", returning(), ""), cluster("c2", returned(), "")]);
    let rollout = &mut fleet.add_ons[0].rollouts[0];
    rollout.desired = "msa-0.4.2@12345678".into();
    rollout.last_good = "msa-0.4.1@87654321".into();
    rollout.quarantined = Some(RolloutCounts { returning: 1, returned: 1, ..RolloutCounts::default() });
    let counts = RolloutCounts { quarantined: 3, ..RolloutCounts::default() };
    let edge = Rollout { placement: "fleet/edge".into(), quarantined: Some(counts), ..rollout.clone() };
    fleet.add_ons[0].rollouts.push(edge);
    let subject = "report: msa is rolling back 1 of 2 clusters from 0.4.2\n";
    assert!(message(&fleet, None, "d").starts_with(subject), "{}", message(&fleet, None, "d"));
    let page = files(&fleet)["addons/msa.md"].clone();
    assert!(page.contains("1 cluster is returning to msa-0.4.1"), "{page}");
    assert!(page.contains("1 cluster is back on msa-0.4.1"), "{page}");
    let edge = "Quarantined on fleet/edge: msa-0.4.2&#64;12345678. 3 clusters are still running it";
    assert!(page.contains(edge), "{page}");
    fleet.add_ons[0].clusters = ["c1", "c2"].map(|name| Arc::new(cluster(name, returned(), ""))).to_vec();
    assert!(message(&fleet, None, "d").starts_with("report: msa is rolled back from 0.4.2\n"));
    let files = files(&fleet);
    let page = &files["addons/msa.md"];
    assert!(page.contains("Quarantined on fleet/canary: msa-0.4.2"), "{page}");
    let summary: Value = serde_json::from_str(&files["summary.json"]).unwrap();
    let rollout = &summary["addOns"]["msa"]["rollouts"][0];
    assert_eq!((&rollout["quarantined"], &rollout["lastGood"]), (&json!(true), &json!("msa-0.4.1@87654321")));
}

#[test]
fn a_cluster_that_waits_says_what_for() {
    let files = files(&fleet(vec![
        cluster("c1", ClusterState::Waiting(Wait::Paused { policies: Vec::new() }), ""),
        cluster("c2", ClusterState::Waiting(Wait::Paused { policies: Vec::new() }), ""),
    ]));
    assert!(
        files["README.md"].contains("| 0 of 2 | 2 Waiting (Paused) | 0 | Failed |"),
        "{}",
        files["README.md"]
    );
    let summary: Value = serde_json::from_str(&files["summary.json"]).unwrap();
    assert_eq!(summary["addOns"]["msa"]["clusters"]["waiting"], 2);
    assert_eq!(summary["addOns"]["msa"]["waiting"]["Paused"], 2);
}

#[test]
fn messages_of_spokes_are_redacted_escaped_and_capped() {
    let hostile = format!(
        "](javascript:x)|<b>\x1b[31m token=hunter22222 ::set-output \u{202e} {}",
        "A1b".repeat(400_000)
    );
    let files = files(&fleet(vec![cluster("c1", FAILED, &hostile)]));
    for (path, content) in &files {
        assert!(content.len() < 8_000, "{path}: {}", content.len());
        for bad in ["hunter2", "\x1b", "\u{202e}"] {
            assert!(!content.contains(bad), "{path} holds {bad:?}");
        }
        if path.ends_with(".md") {
            assert!(
                !content.contains("](javascript:") && !content.contains("<b>") && !content.contains("::set"),
                "{content}"
            );
        }
    }
}

#[test]
fn no_text_of_a_spoke_stops_the_ci_of_a_report() {
    let words = "[skip ci] [ci skip] [no ci] ***NO_CI*** skip-checks: true\n\nskip-checks:true";
    let mut fleet = fleet(vec![cluster("c1", FAILED, words)]);
    fleet.condition.1 = words.into();
    fleet.add_ons[0].rollouts[0].message = words.into();
    fleet.add_ons[0].holds = vec![words.into()];
    for ready in [true, false] {
        fleet.ready = ready;
        let text = message(&fleet, None, "0123456789abcdef").to_lowercase();
        assert!(!text.contains("skip") && !text.contains("no ci") && !text.contains("no_ci"), "{text}");
    }
}

#[test]
fn a_report_of_a_large_fleet_stays_small() {
    let clusters = (0..5000).map(|i| cluster(&format!("c{i:05}"), FAILED, &"x".repeat(1000))).collect();
    let files = files(&fleet(clusters));
    assert!(files.values().all(|content| content.len() < 64 << 10));
    assert!(files["addons/msa.md"].contains("and 4980 more; see [clusters](../clusters)."));
}

#[test]
fn the_summary_of_many_failing_workloads_names_fewer_clusters_of_each() {
    let failing = |name: String| {
        let clusters = (0..30).map(|i| Arc::new(cluster(&format!("c{i:05}"), FAILED, &"x".repeat(1000))));
        Workload { name, clusters: clusters.collect(), ..Workload::default() }
    };
    let many = |number: usize| {
        let mut fleet = fleet(Vec::new());
        fleet.add_ons = (0..number).map(|i| failing(format!("a{i}"))).collect();
        fleet.works = (0..number).map(|i| failing(format!("w{i}"))).collect();
        summary(&fleet, 30)
    };
    for (number, named) in [(1, 20), (30, 5), (100, 1), (700, 0)] {
        let text = many(number);
        assert!(text.len() <= SUMMARY, "{number}: {}", text.len());
        let summary: Value = serde_json::from_str(&text).unwrap();
        let worst = summary["addOns"]["a0"]["worst"].as_array().unwrap();
        assert_eq!(worst.len(), named, "{number}");
    }
}

#[test]
fn the_same_fleet_gives_the_same_digest_and_any_change_another() {
    let of = |standing| digest(&files(&fleet(vec![cluster("c1", standing, "")])));
    assert_eq!(of(ClusterState::Done), of(ClusterState::Done));
    assert_ne!(of(ClusterState::Done), of(ClusterState::Waiting(Wait::Paused { policies: Vec::new() })));
}

#[test]
fn the_subject_names_what_changed_since_the_last_report() {
    let workload = |name: &str, state: ClusterState| Workload {
        name: name.into(),
        clusters: vec![Arc::new(cluster("c1", state, ""))],
        ..Workload::default()
    };
    let mut fleet = fleet(Vec::new());
    fleet.add_ons = vec![
        workload("a-cpu", FAILED),
        workload("a-crash", FAILED),
        workload("a-image", FAILED),
        workload("b-fine", ClusterState::Done),
    ];
    let subject = |fleet: &FleetReport, changed: Option<&[&str]>| {
        let changed = changed.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        message(fleet, changed.as_ref(), "d").lines().next().unwrap().to_owned()
    };
    let all = "report: 3 workloads failed: a-cpu, a-crash, a-image";
    assert_eq!(subject(&fleet, None), all);
    assert_eq!(subject(&fleet, Some(&["a-crash"])), "report: a-crash failed on 1 of 1 cluster");
    assert_eq!(subject(&fleet, Some(&["b-fine"])), "report: b-fine is done on 1 cluster");
    assert_eq!(subject(&fleet, Some(&[])), all);
    fleet.add_ons.drain(..3);
    assert_eq!(subject(&fleet, None), "report: every cluster is up to date");
    let changed = subject(&fleet, Some(&[]));
    assert_eq!(changed, "report: labels, settings or placements of the fleet changed");
}

#[test]
fn the_commit_message_says_what_matters_and_carries_trailers() {
    let keeper = cluster("c2", ClusterState::Quarantined, "");
    let text = message(&fleet(vec![cluster("c1", FAILED, ""), keeper]), None, "0123456789abcdef");
    assert!(text.starts_with("report: msa failed on 1 of 2 clusters\n"), "{text}");
    let text = message(&fleet(vec![cluster("c1", ClusterState::Done, "")]), None, "0123456789abcdef");
    assert!(text.starts_with("report: every cluster is up to date\n\n"), "{text}");
    assert!(text.contains(&format!("\nWheelwright-Source: {}\n", "a".repeat(40))), "{text}");
    let odd = Workload { name: "../../etc/x".into(), ..Workload::default() };
    assert_eq!(file_of(ADD_ONS, &odd), "addons/etc.x.md");
}
