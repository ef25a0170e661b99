//! `wheelwright status --watch` against a hub that changes.

use std::process::Stdio;
use std::time::Duration;

use ::kube::Api;
use ::kube::api::PostParams;
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::cluster::v1::ManagedCluster;
use api::crds;
use api::names::GITOPS_GROUP;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use object::Object;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

use crate::cli::{Cli, server};
use crate::rollout::stopped_hub;

/// Maximum wait for a line, sized for a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// Reads lines up to the first that contains a text; returns all of them.
async fn read_to(output: &mut BufReader<ChildStdout>, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let read = timeout(WITHIN, output.read_line(&mut seen)).await;
        let read = read.unwrap_or_else(|_| panic!("waited in vain for {text}: {seen}")).unwrap();
        assert!(read > 0, "it ends before {text}: {seen}");
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_fleet_is_printed_again_when_it_changes_and_ends_with_the_signal() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, client, Cli { kubeconfig }) = stopped_hub(dir.path()).await;

    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["status", "--watch", "--operator-namespace=default", "--kubeconfig"]).arg(&kubeconfig);
    let mut watching = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut output = BufReader::new(watching.stdout.take().unwrap());
    let before = read_to(&mut output, "managed-serviceaccount  0 of 3 clusters done").await;
    assert!(!before.contains("newcomer"), "{before}");
    assert!(before.contains("no operator has a lease in namespace default\n"), "{before}");

    let newcomer = json!({"metadata": {"name": "newcomer"}, "spec": {"hubAcceptsClient": false}});
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    clusters.create(&PostParams::default(), &serde_json::from_value(newcomer).unwrap()).await.unwrap();
    let after = read_to(&mut output, "newcomer: waiting to be accepted").await;

    let renewed = json!({"metadata": {"name": "wheelwright-operator"},
        "spec": {"holderIdentity": "gone", "renewTime": "2026-01-02T03:04:05.000000Z"}});
    let leases: Api<Lease> = Api::namespaced(client, "default");
    leases.create(&PostParams::default(), &serde_json::from_value(renewed).unwrap()).await.unwrap();
    let dead =
        read_to(&mut output, "no operator has renewed its lease since 2026-01-02T03:04:05Z, when gone led\n")
            .await;

    let pid = Pid::from_raw(i32::try_from(watching.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut rest = String::new();
    timeout(WITHIN, output.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert!(watching.wait().await.unwrap().success());
    assert!(rest.contains("managed-serviceaccount  0 of 3 clusters done"), "the page is whole: {rest}");
    let all = before + &after + &dead + &rest;
    assert!(!all.contains('\u{1b}'), "no code of a terminal stands in a file: {all}");
    assert_eq!(all.matches("newcomer: waiting").count(), 2, "a page without a change is not printed: {all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_watch_a_hub_need_only_the_definitions_of_ocm() {
    let dir = tempfile::tempdir().unwrap();
    let definitions = crds::hub();
    let of_ocm = definitions.iter().filter(|definition| definition.spec.group != GITOPS_GROUP);
    let hub = server(of_ocm.map(Object::from_typed).collect()).await;
    let client = crate::trace::client(&hub.kubeconfig("admin", &["system:masters"]).unwrap()).await;
    let cluster = json!({"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": true}});
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    clusters.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    let addon = json!({"metadata": {"name": "maps"}, "spec": {}});
    let addons: Api<ClusterManagementAddOn> = Api::all(client);
    addons.create(&PostParams::default(), &serde_json::from_value(addon).unwrap()).await.unwrap();

    let cli = Cli::new(dir.path(), "ocm", &hub);
    assert!(cli.run("rollout status maps --watch").contains("maps  0 of 0 clusters done"));
    assert!(cli.run("migrate c1 --yes --wait 1m").ends_with("every move off cluster c1 is complete\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_what_it_may_list_in_its_namespace_and_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (hub, client, _) = stopped_hub(dir.path()).await;
    let tenant = Cli::for_user(dir.path(), "tenant", &hub, &[]);
    for command in ["status", "status -n fleet"] {
        let refused = tenant.refused(command);
        assert!(refused.contains("cannot list resource"), "{refused}");
    }

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "tenant", "namespace": "fleet"}, "rules": [
        {"apiGroups": ["cluster.open-cluster-management.io"], "resources": ["placements"], "verbs": ["list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "tenant", "namespace": "fleet"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]});
    Api::<Role>::namespaced(client.clone(), "fleet")
        .create(&PostParams::default(), &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    Api::<RoleBinding>::namespaced(client, "fleet")
        .create(&PostParams::default(), &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
    let page = tenant.run("status -n fleet");
    assert!(page.starts_with("! rights") && page.contains("ManagedCluster, "), "{page}");
    assert!(page.contains("fleet/aws"), "{page}");
    for absent in ["available", "managed-serviceaccount", "no ConfigRepo"] {
        assert!(!page.contains(absent), "{page}");
    }
    let json: serde_json::Value = serde_json::from_str(&tenant.run("status -n fleet -o json")).unwrap();
    assert!(json["unread"].as_array().unwrap().contains(&json!("ConfigRepo")), "{json}");
    assert_eq!(json["addOns"], json!([]));
    assert!(tenant.refused("status").contains("cannot list resource"));
}
