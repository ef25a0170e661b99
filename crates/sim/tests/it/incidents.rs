//! Incidents in which other tools deleted what they managed, replayed on a hub. Nothing may be deleted.
//!
//! The numbers refer to issues of Argo CD (`argo-cd`), Flux (`flux2`) and Open Cluster Management (`ocm`). See
//! docs/hazards-hub.md#failed-list and the rows below it.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::{Value, json};

use crate::bugs::{Wrapped, Wrapper};
use crate::fixtures::{ADDON, config_repo, join, repo, seconds, select_all, tenants};
use crate::{addons, argo_secrets, deletions, removals, replica_sets, tokens};
use api::addon::v1alpha1::{AddOnTemplate, ManagedClusterAddOn};
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::{ClusterDecision, ConfigRepo};
use api::names::{ADDON_REMOVAL_FINALIZER, LEFT_SINCE_ANNOTATION};
use api::work::v1::ManifestWork;
use object::{Key, Kind, Metadata as _, Object, ObjectRef};
use reconcile::{
    Controller, Dispatcher, Executed, Lookup, LookupAnswer, Plan, Query, Read, ReadError, ReadErrorReason,
    Register, Site, Source, StatusWrite, Unreadable, View,
};
use sim::{Invariant, Setup, World, Write};
use store::{Patch, ResourcePath, WriteOptions};

thread_local! {
    /// The kind whose list fails; empty for none.
    static FAILING: Cell<&'static str> = const { Cell::new("") };
    /// The kind whose list is wrongly empty; empty for none.
    static EMPTY: Cell<&'static str> = const { Cell::new("") };
}

/// Stops a controller from reading kinds whose list fails.
struct Unanswered;

impl Wrapper for Unanswered {
    fn plan<C: Controller>(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        C::plan(key, &Partial(view), now)
    }

    fn conclude<C: Controller>(
        key: &Key,
        view: &impl View,
        done: &Executed,
        now: Timestamp,
    ) -> Read<Option<StatusWrite>> {
        C::conclude(key, &Partial(view), done, now)
    }
}

/// A view in which the configured lists fail or are empty.
struct Partial<'a, V>(&'a V);

fn list(kind: &str) -> Read<()> {
    let (what, cause) = (kind.to_owned(), "the list fails".to_owned());
    let failure = ReadError { what, cause, reason: ReadErrorReason::NotListed };
    if FAILING.get() == kind { Err(failure) } else { Ok(()) }
}

impl<V: View> View for Partial<'_, V> {
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>> {
        list(&K::kind(&()))?;
        if EMPTY.get() == K::kind(&()) { Ok(None) } else { self.0.get_on(site, key) }
    }

    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        list(&K::kind(&()))?;
        if EMPTY.get() == K::kind(&()) { Ok(Vec::new()) } else { self.0.list_on(site, query) }
    }

    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        list(&K::kind(&()))?;
        if EMPTY.get() == K::kind(&()) { Ok(Vec::new()) } else { self.0.list_readable_on(site, query) }
    }

    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        list(&K::kind(&()))?;
        self.0.unreadable_on::<K>(site, query)
    }

    fn is_listed<K: Kind>(&self, site: Site) -> bool {
        self.0.is_listed::<K>(site)
    }

    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        list(&object.gvk.kind)?;
        self.0.observed(object)
    }

    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer> {
        self.0.lookup(lookup)
    }

    fn source(&self, repo: &Key) -> Option<Arc<Source>> {
        self.0.source(repo)
    }

    fn settings<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.settings()
    }
}

struct Unreliable<'a>(&'a mut Dispatcher);

impl Register for Unreliable<'_> {
    fn add<C: Controller>(&mut self) {
        self.0.add::<Wrapped<Unanswered, C>>();
    }
}

/// Returns a fleet whose hub cannot read kinds whose list fails.
fn fleet() -> World {
    fleet_of(Setup { hub: |process| controllers::hub(&mut Unreliable(process)), ..Setup::default() })
}

/// Returns four clusters with an add-on, a work of a set, a list for Argo CD, and a repository of tenants.
pub(crate) fn fleet_of(setup: Setup) -> World {
    let mut world = removals::installed(setup, 4);
    annotate(&mut world, "gitops.wheelwright.dev/cluster-decision", "canary");
    replica_sets::set(&mut world, "1", json!({"type": "All"}));
    replica_sets::settle(&mut world);
    config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet"}));
    world.commit(&repo(), &"1".repeat(40), tenants(0..20, "1"));
    // At this age, permissions count as left over from a deleted cluster.
    minutes(&mut world, 30);
    assert_eq!(decided(&world), 4);
    world.keep_history();
    world
}

fn annotate(world: &mut World, annotation: &str, value: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: value}}}));
    let path = ResourcePath::of::<Placement>(&Key::namespaced("default", "fleet"));
    let now = world.now;
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
}

/// Returns the number of clusters in the list for Argo CD.
fn decided(world: &World) -> usize {
    let list: ClusterDecision = world.get(&Key::namespaced("default", "fleet")).unwrap();
    list.status.unwrap().decisions.len()
}

pub(crate) fn minutes(world: &mut World, minutes: i64) {
    world.run_for(SignedDuration::from_mins(minutes)).unwrap();
}

/// Asserts that nothing was deleted on the hub or the clusters since the last call.
pub(crate) fn nothing_is_deleted(world: &mut World, incident: &str) {
    nothing_else_is_deleted(world, &[], incident);
    assert_eq!(decided(world), 4, "{incident}");
}

/// Asserts the same, except for some kinds.
pub(crate) fn nothing_else_is_deleted(world: &mut World, kinds: &[&str], incident: &str) {
    let history = world.take_history();
    let is_alive = |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|it| !it.is_terminating());
    let deleted = history.iter().filter(|write| is_alive(&write.before) && !is_alive(&write.after));
    let deleted =
        deleted.filter(|write| !kinds.contains(&write.id.kind.as_str()) && write.id.kind != "Event");
    let deleted: Vec<_> = deleted.map(|write| (&write.spoke, &write.id)).collect();
    assert!(deleted.is_empty(), "{incident}: {deleted:?}");
}

/// All kinds that determine what runs on which clusters.
const KINDS: [&str; 12] = [
    "ManagedCluster",
    "ManagedClusterSet",
    "ManagedClusterSetBinding",
    "Placement",
    "PlacementDecision",
    "ClusterManagementAddOn",
    "ManagedClusterAddOn",
    "AddOnTemplate",
    "ManifestWork",
    "ManifestWorkReplicaSet",
    "ConfigRepo",
    "Namespace",
];

/// `argo-cd#18480`: listing clusters failed, and all Applications were deleted. The GitOpsCluster of OCM's
/// multicloud-integrations also treats an unreadable Placement as one that selects nothing.
#[test]
fn a_list_that_fails_deletes_nothing() {
    let mut world = fleet();
    for kind in KINDS {
        for failing in [kind, ""] {
            FAILING.set(failing);
            world.restart_operator();
            minutes(&mut world, 15);
            nothing_is_deleted(&mut world, kind);
        }
    }
}

/// Returns a fleet with everything that is deleted only once: a pre-delete job, an account with tokens,
/// permissions on the hub, an old snapshot, and a deletion held back by a policy.
fn fleet_with_pending_deletions() -> World {
    let mut world = fleet();
    addons::template_with_job(&mut world, "msa:0.4.0");
    let role = json!({"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "reader"}});
    let registration = json!([{"type": "KubeClient", "kubeClient": {"hubPermissions": [role]}}]);
    let patch = Patch::Merge(json!({"spec": {"registration": registration}}));
    let path = ResourcePath::of::<AddOnTemplate>(&Key::cluster("msa"));
    let now = world.now;
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
    minutes(&mut world, 2);
    tokens::driver(&mut world, json!("token"));
    world.delete::<ManagedClusterAddOn>(&Key::namespaced("cluster4", ADDON)).unwrap();
    deletions::policy(&mut world, json!({"paused": true}));
    deletions::delete(&mut world);
    minutes(&mut world, 15);
    assert_eq!(tokens::exist(&world), [true; 3]);
    assert!(addons::job_of(&world, "cluster4").is_some());
    assert!(world.list::<RoleBinding>().iter().any(|it| it.name().contains(":clusterrole:reader:agent")));
    world.take_history();
    world
}

/// During a restore, or behind a proxy that answers for the hub, a list may be wrongly empty. Clusters then leave
/// their placements within the budgets, but nothing is cleaned up as left over.
#[test]
fn a_list_that_is_wrongly_empty_ends_no_deletion_and_cleans_nothing_up() {
    for kind in KINDS.into_iter().chain(["RolloutPolicy", "RoleBinding", "ControllerRevision"]) {
        let mut world = fleet_with_pending_deletions();
        world.ignore(Invariant::PlacementsKeepWhatFits);
        EMPTY.set(kind);
        world.restart_operator();
        minutes(&mut world, 30);
        EMPTY.set("");
        let may_go = |write: &Write| write.id.kind == "PlacementDecision" && kind != "Placement";
        let is_gone = |write: &Write| write.after.is_none() && !may_go(write);
        let gone: Vec<_> = world.take_history().into_iter().filter(is_gone).collect();
        let gone: Vec<_> = gone.iter().map(|write| (&write.spoke, &write.id)).collect();
        assert!(gone.is_empty(), "{kind}: {gone:?}");
        assert!(deletions::cma(&world).is_some(), "{kind}");
    }
}

/// The sweep of multicloud-integrations deletes the secrets of clusters if a placement cannot be read.
#[test]
fn a_list_that_is_wrongly_empty_takes_no_cluster_from_argo_cd() {
    for kind in ["Placement", "PlacementDecision", "ClusterDecision", "ManagedCluster", "Secret"] {
        let hub = |process: &mut Dispatcher| {
            controllers::hub(&mut Unreliable(process));
            controllers::argo_cd(&mut Unreliable(process));
        };
        let mut world = argo_secrets::clusters(Setup { hub, ..Setup::default() });
        argo_secrets::ask(&mut world, Some(""));
        world.ignore(Invariant::PlacementsKeepWhatFits);
        EMPTY.set(kind);
        world.restart_operator();
        minutes(&mut world, 90);
        EMPTY.set("");
        let secrets = world.list::<Secret>();
        let stays = |it: &&Secret| it.annotation(LEFT_SINCE_ANNOTATION).is_none();
        assert_eq!(secrets.iter().filter(stays).count(), 2, "{kind}: {secrets:?}");
    }
}

/// The policy is paused and installs in rollout order.
#[test]
fn a_policy_that_a_list_leaves_out_still_pauses_and_holds() {
    let mut world =
        removals::installed(Setup { hub: |p| controllers::hub(&mut Unreliable(p)), ..Setup::default() }, 4);
    replica_sets::set(&mut world, "1", json!({"type": "All"}));
    replica_sets::settle(&mut world);
    deletions::policy(&mut world, json!({"paused": true, "rollOut": "InstallAndContent"}));
    EMPTY.set("RolloutPolicy");
    world.restart_operator();
    replica_sets::set(&mut world, "2", json!({"type": "All"}));
    join(&mut world, 5, false, seconds(5));
    world.keep_history();
    minutes(&mut world, 15);
    EMPTY.set("");
    let works = world.list::<ManifestWork>();
    assert_eq!((world.list::<ManagedClusterAddOn>().len(), works.len()), (4, 8));
    let spec = |object: &Option<Arc<Object>>| {
        object.as_ref().map(|object| object.as_ref().clone().into_value()["spec"].take())
    };
    let history = world.take_history().into_iter();
    let of_works = history.filter(|write| write.id.kind == "ManifestWork" && write.spoke.is_none());
    let changed: Vec<_> = of_works.filter(|write| spec(&write.before) != spec(&write.after)).collect();
    assert!(changed.is_empty(), "{:?}", changed.iter().map(|write| &write.id).collect::<Vec<_>>());
    assert!(deletions::cma(&world).unwrap().has_finalizer(ADDON_REMOVAL_FINALIZER));
}

/// `argo-cd#10167`: after its token changed, an Application lost the namespaces of all tenants.
#[test]
fn namespaces_of_tenants_that_the_operator_may_not_read_stay() {
    let mut world = fleet();
    FAILING.set("Namespace");
    world.restart_operator();
    world.commit(&repo(), &"2".repeat(40), tenants(0..20, "2"));
    minutes(&mut world, 15);
    world.commit(&repo(), &"3".repeat(40), tenants(0..2, "2"));
    minutes(&mut world, 15);
    nothing_is_deleted(&mut world, "argo-cd#10167");
}

/// `argo-cd#7412`: an error in a generator removed nine tenths of the objects; in `argo-cd#3484` it removed all.
#[test]
fn a_commit_without_most_objects_deletes_nothing_without_an_approval() {
    let mut world = fleet();
    // If only the config maps are missing, no namespace is deleted, and only the number of deletions holds them
    // back.
    let mut without_maps = tenants(0..2, "1");
    for i in 2..20 {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: tenant-{i}}}\n");
        without_maps.insert(format!("{i}.yaml"), namespace.into_bytes());
    }
    for (commit, left) in [("2", tenants(0..2, "1")), ("3", without_maps), ("4", tenants(0..0, "1"))] {
        world.commit(&repo(), &commit.repeat(40), left);
        minutes(&mut world, 15);
        world.restart_operator();
        minutes(&mut world, 15);
        nothing_is_deleted(&mut world, "argo-cd#7412");
    }
    let status = world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap();
    assert!(
        status.conditions.iter().any(|it| it.type_ == "Stalled" && it.is_true()),
        "{:?}",
        status.conditions
    );
}

/// `flux2#3316`: a Kustomization is renamed, and everything is deleted and recreated.
#[test]
fn a_repository_under_another_name_deletes_nothing() {
    for delete_first in [true, false] {
        let mut world = fleet();
        let other = Key::namespaced("config", "renamed");
        if delete_first {
            world.delete::<ConfigRepo>(&repo()).unwrap();
            minutes(&mut world, 5);
        }
        config_repo(&mut world, &other, json!({"url": "https://git.example/fleet", "takeover": "Always"}));
        world.commit(&other, &"1".repeat(40), tenants(0..20, "1"));
        minutes(&mut world, 5);
        if !delete_first {
            world.delete::<ConfigRepo>(&repo()).unwrap();
            minutes(&mut world, 5);
        }
        let own = ["ConfigRepo", "ConfigRepoInventory"];
        nothing_else_is_deleted(&mut world, &own, "flux2#3316");
        let status = world.get::<ConfigRepo>(&other).unwrap().status.unwrap();
        assert!(status.applied.is_some(), "it goes on under its new name: {:?}", status.conditions);
    }
}

/// OCM's `addon_install_reconciler.go` deletes the add-ons of a Placement that does not exist, even if only
/// briefly.
#[test]
fn a_placement_that_is_deleted_and_created_again_takes_nothing_away() {
    let mut world = fleet();
    world.delete::<Placement>(&Key::namespaced("default", "fleet")).unwrap();
    minutes(&mut world, 15);
    select_all(&mut world);
    annotate(&mut world, "gitops.wheelwright.dev/cluster-decision", "canary");
    minutes(&mut world, 15);
    nothing_else_is_deleted(
        &mut world,
        &["Placement", "PlacementDecision", "ClusterDecision"],
        "addon_install",
    );
}

/// `ocm#1346`: the pages of a Placement are written one by one. A cluster that moves to another page is briefly on
/// none, and its add-on was deleted and recreated.
#[test]
fn a_cluster_between_two_pages_of_decisions_keeps_its_add_on() {
    let mut world = fleet();
    annotate(&mut world, "cluster.open-cluster-management.io/experimental-scheduling-disable", "true");
    let pages = world.list::<PlacementDecision>();
    let clusters = |page: &PlacementDecision| -> Vec<Value> {
        let decisions = &page.status.as_ref().unwrap().decisions;
        decisions.iter().map(|decision| json!(decision)).collect()
    };
    let [first, second] = &pages[..] else { panic!("{pages:?}") };
    let (mut to, mut from) = (clusters(first), clusters(second));
    let moved = from.pop().unwrap();
    to.push(moved);
    for (page, decisions) in [(second, from), (first, to)] {
        let status = json!({"status": {"decisions": decisions}});
        world.patch_status::<PlacementDecision>(&Key::of(page), status).unwrap();
        minutes(&mut world, 5);
    }
    nothing_is_deleted(&mut world, "ocm#1346");
}
