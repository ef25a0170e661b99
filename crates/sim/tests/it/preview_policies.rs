//! Compares previews with what happens under a RolloutPolicy and to add-ons without configurations, and the hub
//! reconstructed from a report with the hub that reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fixtures::{config_repo, merged, put, repo};
use super::preview_looks::{compare, look};
use super::preview_reports::reported;
use super::previews::{apply, commit, fleet, previewed};
use api::addon::v1alpha1::AddOnTemplate;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use api::names::{GITOPS_GROUP, PLAIN_SECRET, SECRET_ANNOTATION};
use api::work::v1::ManifestWork;
use object::tree::FileTree;
use object::{Key, Metadata as _, Object};
use preview::{HubSnapshot, Preview, ProposedCommit, ReportedHub, Verdict, of_report, preview, with_commits};
use sim::World;
use sim::history::Content;

fn policy(world: &mut World, spec: Value) {
    put(
        world,
        json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "RolloutPolicy", "metadata": {"name": "p"}, "spec": spec}),
    );
}

fn rollouts(world: &World) -> Vec<RolloutStatus> {
    let policy: RolloutPolicy = world.get(&Key::cluster("p")).unwrap();
    policy.status.unwrap_or_default().rollouts
}

/// Returns an add-on that is rolled out to the canary first.
fn add_on(version: u8) -> Content {
    Content { version: Some(version), strategy: 2, ..Content::default() }
}

/// Returns an add-on's placement and a ManifestWorkReplicaSet on it that is rolled out to the canary first.
fn set(value: &str) -> FileTree {
    let mut files = FileTree::default();
    for name in ["binding.yaml", "placement.yaml"] {
        files.insert(name, add_on(0).files().file(name).unwrap().to_vec());
    }
    let strategy = json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"progressDeadline": "20s"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"v": value}});
    let set = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet", "metadata": {"name": "settings"},
        "spec": {"manifestWorkTemplate": {"workload": {"manifests": [map]}}, "placementRefs": [{"name": "fleet", "rolloutStrategy": strategy}]},
    });
    files.insert("set.yaml", set.to_string().into_bytes());
    files
}

#[test]
fn a_plan_names_the_approvals_that_the_rollout_of_a_set_then_waits_for() {
    let mut world = fleet(5, 3);
    let spec = |approved: Value| json!({"replicaSets": ["config/settings"], "approval": {"mode": "BetweenGroups"}, "approved": approved});
    apply(&mut world, &commit(1, set("1")));
    policy(&mut world, spec(json!([])));
    let second = commit(2, set("2"));
    let preview = previewed(&world, &second);
    let names: Vec<_> = preview
        .approvals
        .iter()
        .map(|it| (it.policy.as_str(), it.add_on.as_str(), it.replica_set.as_str()))
        .collect();
    assert_eq!(
        (preview.verdict, names),
        (Verdict::NeedsApproval, vec![("p", "", "config/settings")]),
        "{preview:#?}"
    );
    let [planned] = preview.replica_sets.as_slice() else { panic!("{preview:#?}") };
    let batches: Vec<_> = planned.batches.iter().map(|batch| (batch.after, batch.clusters.clone())).collect();
    assert_eq!((planned.name.as_str(), batches.len()), ("config/settings", 2), "{planned:#?}");
    assert!(planned.batches.iter().all(|batch| batch.arrived_after > Some(batch.after)), "{planned:#?}");

    let before = look(&world);
    apply(&mut world, &second);
    let waiting = rollouts(&world)[0].waiting_approvals.clone();
    assert_eq!(waiting, [preview.approvals[0].token.clone()]);
    assert!(compare(&preview, &before, &look(&world)).is_err(), "the works of the second group wait");
    let changed = world.list::<ManifestWork>().into_iter().filter(|work| work.metadata.generation > Some(1));
    let changed: Vec<String> = changed.map(|work| work.namespace().to_owned()).collect();
    assert_eq!(changed, batches[0].1, "the first batch is the one of the plan");
    policy(&mut world, spec(json!(waiting)));
    world.run_for(SignedDuration::from_mins(4)).unwrap();
    compare(&preview, &before, &look(&world)).unwrap();
}

#[test]
fn a_plan_warns_about_the_plaintext_secrets_that_a_commit_brings() {
    let mut world = fleet(1, 3);
    let with_secret = |annotation: &str| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "login", "namespace": "default", "annotations": {SECRET_ANNOTATION: annotation}}, "data": {"v": "c2VjcmV0"}});
        let mut files = set("1");
        let text = String::from_utf8(files.file("set.yaml").unwrap().to_vec()).unwrap();
        let mut object: Value = serde_json::from_str(&text).unwrap();
        let workload = json!({"manifests": [secret]});
        object["spec"]["manifestWorkTemplate"]["workload"] = workload.clone();
        let template = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
            "metadata": {"name": "web"}, "spec": {"addonName": "web", "agentSpec": {"workload": workload}},
        });
        let work = json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "w", "namespace": "c1"}, "spec": {"workload": workload},
        });
        for (path, object) in [("set.yaml", object), ("template.yaml", template), ("work.yaml", work)] {
            files.insert(path, object.to_string().into_bytes());
        }
        files
    };
    assert!(previewed(&world, &commit(1, with_secret(PLAIN_SECRET))).warnings.is_empty());
    let first = commit(1, with_secret(""));
    let warnings = previewed(&world, &first).warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    let start = "the hub stores the Secrets of 3 objects in plaintext: AddOnTemplate web, ManifestWork c1/w, \
                 ManifestWorkReplicaSet config/settings; set spec.secrets: Sealed";
    assert!(warning.starts_with(start) && !warning.contains("c2VjcmV0"), "{warning}");
    apply(&mut world, &first);
    let mut second = with_secret("");
    second
        .insert("unrelated.yaml", b"{apiVersion: v1, kind: ConfigMap, metadata: {name: unrelated}}".to_vec());
    assert!(previewed(&world, &commit(2, second)).warnings.is_empty(), "the hub has them already");
}

#[test]
fn a_plan_takes_the_deadline_of_the_policies_that_are_for_an_add_on() {
    let mut world = fleet(3, 3);
    let content = |version| Content { version: Some(version), ..Content::default() }.files();
    apply(&mut world, &commit(1, content(1)));
    let assumed = |world: &World, seconds: i64| {
        let succeeds_after = SignedDuration::from_secs(seconds);
        previewed(world, &ProposedCommit { succeeds_after, ..commit(2, content(2)) }).assumptions
    };
    let put = |world: &mut World, name: &str, spec: Value| {
        let kind = json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "RolloutPolicy"});
        put(world, merged(kind, json!({"metadata": {"name": name}, "spec": spec})));
    };
    let default = "clusters take 5m instead of 20m, because app has a deadline of 10m";
    assert_eq!(assumed(&world, 1200), [default]);
    put(&mut world, "other", json!({"addOns": ["other"], "defaultDeadline": "5s"}));
    assert!(assumed(&world, 35).is_empty());
    put(&mut world, "all", json!({"defaultDeadline": "30s"}));
    put(&mut world, "app", json!({"addOns": ["app"], "defaultDeadline": "20s"}));
    assert_eq!(assumed(&world, 35), ["clusters take 10s instead of 35s, because app has a deadline of 20s"]);
}

#[test]
fn a_plan_names_a_set_whose_rollout_will_stop() {
    let mut world = fleet(5, 3);
    apply(&mut world, &commit(1, set("1")));
    policy(&mut world, json!({"replicaSets": ["config/settings"], "paused": true}));
    let second = commit(2, set("2"));
    let preview = previewed(&world, &second);
    let [open] = preview.outcomes.as_slice() else { panic!("{preview:#?}") };
    assert_eq!((open.add_on.as_str(), open.replica_set.as_str()), ("", "config/settings"));
    assert_eq!(open.message, "placement fleet: waits for the pause by RolloutPolicy p to end");

    let before = look(&world);
    apply(&mut world, &second);
    compare(&preview, &before, &look(&world)).unwrap();
}

#[test]
fn a_plan_predicts_the_delay_by_a_freeze_window() {
    let mut world = fleet(5, 3);
    apply(&mut world, &commit(1, add_on(1).files()));
    // It is 8 o'clock.
    let window = json!({"name": "morning", "schedule": "0 8 * * *", "duration": "1h"});
    policy(&mut world, json!({"addOns": ["app"], "freezeWindows": [window]}));
    let second = commit(2, add_on(2).files());
    let preview = previewed(&world, &second);
    let opens: Timestamp = "2027-01-15T09:00:00Z".parse().unwrap();
    assert!(world.now < opens);
    assert_eq!(preview.verdict, Verdict::Change);
    assert_eq!(
        preview.add_ons[0].batches[0].after,
        opens.duration_since(world.now).as_secs(),
        "{preview:#?}"
    );
    let [wait] = preview.waits.as_slice() else { panic!("{preview:#?}") };
    assert_eq!((wait.after, wait.add_on.as_str(), wait.placement.as_str()), (0, "app", "config/fleet"));
    assert_eq!(
        wait.why,
        format!("waits for the freeze morning of RolloutPolicy p to end at {opens} at the earliest")
    );
    let without = Preview { waits: Vec::new(), ..preview.clone() };
    assert_eq!(without.hash(), preview.hash(), "a wait is no effect");

    let before = look(&world);
    apply(&mut world, &second);
    assert!(compare(&preview, &before, &look(&world)).is_err(), "no work changes in the window");
    world.run_for(SignedDuration::from_hours(1)).unwrap();
    compare(&preview, &before, &look(&world)).unwrap();
}

#[test]
fn a_plan_predicts_removals_that_wait_for_the_budget() {
    let mut world = fleet(5, 5);
    apply(&mut world, &commit(1, add_on(1).files()));
    policy(&mut world, json!({"addOns": ["app"], "removalBudget": 1}));
    let second = commit(2, Content { prod: true, ..add_on(1) }.files());
    let planned = previewed(&world, &second);
    assert_eq!(planned.placements[0].leave, ["c0", "c3"]);
    assert_eq!((planned.verdict, planned.removals.len()), (Verdict::NeedsApproval, 1), "{planned:#?}");
    let mut report = HubSnapshot::new(&world.hub);
    for object in report.objects.iter_mut().filter(|object| object.kind() == "ManifestWork") {
        Arc::make_mut(object).metadata_mut().remove("uid");
    }
    let without_uids = preview(&report, &second, world.now).unwrap();
    assert_eq!((without_uids.removals[0].approval.as_str(), without_uids.hash()), ("", planned.hash()));

    let before = look(&world);
    apply(&mut world, &second);
    compare(&planned, &before, &look(&world)).unwrap();
    let status = world.get::<RolloutPolicy>(&Key::cluster("p")).unwrap().status.unwrap();
    let held: Vec<_> = status.removals.iter().map(|it| (it.held, it.approval.clone())).collect();
    let shown: Vec<_> = planned.removals.iter().map(|it| (it.clusters, it.approval.clone())).collect();
    assert_eq!(shown, held);
}

#[test]
fn the_install_of_an_add_on_without_configurations_has_a_time() {
    let mut world = fleet(3, 3);
    let mut files = add_on(0).files();
    let group = "addon.open-cluster-management.io";
    let strategy = json!({"type": "Placements", "placements": [{"namespace": "config", "name": "fleet"}]});
    let own = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ClusterManagementAddOn",
        "metadata": {"name": "own"}, "spec": {"installStrategy": strategy}});
    files.insert("own.yaml", own.to_string().into_bytes());
    let first = commit(1, files);
    let preview = previewed(&world, &first);
    let own = preview.add_ons.iter().find(|add_on| add_on.name == "own").unwrap();
    let started: Vec<_> = own.batches.iter().flat_map(|batch| batch.clusters.clone()).collect();
    assert_eq!((own.enter.len(), &started), (3, &own.enter), "{preview:#?}");
    assert!(own.batches.iter().all(|batch| batch.arrived_after == Some(batch.after)), "{own:#?}");
    let before = look(&world);
    apply(&mut world, &first);
    compare(&preview, &before, &look(&world)).unwrap();
    assert!(previewed(&world, &first).add_ons.is_empty(), "it is there already");
}

#[test]
fn the_hub_of_a_report_has_the_objects_of_its_commit_and_no_step_more() {
    let mut world = fleet(3, 3);
    let report = json!({"snapshot": true, "interval": "1s"});
    config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet", "report": report}));
    apply(&mut world, &commit(1, add_on(1).files()));
    policy(&mut world, json!({"addOns": ["app"], "paused": true}));
    let second = commit(2, add_on(2).files());
    apply(&mut world, &second);
    let mut objects = reported(&world);
    // Unpaused, the canary would start at once.
    let policies = objects.iter_mut().filter(|object| object.kind() == "RolloutPolicy");
    policies.for_each(|policy| policy.0["spec"]["paused"] = json!(false));
    let add_ons = |objects: &[Object]| -> BTreeMap<String, Value> {
        let all = objects.iter().filter(|object| object.kind() == "ManagedClusterAddOn");
        all.map(|add_on| (add_on.namespace().to_owned(), add_on.0["status"].clone())).collect()
    };
    let before = add_ons(&objects);
    let ReportedHub { snapshot, applied, warnings: _ } = of_report(objects, &repo(), world.now);
    assert_eq!(applied, BTreeMap::from([(repo(), second.head.revision.clone())]));
    let base = BTreeMap::from([(repo(), Arc::clone(&second.head))]);
    let hub = with_commits(&snapshot, &base, world.now).unwrap();
    let hub: Vec<Object> = hub.into_iter().map(Arc::unwrap_or_clone).collect();
    let mut templates = hub.iter().filter(|object| object.kind() == "AddOnTemplate");
    let template: AddOnTemplate = templates.next().unwrap().to_typed().unwrap();
    assert_eq!(template.spec, world.get::<AddOnTemplate>(&Key::cluster("app")).unwrap().spec);
    assert_eq!((before.len(), add_ons(&hub)), (3, before));
}
