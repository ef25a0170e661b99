//! A report and `explain rollout` show the same state for every cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fixtures::{
    self, ADDON, addon, config_repo, images, is_completed, progress, progressive, put, repo, seconds,
    select_all, template, world,
};
use crate::previews;
use crate::replica_sets;
use api::addon::v1alpha1::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use controllers::hub::addon_config::{AddOnRollouts, explain};
use controllers::hub::overview::{ClusterSummary, Mark, Overview};
use controllers::hub::replica_set;
use engine::report::quarantine_remedy;
use engine::rollout::simulation::decision_table;
use k8s_openapi::api::apps::v1::ControllerRevision;
use object::duration::later;
use object::tree::FileTree;
use object::{Gvk, Key, Kind, Object};
use reconcile::{Caches, Site};
use sim::World;
use sim::history::Content;
use store::{Patch, ResourcePath, WriteOptions};

const BRANCH: &str = "wheelwright/status";

/// Requests reports about all add-ons applied by another tool.
fn report(world: &mut World) {
    follow(world, "Observe", "1s");
    world.commit(&repo(), &"1".repeat(40), FileTree::default());
}

/// Follows a repository in a mode and requests reports at an interval.
fn follow(world: &mut World, mode: &str, interval: &str) {
    let spec = json!({"url": "https://git.example/fleet", "mode": mode, "report": {"interval": interval}});
    config_repo(world, &repo(), spec);
}

fn policy(world: &mut World, spec: Value) {
    put(
        world,
        json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "p"}, "spec": spec,
        }),
    );
}

/// Makes the placement tolerate clusters that do not report.
fn tolerate_silence(world: &mut World) {
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    put(
        world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "fleet", "namespace": "default"},
            "spec": {"tolerations": [{"operator": "Exists"}], "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}},
        }),
    );
}

pub(crate) fn explanation(world: &World) -> AddOnRollouts {
    explain(ADDON, &caches(world), world.now).unwrap().unwrap()
}

/// Returns the hub objects that a fleet summary reads.
pub(crate) fn caches(world: &World) -> Caches {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, world.list::<ClusterManagementAddOn>(), "0");
    caches.replace(Site::Hub, world.list::<ManagedClusterAddOn>(), "0");
    caches.replace(Site::Hub, world.list::<ManagedCluster>(), "0");
    caches.replace(Site::Hub, world.list::<Placement>(), "0");
    caches.replace(Site::Hub, world.list::<PlacementDecision>(), "0");
    caches.replace(Site::Hub, world.list::<RolloutPolicy>(), "0");
    caches.replace(Site::Hub, world.list::<ConfigRepo>(), "0");
    caches.replace(Site::Hub, world.list::<ControllerRevision>(), "0");
    caches.replace(Site::Hub, world.list::<ManifestWorkReplicaSet>(), "0");
    caches.replace(Site::Hub, world.list::<ManifestWork>(), "0");
    observe::<AddOnTemplate>(world, &mut caches);
    observe::<AddOnDeploymentConfig>(world, &mut caches);
    caches
}

fn observe<K: Kind>(world: &World, caches: &mut Caches) {
    let objects = world.list::<K>().iter().map(Object::from_typed).collect();
    caches.replace_observed(&Gvk::of::<K>(), objects, "0");
}

/// Returns the STATE column of `explain rollout`.
fn explained(explanation: &AddOnRollouts) -> BTreeMap<String, String> {
    let decision = explanation.rollouts[0].decision.as_ref().unwrap();
    let table = decision_table(decision, |hash| hash.short().to_owned(), &explanation.messages);
    let lines = table.lines().skip(1).filter(|line| line.starts_with("cluster"));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.map(|words| (words[0].to_owned(), words[3].to_owned())).collect()
}

/// Compares the newest report with the explanation of the same hub; `expected` contains the labels of the report.
fn check(world: &World, expected: &str) {
    let explanation = explanation(world);
    let words = explained(&explanation);
    let push = world.branches[BRANCH].last().unwrap();
    let summary: Value = serde_json::from_str(&push.files["summary.json"]).unwrap();
    let reported = &summary["addOns"][ADDON];
    let counts = &explanation.rollouts[0].decision.as_ref().unwrap().counts;
    assert_eq!(reported["clusters"], serde_json::to_value(counts).unwrap(), "{words:?}");
    for cluster in reported["worst"].as_array().unwrap() {
        assert_eq!(cluster["state"], words[cluster["cluster"].as_str().unwrap()], "{cluster}");
    }
    let page = &push.files[&format!("addons/{ADDON}.md")];
    let (_, table) = page.split_once("| State | Clusters |\n|---|---|\n").unwrap();
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let labels: Vec<_> = rows.iter().map(|row| row.trim_matches(['|', ' ']).replace(" | ", " ")).collect();
    assert_eq!(labels.join(", "), expected);
}

#[test]
fn a_report_and_explain_rollout_show_the_same_state_of_every_cluster() {
    let mut world = world(4);
    report(&mut world);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    world.run_for(seconds(60)).unwrap();
    check(&world, "Done 4");
    let picture = &world.branches[BRANCH].last().unwrap().files[&format!("addons/{ADDON}.svg")];
    assert!(picture.contains("4 of 4 clusters done, 0 failed"), "{picture}");
    assert!(!picture.contains("from 1970-01-01T00:00:00Z"), "the times are those of the hub: {picture}");

    policy(&mut world, json!({"paused": true}));
    template(&mut world, "msa", "msa:0.4.1");
    world.run_for(seconds(60)).unwrap();
    check(&world, "Waiting (Paused) 4");

    policy(&mut world, json!({"approval": {"mode": "BetweenGroups"}}));
    world.run_for(seconds(60)).unwrap();
    check(&world, "Waiting (Approval) 3, Done 1");

    policy(&mut world, json!({}));
    template(&mut world, "msa", "msa:0.4.9");
    world.run_for(seconds(90)).unwrap();
    assert_eq!(images(&world)[0], "0.4.9");
    check(&world, "TimedOut 1, Waiting (Breach) 3");

    tolerate_silence(&mut world);
    world.spokes.get_mut("cluster2").unwrap().connected = false;
    world.run_for(seconds(400)).unwrap();
    check(&world, "TimedOut 1, Unreachable 1, Waiting (Breach) 2");

    policy(&mut world, json!({"onBreach": "Rollback"}));
    world.run_for(seconds(90)).unwrap();
    check(&world, "Returned 4");
}

#[test]
fn a_report_describes_a_replica_set_in_the_words_of_add_ons() {
    let mut world = world(4);
    select_all(&mut world);
    report(&mut world);
    replica_sets::policy(
        &mut world,
        json!({"replicaSets": ["default/settings"], "onBreach": "Rollback", "defaultDeadline": "30s"}),
    );
    replica_sets::set(&mut world, "1", progressive());
    replica_sets::settle(&mut world);
    world.run_for(seconds(60)).unwrap();
    let summary = |world: &World| -> Value {
        let push = world.branches[BRANCH].last().unwrap();
        let summary: Value = serde_json::from_str(&push.files["summary.json"]).unwrap();
        summary["replicaSets"]["default/settings"].clone()
    };
    let first = summary(&world);
    assert_eq!((&first["clusters"]["done"], &first["unavailable"]), (&json!(4), &json!(0)), "{first:#}");
    assert_eq!(first["rollouts"][0]["state"], "Completed", "{first:#}");
    let picture = &world.branches[BRANCH].last().unwrap().files["replica-sets/default.settings.svg"];
    assert!(picture.contains("4 of 4 clusters done") && picture.contains(">assigned</text>"), "{picture}");
    let good = first["rollouts"][0]["desired"].clone();
    assert_eq!((&first["configurations"][good.as_str().unwrap()], good == ""), (&json!(4), false));

    let refs = replica_sets::refs("fleet", progressive());
    replica_sets::set_with(
        &mut world,
        json!({"manifestWorkTemplate": replica_sets::bad(), "placementRefs": refs}),
    );
    world.run_for(seconds(20)).unwrap();
    let key = Key::namespaced("default", "settings");
    let messages =
        |world: &World| replica_set::explain(&key, &caches(world), world.now).unwrap().unwrap().messages;
    let reason = r#"Bogus x: Failed to apply manifest: the server doesn't have a resource type "Bogus""#;
    assert_eq!(messages(&world), BTreeMap::from([("cluster1".to_owned(), reason.to_owned())]));
    world.run_for(seconds(20)).unwrap();
    assert_eq!(messages(&world), BTreeMap::new(), "it is quarantined");
    world.run_for(seconds(260)).unwrap();
    let overview = Overview::read(&caches(&world), world.now).unwrap();
    let [set] = overview.replica_sets.as_slice() else { panic!("{overview:?}") };
    assert_eq!(
        (set.name.as_str(), set.failed, set.returned, set.total, set.holds.len()),
        ("default/settings", 0, 4, 4, 1),
        "{set:?}"
    );
    let hold = &set.holds[0];
    assert!(hold.contains(" is quarantined on default/fleet: it failed on cluster1: "), "{hold}");
    assert!(hold.ends_with(&quarantine_remedy("default/settings")), "{hold}");
    let runs = |cluster: &ClusterSummary| (cluster.mark(), json!(cluster.version(&set.name)));
    let clusters = || set.groups.iter().flat_map(|group| &group.clusters);
    assert!(clusters().all(|cluster| runs(cluster) == (Mark::Returned, good.clone())), "{set:?}");
    let last = summary(&world);
    let rollout = &last["rollouts"][0];
    assert_eq!((&rollout["quarantined"], &rollout["lastGood"]), (&json!(true), &good), "{last:#}");
    assert_eq!((&rollout["state"], &last["clusters"]["returned"]), (&json!("Failed"), &json!(4)), "{last:#}");
    let push = world.branches[BRANCH].last().unwrap();
    let page = &push.files["replica-sets/default.settings.md"];
    assert!(page.contains("Quarantined on default/fleet"), "{page}");
    let readme = &push.files["README.md"];
    assert!(readme.contains("| [default/settings](replica-sets/default.settings.md) |"), "{readme}");
}

#[test]
fn a_work_of_the_repository_that_fails_is_named_and_keeps_the_fleet_from_being_up_to_date() {
    let mut world = world(3);
    follow(&mut world, "Apply", "1s");
    let commit = |world: &mut World, revision: &str, kind: &str| {
        let work = |cluster: &str, kind: &str| {
            let manifest =
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "default"}});
            let work = json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "settings", "namespace": cluster},
                "spec": {"workload": {"manifests": [manifest]}},
            });
            work.to_string()
        };
        let works = [("one.yaml", work("cluster1", "ConfigMap")), ("two.yaml", work("cluster2", kind))];
        let tree: FileTree = works.iter().map(|(path, work)| (*path, work.as_bytes())).collect();
        world.commit(&repo(), &revision.repeat(40), tree);
        world.run_for(seconds(60)).unwrap();
    };
    let last = |world: &World| world.branches[BRANCH].last().unwrap().clone();
    // A foreign work.
    fixtures::work_of(&mut world, "other", &[("b", "1")]);
    commit(&mut world, "1", "Bogus");
    let failed = last(&world);
    assert!(failed.message.starts_with("report: settings failed on 1 of 2 clusters\n"), "{}", failed.message);
    let summary: Value = serde_json::from_str(&failed.files["summary.json"]).unwrap();
    let works = &summary["works"];
    assert_eq!(works.as_object().unwrap().len(), 1, "{works:#}");
    let worst = &works["settings"]["worst"][0];
    assert_eq!((&worst["cluster"], &worst["state"]), (&json!("cluster2"), &json!("Failed")), "{works:#}");
    assert!(failed.files["README.md"].contains("| [settings](works/settings.md) | 1 of 2 | 1 Failed |"));
    assert!(failed.files["works/settings.md"].contains("| cluster2 | Failed |"));

    commit(&mut world, "2", "ConfigMap");
    let mended = last(&world);
    assert!(mended.message.starts_with("report: settings is done on 2 clusters\n"), "{}", mended.message);
    assert!(mended.files["README.md"].contains("| [settings](works/settings.md) | 2 of 2 |"));
}

#[test]
fn a_repository_that_another_tool_applies_reports_the_works_that_no_controller_made() {
    let mut world = world(2);
    select_all(&mut world);
    report(&mut world);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    replica_sets::set(&mut world, "1", progressive());
    fixtures::work_of(&mut world, "settings", &[("b", "1")]);
    world.run_for(seconds(120)).unwrap();
    let push = world.branches[BRANCH].last().unwrap();
    let summary: Value = serde_json::from_str(&push.files["summary.json"]).unwrap();
    assert_eq!(summary["works"].as_object().unwrap().keys().collect::<Vec<_>>(), ["settings"]);
    let placement = &summary["placements"]["default/fleet"];
    assert_eq!((&placement["selected"], &placement["satisfied"]), (&json!(2), &json!(true)), "{placement}");
}

#[test]
fn the_end_of_a_rollout_is_reported_at_once_and_once_an_interval() {
    let mut world = world(4);
    follow(&mut world, "Observe", "10m");
    world.commit(&repo(), &"1".repeat(40), FileTree::default());
    world.run_for(seconds(60)).unwrap();
    select_all(&mut world);
    let roll_out = |world: &mut World, version: &str| {
        template(world, "msa", &format!("msa:{version}"));
        addon(world, "msa", progressive());
        let runs = |world: &World| is_completed(world) && images(world).iter().all(|image| image == version);
        assert!(world.run_until(seconds(120), runs).unwrap(), "{:?}", progress(world));
        world.run_for(seconds(3)).unwrap();
    };
    assert_eq!(world.branches[BRANCH].len(), 1);
    roll_out(&mut world, "0.4.0");
    let done = |world: &World| {
        let reports = &world.branches[BRANCH];
        let summary: Value = serde_json::from_str(&reports.last().unwrap().files["summary.json"]).unwrap();
        (reports.len(), summary["addOns"][ADDON]["configurations"].clone())
    };
    let (reports, configurations) = done(&world);
    assert_eq!((reports, configurations.as_object().unwrap().len()), (2, 1), "{configurations:#}");

    roll_out(&mut world, "0.4.1");
    assert_eq!(done(&world), (2, configurations.clone()), "the next one waits for the interval");
    world.run_for(seconds(600)).unwrap();
    let (reports, newest) = done(&world);
    assert!(reports == 3 && newest != configurations, "{reports} {newest:#}");
}

#[test]
fn a_report_is_dated_by_its_change_or_its_deadline_and_never_before_its_parent() {
    let mut world = previews::fleet(3, 3);
    let spec = json!({"url": "https://git.example/fleet", "report": {"interval": "1s"}});
    config_repo(&mut world, &repo(), spec);
    let content = |version| Content { version: Some(version), strategy: 2, ..Content::default() }.files();
    let begun = world.now;
    world.commit(&repo(), &"1".repeat(40), content(1));
    world.run_for(seconds(60)).unwrap();
    // A cluster's clock is an hour ahead.
    let key = Key::namespaced("c1", "app");
    let mut conditions = json!(world.get::<ManagedClusterAddOn>(&key).unwrap().status.unwrap().conditions);
    let ahead = json!({"type": "Ahead", "status": "True", "reason": "Ahead", "message": "",
        "lastTransitionTime": later(world.now, seconds(3600)).strftime("%FT%TZ").to_string()});
    conditions.as_array_mut().unwrap().push(ahead);
    let target = ResourcePath::of::<ManagedClusterAddOn>(&key).sub("status");
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    world.hub.patch(&target, &patch, &WriteOptions::manager("agent"), world.now).unwrap();
    world.run_for(seconds(30)).unwrap();
    let changed = world.now;
    // No cluster can pull the image.
    world.commit(&repo(), &"2".repeat(40), content(9));
    world.run_for(seconds(60)).unwrap();

    let reports = &world.branches[BRANCH];
    let dates: Vec<_> = reports.iter().map(|push| push.time).collect();
    assert!(dates.is_sorted() && dates[0] >= later(begun, -seconds(60)), "{dates:?}");
    let subjects: Vec<_> = reports.iter().map(|push| push.message.lines().next().unwrap()).collect();
    let failed = subjects.iter().position(|subject| subject.contains(" failed on 1 of "));
    let failed = &reports[failed.unwrap_or_else(|| panic!("{subjects:?}"))];
    assert!(failed.time >= later(changed, seconds(20)), "{} is dated {}", failed.message, failed.time);
}
