//! Tests policies in a commit that wait for the deletions that they would allow.

use std::collections::{BTreeMap, BTreeSet};

use super::approval_of_addons::ADDON;
use super::*;
use crate::hub::config_repo::loosening::{Loosened, Uninstalls, uninstalls};
use engine::sync::{DeletionHold, Inventory, ObjectId, Uninstall, Withheld};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use object::tree::Checkout;
use object::{Kind, ObjectRef};
use reconcile::{Site, Source};

const URL: &str = "https://git.example/fleet";
const OTHER: &str = "https://git.example/other";
const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// The policies of a hub or of a commit: their names and specs.
type Policies = Vec<(&'static str, Value)>;

fn typed<K: Kind>(mut object: Value) -> K {
    object["metadata"]["resourceVersion"] = "1".into();
    serde_json::from_value(object).unwrap()
}

fn id<K: Kind>(key: Key) -> ObjectId {
    ObjectId::of(&ObjectRef::of::<K>(key))
}

fn add_on() -> ObjectId {
    id::<ClusterManagementAddOn>(Key::cluster("a"))
}

fn replica_set() -> ObjectId {
    id::<ManifestWorkReplicaSet>(Key::namespaced("config", "s"))
}

fn policy_id(name: &str) -> ObjectId {
    id::<RolloutPolicy>(Key::cluster(name))
}

fn policy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn loose() -> Value {
    json!({"removalBudget": "100%"})
}

/// Returns a hub on which three clusters have the add-on `a` and a work of the set `s`.
fn caches(policies: &[(&str, Value)]) -> Caches {
    let clusters = ["c1", "c2", "c3"];
    let addons = clusters.map(|cluster| json!({"metadata": {"namespace": cluster, "name": "a"}}));
    let labels = json!({names::WORK_REPLICA_SET_LABEL: "config.s"});
    let metadata = |cluster: &str| json!({"namespace": cluster, "name": "w", "labels": labels});
    let works = clusters.map(|cluster| json!({"metadata": metadata(cluster)}));
    let policies = policies.iter().map(|(name, spec)| typed::<RolloutPolicy>(policy(name, spec)));
    let mut caches = Caches::default();
    caches.replace(Site::Hub, addons.map(typed::<ManagedClusterAddOn>).to_vec(), "1");
    caches.replace(Site::Hub, works.map(typed::<ManifestWork>).to_vec(), "1");
    caches.replace::<RolloutPolicy>(Site::Hub, policies.collect(), "1");
    caches.replace::<ManifestWorkReplicaSet>(Site::Hub, Vec::new(), "1");
    caches.replace::<ClusterManagementAddOn>(Site::Hub, Vec::new(), "1");
    caches
}

fn inventory(objects: &[ObjectId]) -> Inventory {
    objects.iter().map(|id| (id.clone(), "v1alpha1".to_owned())).collect()
}

#[test]
fn an_addon_and_a_set_that_leave_are_held_where_their_policy_does_not_let_all_clusters_lose_them() {
    let three = || Uninstall { clusters: 3, ..Uninstall::default() };
    let held = Uninstalls::from([(add_on(), three()), (replica_set(), three())]);
    let cases = [
        ("the default", vec![], true),
        ("100%", vec![("p", loose())], false),
        ("three", vec![("p", json!({"removalBudget": 3}))], false),
        ("two", vec![("p", json!({"removalBudget": 2}))], true),
        ("a pause", vec![("p", json!({"removalBudget": "100%", "paused": true}))], true),
        ("no size", vec![("p", json!({"removalBudget": "all"}))], true),
    ];
    for (name, policies, is_held) in cases {
        let view = caches(&policies);
        let map = id::<ConfigMap>(Key::namespaced("config", "m"));
        let inventory = inventory(&[add_on(), replica_set(), map]);
        let leaving = uninstalls(&inventory, &BTreeSet::new(), &view, NOW).unwrap();
        assert_eq!(leaving, if is_held { held.clone() } else { Uninstalls::new() }, "{name}");
        let all: BTreeSet<ObjectId> = inventory.keys().cloned().collect();
        assert_eq!(
            uninstalls(&inventory, &all, &view, NOW).unwrap(),
            Uninstalls::new(),
            "{name}, and they stay"
        );
    }
}

#[test]
fn clusters_that_lost_it_before_count_with_a_deletion() {
    let mut view = caches(&[]);
    let recent = json!([{"cluster": "c0", "time": NOW}]);
    let mut with_records = policy("p", &json!({"removalBudget": 3, "removalWindow": "30m"}));
    with_records["status"] = json!({
        "removals": [{"addOn": "a", "held": 0, "recent": recent}],
        "rollouts": [{"addOn": "", "replicaSet": "config/s", "placementNamespace": "config", "placementName": "p", "recentRemovals": recent}],
    });
    view.replace::<RolloutPolicy>(Site::Hub, vec![typed(with_records)], "2");
    let inventory = inventory(&[add_on(), replica_set()]);
    let leaving = |at| uninstalls(&inventory, &BTreeSet::new(), &view, at).unwrap();
    let until = NOW + SignedDuration::from_mins(30);
    let three = || Uninstall { clusters: 3, recent: vec![NOW], until: Some(until) };
    assert_eq!(leaving(NOW), Uninstalls::from([(add_on(), three()), (replica_set(), three())]));
    assert_eq!(leaving(until), Uninstalls::new());
}

fn config_repo(name: &str, path: &str, spec: &Value) -> ConfigRepo {
    let mut repo = json!({
        "metadata": {"namespace": "config", "name": name, "uid": name},
        "spec": {"url": URL, "path": path},
    });
    repo["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    typed(repo)
}

fn second(spec: Value) -> ConfigRepo {
    config_repo("second", "add-ons", &spec)
}

fn owned_by(repo: &ConfigRepo, objects: &[ObjectId]) -> ConfigRepoInventory {
    let ConfigRepo { metadata, .. } = repo;
    let owner = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "name": metadata.name, "uid": metadata.uid,
    });
    let objects: BTreeMap<String, &str> = objects.iter().map(|id| (id.path(), "v1alpha1")).collect();
    let metadata = json!({"namespace": "config", "name": metadata.name, "ownerReferences": [owner]});
    typed(json!({"metadata": metadata, "spec": {"objects": objects}}))
}

fn checkout(commit: usize, policies: &[(&str, Value)], has_add_on: bool) -> Arc<Checkout> {
    let mut tree = FileTree::default();
    tree.insert("policies/m.yaml", map("m", "1").as_bytes());
    tree.insert("add-ons/n.yaml", map("n", "1").as_bytes());
    for (name, spec) in policies {
        tree.insert(format!("policies/{name}.yaml"), policy(name, spec).to_string().as_bytes());
    }
    if has_add_on {
        tree.insert("add-ons/a.yaml", ADDON.as_bytes());
    }
    Arc::new(Checkout { revision: format!("{commit:040x}"), tree })
}

/// A hub on which the ConfigRepo `fleet` judges commit 2. `fleet` has the policies and `second` the add-on.
struct Case {
    /// The policies of the hub.
    live: Policies,
    /// The policies of the commit.
    wanted: Policies,
    owned: Vec<ObjectId>,
    second: ConfigRepo,
    owned_by_second: Vec<ObjectId>,
    /// The commit of `second`, and true if the add-on is in it.
    has: Option<(usize, bool)>,
    /// True if the add-on is in commit 2.
    keeps: bool,
    add_ons: Vec<ClusterManagementAddOn>,
}

impl Case {
    /// The commit removes the add-on from the repository, and its policy allows that.
    fn new() -> Self {
        Self {
            live: vec![("p", json!({}))],
            wanted: vec![("p", loose())],
            owned: vec![policy_id("p")],
            second: second(json!({})),
            owned_by_second: vec![add_on()],
            has: None,
            keeps: false,
            add_ons: Vec::new(),
        }
    }

    fn judge(self) -> Loosened {
        let Self { live, wanted, owned, second, owned_by_second, has, keeps, add_ons } = self;
        let fleet = config_repo("fleet", "policies", &json!({}));
        let judged = checkout(2, &wanted, keeps);
        let mut view = caches(&live);
        let has = has.map(|(commit, has_add_on)| checkout(commit, &wanted, has_add_on));
        for (repo, checkout) in [(&fleet, Some(judged.clone())), (&second, has)] {
            view.set_source(Key::of(repo), Source::of(repo, checkout, None));
        }
        let inventories = vec![owned_by(&fleet, &owned), owned_by(&second, &owned_by_second)];
        view.replace::<ConfigRepoInventory>(Site::Hub, inventories, "1");
        view.replace::<ConfigRepo>(Site::Hub, vec![fleet.clone(), second], "1");
        view.replace::<ClusterManagementAddOn>(Site::Hub, add_ons, "1");
        let desired = commit::completed(&fleet, &judged, &view).unwrap().unwrap();
        let inventory = inventory(&owned);
        let uninstalls = uninstalls(&inventory, &desired.ids(), &view, NOW).unwrap();
        Loosened::of(&fleet, (&judged, &*desired), (&inventory, &uninstalls), &view, NOW).unwrap()
    }
}

/// Returns the policies that wait always, and those that wait for deletions of the same ConfigRepo.
fn withheld(always: &[&str], with_uninstalls: &[&str]) -> Withheld {
    let ids = |names: &[&str]| names.iter().map(|name| policy_id(name)).collect();
    Withheld { always: ids(always), with_uninstalls: ids(with_uninstalls) }
}

/// Describes the deletion of an object of `second` by a commit.
fn deleted() -> String {
    let id = add_on();
    format!(
        "that the same commit deletes {id} of ConfigRepo config/second, which uninstalls it from 3 clusters"
    )
}

#[test]
fn a_policy_that_would_allow_a_deletion_of_another_config_repo_stays_as_it_is() {
    let loosened = Case::new().judge();
    assert_eq!((loosened.withheld(), loosened.why_dropped()), (withheld(&["p"], &[]), None));
    let why = format!(
        "RolloutPolicy p, which would allow {}; approve the deletions of that ConfigRepo, put the object back, \
         or, if that ConfigRepo cannot apply the commit, change the policy on the hub by hand",
        deleted()
    );
    assert_eq!(loosened.why_held(), Some(why));
}

#[test]
fn a_policy_that_would_allow_a_deletion_of_its_own_config_repo_waits_with_that_deletion() {
    let owned = vec![policy_id("p"), add_on()];
    let loosened = Case { owned, owned_by_second: Vec::new(), ..Case::new() }.judge();
    assert_eq!(loosened.withheld(), withheld(&[], &["p"]));
    assert_eq!((loosened.why_held(), loosened.why_dropped()), (None, None));
    let told = |objects: Vec<ObjectId>| {
        let mut hold = DeletionHold { approval: "t".into(), objects, why: "over".into(), until: None };
        loosened.tell(&mut hold);
        hold.why
    };
    let waits = "over; RolloutPolicy p in the commit would allow this deletion, so it waits too";
    assert_eq!(told(vec![add_on()]), waits);
    assert_eq!(told(vec![replica_set()]), "over", "the policy allows no deletion that waits");
}

#[test]
fn a_strict_policy_that_a_commit_drops_is_named_where_another_one_would_allow_a_deletion() {
    let strict = json!({"addOns": ["a"], "removalBudget": "2%"});
    let case = || Case {
        live: vec![("all", loose()), ("p", strict.clone())],
        wanted: vec![("all", loose())],
        owned: vec![policy_id("all"), policy_id("p")],
        ..Case::new()
    };
    let loosened = case().judge();
    let why = format!("without RolloutPolicy p the hub would allow {}", deleted());
    assert_eq!(loosened.why_dropped(), Some(why));
    assert_eq!((loosened.withheld(), loosened.why_held()), (Withheld::default(), None));
    let stays = Case { wanted: vec![("all", loose()), ("p", strict.clone())], ..case() }.judge();
    assert_eq!((stays.withheld(), stays.why_dropped()), (Withheld::default(), None), "no policy changes");
}

#[test]
fn a_policy_is_compared_with_the_policy_of_its_name() {
    let of_the_addon = |budget: &str| json!({"addOns": ["a"], "removalBudget": budget});
    let live = vec![("p", of_the_addon("2%")), ("q", of_the_addon("100%"))];
    let case = Case { live, wanted: vec![("p", of_the_addon("100%"))], ..Case::new() };
    assert_eq!(case.judge().withheld(), withheld(&["p"], &[]));
}

#[test]
fn a_policy_waits_for_the_config_repos_that_delete_something_with_its_commit_and_for_no_others() {
    let mut terminating = second(json!({}));
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let other = || second(json!({"url": OTHER}));
    let approved = typed(json!({
        "metadata": {
            "name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [names::ADDON_REMOVAL_FINALIZER], "annotations": {names::REMOVAL_DECIDED_ANNOTATION: "u"},
        },
        "spec": {},
    }));
    let of = |second: ConfigRepo| Case { second, ..Case::new() };
    let at = |keeps: bool, has: Option<(usize, bool)>| Case { keeps, has, ..Case::new() };
    let cases = [
        ("it keeps the add-on", false, at(true, None)),
        ("it keeps the add-on and is behind", false, at(true, Some((1, true)))),
        ("its own commit drops the add-on", true, at(true, Some((1, false)))),
        ("it is behind", true, at(false, Some((1, true)))),
        ("it is suspended", true, of(second(json!({"suspend": true})))),
        ("it does not prune", false, of(second(json!({"prune": false})))),
        ("it observes", false, of(second(json!({"mode": "Observe"})))),
        ("it is being deleted", false, of(terminating)),
        ("its branch is another", false, of(second(json!({"ref": {"branch": "b"}})))),
        ("its repository is another", false, Case { second: other(), ..at(false, Some((1, false))) }),
        ("its commit is the same", true, Case { second: other(), ..at(false, Some((2, false))) }),
        ("the deletion is approved", false, Case { add_ons: vec![approved], ..Case::new() }),
    ];
    for (name, waits, case) in cases {
        let loosened = case.judge();
        let always: &[&str] = if waits { &["p"] } else { &[] };
        let expected = (withheld(always, &[]), waits);
        assert_eq!((loosened.withheld(), loosened.why_held().is_some()), expected, "{name}");
    }
}
