//! OCM's registration operator hands over a Klusterlet and a ClusterManager to ours, which hands them back.

use std::fs;

use serde_json::Value;

use super::fleet::{Fleet, OurOperator, bootstrap, uids};
use super::programs::{AGENT, HUB, OURS, OcmHub, OcmSpoke};
use crate::klusterlet::{self, pod};
use crate::kube::{Cluster, Directory, Kubectl, free_port};
use crate::running::Running;
use crate::wait::eventually;

const AVAILABLE: &str = "ManagedClusterConditionAvailable";
/// The conditions of a healthy ClusterManager, regardless of which operator reconciles it.
const WELL: [&str; 4] = [
    "Applied True ClusterManagerApplied",
    "Progressing False ClusterManagerUpToDate",
    "HubRegistrationDegraded False RegistrationFunctional",
    "HubPlacementDegraded False PlacementFunctional",
];

/// Returns the agent's identity, and the uids of the applied record and of the object.
fn identities(kubectl: &Kubectl) -> [String; 3] {
    let identity = ["secret", "hub-kubeconfig-secret", "-n", AGENT];
    let identity_path = "jsonpath={.metadata.uid} {.data.tls\\.crt}";
    [
        kubectl.run(&[&["get"], &identity[..], &["-o", identity_path]].concat()),
        kubectl.run(&["get", "appliedmanifestworks", "-o", "jsonpath={.items[*].metadata.uid}"]),
        kubectl.run(&["get", "configmap", "one", "-o", "jsonpath={.metadata.uid}"]),
    ]
}

/// Returns the time at which the cluster became available.
fn since(fleet: &Fleet) -> Value {
    let cluster = fleet.get("managedcluster/c1", "");
    let mut conditions = cluster["status"]["conditions"].as_array().unwrap().iter();
    conditions.find(|one| one["type"] == AVAILABLE).unwrap()["lastTransitionTime"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_klusterlet_changes_operators_twice_and_its_cluster_stays_available() {
    let (cluster, dir) = (Cluster::start("hand-over-hub").await, Directory::new("hand-over-hub"));
    let _operator = OurOperator::install(&cluster, &dir, "*").await;
    let fleet = Fleet::new(&cluster);
    let mut spoke = OcmSpoke::start("c1", &bootstrap(&fleet, &dir)).await;
    fleet.accept("c1");
    spoke.start_work().await;
    fleet.works("c1", "one", "1").await;
    fleet.becomes("managedcluster/c1", "", AVAILABLE, "ManagedClusterAvailable").await;
    let (before, begin) = (identities(&spoke.kubectl), since(&fleet));

    let ours = spoke.hand_over().await;
    fleet.works("c1", "one", "2").await;
    assert_eq!(identities(&spoke.kubectl), before);
    spoke.take_back(ours).await;
    fleet.works("c1", "one", "3").await;
    assert_eq!(identities(&spoke.kubectl), before);
    assert_eq!(since(&fleet), begin, "the cluster was available all the time");
}

impl OcmHub {
    /// Runs OCM's operator until it has finished and reports health.
    async fn reconcile(&self) {
        let operator = self.start_operator();
        self.is_well(false).await;
        self.installed_by(operator).await;
    }

    /// Waits until our operator or OCM's reports that all is well. Only our message names our Deployment.
    async fn is_well(&self, says_ours: bool) {
        let path = "jsonpath={range .status.conditions[*]}{.type} {.status} {.reason} {.message}{'\\n'}{end}";
        let operator = if says_ours { "our operator" } else { "OCM's operator" };
        eventually(&format!("{operator} says that all is well"), async || {
            let conditions = self.kubectl.run(&["get", "clustermanager", "cluster-manager", "-o", path]);
            WELL.iter().all(|wanted| conditions.lines().any(|line| line.starts_with(*wanted)))
                && conditions.contains("wheelwright-operator is running") == says_ours
        })
        .await;
    }

    /// Hands over the ClusterManager, as OCM's operator leaves it, to our registration operator, with our image.
    /// Returns our operator and the hub side that it installs, both running.
    async fn hand_over(&mut self) -> [Running; 2] {
        self.reconcile().await;
        let image = format!("gitops.wheelwright.dev/image={OURS}");
        self.kubectl.run(&["annotate", "clustermanager", "cluster-manager", &image]);
        let operator = klusterlet::start_operator(&self.cluster, &self.dir, "hub");
        let list = ["get", "deployments", "-n", HUB, "-o", "name"];
        eventually("our hub side has replaced OCM's", async || {
            self.kubectl.run(&list).trim() == "deployment.apps/wheelwright-operator"
        })
        .await;
        self.parts.clear();
        let kubeconfig = self.dir.path("ours.kubeconfig");
        fs::write(&kubeconfig, pod::account_kubeconfig(&self.cluster, "wheelwright-operator", HUB)).unwrap();
        let (dir, port) = (self.dir.path(""), free_port());
        let hub_side = pod::start_operator(&self.kubectl, &kubeconfig, &dir, port, &[]);
        self.is_well(true).await;
        [operator, hub_side]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_manager_changes_operators_twice_and_its_fleet_stays() {
    const REGISTRATION: &str = "cluster-manager-registration-controller";
    let mut hub = OcmHub::start("hand-over-manager").await;
    let fleet = Fleet::new(&hub.cluster);
    let mut spoke = OcmSpoke::start("c1", &bootstrap(&fleet, &hub.dir)).await;
    fleet.accept("c1");
    spoke.start_work().await;
    fleet.works("c1", "one", "1").await;
    fleet.becomes("managedcluster/c1", "", AVAILABLE, "ManagedClusterAvailable").await;
    fleet.settles().await;
    let manager = || fleet.get("clustermanager/cluster-manager", "")["metadata"]["uid"].clone();
    let fleet_before = (manager(), uids(&fleet.versions()));
    let (before, begin) = (identities(&spoke.kubectl), since(&fleet));

    let ours = hub.hand_over().await;
    fleet.decides(REGISTRATION, 1).await;
    fleet.works("c1", "one", "2").await;
    assert_eq!(identities(&spoke.kubectl), before);
    spoke.renew(&hub.cluster).await;
    let renewed = identities(&spoke.kubectl);

    drop(ours);
    fleet.wheelwright(&format!("uninstall --namespace {HUB}"));
    hub.reconcile().await;
    hub.start_parts().await;
    fleet.decides(REGISTRATION, 2).await;
    fleet.works("c1", "one", "3").await;
    assert_eq!(identities(&spoke.kubectl), renewed);
    assert_eq!(since(&fleet), begin, "the cluster was available all the time");
    let fleet_after = (manager(), uids(&fleet.versions()));
    assert_eq!(fleet_after, fleet_before, "nothing was deleted or made again");
}
