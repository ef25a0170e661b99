//! The disaster recovery in docs/disaster-recovery.md, using the commands on the page.

use super::chain::CLUSTERS;
use super::fleet::Fleet;
use crate::docs::{blocks, link, link_programs, run};
use crate::kube::built;
use crate::wait::eventually;

const PAGE: &str = "docs/disaster-recovery.md";
const OPERATOR: [&str; 4] = ["deployment", "wheelwright-operator", "-n", "wheelwright-system"];
const REPO: [&str; 4] = ["configrepo", "fleet", "-n", "gitops"];

/// Runs a block of the page, with the directory and addresses of this etcd.
fn run_block(fleet: &Fleet, start: &str) {
    let dir = fleet.dir.path();
    let [client, peer] = fleet.hub.etcd_urls();
    let block = blocks(PAGE).into_iter().find(|block| block.text.starts_with(start));
    let mut block = block.unwrap_or_else(|| panic!("{PAGE} has no block {start:?}"));
    for (written, here) in [
        ("etcdctl", format!("etcdctl --endpoints={client}")),
        ("/var/lib", dir.display().to_string()),
        ("node1", "default".to_owned()),
        ("https://10.0.0.1:2380", peer),
    ] {
        block.text = block.text.replace(written, &here);
    }
    run(&fleet.hub, dir, "", &block);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_comes_back_from_a_snapshot_of_etcd_by_the_commands_of_the_page() {
    let mut fleet = Fleet::start().await;
    let dir = fleet.dir.path().to_owned();
    link_programs(&dir);
    let programs = built("tests/etcd/build");
    for program in ["etcdctl", "etcdutl"] {
        link(&programs.join(program), &dir, &format!("bin/{program}"));
    }
    let kubectl = fleet.kubectl();
    let read = |object: &[&str], path: &str| kubectl.run(&[&["get"], object, &["-o", path]].concat());
    kubectl.run(&[&["create"], &OPERATOR[..], &["--image=example.com/wheelwright"]].concat());
    run_block(&fleet, "etcdctl");
    fleet.add_cluster("phantom").await;
    // Make the report branch two commits ahead of the backup: the operator would treat a single one as its own.
    for word in ["after the backup", "before the restore"] {
        fleet.commit(word, &[]);
        fleet.arrives(word, CLUSTERS + 1, "before the restore").await;
    }

    fleet.stop_operator();
    run_block(&fleet, "kubectl scale deployment wheelwright-operator");
    let replicas = || read(&OPERATOR, "jsonpath={.spec.replicas}");
    assert_eq!(replicas(), "0");
    fleet.hub.restore(&dir.join("etcd-restored")).await;
    assert_eq!(replicas(), "1", "the Deployment of the backup");
    fleet.restart_operator();
    fleet.arrives("before the restore", CLUSTERS, "after the restore").await;
    let standing = fleet.standing().await;
    assert!(!standing.keys().any(|id| id.contains("phantom")), "{standing:?}");

    let reason = r#"jsonpath={.status.conditions[?(@.type=="Reported")].reason}"#;
    eventually("the reports stop", async || read(&REPO, reason) == "StatusPushFenced").await;
    let edit = r#"{"spec":{"report":{"interval":"2s"}}}"#;
    kubectl.run(&[&["patch"], &REPO[..], &["--type=merge", "-p", edit]].concat());
    fleet.commit("after the restore", &[]);
    fleet.arrives("after the restore", CLUSTERS, "after the edit").await;
}
