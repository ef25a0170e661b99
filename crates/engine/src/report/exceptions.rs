//! One file for each cluster that needs attention, in a directory of two hexadecimal digits.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::limits::MESSAGE;
use super::{FleetReport, Workload, WorkloadCluster};
use object::hex;
use object::text::plain;

/// The directory of the files.
pub(super) const CLUSTERS: &str = "clusters";
/// The maximum number of clusters with a file. The worst clusters come first.
const MAX_CLUSTERS: usize = 1_000;
/// The maximum number of workloads of each kind in a file.
const MAX_WORKLOADS: usize = 20;
/// The maximum total size of the files.
const MAX_BYTES: usize = 2 << 20;

/// The workloads that need attention on a cluster, by kind, and the worst rank.
#[derive(Default)]
pub(super) struct Exceptions<'a> {
    rank: u8,
    of: BTreeMap<&'static str, Vec<(&'a Workload, &'a WorkloadCluster)>>,
}

/// Returns the workloads that need attention, by cluster.
pub(super) fn exceptions(fleet: &FleetReport) -> BTreeMap<&str, Exceptions<'_>> {
    let mut exceptions: BTreeMap<&str, Exceptions<'_>> = BTreeMap::new();
    let FleetReport { add_ons, replica_sets, works, .. } = fleet;
    for (key, workloads) in [("addOns", add_ons), ("replicaSets", replica_sets), ("works", works)] {
        for workload in workloads {
            for cluster in workload.clusters.iter().filter(|cluster| cluster.needs_attention()) {
                let first = || Exceptions { rank: u8::MAX, ..Exceptions::default() };
                let of_cluster = exceptions.entry(&cluster.name).or_insert_with(first);
                of_cluster.rank = of_cluster.rank.min(cluster.rank());
                of_cluster.of.entry(key).or_default().push((workload, cluster));
            }
        }
    }
    exceptions
}

/// Returns the files of the worst clusters, by path.
pub(super) fn files(exceptions: &BTreeMap<&str, Exceptions<'_>>) -> BTreeMap<String, String> {
    let mut worst: Vec<_> = exceptions.iter().collect();
    worst.sort_by_key(|(name, exceptions)| (exceptions.rank, *name));
    let mut left = MAX_BYTES;
    let mut files = BTreeMap::new();
    for (name, exceptions) in worst.into_iter().take(MAX_CLUSTERS) {
        let text = content(name, exceptions);
        let Some(less) = left.checked_sub(text.len()) else { break };
        left = less;
        files.insert(cluster_file(name), text);
    }
    files
}

/// Returns two hexadecimal digits, derived from the name of a cluster, that distribute clusters evenly.
pub(super) fn shard(cluster: &str) -> String {
    hex(Sha256::digest(cluster).get(..1).unwrap_or_default())
}

/// Returns the path of a cluster's file in the directory of a report. Valid cluster names are safe in paths, because
/// they are namespace names.
pub fn cluster_file(cluster: &str) -> String {
    let shard = shard(cluster);
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = cluster.chars().take(253).map(safe).collect();
    format!("{CLUSTERS}/{shard}/{name}.json")
}

fn content(name: &str, exceptions: &Exceptions<'_>) -> String {
    let mut file = Map::new();
    file.insert("version".into(), 1.into());
    file.insert("cluster".into(), plain(name, 253).into());
    for (key, workloads) in &exceptions.of {
        let shown = workloads.iter().take(MAX_WORKLOADS);
        let values = shown.map(|(workload, cluster)| (plain(&workload.name, 320), value(cluster)));
        file.insert((*key).to_owned(), Value::Object(values.collect()));
    }
    let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
    text.push('\n');
    text
}

/// Returns the state of a workload on a cluster, with the same fields as `worst` in the summary.
fn value(cluster: &WorkloadCluster) -> Value {
    let WorkloadCluster { state, available, reports_error: _, name: _, message, runs, started: _, ended: _ } =
        cluster;
    json!({
        "state": state.word(),
        "available": available,
        "configuration": plain(runs, MESSAGE),
        "message": plain(message, MESSAGE),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rollout::ClusterState;

    fn cluster(name: &str, state: ClusterState, message: &str) -> Arc<WorkloadCluster> {
        let (name, message, runs) = (name.into(), message.into(), "msa-0.4.1@12345678".into());
        Arc::new(WorkloadCluster {
            state,
            available: true,
            reports_error: false,
            name,
            message,
            runs,
            started: None,
            ended: None,
        })
    }

    fn failed(name: &str, message: &str) -> Arc<WorkloadCluster> {
        cluster(name, ClusterState::Failed { deadline: None }, message)
    }

    fn workload(name: &str, clusters: Vec<Arc<WorkloadCluster>>) -> Workload {
        Workload { name: name.into(), clusters, ..Workload::default() }
    }

    #[test]
    fn a_cluster_that_needs_attention_has_a_file_with_all_its_problems() {
        let fine = || cluster("c2", ClusterState::Done, "");
        let fleet = FleetReport {
            add_ons: vec![
                workload("msa", vec![failed("c1", "token=hunter22222"), fine()]),
                workload("other", vec![cluster("c1", ClusterState::TimedOut, ""), fine()]),
                workload("third", vec![cluster("c1", ClusterState::Done, "")]),
            ],
            replica_sets: vec![workload("default/settings", vec![failed("c1", "no"), fine()])],
            ..FleetReport::default()
        };
        let files = files(&exceptions(&fleet));
        assert_eq!(files.keys().collect::<Vec<_>>(), ["clusters/d0/c1.json"]);
        let file: Value = serde_json::from_str(&files["clusters/d0/c1.json"]).unwrap();
        assert_eq!(file["cluster"], "c1");
        let states = |key: &str| -> Vec<(String, Value)> {
            let of = file[key].as_object().unwrap();
            of.iter().map(|(name, value)| (name.clone(), value["state"].clone())).collect()
        };
        assert_eq!(states("addOns"), [("msa".into(), json!("Failed")), ("other".into(), json!("TimedOut"))]);
        assert_eq!(states("replicaSets"), [("default/settings".into(), json!("Failed"))]);
        assert_eq!(file["addOns"]["msa"]["message"], "token=[redacted]");
        assert!(file.get("works").is_none());
    }

    #[test]
    fn the_files_of_five_thousand_clusters_are_bounded_and_the_worst_have_them() {
        let name = |i: usize| format!("c{i:04}");
        let worse = |i: usize| match i {
            4_999 => failed(&name(i), &"x".repeat(1_000)),
            _ => cluster(&name(i), ClusterState::TimedOut, &"y".repeat(1_000)),
        };
        let clusters: Vec<_> = (0..5_000).map(worse).collect();
        let one = FleetReport { add_ons: vec![workload("msa", clusters.clone())], ..FleetReport::default() };
        let files = super::files(&exceptions(&one));
        assert_eq!(files.len(), MAX_CLUSTERS);
        let bytes = |files: &BTreeMap<String, String>| files.values().map(String::len).sum::<usize>();
        assert!(bytes(&files) < MAX_BYTES, "{}", bytes(&files));
        assert!(files.contains_key(&cluster_file("c4999")) && files.contains_key(&cluster_file("c0998")));
        assert!(!files.contains_key(&cluster_file("c0999")));
        let shards: std::collections::BTreeSet<_> = files.keys().map(|path| path[9..11].to_owned()).collect();
        assert!(shards.len() > 200, "{}", shards.len());

        let add_ons = (0..100).map(|i| workload(&format!("a{i}"), clusters.clone())).collect();
        let many = super::files(&exceptions(&FleetReport { add_ons, ..FleetReport::default() }));
        assert!(bytes(&many) <= MAX_BYTES && many.len() > 100, "{} {}", bytes(&many), many.len());
        assert!(many.values().all(|file| file.len() < 16 << 10));
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        for name in ["../../etc", "a/b", "..", ".git", "c1\n"] {
            let path = cluster_file(name);
            assert_eq!(path.matches('/').count(), 2, "{path}");
            assert!(!path.contains("/."), "{path}");
        }
    }
}
