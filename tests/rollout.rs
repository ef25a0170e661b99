//! The commands that pause, approve and roll back rollouts, on an embedded hub whose rollout stopped at its
//! canary.

use std::collections::BTreeSet;
use std::path::Path;

use api::crds;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use object::Object;
use serde_json::{Value, json};

use crate::cli::{Cli, server};
use crate::trace::client;

const ADD_ON: &str = "managed-serviceaccount";

fn access(client: &Client, kind: &str, group: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = group.split_once('/').unwrap_or(("", group));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// Creates the objects from a file, including their status.
pub(crate) async fn load(client: &Client, file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for mut object in objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        metadata.remove("uid");
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = metadata["name"].as_str().unwrap().to_owned();
        if !namespace.is_empty() {
            let of = access(client, "Namespace", "v1", "");
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            of.patch(
                namespace["metadata"]["name"].as_str().unwrap(),
                &PatchParams::apply("test"),
                &Patch::Apply(&namespace),
            )
            .await
            .unwrap();
        }
        let of = access(
            client,
            object["kind"].as_str().unwrap(),
            object["apiVersion"].as_str().unwrap(),
            &namespace,
        );
        let status = object.get("status").cloned();
        of.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        if let Some(status) = status {
            let patch = json!({ "status": status });
            of.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    }
}

async fn policy(client: &Client, name: &str) -> RolloutPolicy {
    Api::all(client.clone()).get(name).await.unwrap()
}

/// Returns a hub whose rollout stopped at its canary, and a command line for it.
pub(crate) async fn stopped_hub(dir: &Path) -> (wheelwright::apiserver::Server, Client, Cli) {
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let client = client(&hub.kubeconfig("admin", &["system:masters"]).unwrap()).await;
    load(&client, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain/rollout.yaml")).await;
    let cli = Cli::new(dir, "hub", &hub);
    (hub, client, cli)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_paused_resumed_and_undone_by_commands() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, client, cli) = stopped_hub(dir.path()).await;
    let status = || cli.run(&format!("rollout status {ADD_ON}"));
    let output = status();
    assert!(output.contains("fleet/aws canary  ✗ aws-1 0.4.2\n"), "{output}");
    assert!(output.ends_with(&format!("\n  wheelwright rollout undo {ADD_ON}\n")), "{output}");

    let watched = cli.output(&format!("rollout status {ADD_ON} --watch"), "");
    assert_eq!(watched.status.code(), Some(1), "failures have stopped it");
    let watched = String::from_utf8(watched.stdout).unwrap();
    assert!(watched.contains("✗ aws-1 TimedOut"), "{watched}");
    assert!(watched.ends_with(&format!("\n  wheelwright rollout undo {ADD_ON}\n")), "{watched}");

    assert!(cli.refused("rollout pause nothing").contains("there is no add-on nothing"));
    assert!(cli.refused(&format!("rollout resume {ADD_ON}")).contains("is not paused"));
    let output = cli.run(&format!("rollout pause {ADD_ON} --dry-run"));
    assert!(
        output.contains("created RolloutPolicy managed-serviceaccount for managed-serviceaccount (dry run)"),
        "{output}"
    );
    assert!(Api::<RolloutPolicy>::all(client.clone()).get_opt(ADD_ON).await.unwrap().is_none());
    cli.run(&format!("rollout pause {ADD_ON}"));
    let held = policy(&client, ADD_ON).await.spec;
    assert!(held.paused);
    let rules =
        RolloutPolicySpec { add_ons: vec![ADD_ON.into()], paused: true, ..RolloutPolicySpec::default() };
    assert_eq!(held, rules, "nothing else changes");
    let output = status();
    assert!(
        output.contains(" is on hold: waits for the pause by RolloutPolicy managed-serviceaccount to end\n"),
        "{output}"
    );
    assert!(output.contains(&format!("\n  wheelwright rollout resume {ADD_ON}\n")), "{output}");
    assert!(cli.run(&format!("rollout pause {ADD_ON}")).contains("is unchanged"));
    cli.run(&format!("rollout resume {ADD_ON}"));
    assert!(!policy(&client, ADD_ON).await.spec.paused);

    let output = cli.run(&format!("rollout undo {ADD_ON}"));
    assert!(
        output.contains("addontemplates/managed-serviceaccount-0.4.2 ("),
        "it names the version: {output}"
    );
    assert!(output.contains(" is quarantined on placement fleet/aws\n"), "{output}");
    let follow = format!("\nNext: wheelwright rollout status {ADD_ON} --watch follows the return.\n");
    assert!(output.contains(&follow), "{output}");
    let output = status();
    let remedy = format!(
        "fix or revert the commit first; wheelwright rollout resume {ADD_ON} --release rolls the same revision out again"
    );
    assert!(output.contains(&format!("\n  {remedy}\n")), "{output}");
    assert!(output.contains("\n  it failed on aws-1: deployments open-cluster-management-"), "{output}");
    let json: Value = serde_json::from_str(&cli.run(&format!("rollout status {ADD_ON} -o json"))).unwrap();
    assert_eq!(json["placements"]["fleet/aws"]["clusters"]["aws-1"]["state"], "Returning");
    assert!(cli.refused(&format!("rollout undo {ADD_ON}")).contains("has no rollout to undo"));
    assert!(cli.refused(&format!("rollout resume {ADD_ON}")).contains(&remedy));
    cli.run(&format!("rollout resume {ADD_ON} --release"));
    assert_eq!(policy(&client, ADD_ON).await.spec.released_revisions.len(), 1);
    let output = status();
    assert!(output.contains("✗ aws-1 TimedOut"), "{output}");
    cli.run(&format!("rollout undo {ADD_ON}"));
    assert!(policy(&client, ADD_ON).await.spec.released_revisions.is_empty(), "undone again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_failures_have_stopped_the_rollout_long_before_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, client, cli) = stopped_hub(dir.path()).await;
    let group = "addon.open-cluster-management.io/v1alpha1";
    let path = "/spec/installStrategy/placements/0/rolloutStrategy/progressive/progressDeadline";
    let patch = json!([{"op": "replace", "path": path, "value": "876000h"}]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).unwrap());
    let params = PatchParams::default();
    access(&client, "ClusterManagementAddOn", group, "").patch(ADD_ON, &params, &patch).await.unwrap();
    let patch = json!([{"op": "replace", "path": "/status/conditions/2/reason", "value": "Failed"}]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).unwrap());
    let addons = access(&client, "ManagedClusterAddOn", group, "aws-1");
    addons.patch_status(ADD_ON, &params, &patch).await.unwrap();
    let watched = cli.output(&format!("rollout status {ADD_ON} --watch --timeout 1m"), "");
    assert_eq!(watched.status.code(), Some(1), "failures have stopped it");
    let watched = String::from_utf8(watched.stdout).unwrap();
    assert!(watched.contains("too many clusters failed in canary: 1 (0 allowed)"), "{watched}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_waits_for_a_person_is_approved_by_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, client, cli) = stopped_hub(dir.path()).await;
    assert!(cli.refused(&format!("rollout approve {ADD_ON}")).contains("is not waiting for approval"));
    let all: RolloutPolicy = serde_json::from_value(
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": {"name": "all"}, "spec": {"approval": {"mode": "BetweenGroups"}}}),
    )
    .unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &all).await.unwrap();
    // The failed canary is tolerated, so the next group requests an approval.
    let group = "addon.open-cluster-management.io/v1alpha1";
    let addons = access(&client, "ClusterManagementAddOn", group, "");
    let path = "/spec/installStrategy/placements/0/rolloutStrategy";
    let groups = json!({"maxFailures": "100%", "progressDeadline": "6s"});
    let strategy = json!({"type": "ProgressivePerGroup", "progressivePerGroup": groups});
    let patch = json!([{"op": "replace", "path": path, "value": strategy}]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).unwrap());
    addons.patch(ADD_ON, &PatchParams::default(), &patch).await.unwrap();

    let output = cli.run(&format!("rollout status {ADD_ON}"));
    let token = output.lines().last().unwrap().rsplit(' ').next().unwrap().to_owned();
    assert!(
        output.contains("waits for an approval of the start of #1 (2 clusters) of fleet/aws\n"),
        "{output}"
    );
    assert!(cli.refused(&format!("rollout approve {ADD_ON} other")).contains(&token));
    let watched = cli.output(&format!("rollout status {ADD_ON} --watch --timeout 0s"), "");
    assert_eq!(watched.status.code(), Some(2), "it waits for a person");
    let printed = String::from_utf8(watched.stdout).unwrap();
    assert!(printed.contains(&format!("wheelwright rollout approve {ADD_ON} {token}\n")), "{printed}");
    let output = cli.run(&format!("rollout approve {ADD_ON}"));
    assert!(output.contains("approved: the start of #1 (2 clusters) of fleet/aws\n"), "{output}");
    assert_eq!(policy(&client, "all").await.spec.approved, [token]);
    assert!(cli.refused(&format!("rollout approve {ADD_ON}")).contains("is not waiting for approval"));

    // Pausing one add-on does not change the policy for all add-ons, which keeps its record and rules.
    cli.run(&format!("rollout undo {ADD_ON}"));
    cli.run(&format!("rollout pause {ADD_ON}"));
    let all = policy(&client, "all").await;
    assert!(!all.spec.paused && !all.status.unwrap().rollouts[0].quarantined.is_empty());
    let own = policy(&client, ADD_ON).await.spec;
    let rules =
        RolloutPolicySpec { add_ons: vec![ADD_ON.into()], paused: true, ..RolloutPolicySpec::default() };
    assert_eq!(own, rules);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_fleet_is_paused_and_resumed_by_commands() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, client, cli) = stopped_hub(dir.path()).await;
    assert!(cli.refused("resume --all").contains("is not paused by wheelwright pause --all"));
    cli.run(&format!("pause {ADD_ON}"));
    let output = cli.run("pause --all");
    assert!(
        output.contains("created RolloutPolicy wheelwright-default for every add-on and set\n"),
        "{output}"
    );
    let resumed = "Every add-on and set is paused. Resume them with: wheelwright resume --all\n";
    assert!(output.ends_with(resumed), "{output}");
    assert!(cli.run("rollout pause --all").contains("is unchanged"));
    let fleet = policy(&client, "wheelwright-default").await.spec;
    assert_eq!(fleet, RolloutPolicySpec { paused: true, ..RolloutPolicySpec::default() });
    let output = cli.run(&format!("rollout status {ADD_ON}"));
    let held = "waits for the pause by RolloutPolicy managed-serviceaccount, wheelwright-default to end";
    assert!(output.contains(held), "{output}");

    let output = cli.run(&format!("resume {ADD_ON}"));
    assert!(
        output.contains(&format!("{ADD_ON} stays paused by RolloutPolicy wheelwright-default\n")),
        "{output}"
    );
    let refused = cli.refused(&format!("resume {ADD_ON}"));
    assert!(refused.contains("which applies to everything"), "{refused}");
    assert!(refused.contains("wheelwright resume --all"), "{refused}");
    assert!(
        cli.run("resume --all --dry-run").contains("updated RolloutPolicy wheelwright-default (dry run)")
    );
    assert!(policy(&client, "wheelwright-default").await.spec.paused);
    for (command, paused) in [("resume", Value::Null), ("pause", true.into())] {
        let list: Value = serde_json::from_str(&cli.run(&format!("{command} --all -o json"))).unwrap();
        let [item] = list["items"].as_array().unwrap().as_slice() else { panic!("{list}") };
        assert_eq!(
            (&item["metadata"]["name"], &item["spec"]["paused"]),
            (&json!("wheelwright-default"), &paused)
        );
    }
    cli.run(&format!("pause {ADD_ON}"));
    let output = cli.run("resume --all");
    assert!(output.contains(&format!("RolloutPolicy {ADD_ON} still pauses {ADD_ON}\n")), "{output}");
    assert!(!policy(&client, "wheelwright-default").await.spec.paused);
    let output = cli.run(&format!("rollout resume {ADD_ON}"));
    assert!(output.contains(&format!("{ADD_ON} resumed.")), "{output}");
    assert!(!cli.run(&format!("rollout status {ADD_ON}")).contains("pause"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_waits_for_a_person_is_approved_by_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, client, cli) = stopped_hub(dir.path()).await;
    for cluster in ["gone-1", "gone-2"] {
        let of = |kind: &str, group: &str, namespace: &str| access(&client, kind, group, namespace);
        let metadata = json!({"name": cluster});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let group = "cluster.open-cluster-management.io/v1";
        let managed = json!({"apiVersion": group, "kind": "ManagedCluster", "metadata": metadata, "spec": {"hubAcceptsClient": true}});
        let addons = "addon.open-cluster-management.io/v1alpha1";
        let installed = json!({"gitops.wheelwright.dev/installed-by-placement": "true"});
        let metadata = json!({"name": ADD_ON, "namespace": cluster, "annotations": installed});
        let addon =
            json!({"apiVersion": addons, "kind": "ManagedClusterAddOn", "metadata": metadata, "spec": {}});
        for (api, object) in [
            (of("Namespace", "v1", ""), namespace),
            (of("ManagedCluster", group, ""), managed),
            (of("ManagedClusterAddOn", addons, cluster), addon),
        ] {
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    }
    let output = cli.run(&format!("rollout status {ADD_ON}"));
    let removal = "the removal from 2 clusters (gone-1, gone-2)";
    assert!(output.contains(&format!("waits for an approval of {removal}")), "{output}");
    let output = cli.run(&format!("rollout approve {ADD_ON}"));
    assert!(output.contains(&format!("approved: {removal}\n")), "{output}");
    assert!(policy(&client, ADD_ON).await.spec.approved[0].starts_with("remove/"));
    assert!(!cli.run(&format!("rollout status {ADD_ON}")).contains("waits for an approval"));
    // One of the clusters loses the add-on and gets it back.
    let of = access(&client, "ManagedClusterAddOn", "addon.open-cluster-management.io/v1alpha1", "gone-2");
    let mut addon = of.get(ADD_ON).await.unwrap();
    of.delete(ADD_ON, &DeleteParams::default()).await.unwrap();
    (addon.metadata.uid, addon.metadata.resource_version) = (None, None);
    of.create(&PostParams::default(), &addon).await.unwrap();
    let output = cli.run(&format!("rollout status {ADD_ON}"));
    assert!(output.contains(&format!("waits for an approval of {removal}")), "{output}");
    cli.run(&format!("rollout approve {ADD_ON}"));
    let approved = policy(&client, ADD_ON).await.spec.approved;
    assert_eq!(approved.iter().collect::<BTreeSet<_>>().len(), 2, "{approved:?}");
}
