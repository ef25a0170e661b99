//! The removal budget holds back the deletion of a ClusterManagementAddOn.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::fixtures::{ADDON, addon, merged, progress, progressive, put, seconds};
use crate::removals::{default_policy, departures, installed, most_leaving, select_some};
use crate::reports::explanation;
use crate::unreadable::{TIMES, add_condition};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{ADD_ONS_OWNED_ANNOTATION, ADDON_REMOVAL_FINALIZER};
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _, Object};
use sim::{Setup, World};
use store::{DeleteOptions, Patch, Propagation, ResourcePath, WriteOptions};

pub(crate) fn policy(world: &mut World, spec: Value) {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(world, merged(kind, json!({"metadata": {"name": "p"}, "spec": spec})));
    world.run_for(seconds(10)).unwrap();
}

pub(crate) fn cma(world: &World) -> Option<ClusterManagementAddOn> {
    world.get(&Key::cluster(ADDON))
}

fn have(world: &World) -> usize {
    let living = |addon: &ManagedClusterAddOn| !addon.is_terminating();
    world.list::<ManagedClusterAddOn>().into_iter().filter(living).count()
}

fn approval(world: &World) -> String {
    approval_in(world, "p")
}

fn approval_in(world: &World, policy: &str) -> String {
    let policy: RolloutPolicy = world.get(&Key::cluster(policy)).unwrap();
    policy.status.unwrap().removals[0].approval.clone()
}

pub(crate) fn delete(world: &mut World) {
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
}

#[test]
fn a_deleted_addon_stays_on_its_clusters_until_a_person_approves() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({}));
    assert!(cma(&world).unwrap().has_finalizer(ADDON_REMOVAL_FINALIZER));
    delete(&mut world);
    assert_eq!((have(&world), cma(&world).is_some()), (4, true));
    let message = format!(
        "the add-on is being deleted; its removal from 4 clusters is on hold; to allow it, add {} to spec.approved of RolloutPolicy p",
        approval(&world)
    );
    assert_eq!(progress(&world), ("Deleting".to_owned(), message.clone()));
    assert_eq!(explanation(&world).removal.to_string(), message);
    let policy_status = world.get::<RolloutPolicy>(&Key::cluster("p")).unwrap().status.unwrap();
    assert!(find_condition(&policy_status.conditions, "ApprovalNeeded").unwrap().is_true());
    world.restart_operator();
    let approved = json!({"approved": [approval(&world)]});
    policy(&mut world, approved);
    world.run_for(seconds(60)).unwrap();
    assert_eq!((have(&world), cma(&world).is_some(), world.list::<ManifestWork>().len()), (0, false, 0));
}

#[test]
fn a_held_deletion_shows_the_same_approval_everywhere_despite_an_unreadable_addon() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({}));
    let key = Key::namespaced("cluster3", ADDON);
    let on_cluster: ManagedClusterAddOn = world.get(&key).unwrap();
    let conditions = json!(on_cluster.status.unwrap().conditions);
    add_condition::<ManagedClusterAddOn>(&mut world, &key, &conditions, TIMES[1]);
    delete(&mut world);
    let message = progress(&world).1;
    assert!(message.contains(&approval(&world)), "{message}");
    assert_eq!(explanation(&world).removal.to_string(), message);
}

#[test]
fn a_deleted_addon_without_a_policy_of_people_stays_too() {
    let mut world = installed(Setup::default(), 4);
    assert!(world.list::<RolloutPolicy>().is_empty());
    delete(&mut world);
    assert_eq!((have(&world), cma(&world).is_some()), (4, true));
    let token = approval_in(&world, "wheelwright-default");
    let hint = format!("add {token} to spec.approved of RolloutPolicy wheelwright-default");
    assert!(progress(&world).1.contains(&hint), "{}", progress(&world).1);
    default_policy(&mut world, json!({"approved": [token]}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!((have(&world), cma(&world).is_some()), (0, false));
}

#[test]
fn a_deleted_addon_is_removed_at_once_as_in_ocm_without_a_limit_in_a_policy() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({"removalBudget": "100%"}));
    delete(&mut world);
    assert_eq!((have(&world), cma(&world).is_some()), (0, false));
}

#[test]
fn the_deletion_of_an_addon_continues_without_its_policy_and_stays_held() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({}));
    delete(&mut world);
    world.delete::<RolloutPolicy>(&Key::cluster("p")).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!((have(&world), cma(&world).is_some()), (4, true));
    assert!(progress(&world).1.contains("of RolloutPolicy wheelwright-default"), "{}", progress(&world).1);
}

#[test]
fn a_deleted_addon_leaves_in_batches_if_the_policy_says_so() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({"rollOut": "InstallAndContent"}));
    delete(&mut world);
    assert_eq!(have(&world), 4);
    world.keep_history();
    let approved = json!({"rollOut": "InstallAndContent", "approved": [approval(&world)]});
    policy(&mut world, approved);
    let gone = world.run_until(seconds(120), |world| cma(world).is_none());
    assert!(gone.unwrap(), "{} add-ons are left", have(&world));
    assert_eq!(most_leaving(&departures(&mut world)), 1, "one of four is the budget");
}

#[test]
fn a_deleted_addon_leaves_the_canary_first_if_the_policy_says_so() {
    let mut world = installed(Setup::default(), 4);
    addon(&mut world, "msa", progressive());
    policy(&mut world, json!({"rollOut": "InstallAndContent", "removalBudget": "100%"}));
    world.keep_history();
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    let gone = world.run_until(seconds(120), |world| cma(world).is_none());
    assert!(gone.unwrap(), "{} add-ons are left", have(&world));
    let departures = departures(&mut world);
    let of_canary = departures.iter().take_while(|(_, cluster)| cluster == "cluster1").count();
    assert_eq!(of_canary, 2, "its add-on and its work: {departures:?}");
    assert!(most_leaving(&departures) <= 2, "two is the concurrency: {departures:?}");
}

#[test]
fn clusters_within_the_budget_lose_a_deleted_addon_at_once() {
    let mut world = installed(Setup::default(), 1);
    policy(&mut world, json!({}));
    delete(&mut world);
    assert_eq!((have(&world), cma(&world).is_some()), (0, false));
}

fn delete_with(world: &mut World, propagation: Propagation) {
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
    let path = ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster(ADDON));
    let now = world.now;
    world.hub.delete(&path, &options, now).unwrap();
    world.run_for(seconds(60)).unwrap();
}

#[test]
fn an_addon_that_is_deleted_without_its_dependents_stays_on_its_clusters() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({}));
    delete_with(&mut world, Propagation::Orphan);
    assert_eq!((have(&world), cma(&world).is_some()), (4, false));
}

/// Argo CD deletes in the foreground: the garbage collector would delete the add-on on all clusters at once.
#[test]
fn an_addon_that_is_deleted_in_the_foreground_stays_on_its_clusters_until_a_person_approves() {
    let mut world = installed(Setup::default(), 4);
    let by_hand = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": ADDON, "namespace": "cluster4"}, "spec": {},
    });
    select_some(&mut world, 3);
    policy(&mut world, json!({"removalBudget": "100%"}));
    world.run_for(seconds(30)).unwrap();
    put(&mut world, by_hand);
    policy(&mut world, json!({}));
    assert_eq!(have(&world), 4);
    let marked = cma(&world).unwrap();
    assert_eq!(marked.annotation(ADD_ONS_OWNED_ANNOTATION), Some("true"));
    delete_with(&mut world, Propagation::Foreground);
    assert_eq!((have(&world), cma(&world).is_some()), (4, true));
    let approved = json!({"approved": [approval(&world)]});
    policy(&mut world, approved);
    world.run_for(seconds(60)).unwrap();
    assert_eq!((have(&world), cma(&world).is_some(), world.list::<ManifestWork>().len()), (0, false, 0));
}

/// The garbage collector removes the add-on's owner reference to the cluster, and the operator does not write it
/// again.
#[test]
fn a_cluster_that_is_deleted_in_the_foreground_is_owner_of_its_addons_once() {
    let mut world = installed(Setup::default(), 2);
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    let path = ResourcePath::of::<ManagedCluster>(&Key::cluster("cluster2"));
    world.keep_history();
    let now = world.now;
    world.hub.delete(&path, &options, now).unwrap();
    world.run_for(seconds(120)).unwrap();
    let written = world.take_history();
    let of_owners = written.iter().filter(|write| write.id.kind == "ManagedClusterAddOn").filter(|write| {
        let owners = |side: &Option<Arc<Object>>| {
            side.as_ref().and_then(|object| object.at(&["metadata", "ownerReferences"]).cloned())
        };
        write.after.is_some() && owners(&write.before) != owners(&write.after)
    });
    assert!(of_owners.count() <= 1);
    assert_eq!(have(&world), 1);
}

#[test]
fn an_addon_that_a_person_installed_is_also_deleted() {
    let mut world = installed(Setup::default(), 2);
    select_some(&mut world, 1);
    world.run_for(seconds(30)).unwrap();
    assert_eq!(have(&world), 1);
    let kind =
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"});
    for cluster in ["cluster1", "cluster2"] {
        let metadata = json!({"name": ADDON, "namespace": cluster});
        put(&mut world, merged(kind.clone(), json!({"metadata": metadata, "spec": {}})));
    }
    policy(&mut world, json!({}));
    assert_eq!(have(&world), 2);
    delete(&mut world);
    let approved = json!({"approved": [approval(&world)]});
    policy(&mut world, approved);
    world.run_for(seconds(60)).unwrap();
    assert_eq!((have(&world), cma(&world).is_some()), (0, false));
}

/// The garbage collector keeps its add-ons because their clusters own them too.
#[test]
fn a_held_addon_whose_finalizer_a_person_removes_stays_on_its_clusters() {
    let mut world = installed(Setup::default(), 4);
    policy(&mut world, json!({}));
    delete(&mut world);
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let path = ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster(ADDON));
    let now = world.now;
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!((have(&world), cma(&world).is_some()), (4, false));
}
