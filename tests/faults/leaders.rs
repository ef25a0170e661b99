//! Two operators, each behind its own proxy, so that the test knows which one writes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use api::cluster::v1::ManagedCluster;
use api::crds;
use kube::api::Api;
use serde_json::json;

use super::proxy::{Fault, Proxy, Rule, Seen};
use crate::fleet_commit::commit;
use crate::kube::Cluster;
use crate::running::Running;
use crate::wait::eventually;

const CLUSTERS: usize = 20;
/// Maximum time from the last renewal of a stopped leader until another leader writes.
const HANDOVER: Duration = Duration::from_secs(15);
/// The time for which a leader is stopped.
const STOPPED: Duration = Duration::from_secs(60);

/// An operator behind its proxy.
struct Candidate {
    proxy: Proxy,
    process: Running,
}

impl Candidate {
    async fn start(hub: &Cluster, dir: &Path, name: &str) -> Self {
        let proxy = Proxy::start(hub).await;
        let kubeconfig = proxy.kubeconfig_for(hub, name, &["system:masters"]);
        let (repository, cache) = (dir.join("fleet.git"), dir.join(name));
        let args = ["operator", "--local-repositories", "--kubeconfig"];
        let paths = [kubeconfig.to_str().unwrap(), "--repo", repository.to_str().unwrap()];
        let cache = ["--cache-dir", cache.to_str().unwrap()];
        let process = Running::start(name, dir, &[&args[..], &paths, &cache].concat());
        Self { proxy, process }
    }

    /// Returns the candidate's writes, without leases, events and the objects that the command line creates at
    /// startup.
    fn writes(&self) -> Vec<Seen> {
        let is_write = |seen: &Seen| seen.call.is_write() && !seen.call.is_sign_of_life();
        let is_start = |seen: &Seen| {
            seen.call.name == "wheelwright-system"
                || seen.call.resource == "configrepos" && seen.call.subresource.is_empty()
        };
        self.proxy.seen().into_iter().filter(|seen| is_write(seen) && !is_start(seen)).collect()
    }

    /// Waits until the candidate writes; returns the time of its first write.
    async fn writes_first(&self, who: &str) -> Instant {
        eventually(&format!("{who} writes"), async || !self.writes().is_empty()).await;
        self.writes()[0].at
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(name).arg(self.process.id().to_string()).status().unwrap();
        assert!(sent.success());
    }
}

/// Fails if the former leader writes after the first write of the next one.
fn assert_never_two(before: &Candidate, after: &Candidate) {
    let (last, first) = (before.writes().pop().unwrap(), after.writes().remove(0));
    assert!(last.at < first.at, "{} after {}: {:?}", last.call, first.call, last.at - first.at);
}

#[tokio::test(flavor = "multi_thread")]
async fn never_two_leaders_write_and_the_next_one_writes_within_fifteen_seconds() {
    let hub = Cluster::start("leaders").await;
    hub.kubectl().install(crds::hub().into_iter());
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");
    commit(&repository, "one");
    let clusters: Api<ManagedCluster> = Api::all(hub.client().await);
    for i in 0..CLUSTERS {
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": { "name": format!("cluster-{i:03}") }, "spec": { "hubAcceptsClient": true },
        });
        clusters.create(&Default::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    }
    let first = Candidate::start(&hub, dir.path(), "first").await;
    first.writes_first("the first").await;
    let second = Candidate::start(&hub, dir.path(), "second").await;
    eventually("the second is a candidate", async || {
        second.proxy.seen().iter().any(|seen| seen.call.resource == "leases")
    })
    .await;

    // Stop the leader for a minute in the middle of its writes.
    let so_far = first.writes().len();
    commit(&repository, "two");
    eventually("the first writes the second commit", async || first.writes().len() > so_far).await;
    first.signal("-STOP");
    let stopped = Instant::now();
    let taken = second.writes_first("the second").await.duration_since(stopped);
    eprintln!("the next leader writes {taken:?} after the last one was stopped");
    assert!(taken < HANDOVER, "{taken:?}");
    tokio::time::sleep(STOPPED.saturating_sub(stopped.elapsed())).await;
    first.signal("-CONT");
    let Candidate { proxy, mut process } = first;
    eventually("the first ends", async || !process.is_running()).await;
    let first = Candidate { proxy, process };
    assert_never_two(&first, &second);

    // The API server stops responding to the leader, but not to the other candidate.
    let third = Candidate::start(&hub, dir.path(), "third").await;
    eventually("the third is a candidate", async || {
        third.proxy.seen().iter().any(|seen| seen.call.resource == "leases")
    })
    .await;
    second.proxy.set(&[Rule { on: |_| true, fault: Fault::Hold, times: usize::MAX }]);
    let hung = Instant::now();
    commit(&repository, "three");
    let taken = third.writes_first("the third").await.duration_since(hung);
    eprintln!("the next leader writes {taken:?} after the API server hung");
    assert!(taken < HANDOVER, "{taken:?}");
    let Candidate { proxy, mut process } = second;
    eventually("the second ends", async || !process.is_running()).await;
    assert_never_two(&Candidate { proxy, process }, &third);
}
