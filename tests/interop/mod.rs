//! Our programs alongside Open Cluster Management's, and in their place. `make interop` runs only these tests.
//!
//! OCM's operators install its controllers and agents, which run as processes with the permissions granted to
//! them. Services are not routed here, so OCM's webhooks are reached on a port after its hub operator has exited.

mod clusteradm;
mod fleet;
mod hand_over;
mod library;
mod profile;
mod programs;

use std::time::Duration;

use serde_json::{Value, json};

use self::fleet::{BASE, Fleet, OurOperator, addon, bootstrap, uids};
use self::programs::{CONTROLLERS, OcmHub, OcmSpoke, nodes};
use crate::klusterlet::exists;
use crate::kube::{Cluster, Directory};
use crate::running::Running;
use crate::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_ours_joins_works_and_leaves_under_ocms_hub() {
    let hub = OcmHub::start("interop-agent-hub").await;
    let fleet = Fleet::new(&hub.cluster);
    let spoke = Cluster::start("interop-agent").await;
    let (on_spoke, pods) = (spoke.kubectl(), nodes(&spoke).await);
    let bootstrap = bootstrap(&fleet, &hub.dir);
    let args = ["agent", "--bootstrap-kubeconfig", bootstrap.to_str().unwrap(), "--spoke-cluster-name", "c1"];
    let kubeconfig = ["--spoke-kubeconfig", spoke.kubeconfig.to_str().unwrap()];
    let agent = Running::start("agent", &hub.dir.path(""), &[&args[..], &kubeconfig].concat());
    fleet.accept("c1");
    fleet
        .becomes("managedcluster/c1", "", "ManagedClusterConditionAvailable", "ManagedClusterAvailable")
        .await;
    assert_eq!(
        fleet.get("managedcluster/c1", "")["metadata"]["labels"]["cluster.open-cluster-management.io/clusterset"],
        "default"
    );
    for command in ["status", "get clusters", "doctor"] {
        let printed = fleet.output(command);
        assert!(!printed.contains("404"), "{command}: {printed}");
    }

    fleet.works("c1", "one", "1").await;
    fleet.works("c1", "one", "2").await;
    fleet.allow_templates();
    fleet.rolls_out("1").await;
    fleet.becomes("managedclusteraddon/hello", "c1", "Available", "ProbeAvailable").await;
    assert!(fleet.wheelwright("explain rollout hello").contains("1 of 1 cluster done"));
    fleet.rolls_out("2").await;
    assert_eq!(on_spoke.run(&["get", "configmap", "hello", "-o", "jsonpath={.data.version}"]), "2");
    assert!(exists(&on_spoke, &["secret", "hello-hub-kubeconfig"]));
    library::lives_and_goes(&hub, &fleet, &spoke).await;

    fleet.kubectl.run(&["delete", "managedcluster", "c1", "--timeout=120s"]);
    agent.kill_9();
    eventually("the add-on has left the cluster", async || {
        !exists(&on_spoke, &["configmap", "hello"]) && !exists(&on_spoke, &["configmap", "one"])
    })
    .await;
    assert_eq!(on_spoke.run(&["get", "appliedmanifestworks", "-o", "name"]), "");
    assert_eq!(fleet.kubectl.run(&["get", "manifestworks,managedclusteraddons", "-A", "-o", "name"]), "");
    pods.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn ocms_controllers_are_replaced_one_by_one_and_come_back() {
    let mut hub = OcmHub::start("interop-takeover-hub").await;
    let fleet = Fleet::new(&hub.cluster);
    let mut spoke = OcmSpoke::start("c1", &bootstrap(&fleet, &hub.dir)).await;
    fleet.accept("c1");
    spoke.start_work().await;
    fleet.works("c1", "one", "1").await;
    fleet.allow_templates();
    fleet.rolls_out("1").await;
    fleet.becomes("managedclusteraddon/hello", "c1", "Available", "ProbeAvailable").await;
    let pods = || {
        spoke.kubectl.run(&["get", "deployment", "hello", "-o", "jsonpath={.metadata.uid} {.spec.template}"])
    };
    let running = pods();

    let mut ours = OurOperator::install(&hub.cluster, &hub.dir, BASE).await;
    fleet.settles().await;
    let fleet_before = fleet.versions();
    let (mut left_out, mut checked) = (vec!["placement", ADD_ONS, WORKS, REGISTRATION], 0);
    for name in CONTROLLERS {
        let before = fleet.versions();
        hub.stop_controller(name);
        left_out.remove(0);
        ours.select(&chosen(&left_out)).await;
        fleet.decides(name, checked).await;
        checked += 1;
        if name == "cluster-manager-addon-manager-controller" {
            eventually("the agent reports what decides health here", async || fleet.reports_address()).await;
            fleet.becomes("managedclusteraddon/hello", "c1", "Degraded", "AsExpected").await;
            fleet.settles().await;
        } else {
            let changed = fleet.changed(&before);
            assert!(changed.is_empty(), "{name}: {changed:?}");
        }
        let findings = fleet.output("doctor -o json");
        let findings: Vec<Value> = serde_json::from_str(&findings).unwrap();
        let ocm = findings.iter().find(|one| one["check"] == "ocm").unwrap();
        assert_eq!(ocm["health"], "Good", "{name}: {ocm}");
    }
    assert_eq!(uids(&fleet_before), uids(&fleet.versions()), "nothing was deleted or made again");
    assert_eq!(pods(), running, "the pods of the add-on go on");
    assert!(fleet.wheelwright("status").contains("hello  1 of 1 cluster done"));
    fleet.rolls_out("2").await;

    let running = pods();
    ours.select(BASE).await;
    for name in CONTROLLERS {
        hub.start_controller(name);
        fleet.decides(name, checked).await;
        checked += 1;
    }
    eventually("the work is that of OCM's manager again", async || !fleet.reports_address()).await;
    fleet.runs("c1", "2").await;
    assert_eq!(uids(&fleet_before), uids(&fleet.versions()), "nothing was deleted or made again");
    assert_eq!(pods(), running, "the pods of the add-on go on");
    fleet.rolls_out("1").await;
}

const ADD_ONS: &str = "addon-annotation,addon-config,addon-deploy,addon-install,addon-health,addon-feature,addon-takeover,addon-token,csr";
const WORKS: &str = "replica-set,work-ttl";
const REGISTRATION: &str =
    "cluster,cluster-defaults,cluster-lease,clusterset,clustersetbinding,managed-namespaces,bootstrap";

/// Returns `--controllers` for a hub on which OCM runs the given controllers.
fn chosen(left_out: &[&str]) -> String {
    let names = left_out.iter().flat_map(|names| names.split(','));
    names.fold("*".to_owned(), |chosen, name| format!("{chosen},-{name}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn ocms_agents_join_work_and_leave_under_our_hub() {
    let (cluster, dir) = (Cluster::start("interop-hub").await, Directory::new("interop-hub"));
    let ours = OurOperator::install(&cluster, &dir, "*").await;
    let fleet = Fleet::new(&cluster);
    let bootstrap = bootstrap(&fleet, &dir);
    let mut spokes = Vec::new();
    for name in ["c1", "c2"] {
        let mut spoke = OcmSpoke::start(name, &bootstrap).await;
        fleet.accept(name);
        spoke.start_work().await;
        fleet
            .becomes(
                &format!("managedcluster/{name}"),
                "",
                "ManagedClusterConditionAvailable",
                "ManagedClusterAvailable",
            )
            .await;
        spokes.push(spoke);
    }
    fleet.kubectl.run(&["label", "managedcluster", "c2", "canary=true"]);
    fleet.works("c1", "one", "1").await;
    spokes[0].renew(&cluster).await;
    fleet.works("c1", "one", "2").await;
    fleet.becomes("managedcluster/c1", "", "ClusterCertificateRotated", "ClientCertificateUpdated").await;
    fleet.kubectl.run(&["delete", "manifestwork", "one", "-n", "c1", "--timeout=60s"]);
    assert!(!exists(&spokes[0].kubectl, &["configmap", "one"]));

    let canaries = json!({"type": "Progressive", "progressive": {
        "mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": 1, "progressDeadline": "30s"}});
    fleet.allow_templates();
    fleet.apply(&addon("1", canaries.clone()));
    for name in ["c1", "c2"] {
        fleet.runs(name, "1").await;
        fleet.becomes("managedclusteraddon/hello", name, "Available", "ProbeAvailable").await;
    }
    fleet.apply(&addon("2", canaries.clone()));
    fleet.runs("c2", "2").await;
    fleet.runs("c1", "2").await;
    let begun = |cluster: &str| {
        let addon = fleet.get("managedclusteraddon/hello", cluster);
        let conditions = addon["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|one| one["type"] == "Progressing").unwrap()["lastTransitionTime"]
            .to_string()
    };
    assert!(begun("c2") <= begun("c1"), "the canary is done first");
    fleet.apply(&addon("missing", canaries));
    fleet.becomes("clustermanagementaddon/hello", "", "Progressing", "Failed").await;
    assert_eq!(fleet.version("c1"), "hello-2", "the canary failed, so the others keep what they run");

    fleet.apply(
        "apiVersion: gitops.wheelwright.dev/v1alpha1\n\
         kind: RolloutPolicy\n\
         metadata: {name: hello}\n\
         spec: {addOns: [hello], removalBudget: 100%}\n",
    );
    fleet.kubectl.run(&["delete", "clustermanagementaddon", "hello", "--timeout=60s"]);
    eventually("the add-on has left the clusters", async || {
        spokes.iter().all(|spoke| {
            !exists(&spoke.kubectl, &["configmap", "hello"])
                && !exists(&spoke.kubectl, &["secret", "hello-hub-kubeconfig"])
        })
    })
    .await;
    fleet.works("c1", "two", "1").await;
    fleet.kubectl.run(&["delete", "managedcluster", "c1", "--timeout=120s"]);
    assert!(!exists(&spokes[0].kubectl, &["configmap", "two"]), "its works have left the cluster before");
    assert!(ours.terminate(Duration::from_secs(20)));
}
