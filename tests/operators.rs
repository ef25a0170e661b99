//! Operators that a person starts by hand.

use std::process::Command;
use std::time::Duration;

use crate::running::Running;
use crate::sources::Hub;
use crate::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_operators_writes_and_the_other_names_it_and_follows() {
    let hub = Hub::start().await;
    let dir = hub.dir.path();
    let kubeconfig = dir.join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let start = |name: &str, more: &[&str]| {
        let cache = dir.join(format!("{name}-cache"));
        let args = ["operator", "--kubeconfig", kubeconfig, "--cache-dir", cache.to_str().unwrap()];
        Running::start(name, dir, &[&args, more].concat())
    };
    let log = |name: &str| std::fs::read_to_string(dir.join(format!("{name}.log"))).unwrap();
    let says = async |name: &str, text: &str| {
        eventually(&format!("the {name} says {text:?}"), async || log(name).contains(text)).await;
    };
    let first = start("first", &[]);
    says("first", "started").await;
    let identity = log("first").split_once("identity=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let second = start("second", &[]);
    says(
        "second",
        &format!(
            "another process leads; waiting for its lease to be released or to expire holder=\"{identity}\""
        ),
    )
    .await;
    let examined =
        Command::new(env!("CARGO_BIN_EXE_wheelwright")).args(["doctor", "--kubeconfig", kubeconfig]).output();
    let examined = String::from_utf8(examined.unwrap().stdout).unwrap();
    for finding in ["it runs outside of the hub", &format!("{identity} leads, and renewed its lease")] {
        assert!(examined.contains(finding), "{finding}\n{examined}");
    }
    assert!(!log("second").contains("started"), "{}", log("second"));

    assert!(first.terminate(Duration::from_secs(30)));
    let ended = log("first");
    let begin = ended.find("stopping signal=\"SIGTERM\"").unwrap();
    assert!(ended[begin..].contains("released the lease") && !ended[begin..].contains("WARN"), "{ended}");
    says("second", "started").await;

    drop(second);
    let _third = start("third", &["--leader-elect=false"]);
    says("third", "no election: this operator must be the only one").await;
    says("third", "started").await;
}

#[test]
fn an_operator_is_not_started_with_a_repository_that_does_not_exist() {
    let mut operator = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    let output = operator.args(["operator", "--local-repositories", "--repo", "flet"]).output().unwrap();
    let refusal = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && refusal.starts_with("error: directory flet does not exist\nhint: "),
        "{refusal}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_may_not_read_its_lease_says_what_to_grant() {
    let hub = Hub::start().await;
    let kubeconfig = hub.dir.path().join("somebody");
    let somebody = hub.server.kubeconfig("somebody", &[]).unwrap();
    std::fs::write(&kubeconfig, serde_json::to_string(&somebody).unwrap()).unwrap();
    let mut operator = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    operator.args(["operator", "--cache-dir"]).arg(hub.dir.path()).arg("--kubeconfig").arg(&kubeconfig);
    let output = operator.output().unwrap();
    let refusal = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    for part in [
        "error: cannot read the lease wheelwright-system/wheelwright-operator of the election: ",
        "User \"somebody\" cannot get resource \"leases\"",
        "hint: name another namespace with --namespace, grant get, create and update of leases there, or run the only \
         operator with --leader-elect=false",
    ] {
        assert!(refusal.contains(part), "{part}\n{refusal}");
    }
}
