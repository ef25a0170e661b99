//! A budget of clusters within a time window holds back the removal of add-ons.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fixtures::{
    ADDON, addon, cluster, config_repo, images, is_completed, join, merged, progress, progressive, put, repo,
    seconds, select_all, template, with, world,
};
use crate::refused::{END, refuse};
use crate::replica_sets;
use crate::reports::{caches, explanation};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, RemovalStatus, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use controllers::hub::overview::{Mark, Overview};
use object::tree::FileTree;
use object::{Key, Metadata as _};
use reconcile::{Action, Failure, Outcome};
use sim::{Servers, Setup, World, execute};
use store::{Patch, ResourcePath, WriteOptions};

/// Returns a fleet in which all `clusters` have the add-on.
pub(crate) fn installed(setup: Setup, clusters: usize) -> World {
    let mut world = with(setup, 7, clusters);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world
}

pub(crate) fn select_some(world: &mut World, number: usize) {
    let kind = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement"});
    let metadata = json!({"name": "fleet", "namespace": "default"});
    put(world, merged(kind, json!({"metadata": metadata, "spec": {"numberOfClusters": number}})));
}

/// Returns the kind and cluster of the add-ons and works that were deleted from the hub, in order.
pub(crate) fn departures(world: &mut World) -> Vec<(String, String)> {
    let history = world.take_history().into_iter();
    let deletions = history.filter(|write| write.spoke.is_none() && write.after.is_none());
    let kinds = ["ManagedClusterAddOn", "ManifestWork"];
    let of_addons = deletions.filter(|write| kinds.contains(&write.id.kind.as_str()));
    of_addons.map(|write| (write.id.kind, write.id.key.namespace)).collect()
}

/// Returns the maximum number of clusters that were losing the add-on at the same time.
pub(crate) fn most_leaving(departures: &[(String, String)]) -> i32 {
    let (mut leaving, mut most) = (0, 0);
    for (kind, _) in departures {
        leaving += if kind == "ManagedClusterAddOn" { 1 } else { -1 };
        most = most.max(leaving);
    }
    most
}

fn have(world: &World) -> usize {
    world.list::<ManagedClusterAddOn>().len()
}

fn record(world: &World) -> RemovalStatus {
    let policy: Option<RolloutPolicy> = world.get(&Key::cluster("wheelwright-default"));
    let removals = policy.and_then(|policy| policy.status).map(|status| status.removals);
    removals.unwrap_or_default().pop().unwrap_or_default()
}

/// Sets the default policy, which names no add-on.
pub(crate) fn default_policy(world: &mut World, spec: Value) {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(world, merged(kind, json!({"metadata": {"name": "wheelwright-default"}, "spec": spec})));
}

fn approve(world: &mut World, tokens: Value) {
    default_policy(world, json!({ "approved": tokens }));
}

#[test]
fn a_placement_that_shrinks_step_by_step_is_held_until_the_window_ends() {
    let mut world = installed(Setup::default(), 4);
    select_some(&mut world, 3);
    world.run_for(seconds(30)).unwrap();
    assert_eq!((have(&world), record(&world).recent.len()), (3, 1), "one of four is within the budget");
    select_some(&mut world, 2);
    world.run_for(seconds(30)).unwrap();
    assert_eq!((have(&world), record(&world).held), (3, 1), "one more is not, within the hour");
    world.run_for(seconds(3600)).unwrap();
    assert_eq!((have(&world), record(&world).held), (2, 0));
}

/// Hands the placement over to another scheduler that has not written any status.
fn hand_over(world: &mut World) {
    let disabled = json!({"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"});
    let disable = json!({"metadata": {"annotations": disabled}});
    let key = Key::namespaced("default", "fleet");
    let (path, now) = (ResourcePath::of::<Placement>(&key), world.now);
    world.hub.patch(&path, &Patch::Merge(disable), &WriteOptions::manager("scheduler"), now).unwrap();
    let none = json!({"status": {"numberOfSelectedClusters": 0, "conditions": [], "decisionGroups": []}});
    world.patch_status::<Placement>(&key, none).unwrap();
}

/// Writes the clusters of a decision page as the other scheduler does.
fn decide(world: &mut World, page: &PlacementDecision, clusters: &[usize]) {
    let decisions: Vec<_> =
        clusters.iter().map(|i| json!({"clusterName": cluster(*i), "reason": ""})).collect();
    world
        .patch_status::<PlacementDecision>(&Key::of(page), json!({"status": {"decisions": decisions}}))
        .unwrap();
}

/// Another scheduler may select a cluster before the operator sees it.
#[test]
fn a_cluster_that_appears_after_its_decision_gets_the_add_on() {
    let mut world = installed(Setup::default(), 3);
    hand_over(&mut world);
    let page = world.list::<PlacementDecision>().remove(0);
    decide(&mut world, &page, &[0, 1, 2, 3]);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(have(&world), 3);
    join(&mut world, 3, false, seconds(1));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(have(&world), 4);
}

#[test]
fn a_scheduler_that_writes_no_status_removes_an_addon_when_its_decisions_stay_the_same() {
    let mut world = installed(Setup::default(), 4);
    hand_over(&mut world);
    for page in world.list::<PlacementDecision>().iter().skip(1) {
        decide(&mut world, page, &[]);
    }
    let page = world.list::<PlacementDecision>().remove(0);
    decide(&mut world, &page, &[0, 1, 2]);
    world.run_for(seconds(540)).unwrap();
    let (reason, message) = progress(&world);
    assert_eq!((have(&world), reason.as_str()), (4, "Completed"), "{message}");
    assert!(
        message
            .contains("Another scheduler selects the clusters; unselected clusters keep the add-on until 20")
    );
    // A change restarts the period.
    decide(&mut world, &page, &[0, 1, 3]);
    world.run_for(seconds(540)).unwrap();
    assert_eq!(have(&world), 4);
    world.run_for(seconds(120)).unwrap();
    assert_eq!(have(&world), 3);
    assert!(world.get::<ManagedClusterAddOn>(&Key::namespaced(cluster(2), ADDON)).is_none());
}

#[test]
fn missing_decisions_of_another_scheduler_remove_nothing() {
    let mut world = installed(Setup::default(), 3);
    hand_over(&mut world);
    for page in world.list::<PlacementDecision>() {
        world.delete::<PlacementDecision>(&Key::of(&page)).unwrap();
    }
    world.run_for(seconds(3600)).unwrap();
    assert_eq!(have(&world), 3);
}

#[test]
fn a_removal_on_hold_is_shown_where_people_look() {
    let mut world = installed(Setup::default(), 4);
    select_some(&mut world, 1);
    world.run_for(seconds(30)).unwrap();
    let removal = record(&world);
    assert_eq!((have(&world), removal.held), (4, 3));
    let hint = format!("add {} to spec.approved of RolloutPolicy wheelwright-default", removal.approval);
    assert!(progress(&world).1.contains(&hint), "{}", progress(&world).1);
    let explained = explanation(&world).removal.to_string();
    assert!(explained.contains(&hint), "{explained}");
    approve(&mut world, json!([removal.approval]));
    world.run_for(seconds(30)).unwrap();
    assert_eq!((have(&world), record(&world).held), (1, 0));
}

#[test]
fn an_approval_covers_one_removal_and_the_next_one_from_the_same_clusters_waits() {
    type Step = fn(&mut World);
    let delete: Step = |world| world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    let install: Step = |world| addon(world, "msa", json!({"type": "All"}));
    for (remove, restore) in
        [((|world| select_some(world, 0)) as Step, select_all as Step), (delete, install)]
    {
        let mut world = installed(Setup::default(), 3);
        let mut approvals = Vec::new();
        for _ in 0..2 {
            remove(&mut world);
            world.run_for(seconds(30)).unwrap();
            assert_eq!((have(&world), record(&world).held), (3, 3), "{approvals:?}");
            approvals.push(record(&world).approval);
            approve(&mut world, json!(approvals));
            world.run_for(seconds(60)).unwrap();
            assert_eq!(have(&world), 0);
            restore(&mut world);
            assert!(world.run_until(seconds(60), |world| have(world) == 3 && is_completed(world)).unwrap());
        }
        assert_ne!(approvals[0], approvals[1]);
    }
}

#[test]
fn a_cluster_that_never_got_the_addon_is_not_done_when_no_placement_selects_it_any_longer() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.9");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    select_some(&mut world, 0);
    world.run_for(seconds(60)).unwrap();
    assert_eq!((have(&world), record(&world).held), (2, 2), "both have an object of the add-on");
    let overview = Overview::read(&caches(&world), world.now).unwrap();
    let [summary] = overview.add_ons.as_slice() else { panic!("{overview:?}") };
    assert_eq!((summary.settled, summary.total), (0, 2), "{summary:#?}");
    let waiting = summary.clusters().find(|cluster| cluster.runs.is_empty()).unwrap();
    assert_eq!((waiting.label(), waiting.mark()), ("Waiting (Unassigned)".to_owned(), Mark::Waiting));
}

/// Executes an action as an API server that temporarily refuses to delete the add-on of a cluster.
fn refuse_deletion(servers: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    match action {
        Action::Delete { target, .. }
            if target.gvk.kind == "ManagedClusterAddOn"
                && target.key.namespace == cluster(2)
                && now < END =>
        {
            Err(Failure::refused(target, 403, [].into_iter(), "denied by a webhook."))
        }
        action => execute(servers, manager, action, now),
    }
}

#[test]
fn an_approved_removal_is_completed_after_a_deletion_failed_and_the_operator_started_again() {
    let mut world = installed(Setup { execute: refuse_deletion, ..Setup::default() }, 4);
    select_some(&mut world, 0);
    world.run_for(seconds(30)).unwrap();
    let approval = record(&world).approval;
    approve(&mut world, json!([approval]));
    world.run_for(seconds(30)).unwrap();
    assert_eq!(have(&world), 1);
    world.restart_operator();
    world.run_for(seconds(600)).unwrap();
    assert_eq!((have(&world), record(&world).held), (0, 0));
}

#[test]
fn deleting_a_placement_set_or_binding_uninstalls_nothing_without_an_approval() {
    for remove in [
        (|world| world.delete::<Placement>(&Key::namespaced("default", "fleet"))) as fn(&mut World) -> _,
        |world| world.delete::<ManagedClusterSetBinding>(&Key::namespaced("default", "global")),
        |world| world.delete::<ManagedClusterSet>(&Key::cluster("global")),
    ] {
        let mut world = installed(Setup::default(), 3);
        remove(&mut world).unwrap();
        world.run_for(seconds(60)).unwrap();
        assert_eq!(have(&world), 3);
    }
}

#[test]
fn a_policy_that_people_create_takes_over_the_record() {
    let mut world = installed(Setup::default(), 4);
    select_some(&mut world, 3);
    world.run_for(seconds(30)).unwrap();
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "fleet"}, "spec": {}})));
    select_some(&mut world, 2);
    world.run_for(seconds(30)).unwrap();
    let policy: RolloutPolicy = world.get(&Key::cluster("fleet")).unwrap();
    let removals = policy.status.unwrap().removals;
    assert_eq!((have(&world), removals[0].held, removals[0].recent.len()), (3, 1, 1));
    assert_eq!(record(&world), RemovalStatus::default());
}

#[test]
fn a_commit_that_drops_an_addon_in_use_waits_for_an_approval() {
    drop_an_addon(installed(Setup::default(), 3));
}

#[test]
fn an_approved_commit_needs_no_second_approval_of_its_policy() {
    let mut world = installed(Setup::default(), 3);
    policy(&mut world, json!({}));
    drop_an_addon(world);
}

#[test]
fn a_commit_that_drops_an_addon_and_loosens_its_policy_waits_for_an_approval() {
    let mut world = installed(Setup::default(), 3);
    let policy = |name: &str, spec: Value| {
        let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
        merged(kind, json!({"metadata": {"name": name}, "spec": spec})).to_string()
    };
    let before = format!("{}\n---\n{}", addon_file(&world), policy("p", json!({})));
    let of_another = policy("other", json!({"addOns": ["other"], "paused": true, "removalBudget": "100%"}));
    let after = format!("{}\n---\n{of_another}", policy("p", json!({"removalBudget": "100%"})));
    drop_from_the_repository(&mut world, &before, &after, |world| {
        assert!(
            world.get::<RolloutPolicy>(&Key::cluster("other")).is_some(),
            "it allows no deletion that waits"
        );
        have(world)
    });
    let policy: RolloutPolicy = world.get(&Key::cluster("p")).unwrap();
    assert_eq!(
        serde_json::to_value(policy.spec).unwrap()["removalBudget"],
        "100%",
        "it follows the approval"
    );
}

/// Removes the add-on from all clusters with a commit; its ConfigRepo approves the deletions.
fn drop_an_addon(mut world: World) {
    let file = addon_file(&world);
    drop_from_the_repository(&mut world, &file, "", have);
}

pub(crate) fn addon_file(world: &World) -> String {
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let kind =
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn"});
    merged(kind, json!({"metadata": {"name": ADDON}, "spec": cma.spec})).to_string()
}

/// Commits a file, commits its replacement `after`, and approves the deletion. `have` returns how many clusters
/// have what the file installs: three, until the approval.
fn drop_from_the_repository(world: &mut World, file: &str, after: &str, have: fn(&World) -> usize) {
    let repo = repo();
    config_repo(world, &repo, json!({"url": "https://git.example/fleet", "takeover": "Always"}));
    let maps: Vec<String> =
        (0..30).map(|i| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{i}}}\n")).collect();
    let tree = |file: &str| -> FileTree {
        let maps = maps.join("---\n");
        [("maps.yaml", maps.as_str()), ("file.yaml", file)]
            .into_iter()
            .filter(|(_, content)| !content.is_empty())
            .map(|(path, content)| (path.to_owned(), content.as_bytes()))
            .collect()
    };
    world.commit(&repo, &"1".repeat(40), tree(file));
    world.run_for(seconds(30)).unwrap();
    world.commit(&repo, &"2".repeat(40), tree(after));
    world.run_for(seconds(30)).unwrap();
    assert_eq!(have(world), 3);
    let status = world.get::<ConfigRepo>(&repo).unwrap().status.unwrap();
    let message = find_condition(&status.conditions, "Stalled").unwrap().message.clone();
    assert!(message.contains("uninstalls it from 3 clusters"), "{message}");
    let approval = status.held_deletions.unwrap().approval;
    put(
        world,
        json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"name": "fleet", "namespace": "config", "annotations": {"gitops.wheelwright.dev/approve-deletions": approval}},
            "spec": {"url": "https://git.example/fleet", "takeover": "Always"},
        }),
    );
    world.run_for(seconds(60)).unwrap();
    assert_eq!(have(world), 0);
}

#[test]
fn a_commit_that_drops_a_set_in_use_waits_for_an_approval() {
    let mut world = world(3);
    select_all(&mut world);
    replica_sets::set(&mut world, "1", json!({"type": "All"}));
    replica_sets::settle(&mut world);
    let set = replica_sets::get(&world);
    let kind =
        json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet"});
    let metadata = json!({"name": set.name(), "namespace": "default"});
    let file = merged(kind, json!({"metadata": metadata, "spec": set.spec})).to_string();
    drop_from_the_repository(&mut world, &file, "", |world| world.list::<ManifestWork>().len());
    let left = world.get::<ManifestWorkReplicaSet>(&Key::of(&set)).map(|set| set.metadata);
    assert_eq!(left, None);
}

fn policy(world: &mut World, spec: Value) {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(world, merged(kind, json!({"metadata": {"name": "p"}, "spec": spec})));
}

#[test]
fn a_new_addon_reaches_other_clusters_only_after_it_works_on_the_canary() {
    let mut world = world(4);
    policy(&mut world, json!({"rollOut": "InstallAndContent"}));
    template(&mut world, "msa", "msa:0.4.9");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    world.run_for(seconds(300)).unwrap();
    let on = |world: &World| -> Vec<String> {
        world.list::<ManagedClusterAddOn>().into_iter().filter_map(|addon| addon.metadata.namespace).collect()
    };
    assert_eq!(on(&world), ["cluster1"], "its pods never run: {:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(on(&world).len(), 4);
}

#[test]
fn a_pause_a_freeze_and_an_approval_hold_the_installation_of_a_new_addon() {
    let with_rules = |more: Value| merged(json!({"rollOut": "InstallAndContent"}), more);
    let freeze = json!({"freezeWindows": [{"name": "always", "schedule": "* * * * *", "duration": "1h"}]});
    for (rules, want) in [
        (json!({"paused": true}), 0),
        (freeze, 0),
        (json!({"approval": {"mode": "BetweenGroups"}}), 1),
        (json!({}), 4),
    ] {
        let mut world = world(4);
        policy(&mut world, with_rules(rules.clone()));
        template(&mut world, "msa", "msa:0.4.0");
        addon(&mut world, "msa", progressive());
        select_all(&mut world);
        world.run_for(seconds(120)).unwrap();
        assert_eq!(have(&world), want, "{rules}: {:?}", progress(&world));
    }
}

#[test]
fn an_approved_removal_leaves_in_batches() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({"rollOut": "InstallAndContent"}));
    select_some(&mut world, 0);
    world.run_for(seconds(30)).unwrap();
    let stored: RolloutPolicy = world.get(&Key::cluster("p")).unwrap();
    let approval = stored.status.unwrap().removals[0].approval.clone();
    policy(&mut world, json!({"rollOut": "InstallAndContent", "approved": [approval]}));
    world.keep_history();
    let gone = world.run_until(seconds(120), |world| world.list::<ManifestWork>().is_empty());
    assert!(gone.unwrap(), "{} add-ons are left", have(&world));
    assert_eq!(most_leaving(&departures(&mut world)), 1, "one of four is the budget");
}

#[test]
fn an_addon_that_cannot_be_created_on_one_cluster_holds_back_no_version_on_others() {
    for roll_out in ["Content", "InstallAndContent"] {
        let mut world = installed(Setup { execute: refuse::<3>, ..Setup::default() }, 3);
        policy(&mut world, json!({ "rollOut": roll_out }));
        join(&mut world, 3, true, seconds(1));
        template(&mut world, "msa", "msa:0.4.1");
        world.run_for(seconds(60)).unwrap();
        assert_eq!(images(&world), ["0.4.1"; 3], "{roll_out}: {:?}", progress(&world));
    }
}
