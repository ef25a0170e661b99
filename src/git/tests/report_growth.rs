//! The growth of a repository whose fleet changes constantly.

use std::sync::Arc;

use super::forge::Forge;
use super::push::{QUICK, files};
use crate::git::{Commit, object_bytes};
use engine::report::{self, FleetReport, Workload, WorkloadCluster};
use engine::rollout::ClusterState;

/// The maximum number of commits in ten minutes: one every 30 seconds.
const COMMITS: usize = 20;

/// Returns a fleet of three thousand clusters. A third of them have changed since the previous commit.
fn fleet(commit: usize) -> FleetReport {
    let cluster = |i: usize| {
        let fails = (i + commit / 3) % 3 == commit % 3;
        let state = if fails { ClusterState::Failed { deadline: None } } else { ClusterState::Done };
        let message =
            if fails { format!("agent of cluster {i}: attempt {commit} failed") } else { String::new() };
        let runs = "msa-0.4.1@12345678".to_owned();
        Arc::new(WorkloadCluster {
            state,
            available: !fails,
            reports_error: false,
            name: format!("cluster-{i:04}"),
            message,
            runs,
            started: None,
            ended: None,
        })
    };
    let add_on = |name: &str| Workload {
        name: name.to_owned(),
        clusters: (0..3_000).map(cluster).collect(),
        ..Workload::default()
    };
    FleetReport {
        clusters: 3_000,
        available: 2_000,
        add_ons: vec![add_on("msa"), add_on("proxy")],
        ..FleetReport::default()
    }
}

#[test]
fn ten_minutes_of_three_thousand_flapping_clusters_are_five_mebibytes_at_most() {
    let forge = Forge::new();
    let server = forge.serve();
    let mirror = forge.mirror("cache", &server.url);
    let before = object_bytes(&forge.path());
    for commit in 0..COMMITS {
        let report = Commit { files: report::files(&fleet(commit)), ..files("", &[]) };
        mirror.push(&report, &QUICK).unwrap().unwrap();
    }
    let grown = object_bytes(&forge.path()) - before;
    eprintln!("{grown} bytes");
    assert!(grown < 5 << 20, "{grown} bytes");
}
