//! A Klusterlet that OCM's registration operator gives to ours, and ours gives back.

use super::fleet::{Fleet, OurOperator, bootstrap};
use super::programs::{AGENT, OcmSpoke};
use crate::kube::{Cluster, Directory, Kubectl};

const AVAILABLE: &str = "ManagedClusterConditionAvailable";

/// Returns the identity of the agent, the UID of the record of what is applied, and that of the object.
fn kept(kubectl: &Kubectl) -> [String; 3] {
    let identity = ["secret", "hub-kubeconfig-secret", "-n", AGENT];
    let identity_path = "jsonpath={.metadata.uid} {.data.tls\\.crt}";
    [
        kubectl.run(&[&["get"], &identity[..], &["-o", identity_path]].concat()),
        kubectl.run(&["get", "appliedmanifestworks", "-o", "jsonpath={.items[*].metadata.uid}"]),
        kubectl.run(&["get", "configmap", "one", "-o", "jsonpath={.metadata.uid}"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it builds the programs of OCM, in three minutes: make interop"]
async fn a_klusterlet_changes_operators_twice_and_its_cluster_stays_available() {
    let (cluster, dir) = (Cluster::start("hand-over-hub").await, Directory::new("hand-over-hub"));
    let _operator = OurOperator::install(&cluster, &dir, "*").await;
    let fleet = Fleet::new(&cluster);
    let mut spoke = OcmSpoke::start("c1", &bootstrap(&fleet, &dir)).await;
    fleet.accept("c1");
    spoke.start_work().await;
    fleet.works("c1", "one", "1").await;
    fleet.becomes("managedcluster/c1", "", AVAILABLE, "ManagedClusterAvailable").await;
    let since = || {
        let cluster = fleet.get("managedcluster/c1", "");
        let mut conditions = cluster["status"]["conditions"].as_array().unwrap().iter();
        conditions.find(|one| one["type"] == AVAILABLE).unwrap()["lastTransitionTime"].clone()
    };
    let (before, begin) = (kept(&spoke.kubectl), since());

    let ours = spoke.hand_over().await;
    fleet.works("c1", "one", "2").await;
    assert_eq!(kept(&spoke.kubectl), before);
    spoke.take_back(ours).await;
    fleet.works("c1", "one", "3").await;
    assert_eq!(kept(&spoke.kubectl), before);
    assert_eq!(since(), begin, "the cluster was available all the time");
}
